//! TLS with the server's own self-signed certificate.

use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};

/// Trusts the certificate that the server with this data directory made, and no other.
pub fn config(data_dir: &Path) -> Arc<ClientConfig> {
    let pem = std::fs::read(data_dir.join("tls/certificate.pem")).expect("the server made one");
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        roots.add(certificate.expect("PEM")).expect("a certificate");
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Arc::new(config.expect("versions").with_root_certificates(roots).with_no_client_auth())
}

/// Speaks TLS over a connection.
pub fn over(config: &Arc<ClientConfig>, stream: TcpStream) -> StreamOwned<ClientConnection, TcpStream> {
    let name = ServerName::try_from("localhost").expect("a name");
    StreamOwned::new(ClientConnection::new(config.clone(), name).expect("a connection"), stream)
}
