//! Encryption of connections, as `sslmode` and `sslrootcert` of a URL ask for it.
//!
//! They mean what they mean to libpq, but for two things: where nothing is said, a connection within the machine is not encrypted and one to another machine is if
//! the server can; and no file of roots is looked for that was not named.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::BytesMut;
use percent_encoding::percent_decode_str;
use postgres_protocol::message::frontend;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_rustls::TlsConnector;

use crate::Result;
use crate::connection::Socket;

/// How connections to a server are encrypted.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    mode: SslMode,
    /// The same as libpq has it.
    libpq_mode: String,
    roots: Option<String>,
    config: Arc<ClientConfig>,
}

impl Tls {
    /// What a URL says of the server, and of encryption.
    pub(crate) fn of_url(url: &str) -> Result<(Config, Tls)> {
        let (url, mode) = take_parameter(url, "sslmode")?;
        let (url, roots) = take_parameter(&url, "sslrootcert")?;
        let mut config: Config = url.parse()?;
        let is_within = config.get_hosts().iter().all(is_within_the_machine);
        let asked = match mode.as_deref() {
            Some("disable") => SslMode::Disable,
            Some("prefer") => SslMode::Prefer,
            Some("require" | "verify-ca" | "verify-full") => SslMode::Require,
            Some(other) => {
                return Err(format!(
                    "the URL's sslmode is \"{other}\"; known are disable, prefer, require, verify-ca and verify-full"
                )
                .into());
            }
            // In the form of words, `host=… sslmode=…`, the parser found it.
            None if config.get_ssl_mode() != SslMode::Prefer => config.get_ssl_mode(),
            None if is_within && roots.is_none() => SslMode::Disable,
            None => SslMode::Prefer,
        };
        if let (Some(mode @ ("verify-ca" | "verify-full")), None) = (mode.as_deref(), &roots) {
            return Err(format!(
                "sslmode={mode} needs sslrootcert=FILE: in PEM, the certificates that may have signed the server's"
            )
            .into());
        }
        // Nobody is between the two ends of a local socket, and it has no host's name.
        let is_local = config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_)));
        let ssl_mode = if is_local { SslMode::Disable } else { asked };
        config.ssl_mode(ssl_mode);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = Verifier {
            roots: roots.as_deref().map(Roots::read).transpose()?,
            checks_name: mode.as_deref() == Some("verify-full"),
            provider: provider.clone(),
        };
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        let by_default = match ssl_mode {
            SslMode::Disable => "disable",
            SslMode::Prefer => "prefer",
            _ => "require",
        };
        let libpq_mode = mode.unwrap_or_else(|| by_default.to_owned());
        Ok((config, Tls { mode: ssl_mode, libpq_mode, roots, config: Arc::new(client) }))
    }

    /// Has a program of PostgreSQL's encrypt in the same way: its variables.
    pub(crate) fn libpq_variables(&self) -> impl Iterator<Item = (&'static str, String)> {
        let roots = self.roots.clone().map(|roots| ("PGSSLROOTCERT", roots));
        [("PGSSLMODE", self.libpq_mode.clone())].into_iter().chain(roots)
    }

    /// For a client of `tokio-postgres`.
    pub(crate) fn maker(&self) -> MakeRustlsConnect {
        MakeRustlsConnect::new(ClientConfig::clone(&self.config))
    }

    /// Encrypts a connection on which nothing was sent yet, if it is to be and the server can.
    ///
    /// # Errors
    /// When it has to be and the server cannot, or shows a certificate that is not to be trusted.
    pub(crate) async fn encrypt(&self, mut socket: TcpStream, host: &str) -> Result<Box<dyn Socket>> {
        if self.mode == SslMode::Disable {
            return Ok(Box::new(socket));
        }
        let mut request = BytesMut::new();
        frontend::ssl_request(&mut request);
        socket.write_all(&request).await?;
        if socket.read_u8().await? == b'S' {
            let name = ServerName::try_from(host.to_owned())?;
            return Ok(Box::new(TlsConnector::from(self.config.clone()).connect(name, socket).await?));
        }
        if self.mode == SslMode::Prefer {
            return Ok(Box::new(socket));
        }
        Err("the server does not encrypt, and the URL's sslmode demands it".into())
    }
}

fn is_within_the_machine(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
        }
    }
}

/// Takes the parameter `name` out of a URL's query. What is not a URL stays as it is.
fn take_parameter(url: &str, name: &str) -> Result<(String, Option<String>)> {
    let Some((before, query)) = url.rsplit_once('?').filter(|_| url.contains("://")) else {
        return Ok((url.to_owned(), None));
    };
    let (mut value, mut kept) = (None, Vec::new());
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some((key, text)) if key == name => {
                value = Some(percent_decode_str(text).decode_utf8()?.into_owned())
            }
            _ => kept.push(pair),
        }
    }
    let rest = if kept.is_empty() { before.to_owned() } else { format!("{before}?{}", kept.join("&")) };
    Ok((rest, value))
}

/// Certificates that are trusted, and what they signed.
#[derive(Debug)]
struct Roots {
    certificates: Vec<CertificateDer<'static>>,
    store: RootCertStore,
}

impl Roots {
    fn read(path: &str) -> Result<Roots> {
        let explain = |error: &dyn std::fmt::Display| {
            format!("cannot use the certificates of sslrootcert \"{path}\": {error}")
        };
        let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(path)
            .and_then(Iterator::collect)
            .map_err(|error| explain(&error))?;
        if certificates.is_empty() {
            return Err(explain(&"it has none").into());
        }
        let mut store = RootCertStore::empty();
        for certificate in &certificates {
            store.add(certificate.clone()).map_err(|error| explain(&error))?;
        }
        Ok(Roots { certificates, store })
    }
}

/// Decides whether a server's certificate is to be trusted.
#[derive(Debug)]
struct Verifier {
    /// `None`: any is. Then who listens learns nothing, but who answers may be anybody.
    roots: Option<Roots>,
    /// Whether it has to be for the host that was asked for.
    checks_name: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        if let Some(roots) = &self.roots {
            // One that is named itself needs nobody's signature: a self-signed one is trusted so.
            if !roots.certificates.contains(end_entity) {
                let algorithms = self.provider.signature_verification_algorithms.all;
                verify_server_cert_signed_by_trust_anchor(
                    &certificate,
                    &roots.store,
                    intermediates,
                    now,
                    algorithms,
                )?;
            }
        }
        if self.checks_name {
            verify_server_name(&certificate, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    fn mode(url: &str) -> SslMode {
        let (config, tls) = Tls::of_url(url).unwrap();
        assert_eq!(config.get_ssl_mode(), tls.mode);
        tls.mode
    }

    #[test]
    fn a_url_says_how_to_encrypt() {
        assert_eq!(mode("postgres://u:p@db.example.org/d"), SslMode::Prefer);
        assert_eq!(mode("postgres://u:p@127.0.0.1:5433/d"), SslMode::Disable);
        assert_eq!(mode("postgres://u:p@[::1]:5433/d"), SslMode::Disable);
        assert_eq!(mode("postgres://u:p@localhost/d?sslmode=prefer"), SslMode::Prefer);
        assert_eq!(mode("postgres://u:p@localhost/d?connect_timeout=3&sslmode=require"), SslMode::Require);
        assert_eq!(mode("postgres://u:p@db.example.org/d?sslmode=disable"), SslMode::Disable);
        assert_eq!(mode("host=localhost user=u sslmode=require"), SslMode::Require);
        assert_eq!(mode("postgres://u:p@%2Ftmp/d?sslmode=require"), SslMode::Disable, "a local socket");
        // A password that was not encoded.
        assert_eq!(mode("postgres://u:p?q@localhost/d"), SslMode::Disable);
    }

    #[test]
    fn what_is_not_about_encryption_stays_in_the_url() {
        let (rest, value) =
            take_parameter("postgres://u@h/d?a=1&sslrootcert=/a%20b&c=2", "sslrootcert").unwrap();
        assert_eq!((rest.as_str(), value.as_deref()), ("postgres://u@h/d?a=1&c=2", Some("/a b")));
        let (rest, value) = take_parameter("postgres://u@h/d?sslmode=require", "sslmode").unwrap();
        assert_eq!((rest.as_str(), value.as_deref()), ("postgres://u@h/d", Some("require")));
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        let refusal = |url: &str| Tls::of_url(url).unwrap_err().to_string();
        assert!(refusal("postgres://u@h/d?sslmode=allow").contains("known are disable, prefer"));
        assert!(refusal("postgres://u@h/d?sslmode=verify-full").contains("needs sslrootcert=FILE"));
        let missing = refusal("postgres://u@h/d?sslmode=verify-ca&sslrootcert=/nowhere/roots.pem");
        assert!(missing.contains("\"/nowhere/roots.pem\""), "{missing}");
    }

    /// A server that does not encrypt is gone on with or not, as the URL says.
    #[tokio::test]
    async fn a_server_that_does_not_encrypt() {
        for (mode, goes_on) in [("prefer", true), ("require", false)] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let server = tokio::spawn(async move {
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut request = [0; 8];
                socket.read_exact(&mut request).await.unwrap();
                assert_eq!(request, [0, 0, 0, 8, 4, 210, 22, 47]);
                socket.write_all(b"N").await.unwrap();
            });
            let (_, tls) = Tls::of_url(&format!("postgres://u@{address}/d?sslmode={mode}")).unwrap();
            let socket = TcpStream::connect(address).await.unwrap();
            assert_eq!(tls.encrypt(socket, "127.0.0.1").await.is_ok(), goes_on);
            server.await.unwrap();
        }
    }
}
