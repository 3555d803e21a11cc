//! What the server keeps of a password: enough to check a client's proof, not enough to make one.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::pbkdf2;

use super::{ITERATIONS, Key, hmac_sha256, same, sha256};

/// Bytes of a salt.
pub const SALT_LEN: usize = 16;
/// Of one that was made elsewhere: whoever begins to enter is told it.
const SALT_LEN_MAX: usize = 256;

/// PostgreSQL's `SCRAM-SHA-256$<iterations>:<salt>$<stored key>:<server key>`.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    pub(super) iterations: u32,
    pub(super) salt: Vec<u8>,
    pub(super) stored_key: Key,
    pub(super) server_key: Key,
}

/// The text is not a SCRAM-SHA-256 verifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifierError;

impl fmt::Display for VerifierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a SCRAM-SHA-256 verifier")
    }
}
impl std::error::Error for VerifierError {}

/// SASLprep as PostgreSQL does it: a password it forbids is used as it stands.
fn prepared(password: &str) -> std::borrow::Cow<'_, str> {
    stringprep::saslprep(password).unwrap_or(std::borrow::Cow::Borrowed(password))
}

pub(super) fn salted_password(password: &str, salt: &[u8], iterations: u32) -> Key {
    let mut key = [0; 32];
    let iterations = NonZeroU32::new(iterations).unwrap_or(NonZeroU32::MIN);
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, salt, prepared(password).as_bytes(), &mut key);
    key
}

impl Verifier {
    /// The verifier of `password`; takes some milliseconds by intention.
    pub fn of_password(password: &str, salt: [u8; SALT_LEN]) -> Verifier {
        Verifier::with_iterations(password, salt.to_vec(), ITERATIONS)
    }

    pub(super) fn with_iterations(password: &str, salt: Vec<u8>, iterations: u32) -> Verifier {
        let salted = salted_password(password, &salt, iterations);
        Verifier {
            iterations,
            stored_key: sha256(&hmac_sha256(&salted, b"Client Key")),
            server_key: hmac_sha256(&salted, b"Server Key"),
            salt,
        }
    }

    /// How often the password is hashed. Whoever made the verifier has chosen it: one that was made elsewhere may have any number.
    pub fn iterations(&self) -> u32 {
        self.iterations
    }

    /// Whether it is the verifier of `password`. Takes some milliseconds by intention, as long for a wrong password as for the right one; longer with
    /// more than the usual [`Verifier::iterations`].
    pub fn is_of(&self, password: &str) -> bool {
        let of_password = Verifier::with_iterations(password, self.salt.clone(), self.iterations);
        same(&of_password.stored_key, &self.stored_key)
    }

    /// The verifier shown for a user that does not exist: the same one every time for the same `secret` and name,
    /// so that asking twice tells nothing, and matched by no password anybody has.
    pub fn mock(secret: &[u8; 32], user: &str) -> Verifier {
        let of = |label: &[u8]| hmac_sha256(secret, &[label, user.as_bytes()].concat());
        Verifier {
            iterations: ITERATIONS,
            salt: of(b"salt:")[..SALT_LEN].to_vec(),
            stored_key: of(b"stored:"),
            server_key: of(b"server:"),
        }
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SCRAM-SHA-256${}:{}${}:{}",
            self.iterations,
            BASE64.encode(&self.salt),
            BASE64.encode(self.stored_key),
            BASE64.encode(self.server_key)
        )
    }
}

impl fmt::Debug for Verifier {
    /// Without the keys: reports end up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verifier({} iterations)", self.iterations)
    }
}

impl FromStr for Verifier {
    type Err = VerifierError;

    fn from_str(text: &str) -> Result<Verifier, VerifierError> {
        let key = |text: &str| -> Option<Key> { BASE64.decode(text).ok()?.try_into().ok() };
        let parse = || {
            let rest = text.strip_prefix("SCRAM-SHA-256$")?;
            let (head, keys) = rest.split_once('$')?;
            let (iterations, salt) = head.split_once(':')?;
            let (stored, server) = keys.split_once(':')?;
            Some(Verifier {
                iterations: iterations.parse().ok().filter(|&n| n > 0)?,
                salt: BASE64.decode(salt).ok().filter(|salt| salt.len() <= SALT_LEN_MAX)?,
                stored_key: key(stored)?,
                server_key: key(server)?,
            })
        };
        parse().ok_or(VerifierError)
    }
}
