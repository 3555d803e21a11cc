//! The administrator's statements as text.
//!
//! A statement is made first and written then; what was written is read again, and is refused unless it is the same statement. So a name
//! or a value, whatever is in it, says nothing but itself.

use std::fmt::Write as _;

use sql::parse::{ParsedStatement, parse_one};
use sql::session::{HostStatement, OptionChange};

use super::answer::{Answer, Refusal};

/// What stands for a password where the text is shown.
const HIDDEN: &str = "'…'";

/// A statement and its text.
pub(super) struct Written {
    /// To be run.
    pub(super) sql: String,
    /// To be shown: the same without a password.
    pub(super) shown: String,
}

/// Writes a statement.
///
/// # Errors
/// 400 for one that cannot be written: an empty name, an option that is there twice.
pub(super) fn write(statement: &HostStatement) -> Answer<Written> {
    let sql = text(statement, false);
    if sql.contains('\0') {
        // Over the wire no text has one: it would end there.
        return Err(Refusal::bad_input("a name or a value has a character that SQL has not"));
    }
    match parse_one(&sql)?.map(|read| read.statement) {
        Some(ParsedStatement::Host(read)) if read == *statement => {}
        _ => return Err(Refusal::bad_input("a name or a value cannot be written in SQL")),
    }
    Ok(Written { sql, shown: text(statement, true) })
}

fn text(statement: &HostStatement, hides: bool) -> String {
    match statement {
        HostStatement::CreateTenant { name, template, options, owner, password, if_not_exists: false } => {
            let mut text = format!("CREATE TENANT {}", quoted(name));
            if let Some(template) = template {
                let _ = write!(text, " FROM TEMPLATE {}", quoted(template));
            }
            if !options.is_empty() {
                let _ = write!(text, " WITH {}", list(options));
            }
            if let Some(owner) = owner {
                let _ = write!(text, " OWNER {}", quoted(owner));
            }
            if let Some(password) = password {
                let password = if hides { HIDDEN.to_owned() } else { literal(password) };
                let _ = write!(text, " PASSWORD {password}");
            }
            text
        }
        HostStatement::AlterTenant { name, change } => {
            format!("ALTER TENANT {} {}", quoted(name), altered(change))
        }
        HostStatement::RenameTenant { name, to } => {
            format!("ALTER TENANT {} RENAME TO {}", quoted(name), quoted(to))
        }
        HostStatement::MoveTenant { name, worker } => {
            let worker = worker.map_or("DEFAULT".to_owned(), |worker| worker.to_string());
            format!("ALTER TENANT {} SET WORKER {worker}", quoted(name))
        }
        HostStatement::DropTenant { name, if_exists: false } => format!("DROP TENANT {}", quoted(name)),
        HostStatement::CreateSize { name, options, if_not_exists: false } => {
            format!("CREATE SIZE {} AS {}", quoted(name), list(options))
        }
        HostStatement::AlterSize { name, change } => {
            format!("ALTER SIZE {} {}", quoted(name), altered(change))
        }
        HostStatement::DropSize { name, if_exists: false } => format!("DROP SIZE {}", quoted(name)),
        HostStatement::AlterServer { change } => format!("ALTER SERVER {}", altered(change)),
        HostStatement::AlterVolume { name, change } => {
            format!("ALTER VOLUME {} {}", quoted(name), altered(change))
        }
        HostStatement::CreateRunawayRule { name, tenant, options, if_not_exists: false } => {
            let tenant = tenant.as_ref().map(|tenant| format!(" FOR TENANT {}", quoted(tenant)));
            format!("CREATE RUNAWAY RULE {}{} AS {}", quoted(name), tenant.unwrap_or_default(), list(options))
        }
        HostStatement::AlterRunawayRule { name, change } => {
            format!("ALTER RUNAWAY RULE {} {}", quoted(name), altered(change))
        }
        HostStatement::DropRunawayRule { name, if_exists: false } => {
            format!("DROP RUNAWAY RULE {}", quoted(name))
        }
        other => unreachable!("the console has no {other:?}"),
    }
}

fn altered(change: &OptionChange) -> String {
    match change {
        OptionChange::Set(options) => format!("SET {}", list(options)),
        OptionChange::Reset(names) => {
            let names: Vec<String> = names.iter().map(|name| option_name(name)).collect();
            format!("RESET ({})", names.join(", "))
        }
    }
}

fn list(options: &[(String, String)]) -> String {
    let option = |(name, value): &(String, String)| {
        let value = if is_plain_number(value) { value.clone() } else { literal(value) };
        format!("{} = {value}", option_name(name))
    };
    format!("({})", options.iter().map(option).collect::<Vec<_>>().join(", "))
}

fn is_plain_number(text: &str) -> bool {
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    is_digits(whole) && is_digits(fraction)
}

/// Without quotes where it needs none: what is shown is to be read.
fn option_name(name: &str) -> String {
    let is_plain = name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'));
    if is_plain { name.to_owned() } else { quoted(name) }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn literal(text: &str) -> String {
    if text.contains('\\') {
        return crate::tenants::literal(text);
    }
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use base::SqlResult;

    use super::*;

    /// The statement that is `sql`, which has to be one of the administrator's.
    fn read(sql: &str) -> SqlResult<HostStatement> {
        match parse_one(sql)?.expect("a statement").statement {
            ParsedStatement::Host(statement) => Ok(statement),
            other => panic!("not the administrator's: {other:?}"),
        }
    }

    fn options(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn create(name: &str, password: Option<&str>) -> HostStatement {
        HostStatement::CreateTenant {
            name: name.to_owned(),
            template: None,
            options: options(&[("cpu", "0.5"), ("memory", "1GB"), ("size", "large")]),
            owner: None,
            password: password.map(str::to_owned),
            if_not_exists: false,
        }
    }

    #[test]
    fn statements_are_written_to_be_read() {
        let written = write(&create("acme", Some("it's"))).expect("a good one");
        let begin = "CREATE TENANT \"acme\" WITH (cpu = 0.5, memory = '1GB', size = 'large') PASSWORD ";
        assert_eq!(written.sql, format!("{begin}'it''s'"));
        assert_eq!(written.shown, format!("{begin}'…'"));
        let change = OptionChange::Reset(vec!["iops".to_owned(), "cpu_max".to_owned()]);
        let altered =
            write(&HostStatement::AlterTenant { name: "a\"b".to_owned(), change }).expect("a good one");
        assert_eq!(altered.sql, "ALTER TENANT \"a\"\"b\" RESET (iops, cpu_max)");
        let moved = |worker| {
            write(&HostStatement::MoveTenant { name: "a".to_owned(), worker }).expect("a good one").sql
        };
        assert_eq!(moved(Some(3)), "ALTER TENANT \"a\" SET WORKER 3");
        assert_eq!(moved(None), "ALTER TENANT \"a\" SET WORKER DEFAULT");
    }

    #[test]
    fn what_cannot_be_written_is_refused() {
        let alter = |pairs: &[(&str, &str)]| {
            let change = OptionChange::Set(options(pairs));
            write(&HostStatement::AlterServer { change }).is_err()
        };
        assert!(alter(&[("cpu", "1"), ("CPU", "2")]), "twice");
        assert!(alter(&[]) && !alter(&[("policy", "")]));
        assert!(write(&create("a\0b", None)).is_err());
    }

    /// Anything, with a fondness for what quoting is about.
    fn any_text() -> impl Strategy<Value = String> {
        let pieces = prop_oneof![
            Just("'".to_owned()),
            Just("\"".to_owned()),
            Just("\\".to_owned()),
            Just(";".to_owned()),
            Just("--".to_owned()),
            Just("/*".to_owned()),
            Just("$$".to_owned()),
            Just("E'".to_owned()),
            Just("\\'".to_owned()),
            Just(") OWNER x PASSWORD 'y".to_owned()),
            Just("\0".to_owned()),
            Just("\n".to_owned()),
            "\\PC{0,3}",
            "[a-z0-9.+-]{0,5}",
        ];
        prop::collection::vec(pieces, 0..6).prop_map(|pieces| pieces.concat())
    }

    fn any_statement() -> impl Strategy<Value = HostStatement> {
        let pairs = || prop::collection::vec((any_text(), any_text()), 0..4);
        let change = prop_oneof![
            pairs().prop_map(OptionChange::Set),
            prop::collection::vec(any_text(), 0..3).prop_map(OptionChange::Reset),
        ];
        let name = any_text;
        prop_oneof![
            (
                name(),
                prop::option::of(name()),
                pairs(),
                prop::option::of(name()),
                prop::option::of(any_text())
            )
                .prop_map(|(name, template, options, owner, password)| {
                    HostStatement::CreateTenant {
                        name,
                        template,
                        options,
                        owner,
                        password,
                        if_not_exists: false,
                    }
                }),
            (name(), change).prop_map(|(name, change)| HostStatement::AlterTenant { name, change }),
            (name(), name()).prop_map(|(name, to)| HostStatement::RenameTenant { name, to }),
            (name(), any::<Option<i64>>())
                .prop_map(|(name, worker)| HostStatement::MoveTenant { name, worker }),
            name().prop_map(|name| HostStatement::DropTenant { name, if_exists: false }),
            (name(), pairs()).prop_map(|(name, options)| HostStatement::CreateSize {
                name,
                options,
                if_not_exists: false
            }),
            name().prop_map(|name| HostStatement::DropSize { name, if_exists: false }),
            (name(), prop::option::of(name()), pairs()).prop_map(|(name, tenant, options)| {
                HostStatement::CreateRunawayRule { name, tenant, options, if_not_exists: false }
            }),
        ]
    }

    proptest! {
        /// What is run is the statement that was meant, or nothing; and no password is in what is shown.
        #[test]
        fn nothing_in_a_name_or_a_value_is_taken_for_sql(statement in any_statement()) {
            // Past the check of `write`, which would hide a fault of the quoting.
            let sql = text(&statement, false);
            match read(&sql) {
                Ok(read) => prop_assert_eq!(&read, &statement, "{}", sql),
                // An empty name, an option twice, a character that SQL text cannot have.
                Err(error) => prop_assert!(write(&statement).is_err(), "{error}"),
            }
            if let HostStatement::CreateTenant { password: Some(password), .. } = &statement {
                let shown = text(&statement, true);
                prop_assert!(shown.ends_with(HIDDEN) && !shown.ends_with(&literal(password)));
            }
        }
    }
}
