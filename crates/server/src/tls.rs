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
pub(crate) fn acceptor(
    env: &Env,
    tls: &Tls,
    data_dir: &Path,
    is_first_start: bool,
) -> Result<Option<Acceptor>, StartError> {
    let files = match tls {
        Tls::Files(files) => files.clone(),
        Tls::SelfSigned => self_signed(env, &data_dir.join("tls"), is_first_start)?,
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

/// The pair in `dir`, made if there is none.
fn self_signed(env: &Env, dir: &Path, is_first_start: bool) -> Result<TlsFiles, StartError> {
    let files = TlsFiles { certificate: dir.join("certificate.pem"), key: dir.join("key.pem") };
    let (certificate, key) = (env.disk.exists(&files.certificate), env.disk.exists(&files.key));
    if certificate && key {
        return Ok(files);
    }
    // A key alone may be left of a first start that was cut short. What else stands alone is the operator's, and may be the only one of its kind.
    if certificate || key && !is_first_start {
        let [missing, there] =
            if key { [&files.certificate, &files.key] } else { [&files.key, &files.certificate] };
        let there = there.display();
        let reason =
            format!("it is not there, and {there} is: put it there, or remove that for a self-signed pair");
        return Err(StartError::Tls { path: missing.clone(), reason });
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn half_of_a_pair_stays_as_it_is() {
        let (env, dir) = (Env::real(), tempfile::tempdir().unwrap());
        let start = |is_first| acceptor(&env, &Tls::SelfSigned, dir.path(), is_first).is_ok();
        let path = |name: &str| dir.path().join("tls").join(name);
        assert!(start(true) && start(false));
        // Put there by another name, or not yet.
        fs::remove_file(path("certificate.pem")).unwrap();
        let key = fs::read(path("key.pem")).unwrap();
        assert!(!start(false));
        assert!(fs::read(path("key.pem")).unwrap() == key);
        assert!(start(true), "a first start that was cut short");
        fs::remove_file(path("key.pem")).unwrap();
        let certificate = fs::read(path("certificate.pem")).unwrap();
        assert!(!start(false) && !start(true));
        assert!(fs::read(path("certificate.pem")).unwrap() == certificate);
        fs::remove_file(path("certificate.pem")).unwrap();
        assert!(start(false));
    }
}
