//! The certificate that clients are shown, read anew when its files change: one that was renewed is in force without a restart.
//!
//! Truth are the files. What cannot be used, because one of two files was written and the other not yet perhaps, is told once in the log, and the pair before it stays.
//! Connections that there are keep what they began with.

use std::fmt;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::Nanos;
use env::{Env, JoinHandle, ShutdownSignal};
use futures::future::select;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::StartError;
use crate::config::TlsFiles;

/// Between two looks at the files.
const LOOK_EVERY: Nanos = Nanos::from_secs(5);

/// Files' contents: the chain's and the key's.
type Pem = [Vec<u8>; 2];

/// A certificate chain and its key, as the files had them when they were last of use.
pub(crate) struct Certificate {
    env: Env,
    files: TlsFiles,
    provider: Arc<CryptoProvider>,
    known: Mutex<Known>,
}

struct Known {
    /// What was looked at last.
    pem: Pem,
    certified: Arc<CertifiedKey>,
    /// What was said of it, if it could not be used.
    refused: Option<String>,
}

impl Certificate {
    /// # Errors
    /// The files cannot be read or do not fit each other.
    pub(super) fn read(
        env: &Env,
        files: TlsFiles,
        provider: Arc<CryptoProvider>,
    ) -> Result<Certificate, StartError> {
        let pem = read(env, &files)?;
        let certified = Arc::new(certified(&files, &pem, &provider)?);
        let known = Mutex::new(Known { pem, certified, refused: None });
        Ok(Certificate { env: env.clone(), files, provider, known })
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the files, and takes over what they have if it is new and of use. Blocks on the disk.
    pub(crate) fn look(&self) {
        let read = read(&self.env, &self.files);
        let mut known = self.lock();
        let outcome = match read {
            Ok(pem) if pem == known.pem => return,
            Ok(pem) => {
                let outcome = certified(&self.files, &pem, &self.provider);
                known.pem = pem;
                outcome
            }
            Err(error) => {
                // Whatever comes back is looked at.
                known.pem = Pem::default();
                Err(error)
            }
        };
        match outcome {
            Ok(certified) => {
                tracing::info!(file = %self.files.certificate.display(), "a new certificate is in force");
                (known.certified, known.refused) = (Arc::new(certified), None);
            }
            Err(error) => {
                let refused = Some(error.to_string());
                if known.refused != refused {
                    tracing::warn!(%error, "the certificate's files have changed and cannot be used: the one before stays");
                    known.refused = refused;
                }
            }
        }
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Certificate({})", self.files.certificate.display())
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.lock().certified.clone())
    }
}

fn read(env: &Env, files: &TlsFiles) -> Result<Pem, StartError> {
    let read = |path: &Path| env.disk.read_small(path).map_err(StartError::io("read", path));
    Ok([read(&files.certificate)?, read(&files.key)?])
}

fn certified(
    files: &TlsFiles,
    [chain, key]: &Pem,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, StartError> {
    let unusable = |path: &Path, reason: String| StartError::Tls { path: path.to_owned(), reason };
    let chain = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| unusable(&files.certificate, error.to_string()))?;
    if chain.is_empty() {
        return Err(unusable(&files.certificate, "it has no certificate".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| unusable(&files.key, error.to_string()))?;
    CertifiedKey::from_der(chain, key, provider)
        .map_err(|error| unusable(&files.certificate, error.to_string()))
}

/// Looks at the files from time to time, on a thread of its own, since a disk may take its time.
pub(crate) struct CertificateThread {
    stop: ShutdownSignal,
    thread: Option<JoinHandle>,
}

impl CertificateThread {
    /// # Errors
    /// No thread can be had.
    pub(crate) fn start(env: &Env, certificate: Arc<Certificate>) -> Result<CertificateThread, StartError> {
        let stop = ShutdownSignal::default();
        let (own, stopped) = (env.clone(), stop.clone());
        let body = move || {
            env::block_on(&own, async move {
                let looks = pin!(async {
                    loop {
                        env::sleep(LOOK_EVERY).await;
                        certificate.look();
                    }
                });
                select(pin!(stopped.wait()), looks).await;
            });
        };
        let thread = env.threads.spawn("certificate", None, Box::new(body));
        let thread = thread.map_err(|error| StartError::System { what: "start a thread", error })?;
        Ok(CertificateThread { stop, thread: Some(thread) })
    }
}

impl Drop for CertificateThread {
    fn drop(&mut self) {
        self.stop.request();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str) -> (String, String) {
        let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn a_renewed_pair_is_taken_over_once_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let files = TlsFiles { certificate: dir.path().join("chain.pem"), key: dir.path().join("key.pem") };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let read = || Certificate::read(&Env::real(), files.clone(), provider.clone());
        assert!(read().is_err(), "nothing is there");
        let (first, second) = (pair("first"), pair("second"));
        std::fs::write(&files.certificate, &first.0).unwrap();
        std::fs::write(&files.key, &second.1).unwrap();
        assert!(read().is_err(), "of two pairs");
        std::fs::write(&files.key, &first.1).unwrap();
        let certificate = read().unwrap();
        let shown = || certificate.lock().certified.cert[0].clone();
        let of_first = shown();
        certificate.look();
        assert_eq!(shown(), of_first);
        // Half of it, nothing of it, nonsense.
        std::fs::write(&files.certificate, &second.0).unwrap();
        certificate.look();
        assert_eq!(shown(), of_first);
        assert!(certificate.lock().refused.is_some());
        std::fs::remove_file(&files.key).unwrap();
        certificate.look();
        std::fs::write(&files.key, "no key").unwrap();
        certificate.look();
        assert_eq!(shown(), of_first);
        std::fs::write(&files.key, &second.1).unwrap();
        certificate.look();
        assert_ne!(shown(), of_first);
        assert!(certificate.lock().refused.is_none());
        // And back, as after a mistake.
        std::fs::write(&files.key, &first.1).unwrap();
        std::fs::write(&files.certificate, &first.0).unwrap();
        certificate.look();
        assert_eq!(shown(), of_first);
    }
}
