//! `rowhouse import`: a PostgreSQL database into an empty tenant, of one moment, in one go.
//!
//! The schema is what `pg_dump` writes of it (`schema`); it is tried in a transaction that is taken back before anything is
//! loaded, so what Rowhouse refuses is told first, all of it. Rows go as COPY text from server to server (`data`), several
//! tables at a time. Everything on the source's side reads one exported snapshot.

mod data;
mod schema;
mod script;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tokio::time::Instant;
use tokio_postgres::Client;
use workloads::Error;
use workloads::target::Target;

use crate::backup::block_on;
use data::Table;
use schema::Schema;

/// Options of `rowhouse import`.
#[derive(Parser)]
#[command(after_help = "\
Needs pg_dump of the source's version or newer on this machine: it writes the schema. Tables, indexes, constraints, views,
enums, sequences and comments are carried; owners, privileges, roles, large objects and what docs/sql-compat.md lists as
refused are not. If the import fails after data were loaded, drop the tenant and begin anew.")]
pub(crate) struct Args {
    /// The PostgreSQL database to read, as in postgres://user:password@host:5432/database; sslmode and sslrootcert as for psql
    #[arg(long, value_name = "URL")]
    from: String,
    /// The tenant to fill, which has no tables, as in postgres://owner:password@127.0.0.1:5433/tenant
    #[arg(long)]
    url: String,
    /// A schema to import; repeatable [default: all]
    #[arg(long, value_name = "NAME")]
    schema: Vec<String>,
    /// Tables loaded at the same time
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=64))]
    jobs: u8,
    /// Leave out what the tenant refuses as not supported, and say what it was
    #[arg(long)]
    skip_unsupported: bool,
    /// The pg_dump to run
    #[arg(long, value_name = "PROGRAM", default_value = "pg_dump")]
    pg_dump: String,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Outcome {
    tables: usize,
    rows: u64,
    /// Bytes of COPY text.
    bytes: u64,
    sequences: usize,
    /// Statements of the schema that were left out.
    skipped: Vec<String>,
    seconds: f64,
}

/// Runs the command to its end.
///
/// # Errors
/// One of the servers cannot be reached or refuses, the schema is not supported, the counts of rows differ.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let outcome = block_on(import(args))?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&outcome)?);
        return Ok(());
    }
    for skipped in &outcome.skipped {
        println!("left out: {skipped}");
    }
    println!(
        "{} tables, {} rows ({} bytes), {} sequences in {:.1} s; both sides count the same rows",
        outcome.tables, outcome.rows, outcome.bytes, outcome.sequences, outcome.seconds
    );
    Ok(())
}

async fn import(args: &Args) -> Result<Outcome, Error> {
    let began = Instant::now();
    let (from, to) = (Target::new(&args.from, None)?, Target::new(&args.url, None)?);
    let source = data::connect_source(&from).await?;
    // Held to the end: the snapshot is as long as its transaction.
    source.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
    let snapshot: String = source.query_one("SELECT pg_export_snapshot()", &[]).await?.get(0);
    let target = data::connect_target(&to).await?;
    require_empty(&target).await?;
    let mut tables = data::tables(&source, &args.schema).await?;
    data::hold(&source, &args.schema, &tables).await?;
    let mut schema = Schema::dump(args, &from, &snapshot)?;
    let mut skipped = schema.rehearse(&target, args.skip_unsupported).await?;
    let large_objects = data::large_objects(&source).await?;
    if large_objects > 0 {
        skipped.push(format!("large objects: {large_objects}"));
    }

    let bar = progress_bar(args, &tables)?;
    schema.before_data(&target, &bar).await?;
    let missing = data::leave_out_missing(&target, &mut tables).await?;
    skipped.extend(
        missing.into_iter().map(|table| format!("the rows of {table}, which the tenant does not have")),
    );
    let (rows, bytes) = data::load(&from, &to, &snapshot, &tables, usize::from(args.jobs), &bar).await?;
    schema.after_data(&target, &bar).await?;
    bar.set_message("sequences");
    let sequences = data::set_sequences(&source, &target, &args.schema).await?;
    bar.set_message("counting rows");
    data::compare(&source, &target, &tables).await?;
    bar.finish_and_clear();
    let seconds = began.elapsed().as_secs_f64();
    Ok(Outcome { tables: tables.len(), rows, bytes, sequences, skipped, seconds })
}

/// What is there already would be mixed with what comes.
async fn require_empty(target: &Client) -> Result<(), Error> {
    let query = "SELECT n.nspname, c.relname FROM pg_catalog.pg_class c
                 JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                 WHERE c.relkind IN ('r', 'v', 'S') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'rowhouse')
                 LIMIT 1";
    match target.query_opt(query, &[]).await? {
        None => Ok(()),
        Some(row) => {
            let (schema, name): (&str, &str) = (row.get(0), row.get(1));
            Err(format!("the tenant is not empty: it has \"{schema}\".\"{name}\"").into())
        }
    }
}

/// Bytes of the tables as the source stores them.
fn progress_bar(args: &Args, tables: &[Table]) -> Result<ProgressBar, Error> {
    if args.json {
        return Ok(ProgressBar::hidden());
    }
    let style = "[{bar:40}] {bytes}/{total_bytes} {msg}, {elapsed}";
    let total = tables.iter().map(|table| table.stored_bytes).sum();
    Ok(ProgressBar::new(total).with_style(ProgressStyle::with_template(style)?))
}
