//! Certificates: the operator's, or a self-signed pair made at the first start.

mod certificate;

use std::path::Path;
use std::sync::Arc;

use env::Env;
use rustls::ServerConfig;

pub(crate) use self::certificate::{Certificate, CertificateThread};
use crate::StartError;
use crate::config::{Tls, TlsFiles};

/// How TLS is accepted.
pub(crate) struct Acceptor {
    pub(crate) config: Arc<ServerConfig>,
    /// What the configuration shows clients.
    pub(crate) certificate: Arc<Certificate>,
}

/// How TLS is accepted; `None` if it is off.
///
/// # Errors
/// The files cannot be read or do not fit each other.
pub(crate) fn acceptor(env: &Env, tls: &Tls, data_dir: &Path) -> Result<Option<Acceptor>, StartError> {
    let files = match tls {
        Tls::Files(files) => files.clone(),
        Tls::SelfSigned => self_signed(env, &data_dir.join("tls"))?,
        Tls::Off => return Ok(None),
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let certificate = Arc::new(Certificate::read(env, files.clone(), provider.clone())?);
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| StartError::Tls { path: files.certificate, reason: error.to_string() })?
        .with_no_client_auth()
        .with_cert_resolver(certificate.clone());
    Ok(Some(Acceptor { config: Arc::new(config), certificate }))
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
