//! Who is logged in to the console, and until when.
//!
//! A session is known by 256 random bits that only the browser has: kept is their SHA-256, so that what is read of the server's memory lets
//! nobody in. The token against cross-site requests is another 256 bits. Nothing of it survives the server.

use base::Nanos;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use pgproto::scram::Verifier;
use ring::digest::{SHA256, digest};
use rustc_hash::FxHashMap;

/// Sessions at a time; of more the one that was idle for the longest ends, of those of the user who has the most: nobody ends another's by logging in.
const SESSIONS_MAX: usize = 256;
/// A session that asks for nothing ends after this. A live stream that is open asks for nothing.
pub(super) const IDLE_MAX: Nanos = Nanos::from_secs(30 * 60);
/// Every session ends after this.
pub(super) const AGE_MAX: Nanos = Nanos::from_secs(12 * 3600);

/// What somebody may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Administrator,
    /// Sees everything and changes nothing.
    Viewer,
}

impl Role {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Role::Administrator => "administrator",
            Role::Viewer => "viewer",
        }
    }
}

/// Who somebody proved to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Account {
    pub(super) user: String,
    pub(super) role: Role,
    /// By which the password was found right: another one ends the session.
    pub(super) verifier: Verifier,
}

/// A session as its request sees it.
#[derive(Clone, Debug)]
pub(super) struct Login {
    pub(super) key: Key,
    pub(super) account: Account,
    /// What a request that changes something has to bring.
    pub(super) csrf: String,
    /// When it ends if nothing more is asked.
    pub(super) expires: Nanos,
}

/// A session without its secret.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Key([u8; 32]);

struct Kept {
    account: Account,
    csrf: String,
    began: Nanos,
    last_used: Nanos,
}

impl Kept {
    fn expires(&self) -> Nanos {
        (self.last_used + IDLE_MAX).min(self.began + AGE_MAX)
    }

    fn login(&self, key: Key) -> Login {
        let (account, csrf) = (self.account.clone(), self.csrf.clone());
        Login { key, account, csrf, expires: self.expires() }
    }
}

/// All sessions. Knows no clock and no randomness: both are arguments.
#[derive(Default)]
pub(super) struct Logins(FxHashMap<Key, Kept>);

fn key_of(secret: &str) -> Key {
    Key(digest(&SHA256, secret.as_bytes()).as_ref().try_into().expect("SHA-256 has 32 bytes"))
}

impl Logins {
    /// Begins a session; what the browser is to keep, and the session. `random`: 512 bits.
    pub(super) fn begin(&mut self, account: Account, random: &[u8; 64], now: Nanos) -> (String, Login) {
        self.end_expired(now);
        if self.0.len() >= SESSIONS_MAX
            && let Some(oldest) = self.first_to_end()
        {
            self.0.remove(&oldest);
        }
        let (secret, csrf) = random.split_at(32);
        let secret = BASE64.encode(secret);
        let key = key_of(&secret);
        let kept = Kept { account, csrf: BASE64.encode(csrf), began: now, last_used: now };
        let login = kept.login(key);
        let before = self.0.insert(key, kept);
        assert!(before.is_none(), "256 random bits come twice");
        assert!(self.0.len() <= SESSIONS_MAX);
        (secret, login)
    }

    fn first_to_end(&self) -> Option<Key> {
        let mut of_user: FxHashMap<&str, usize> = FxHashMap::default();
        self.0.values().for_each(|kept| *of_user.entry(&kept.account.user).or_default() += 1);
        let most = of_user.values().copied().max()?;
        let of_them = self.0.iter().filter(|(_, kept)| of_user[kept.account.user.as_str()] == most);
        of_them.min_by_key(|(_, kept)| kept.last_used).map(|(key, _)| *key)
    }

    /// The session that the browser has the secret of, which is used by that if somebody attends; `None` if there is none or it has expired.
    pub(super) fn of_secret(&mut self, secret: &str, is_attended: bool, now: Nanos) -> Option<Login> {
        let key = key_of(secret);
        let kept = self.0.get_mut(&key)?;
        if now >= kept.expires() {
            self.0.remove(&key);
            return None;
        }
        if is_attended {
            kept.last_used = now;
        }
        Some(kept.login(key))
    }

    /// Whether the session goes on, which is not used by being asked about.
    pub(super) fn is_open(&self, key: Key, now: Nanos) -> bool {
        self.0.get(&key).is_some_and(|kept| now < kept.expires())
    }

    /// Ends a session, if it has not ended.
    pub(super) fn end(&mut self, key: Key) {
        self.0.remove(&key);
    }

    /// Forgets sessions that have expired.
    pub(super) fn end_expired(&mut self, now: Nanos) {
        self.0.retain(|_, kept| now < kept.expires());
    }

    /// The accounts of all sessions.
    pub(super) fn accounts(&self) -> Vec<Account> {
        let mut accounts: Vec<Account> = Vec::new();
        for kept in self.0.values() {
            if !accounts.contains(&kept.account) {
                accounts.push(kept.account.clone());
            }
        }
        accounts
    }

    /// Ends the sessions of an account that is not what it was.
    pub(super) fn end_all_of(&mut self, account: &Account) {
        self.0.retain(|_, kept| kept.account != *account);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Nanos = Nanos::from_secs(60);

    fn account(user: &str) -> Account {
        let verifier = Verifier::mock(&[1; 32], user);
        Account { user: user.to_owned(), role: Role::Viewer, verifier }
    }

    fn random(n: u8) -> [u8; 64] {
        std::array::from_fn(|i| n.wrapping_mul(31).wrapping_add(i as u8))
    }

    #[test]
    fn a_session_is_found_by_its_secret_and_nothing_of_it_is_kept() {
        let mut logins = Logins::default();
        let (secret, login) = logins.begin(account("a"), &random(1), Nanos(0));
        assert_eq!(secret.len(), 43, "256 bits");
        assert_ne!(secret, login.csrf);
        let found = logins.of_secret(&secret, true, Nanos(1)).expect("logged in");
        assert_eq!((found.account.user.as_str(), &found.csrf), ("a", &login.csrf));
        let wrong: String = secret.chars().rev().collect();
        assert!(logins.of_secret(&wrong, true, Nanos(1)).is_none());
        assert!(
            logins.of_secret(&BASE64.encode(login.key.0), true, Nanos(1)).is_none(),
            "what is kept lets nobody in"
        );
        logins.end(login.key);
        assert!(logins.of_secret(&secret, true, Nanos(2)).is_none());
    }

    #[test]
    fn an_idle_session_ends_and_a_used_one_goes_on() {
        let mut logins = Logins::default();
        let (secret, login) = logins.begin(account("a"), &random(1), Nanos(0));
        assert_eq!(login.expires, IDLE_MAX);
        let mut now = Nanos(0);
        for _ in 0..5 {
            now = now + IDLE_MAX - Nanos(1);
            assert!(logins.of_secret(&secret, true, now).is_some());
        }
        // What a page asks for that nobody is at is answered, and keeps nothing open.
        assert!(logins.of_secret(&secret, false, now + IDLE_MAX - Nanos(1)).is_some());
        now = now + IDLE_MAX;
        assert!(logins.of_secret(&secret, true, now).is_none());
        assert!(logins.of_secret(&secret, true, Nanos(0)).is_none(), "it stays ended");
    }

    #[test]
    fn every_session_ends_after_its_time_however_busy() {
        let mut logins = Logins::default();
        let (secret, _) = logins.begin(account("a"), &random(1), Nanos(0));
        let mut now = Nanos(0);
        while now + MINUTE < AGE_MAX {
            now = now + MINUTE;
            let login = logins.of_secret(&secret, true, now).expect("in use");
            assert!(login.expires <= AGE_MAX);
        }
        assert!(logins.of_secret(&secret, true, AGE_MAX).is_none());
    }

    /// Another 512 bits for each number.
    fn numbered(n: usize) -> [u8; 64] {
        let mut bytes = random(0);
        bytes[..8].copy_from_slice(&n.to_le_bytes());
        bytes
    }

    #[test]
    fn sessions_are_bounded_and_the_idle_ones_go_first() {
        let mut logins = Logins::default();
        let begin = |logins: &mut Logins, n: usize| {
            logins.begin(account(&format!("user{n}")), &numbered(n), Nanos(n as u64)).0
        };
        let (first, second) = (begin(&mut logins, 0), begin(&mut logins, 1));
        for n in 2..=SESSIONS_MAX {
            assert!(logins.of_secret(&first, true, Nanos(n as u64)).is_some());
            begin(&mut logins, n);
        }
        assert_eq!(logins.0.len(), SESSIONS_MAX);
        let now = Nanos(SESSIONS_MAX as u64 + 1);
        assert!(logins.of_secret(&second, true, now).is_none());
        assert!(logins.of_secret(&first, true, now).is_some());
    }

    #[test]
    fn who_logs_in_again_and_again_ends_only_sessions_of_his_own() {
        let mut logins = Logins::default();
        let (idle, _) = logins.begin(account("admin"), &numbered(0), Nanos(0));
        let secrets: Vec<String> = (1..=2 * SESSIONS_MAX)
            .map(|n| logins.begin(account("guest"), &numbered(n), Nanos(n as u64)).0)
            .collect();
        assert_eq!(logins.0.len(), SESSIONS_MAX);
        let now = Nanos(2 * SESSIONS_MAX as u64 + 1);
        assert!(logins.of_secret(&idle, true, now).is_some());
        let goes_on = secrets.iter().filter(|secret| logins.of_secret(secret, true, now).is_some());
        assert_eq!(goes_on.count(), SESSIONS_MAX - 1);
        assert!(logins.of_secret(&secrets[SESSIONS_MAX], true, now).is_none(), "the oldest went");
    }

    #[test]
    fn an_account_that_changed_ends_its_sessions() {
        let mut logins = Logins::default();
        let (a, _) = logins.begin(account("a"), &random(1), Nanos(0));
        let (again, _) = logins.begin(account("a"), &random(2), Nanos(0));
        let (b, _) = logins.begin(account("b"), &random(3), Nanos(0));
        assert_eq!(logins.accounts().len(), 2);
        logins.end_all_of(&account("a"));
        assert!(
            logins.of_secret(&a, true, Nanos(1)).is_none()
                && logins.of_secret(&again, true, Nanos(1)).is_none()
        );
        assert!(logins.of_secret(&b, true, Nanos(1)).is_some());
    }
}
