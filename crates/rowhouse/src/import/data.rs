//! Rows and sequences from one server to the other.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use bytes::Bytes;
use futures::future::try_join_all;
use futures::{SinkExt as _, TryStreamExt as _};
use indicatif::ProgressBar;
use tokio_postgres::Client;
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
        let (source, target) = (from.connect_admin().await?, to.connect_admin().await?);
        let begin = format!(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT '{}'",
            snapshot.replace('\'', "''")
        );
        source.batch_execute(&begin).await?;
        loop {
            let Some(table) = waiting.borrow_mut().pop_front() else { return Ok::<(), Error>(()) };
            bar.set_message(table.name.clone());
            let before = bytes.get();
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

/// Sets the target's sequences to where the source's stand; how many.
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
         WHERE c.relkind = 'S' AND {WANTED} ORDER BY 1, 2"
    );
    let sequences = source.query(&query, &[&schemas]).await?;
    for row in &sequences {
        let name = format!("{}.{}", quoted(row.get(0)), quoted(row.get(1)));
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
        let query = format!("SELECT count(*) FROM {name}");
        let theirs: i64 = source.query_one(&query, &[]).await?.get(0);
        let ours: i64 = target.query_one(&query, &[]).await?.get(0);
        if theirs != ours {
            differing.push(format!("{name}: {theirs} rows at the source, {ours} in the tenant"));
        }
    }
    if differing.is_empty() { Ok(()) } else { Err(differing.join("\n").into()) }
}
