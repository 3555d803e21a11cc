//! Passwords as statements give them, and as they are stored.

use base::{SqlError, SqlResult, SqlState};
use env::Env;
use pgproto::scram::Verifier;

/// Bytes of a password: to prepare it takes the worker's time.
const LEN_MAX: usize = 64 << 10;

/// What is stored of a password: its SCRAM-SHA-256 verifier. One that is a verifier already is kept.
///
/// # Errors
/// 0A000 for an MD5 digest as PostgreSQL stores them: nobody could log in with the password that it is of. 54000 for one that is very long.
pub(crate) fn stored(password: String, env: &Env) -> SqlResult<String> {
    if password.len() > LEN_MAX {
        let message = format!("a password has {LEN_MAX} bytes at most");
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_kept_as_its_verifier_unless_it_is_very_long() {
        let env = Env::real();
        let longest = "x".repeat(LEN_MAX);
        let verifier = stored(longest.clone(), &env).unwrap();
        assert!(verifier.parse::<Verifier>().unwrap().is_of(&longest));
        assert_eq!(stored(verifier.clone(), &env).unwrap(), verifier);
        let refused = stored(longest + "x", &env).unwrap_err();
        assert_eq!(refused.state(), SqlState::PROGRAM_LIMIT_EXCEEDED);
        assert_eq!(
            stored(format!("md5{:032x}", 7), &env).unwrap_err().state(),
            SqlState::FEATURE_NOT_SUPPORTED
        );
    }
}
