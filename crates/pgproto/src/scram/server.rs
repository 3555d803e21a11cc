//! The server's half of the exchange.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::{Key, NONCE_LEN, Verifier, attribute, hmac_sha256, same, sha256, xor};

/// Why an exchange failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScramError {
    /// The client does not know the password (28P01).
    WrongPassword,
    /// The message does not follow the RFC (08P01).
    Malformed(&'static str),
}

impl fmt::Display for ScramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScramError::WrongPassword => f.write_str("password authentication failed"),
            ScramError::Malformed(what) => write!(f, "malformed SCRAM message: {what}"),
        }
    }
}
impl std::error::Error for ScramError {}

/// One authentication of one client.
pub struct ServerExchange {
    verifier: Verifier,
    server_nonce: String,
    /// Set by the first message: gs2 header, client-first-message-bare, server-first-message.
    first: Option<(String, String, String)>,
}

impl ServerExchange {
    /// Starts an exchange against `verifier`, which is [`Verifier::mock`]'s for a user that does not exist.
    pub fn new(verifier: Verifier, nonce: [u8; NONCE_LEN]) -> ServerExchange {
        ServerExchange { verifier, server_nonce: BASE64.encode(nonce), first: None }
    }

    /// Takes client-first-message, gives server-first-message.
    ///
    /// # Errors
    /// Malformed, or asking for channel binding, which is not offered.
    pub fn client_first(&mut self, message: &[u8]) -> Result<Vec<u8>, ScramError> {
        let message = std::str::from_utf8(message).map_err(|_| ScramError::Malformed("not UTF-8"))?;
        let bare = match message.as_bytes() {
            [b'n' | b'y', b',', b',', ..] => &message[3..],
            [b'p', ..] => return Err(ScramError::Malformed("channel binding was not offered")),
            [b'n' | b'y', b',', b'a', ..] => {
                return Err(ScramError::Malformed("authorization identities are not supported"));
            }
            _ => return Err(ScramError::Malformed("bad channel binding flag")),
        };
        let gs2 = &message[..3];
        if bare.starts_with("m=") {
            return Err(ScramError::Malformed("mandatory extensions are not supported"));
        }
        // The name is PostgreSQL's start-up user; clients leave it empty here.
        let (_, rest) = attribute(bare, 'n').ok_or(ScramError::Malformed("user name expected"))?;
        let (nonce, _) = attribute(rest, 'r').ok_or(ScramError::Malformed("nonce expected"))?;
        if nonce.is_empty() || !nonce.bytes().all(|b| matches!(b, 0x21..=0x7e) && b != b',') {
            return Err(ScramError::Malformed("non-printable characters in nonce"));
        }
        let reply = format!(
            "r={nonce}{},s={},i={}",
            self.server_nonce,
            BASE64.encode(&self.verifier.salt),
            self.verifier.iterations
        );
        self.server_nonce = format!("{nonce}{}", self.server_nonce);
        self.first = Some((gs2.to_owned(), bare.to_owned(), reply.clone()));
        Ok(reply.into_bytes())
    }

    /// Takes client-final-message, gives server-final-message: the client is who it says.
    ///
    /// # Errors
    /// Malformed or the wrong password.
    pub fn client_final(&mut self, message: &[u8]) -> Result<Vec<u8>, ScramError> {
        let (gs2, client_first, server_first) =
            self.first.take().ok_or(ScramError::Malformed("out of order"))?;
        let message = std::str::from_utf8(message).map_err(|_| ScramError::Malformed("not UTF-8"))?;
        let (binding, rest) =
            attribute(message, 'c').ok_or(ScramError::Malformed("channel binding expected"))?;
        if BASE64.decode(binding).ok().as_deref() != Some(gs2.as_bytes()) {
            return Err(ScramError::Malformed("unexpected channel binding"));
        }
        let (nonce, _) = attribute(rest, 'r').ok_or(ScramError::Malformed("nonce expected"))?;
        if nonce != self.server_nonce {
            return Err(ScramError::Malformed("nonce does not match"));
        }
        let (without_proof, proof) =
            message.rsplit_once(",p=").ok_or(ScramError::Malformed("proof expected"))?;
        let proof: Key = BASE64
            .decode(proof)
            .ok()
            .and_then(|proof| proof.try_into().ok())
            .ok_or(ScramError::Malformed("malformed proof"))?;
        let transcript = format!("{client_first},{server_first},{without_proof}");
        let signature = hmac_sha256(&self.verifier.stored_key, transcript.as_bytes());
        let client_key = xor(&proof, &signature);
        if !same(&sha256(&client_key), &self.verifier.stored_key) {
            return Err(ScramError::WrongPassword);
        }
        let server_signature = hmac_sha256(&self.verifier.server_key, transcript.as_bytes());
        Ok(format!("v={}", BASE64.encode(server_signature)).into_bytes())
    }
}
