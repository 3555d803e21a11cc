//! Passwords as statements give them, and as they are stored.

use base::{SqlError, SqlResult};
use env::Env;
use pgproto::scram::Verifier;

/// What is stored of a password: its SCRAM-SHA-256 verifier. One that is a verifier already is kept.
///
/// # Errors
/// 0A000 for an MD5 digest as PostgreSQL stores them: nobody could log in with the password that it is of.
pub(crate) fn stored(password: String, env: &Env) -> SqlResult<String> {
    if password.parse::<Verifier>().is_ok() {
        return Ok(password);
    }
    let digest = password.strip_prefix("md5").unwrap_or_default();
    if digest.len() == 32 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(SqlError::unsupported("a password that is an MD5 digest")
            .with_hint("Give the password itself, or its SCRAM-SHA-256 verifier."));
    }
    Ok(Verifier::of_password(&password, env.entropy.bytes()).to_string())
}
