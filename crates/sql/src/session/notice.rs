//! What a client is told beside its results, as far as it wants to know: `client_min_messages`.

use base::{Severity, SqlError};

use super::setting::Id;
use super::{Reply, Session};

impl Session {
    /// Sends a NOTICE or WARNING, unless the client wants to be told graver things only.
    pub(crate) fn notice(&self, notice: &SqlError, out: &mut dyn Reply) {
        if is_wanted(notice.severity(), self.settings.borrow().get(Id::client_min_messages)) {
            out.notice(notice);
        }
    }
}

/// Whether `least`, a level from `debug5` to `error`, lets a message through. Errors always go out.
fn is_wanted(severity: Severity, least: &str) -> bool {
    match severity {
        Severity::Notice => !matches!(least, "warning" | "error"),
        Severity::Warning => least != "error",
        Severity::Error | Severity::Fatal => true,
    }
}

#[cfg(test)]
mod tests {
    use crate::session::testing::Bench;

    const NOTICED: &str = "CREATE TABLE IF NOT EXISTS t (a int)";
    const WARNED: &str = "COMMIT";

    #[test]
    fn notices_below_client_min_messages_are_not_sent() {
        let mut bench = Bench::new();
        let mut session = bench.session();
        bench.run(&mut session, NOTICED);
        for (level, notices, warnings) in [
            ("debug5", 1, 1),
            ("log", 1, 1),
            ("info", 1, 1),
            ("notice", 1, 1),
            ("warning", 0, 1),
            ("error", 0, 0),
        ] {
            bench.run(&mut session, &format!("SET client_min_messages = {level}"));
            let told = [NOTICED, WARNED].map(|statement| bench.run(&mut session, statement).notices.len());
            assert_eq!(told, [notices, warnings], "{level}");
        }
        bench.run(&mut session, "RESET client_min_messages");
        bench.run(&mut session, "BEGIN; SET LOCAL client_min_messages = error; DROP TABLE IF EXISTS gone");
        assert!(bench.run(&mut session, "BEGIN").notices.is_empty(), "a WARNING, in its transaction");
        bench.run(&mut session, "COMMIT");
        assert_eq!(bench.run(&mut session, "DROP TABLE IF EXISTS gone").notices.len(), 1);
    }
}
