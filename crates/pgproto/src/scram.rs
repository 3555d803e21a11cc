//! SCRAM-SHA-256 (RFC 5802, RFC 7677) with PostgreSQL's verifier format, without channel binding.
//!
//! Both halves are state machines over the SASL messages; random nonces and salts are arguments. An unknown user goes
//! through the same exchange against a verifier nobody has the password of, and fails at its end as a wrong password
//! does.

mod client;
mod server;
mod verifier;

pub use client::ClientExchange;
pub use server::{ScramError, ServerExchange};
pub use verifier::{SALT_LEN, Verifier, VerifierError};

use ring::hmac;

/// The one mechanism offered.
pub const MECHANISM: &str = "SCRAM-SHA-256";
/// PostgreSQL's default, in new verifiers.
pub const ITERATIONS: u32 = 4096;
/// Random bytes a nonce is made of.
pub const NONCE_LEN: usize = 18;

type Key = [u8; 32];

fn hmac_sha256(key: &[u8], data: &[u8]) -> Key {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), data);
    tag.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

fn sha256(data: &[u8]) -> Key {
    ring::digest::digest(&ring::digest::SHA256, data).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

fn xor(a: &Key, b: &Key) -> Key {
    std::array::from_fn(|i| a[i] ^ b[i])
}

/// Compares without telling by its time where the difference is.
fn same(a: &Key, b: &Key) -> bool {
    a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

/// The value of `message`'s attribute `name` at its head, and what follows the comma.
fn attribute(message: &str, name: char) -> Option<(&str, &str)> {
    let value = message.strip_prefix(name)?.strip_prefix('=')?;
    Some(value.split_once(',').unwrap_or((value, "")))
}

#[cfg(test)]
mod tests;
