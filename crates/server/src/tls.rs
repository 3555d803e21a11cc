//! Certificates: the operator's, or a self-signed pair made at the first start.

use std::path::Path;
use std::sync::Arc;

use env::Env;
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::StartError;
use crate::config::{Tls, TlsFiles};

/// The configuration for accepting TLS; `None` if it is off.
///
/// # Errors
/// The files cannot be read or do not fit each other.
pub(crate) fn acceptor(
    env: &Env,
    tls: &Tls,
    data_dir: &Path,
) -> Result<Option<Arc<ServerConfig>>, StartError> {
    let files = match tls {
        Tls::Files(files) => files.clone(),
        Tls::SelfSigned => self_signed(env, &data_dir.join("tls"))?,
        Tls::Off => return Ok(None),
    };
    let read = |path: &Path| env.disk.read_small(path).map_err(StartError::io("read", path));
    let unusable = |path: &Path, reason: String| StartError::Tls { path: path.to_owned(), reason };
    let chain = CertificateDer::pem_slice_iter(&read(&files.certificate)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| unusable(&files.certificate, error.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?)
        .map_err(|error| unusable(&files.key, error.to_string()))?;
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| unusable(&files.certificate, error.to_string()))?;
    Ok(Some(Arc::new(config)))
}

fn self_signed(env: &Env, dir: &Path) -> Result<TlsFiles, StartError> {
    let files = TlsFiles { certificate: dir.join("certificate.pem"), key: dir.join("key.pem") };
    if env.disk.exists(&files.certificate) && env.disk.exists(&files.key) {
        return Ok(files);
    }
    env.disk.create_dir_all(dir).map_err(StartError::io("create", dir))?;
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])
        .map_err(|error| StartError::Tls { path: files.certificate.clone(), reason: error.to_string() })?;
    let write = |path: &Path, text: String| {
        env.disk.write_small_atomic(path, text.as_bytes(), 0o600).map_err(StartError::io("write", path))
    };
    write(&files.key, made.signing_key.serialize_pem())?;
    write(&files.certificate, made.cert.pem())?;
    Ok(files)
}
