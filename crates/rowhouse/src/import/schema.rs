//! The schema of the source as statements, tried before anything is loaded.

use std::io;
use std::process::Command;

use indicatif::ProgressBar;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use workloads::Error;
use workloads::target::Target;

use super::Args;
use super::script::statements;

/// How long `pg_dump` waits for a table that the import holds already: who waits to change it is before `pg_dump`, and waits for the import.
const LOCK_WAIT_MAX_MS: &str = "10000";

/// Statements by when they run.
pub(super) struct Schema {
    /// Types, tables, sequences, views, and primary keys: a table is stored in their order from the start.
    before: Vec<String>,
    /// Indexes and the other constraints.
    after: Vec<String>,
}

impl Schema {
    /// Has `pg_dump` write the schema of `from` as `snapshot` has it.
    ///
    /// # Errors
    /// There is no `pg_dump`, or it fails: with what it says.
    pub(super) fn dump(args: &Args, from: &Target, snapshot: &str) -> Result<Schema, Error> {
        let mut before = dump_section(args, from, snapshot, "pre-data")?;
        before.iter_mut().for_each(make_schema_if_missing);
        let (keys, after) =
            dump_section(args, from, snapshot, "post-data")?.into_iter().partition(|s| is_primary_key(s));
        let keys: Vec<String> = keys;
        before.extend(keys);
        Ok(Schema { before, after })
    }

    /// Runs all statements on the target in a transaction that is taken back. With `skip` those that it does not support, and those that need what
    /// was left out, are left out from then on, and given back.
    ///
    /// # Errors
    /// What is refused, all of it.
    pub(super) async fn rehearse(&mut self, target: &Client, skip: bool) -> Result<Vec<String>, Error> {
        let (mut skipped, mut refused) = (Vec::new(), Vec::new());
        target.batch_execute("BEGIN").await?;
        for part in [&mut self.before, &mut self.after] {
            let mut taken = Vec::new();
            for statement in part.drain(..) {
                target.batch_execute("SAVEPOINT rehearsal").await?;
                match target.batch_execute(&statement).await {
                    Ok(()) => taken.push(statement),
                    Err(error) if error.as_db_error().is_some() => {
                        target.batch_execute("ROLLBACK TO SAVEPOINT rehearsal").await?;
                        let state = error.code().expect("the server said it");
                        if is_unknown_setting(&statement, state) {
                            continue;
                        }
                        let left_out = tells_of_something_unsupported(state)
                            || !skipped.is_empty() && tells_of_something_missing(state);
                        let told = format!("{}: {}", reason(&error), first_words(&statement));
                        if left_out && skip { &mut skipped } else { &mut refused }.push(told);
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            *part = taken;
        }
        target.batch_execute("ROLLBACK").await?;
        if refused.is_empty() {
            return Ok(skipped);
        }
        let list = refused.join("\n  ");
        Err(format!(
            "nothing was loaded: the tenant refuses {} statement(s) of the schema (those that follow from others among them):\n  {list}\n\
             --skip-unsupported leaves out what is not supported",
            refused.len()
        )
        .into())
    }

    /// Makes what the data need.
    ///
    /// # Errors
    /// The target refuses.
    pub(super) async fn before_data(&self, target: &Client, bar: &ProgressBar) -> Result<(), Error> {
        run(target, &self.before, bar).await
    }

    /// Makes what is better made when the data are there.
    ///
    /// # Errors
    /// The target refuses: the data may not meet a constraint.
    pub(super) async fn after_data(&self, target: &Client, bar: &ProgressBar) -> Result<(), Error> {
        run(target, &self.after, bar).await
    }
}

/// A newer `pg_dump` begins with settings of its time, which are of its session and not of the schema.
fn is_unknown_setting(statement: &str, state: &SqlState) -> bool {
    statement.starts_with("SET ") && *state == SqlState::UNDEFINED_OBJECT
}

/// What `pg_dump` writes is right for PostgreSQL: a statement that cannot be read (`ATTACH PARTITION`, a rule of several actions) or a type or a
/// function that is unknown is what this server does not have.
fn tells_of_something_unsupported(state: &SqlState) -> bool {
    [
        SqlState::FEATURE_NOT_SUPPORTED,
        SqlState::SYNTAX_ERROR,
        SqlState::UNDEFINED_OBJECT,
        SqlState::UNDEFINED_FUNCTION,
    ]
    .contains(state)
}

/// A foreign key needs the key that it refers to.
fn tells_of_something_missing(state: &SqlState) -> bool {
    [
        SqlState::UNDEFINED_TABLE,
        SqlState::UNDEFINED_COLUMN,
        SqlState::INVALID_SCHEMA_NAME,
        SqlState::INVALID_FOREIGN_KEY,
    ]
    .contains(state)
}

async fn run(target: &Client, statements: &[String], bar: &ProgressBar) -> Result<(), Error> {
    for statement in statements {
        bar.set_message(first_words(statement));
        target
            .batch_execute(statement)
            .await
            .map_err(|error| format!("{}: {}", reason(&error), first_words(statement)))?;
    }
    Ok(())
}

fn reason(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => format!("{} ({})", said.message(), said.code().code()),
        None => error.to_string(),
    }
}

/// Enough of a statement to find it by.
fn first_words(statement: &str) -> String {
    const LEN_MAX: usize = 100;
    let words = statement.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(LEN_MAX) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    }
}

/// As `pg_dump` writes it: `ALTER TABLE ONLY t ADD CONSTRAINT c PRIMARY KEY (…)`.
fn is_primary_key(statement: &str) -> bool {
    let words: Vec<&str> = statement.split_whitespace().collect();
    statement.starts_with("ALTER TABLE ONLY ") && words.windows(2).any(|two| two == ["PRIMARY", "KEY"])
}

/// Every tenant has `public`, which a dump of named schemas makes.
fn make_schema_if_missing(statement: &mut String) {
    if let Some(name) = statement.strip_prefix("CREATE SCHEMA ") {
        *statement = format!("CREATE SCHEMA IF NOT EXISTS {name}");
    }
}

fn dump_section(args: &Args, from: &Target, snapshot: &str, section: &str) -> Result<Vec<String>, Error> {
    let mut command = Command::new(&args.pg_dump);
    command.args([
        "--no-owner",
        "--no-privileges",
        "--no-security-labels",
        "--no-publications",
        "--no-blobs",
    ]);
    command.args(["--no-subscriptions", "--no-tablespaces", "--section", section, "--snapshot", snapshot]);
    // Whatever the database's own encoding is: the tenant's is this one.
    command.args(["--encoding", "UTF8", "--lock-wait-timeout", LOCK_WAIT_MAX_MS]);
    for schema in &args.schema {
        // A quoted name is no pattern.
        command.arg("--schema").arg(crate::backup::quoted(schema));
    }
    for name in ["PGHOST", "PGHOSTADDR", "PGSERVICE", "PGOPTIONS"] {
        command.env_remove(name);
    }
    command.envs(from.libpq_variables());
    let output = command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!(
            "{} is not installed, which writes the schema of the source: install PostgreSQL's client programs \
             (apt-get install postgresql-client), of the source's version or newer, or give the program with --pg-dump",
            args.pg_dump
        ),
        _ => format!("{} cannot be run: {error}", args.pg_dump),
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{} failed: {}", args.pg_dump, said.trim()).into());
    }
    Ok(statements(&String::from_utf8(output.stdout)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primary_keys_are_told_from_other_constraints() {
        assert!(is_primary_key("ALTER TABLE ONLY public.t\n    ADD CONSTRAINT t_pkey PRIMARY KEY (id)"));
        assert!(!is_primary_key("ALTER TABLE ONLY public.t\n    ADD CONSTRAINT t_key UNIQUE (id)"));
        assert!(!is_primary_key("COMMENT ON CONSTRAINT t_pkey ON public.t IS 'the PRIMARY KEY'"));
    }

    #[test]
    fn a_long_statement_is_told_by_its_beginning() {
        assert_eq!(first_words("CREATE\n  TABLE  t"), "CREATE TABLE t");
        assert_eq!(first_words(&"é ".repeat(300)).chars().count(), 101);
    }
}
