//! Rows and sequences from one server to the other.

use std::cell::{Cell, RefCell};
use std::collections::{HashSet, VecDeque};

use bytes::Bytes;
use futures::future::try_join_all;
use futures::{SinkExt as _, TryStreamExt as _};
use indicatif::ProgressBar;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use workloads::Error;
use workloads::target::Target;

use crate::backup::quoted;

/// A table of the source.
pub(super) struct Table {
    /// Schema and name, quoted.
    name: String,
    /// Names of the columns that have values of their own, quoted.
    columns: String,
    /// Bytes on the source's disk, for the progress bar.
    pub(super) stored_bytes: u64,
}

/// What is not the system's, of the schemas asked for; `$1` holds them, all if there are none.
const WANTED: &str = "n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
                      AND (cardinality($1::text[]) = 0 OR n.nspname = ANY ($1))";

/// What a session at the source is like: values have the one form that the tenant reads as they were meant, rows that a policy hides are an
/// error, and no timeout ends the transaction that holds the snapshot.
const SOURCE_SETTINGS: &str = "SET datestyle = ISO; SET intervalstyle = postgres; SET extra_float_digits = 3; SET row_security = off;
                               SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0;
                               SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'transaction_timeout'";

/// What a session at the tenant is like: no timeout that its owner's sessions begin with ends it, whether it works for long or waits for the others.
const TARGET_SETTINGS: &str = "SET statement_timeout = 0; SET lock_timeout = 0;
                               SET idle_session_timeout = 0; SET idle_in_transaction_session_timeout = 0";

/// A session at the source.
///
/// # Errors
/// It cannot be reached, or refuses.
pub(super) async fn connect_source(from: &Target) -> Result<Client, Error> {
    let source = from.connect_admin().await?;
    source.batch_execute(SOURCE_SETTINGS).await?;
    Ok(source)
}

/// A session at the tenant.
///
/// # Errors
/// As [`connect_source`].
pub(super) async fn connect_target(to: &Target) -> Result<Client, Error> {
    let target = to.connect_admin().await?;
    target.batch_execute(TARGET_SETTINGS).await?;
    Ok(target)
}

/// Keeps the tables from being truncated, rewritten or dropped until the transaction of `source` ends: TRUNCATE and some ALTER TABLE show
/// through snapshots that are older. Waits for who does so now.
///
/// # Errors
/// A table has been since the snapshot was taken, or may not be read.
pub(super) async fn hold(source: &Client, schemas: &[String], tables: &[Table]) -> Result<(), Error> {
    for Table { name, .. } in tables {
        let locked = source.batch_execute(&format!("LOCK TABLE ONLY {name} IN ACCESS SHARE MODE")).await;
        locked.map_err(|error| format!("{name}: {}", workloads::explain(&error.into())))?;
    }
    // The column is the snapshot's, the function's answer is of now.
    let rewritten = format!(
        "SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE c.relkind = 'r' AND {WANTED} AND c.relfilenode <> pg_relation_filenode(c.oid) LIMIT 1"
    );
    match source.query_opt(&rewritten, &[&schemas]).await? {
        None => Ok(()),
        Some(row) => {
            let name: String = row.get(0);
            Err(format!(
                "{name} was truncated or rewritten as the import began; nothing was loaded: begin anew"
            )
            .into())
        }
    }
}

/// The tables to load, the largest first.
///
/// # Errors
/// The source cannot be asked.
pub(super) async fn tables(source: &Client, schemas: &[String]) -> Result<Vec<Table>, Error> {
    let query = format!(
        "SELECT n.nspname::text, c.relname::text, pg_table_size(c.oid),
                ARRAY(SELECT a.attname::text FROM pg_attribute a
                      WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
                      ORDER BY a.attnum)
         FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE c.relkind = 'r' AND {WANTED}
           AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')
         ORDER BY 3 DESC, 1, 2"
    );
    let rows = source.query(&query, &[&schemas]).await?;
    let table = |row: &tokio_postgres::Row| {
        let columns: Vec<String> = row.get(3);
        Table {
            name: format!("{}.{}", quoted(row.get(0)), quoted(row.get(1))),
            columns: columns.iter().map(|column| quoted(column)).collect::<Vec<_>>().join(", "),
            stored_bytes: u64::try_from(row.get::<_, i64>(2)).unwrap_or(0),
        }
    };
    Ok(rows.iter().map(table).collect())
}

/// Loads the tables, `jobs` at a time, each from the source's `snapshot`; rows and bytes of them all.
///
/// # Errors
/// One of the servers refuses: names the table.
pub(super) async fn load(
    from: &Target,
    to: &Target,
    snapshot: &str,
    tables: &[Table],
    jobs: usize,
    bar: &ProgressBar,
) -> Result<(u64, u64), Error> {
    let waiting: RefCell<VecDeque<&Table>> = RefCell::new(tables.iter().collect());
    let (rows, bytes) = (Cell::new(0), Cell::new(0));
    let job = || async {
        let (source, target) = (connect_source(from).await?, connect_target(to).await?);
        let begin = format!(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT '{}'",
            snapshot.replace('\'', "''")
        );
        source.batch_execute(&begin).await?;
        loop {
            let Some(table) = waiting.borrow_mut().pop_front() else { return Ok::<(), Error>(()) };
            bar.set_message(table.name.clone());
            let before = bytes.get();
            lock_at_once(&source, &table.name).await?;
            let loaded = copy(&source, &target, table, |n| bytes.set(bytes.get() + n)).await;
            let loaded = loaded.map_err(|error| format!("{}: {}", table.name, workloads::explain(&error)))?;
            rows.set(rows.get() + loaded);
            debug_assert!(bytes.get() >= before);
            bar.inc(table.stored_bytes);
        }
    };
    try_join_all((0..jobs.min(tables.len())).map(|_| job())).await?;
    Ok((rows.get(), bytes.get()))
}

/// Has a job lock a table that the import's own session holds. Who waits to change it waits for that session, and the job would wait for them:
/// for ever, as PostgreSQL sees no deadlock in it.
async fn lock_at_once(source: &Client, table: &str) -> Result<(), Error> {
    let lock = format!("LOCK TABLE ONLY {table} IN ACCESS SHARE MODE NOWAIT");
    match source.batch_execute(&lock).await {
        Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => Err(format!(
            "{table}: another session at the source waits to change or truncate it: begin anew when it has"
        )
        .into()),
        Err(error) => Err(format!("{table}: {}", workloads::explain(&error.into())).into()),
        Ok(()) => Ok(()),
    }
}

/// Rows that went over.
async fn copy(
    source: &Client,
    target: &Client,
    table: &Table,
    mut on_bytes: impl FnMut(u64),
) -> Result<u64, Error> {
    let Table { name, columns, .. } = table;
    // A table without columns has rows all the same, as empty lines.
    let columns = if columns.is_empty() { String::new() } else { format!(" ({columns})") };
    let rows = source.copy_out(&format!("COPY {name}{columns} TO STDOUT")).await?;
    let sink = target.copy_in::<_, Bytes>(&format!("COPY {name}{columns} FROM STDIN")).await?;
    let (mut rows, mut sink) = (std::pin::pin!(rows), std::pin::pin!(sink));
    while let Some(piece) = rows.try_next().await? {
        on_bytes(piece.len() as u64);
        // Not flushed: pieces are rows, and are gathered into messages. Waits for a target that is slower.
        if sink.feed(piece).await.is_err() {
            break;
        }
    }
    // A target that refused says why here.
    Ok(sink.finish().await?)
}

/// How many large objects the source has. They belong to no schema and are not carried.
///
/// # Errors
/// The source cannot be asked.
pub(super) async fn large_objects(source: &Client) -> Result<i64, Error> {
    Ok(source.query_one("SELECT count(*) FROM pg_catalog.pg_largeobject_metadata", &[]).await?.get(0))
}

/// Names, quoted, of the relations of a kind that the target has.
async fn names(target: &Client, kind: &str) -> Result<HashSet<String>, Error> {
    let query = format!(
        "SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = '{kind}'"
    );
    let rows = target.query(&query, &[]).await?;
    Ok(rows.iter().map(|row| format!("{}.{}", quoted(row.get(0)), quoted(row.get(1)))).collect())
}

/// Takes the tables that the target does not have out of the list; their names.
///
/// # Errors
/// The target cannot be asked.
pub(super) async fn leave_out_missing(
    target: &Client,
    tables: &mut Vec<Table>,
) -> Result<Vec<String>, Error> {
    let there = names(target, "r").await?;
    Ok(tables.extract_if(.., |table| !there.contains(&table.name)).map(|table| table.name).collect())
}

/// Sets the target's sequences, those that it has, to where the source's stand; how many.
///
/// # Errors
/// One of the servers refuses.
pub(super) async fn set_sequences(
    source: &Client,
    target: &Client,
    schemas: &[String],
) -> Result<usize, Error> {
    let query = format!(
        "SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE c.relkind = 'S' AND {WANTED}
           AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e') ORDER BY 1, 2"
    );
    let there = names(target, "S").await?;
    let rows = source.query(&query, &[&schemas]).await?;
    let sequences = rows.iter().map(|row| format!("{}.{}", quoted(row.get(0)), quoted(row.get(1))));
    let sequences: Vec<String> = sequences.filter(|name| there.contains(name)).collect();
    for name in &sequences {
        let position = source.query_one(&format!("SELECT last_value, is_called FROM {name}"), &[]).await?;
        let (last, called): (i64, bool) = (position.get(0), position.get(1));
        let set = format!("SELECT pg_catalog.setval('{}', {last}, {called})", name.replace('\'', "''"));
        let done = target.simple_query(&set).await.map_err(Error::from);
        done.map_err(|error| format!("sequence {name}: {}", workloads::explain(&error)))?;
    }
    Ok(sequences.len())
}

/// Counts every table's rows on both sides.
///
/// # Errors
/// They differ: with the tables and both counts.
pub(super) async fn compare(source: &Client, target: &Client, tables: &[Table]) -> Result<(), Error> {
    let mut differing = Vec::new();
    for Table { name, .. } in tables {
        // Those of its children are not its own.
        let theirs: i64 = source.query_one(&format!("SELECT count(*) FROM ONLY {name}"), &[]).await?.get(0);
        let ours: i64 = target.query_one(&format!("SELECT count(*) FROM {name}"), &[]).await?.get(0);
        if theirs != ours {
            differing.push(format!("{name}: {theirs} rows at the source, {ours} in the tenant"));
        }
    }
    if differing.is_empty() { Ok(()) } else { Err(differing.join("\n").into()) }
}
