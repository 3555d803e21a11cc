//! What administrators' statements are changing just now, so that two that concern the same thing do not meet.
//!
//! Nobody waits here: who comes second is told so. A claim ends when its guard is dropped.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use base::{SqlError, SqlResult, SqlState};
use rustc_hash::FxHashMap;

/// Something that statements change.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Subject {
    Tenant(String),
    Size(String),
    /// What the server itself is set to.
    Server,
    Volume(String),
    /// All of them.
    RunawayRules,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Tenant(name) => write!(f, "tenant \"{name}\""),
            Subject::Size(name) => write!(f, "size \"{name}\""),
            Subject::Server => f.write_str("the server"),
            Subject::Volume(name) => write!(f, "volume \"{name}\""),
            Subject::RunawayRules => f.write_str("the runaway rules"),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hold {
    Changed,
    /// By so many statements that need it as it is.
    Kept(usize),
}

/// All claims of a server.
#[derive(Default)]
pub(crate) struct Claims(Mutex<FxHashMap<Subject, Hold>>);

impl Claims {
    fn lock(&self) -> MutexGuard<'_, FxHashMap<Subject, Hold>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps every other statement off `subject`, whether it exists or not.
    ///
    /// # Errors
    /// 55006 when another statement is changing it or needs it as it is.
    pub(crate) fn change(&self, subject: Subject) -> SqlResult<Claim<'_>> {
        let mut holds = self.lock();
        if let Some(hold) = holds.get(&subject) {
            let doing = if *hold == Hold::Changed { "changed" } else { "used" };
            return Err(in_use(&subject, doing));
        }
        holds.insert(subject.clone(), Hold::Changed);
        Ok(Claim { claims: self, subject })
    }

    /// Keeps `subject` from being changed, beside others that do the same.
    ///
    /// # Errors
    /// 55006 when another statement is changing it.
    pub(crate) fn keep(&self, subject: Subject) -> SqlResult<Claim<'_>> {
        match self.lock().entry(subject.clone()).or_insert(Hold::Kept(0)) {
            Hold::Changed => return Err(in_use(&subject, "changed")),
            Hold::Kept(count) => *count += 1,
        }
        Ok(Claim { claims: self, subject })
    }
}

fn in_use(subject: &Subject, doing: &str) -> SqlError {
    SqlError::new(SqlState::OBJECT_IN_USE, format!("{subject} is being {doing} by another session"))
}

/// Something that no other statement changes while this lives.
#[must_use = "a claim ends when it is dropped"]
pub(crate) struct Claim<'a> {
    claims: &'a Claims,
    subject: Subject,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut holds = self.claims.lock();
        match holds.get_mut(&self.subject) {
            Some(Hold::Kept(count)) if *count > 1 => *count -= 1,
            held => {
                assert!(held.is_some(), "a claim is held until it ends");
                holds.remove(&self.subject);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_changes_and_many_keep() {
        let claims = Claims::default();
        let gold = || Subject::Size("gold".to_owned());
        let kept = (claims.keep(gold()).unwrap(), claims.keep(gold()).unwrap());
        let refused = claims.change(gold()).err().expect("it is used");
        assert_eq!(refused.state(), SqlState::OBJECT_IN_USE);
        assert_eq!(refused.message(), "size \"gold\" is being used by another session");
        drop(kept.0);
        assert!(claims.change(gold()).is_err(), "one still uses it");
        drop(kept.1);
        let changed = claims.change(gold()).unwrap();
        assert!(claims.keep(gold()).is_err() && claims.change(gold()).is_err());
        assert!(claims.change(Subject::Tenant("gold".to_owned())).is_ok(), "a tenant is no size");
        drop(changed);
        assert!(claims.lock().is_empty());
    }
}
