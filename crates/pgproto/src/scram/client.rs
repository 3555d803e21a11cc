//! The client's half of the exchange.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::verifier::salted_password;
use super::{NONCE_LEN, ScramError, attribute, hmac_sha256, same, sha256, xor};

/// One authentication to one server.
pub struct ClientExchange {
    password: String,
    first_bare: String,
    server_signature: Option<[u8; 32]>,
}

impl ClientExchange {
    /// Starts an exchange; [`ClientExchange::first`] is its first message.
    pub fn new(password: &str, nonce: [u8; NONCE_LEN]) -> ClientExchange {
        ClientExchange::with_nonce(password, "", &BASE64.encode(nonce))
    }

    pub(super) fn with_nonce(password: &str, user: &str, nonce: &str) -> ClientExchange {
        ClientExchange {
            password: password.to_owned(),
            first_bare: format!("n={user},r={nonce}"),
            server_signature: None,
        }
    }

    /// client-first-message.
    pub fn first(&self) -> Vec<u8> {
        format!("n,,{}", self.first_bare).into_bytes()
    }

    /// Takes server-first-message, gives client-final-message.
    ///
    /// # Errors
    /// Malformed, or the nonce is not an extension of ours.
    pub fn server_first(&mut self, message: &[u8]) -> Result<Vec<u8>, ScramError> {
        let message = std::str::from_utf8(message).map_err(|_| ScramError::Malformed("not UTF-8"))?;
        let (nonce, rest) = attribute(message, 'r').ok_or(ScramError::Malformed("nonce expected"))?;
        let (salt, rest) = attribute(rest, 's').ok_or(ScramError::Malformed("salt expected"))?;
        let (iterations, _) = attribute(rest, 'i').ok_or(ScramError::Malformed("iterations expected"))?;
        let ours = self.first_bare.split_once(",r=").map_or("", |(_, nonce)| nonce);
        if !nonce.starts_with(ours) {
            return Err(ScramError::Malformed("nonce does not match"));
        }
        let salt = BASE64.decode(salt).map_err(|_| ScramError::Malformed("malformed salt"))?;
        let iterations = iterations.parse().map_err(|_| ScramError::Malformed("malformed iterations"))?;
        let salted = salted_password(&self.password, &salt, iterations);
        let without_proof = format!("c={},r={nonce}", BASE64.encode("n,,"));
        let transcript = format!("{},{message},{without_proof}", self.first_bare);
        let client_key = hmac_sha256(&salted, b"Client Key");
        let proof = xor(&client_key, &hmac_sha256(&sha256(&client_key), transcript.as_bytes()));
        self.server_signature =
            Some(hmac_sha256(&hmac_sha256(&salted, b"Server Key"), transcript.as_bytes()));
        Ok(format!("{without_proof},p={}", BASE64.encode(proof)).into_bytes())
    }

    /// Takes server-final-message: the server knows the verifier of the password.
    ///
    /// # Errors
    /// Malformed, or an impostor.
    pub fn server_final(&mut self, message: &[u8]) -> Result<(), ScramError> {
        let expected = self.server_signature.take().ok_or(ScramError::Malformed("out of order"))?;
        let signature = std::str::from_utf8(message)
            .ok()
            .and_then(|text| text.strip_prefix("v="))
            .and_then(|text| BASE64.decode(text).ok())
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or(ScramError::Malformed("verifier expected"))?;
        if same(&signature, &expected) { Ok(()) } else { Err(ScramError::WrongPassword) }
    }
}
