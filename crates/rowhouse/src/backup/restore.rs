//! `rowhouse restore`: a tenant made of a backup.

use std::fs::File;
use std::io::{self, Read, Write as _};

use bytes::Bytes;
use clap::Parser;
use futures::SinkExt as _;
use indicatif::ProgressBar;
use serde::Serialize;
use storage::ImageReader;
use tenant::Description;
use tokio::time::Instant;
use tokio_postgres::SimpleQueryMessage;
use workloads::Error;

use super::checked::{Checked, PIECE_LEN};
use super::{DASH, block_on, connect, progress_bar, quoted};

/// Options of `rowhouse restore`.
#[derive(Parser)]
#[command(after_help = "\
The tenant appears when all of the backup has come and was checked; until then, and if it fails, there is nothing of it.
Its roles and passwords are those of the backup, its promise too unless --with says otherwise.")]
pub(crate) struct Args {
    /// The server's administrator, as in postgres://admin:password@127.0.0.1:5433/rowhouse; sslmode and sslrootcert as for psql
    #[arg(long)]
    url: String,
    /// The backup; - for standard input
    #[arg(long, value_name = "FILE")]
    from: String,
    /// The new tenant's name [default: the name of the tenant that was backed up]
    #[arg(long, value_name = "NAME", allow_hyphen_values = true, value_parser = super::tenant_name)]
    tenant: Option<String>,
    /// A promise or the volume, as in `CREATE TENANT … WITH`: --with cpu=2 --with volume=fast; repeatable
    #[arg(long, value_name = "OPTION=VALUE", value_parser = option)]
    with: Vec<(String, String)>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

fn option(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("an option is given as OPTION=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

#[derive(Serialize)]
struct Outcome {
    tenant: String,
    id: u64,
    /// The name of the tenant that was backed up.
    backup_of: String,
    bytes: u64,
    /// The last commit in the backup.
    commit: u64,
    /// When the backup was made, in microseconds since 1970 UTC.
    taken_at_us: i64,
    seconds: f64,
}

/// Runs the command to its end.
///
/// # Errors
/// The backup cannot be read or is damaged, the server refuses: no tenant is left then.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let outcome = block_on(restore(args))?;
    let report = if args.json {
        serde_json::to_string_pretty(&outcome)?
    } else {
        format!(
            "{}: tenant {}, {} bytes, commit {}, {:.1} s",
            outcome.tenant, outcome.id, outcome.bytes, outcome.commit, outcome.seconds
        )
    };
    // What cannot be printed does not make it fail: the tenant is there.
    let _ = writeln!(io::stdout(), "{report}");
    Ok(())
}

async fn restore(args: &Args) -> Result<Outcome, Error> {
    let began = Instant::now();
    let name = if args.from == DASH { "standard input" } else { &args.from };
    let mut source: Box<dyn Read> = match args.from.as_str() {
        DASH => Box::new(io::stdin()),
        path => Box::new(File::open(path).map_err(|error| format!("{name}: {error}"))?),
    };
    let (checked, head) = beginning(name, &mut source)?;
    // The server is told the name before the data: what it refuses for that is not sent in vain.
    let of_backup = checked.description().map(|description| description.name.clone());
    let tenant = args.tenant.clone().or(of_backup);
    let client = connect(&args.url).await?;
    let bar = if args.json { ProgressBar::hidden() } else { progress_bar("restoring")? };
    let statement = statement(tenant.as_deref(), &args.with);
    let sent = send(&client, &statement, name, checked, head, &mut source, &bar).await;
    if sent.is_err() {
        // Answered when nothing is left of the tenant; why it was not made is known.
        let _ = client.simple_query("").await;
    }
    let (bytes, reader, description) = sent?;
    bar.finish_and_clear();
    let tenant = args.tenant.clone().unwrap_or_else(|| description.name.clone());
    let id = id_of(&client, &tenant).await?;
    Ok(Outcome {
        tenant,
        id,
        backup_of: description.name,
        bytes,
        commit: reader.root().commit.0,
        taken_at_us: description.taken_at,
        seconds: began.elapsed().as_secs_f64(),
    })
}

/// Reads until the backup has said what it is of, or ends; what was read.
fn beginning(name: &str, source: &mut dyn Read) -> Result<(Checked, Vec<u8>), Error> {
    let (mut checked, mut head) = (Checked::new(name), Vec::new());
    let mut piece = vec![0; PIECE_LEN];
    while checked.description().is_none() {
        let n = source.read(&mut piece).map_err(|error| format!("{name}: {error}"))?;
        if n == 0 {
            break;
        }
        checked.push(&piece[..n])?;
        head.extend_from_slice(&piece[..n]);
    }
    Ok((checked, head))
}

/// Sends the backup to its end; how long it is, and what it says of itself. Left by an error, the server is told that the
/// data end early.
async fn send(
    client: &tokio_postgres::Client,
    statement: &str,
    name: &str,
    mut checked: Checked,
    head: Vec<u8>,
    source: &mut dyn Read,
    bar: &ProgressBar,
) -> Result<(u64, ImageReader, Description), Error> {
    let mut sink = std::pin::pin!(client.copy_in::<_, Bytes>(statement).await?);
    sink.send(Bytes::from(head)).await?;
    let mut piece = vec![0; PIECE_LEN];
    loop {
        let n = source.read(&mut piece).map_err(|error| format!("{name}: {error}"))?;
        if n == 0 {
            break;
        }
        checked.push(&piece[..n])?;
        sink.send(Bytes::copy_from_slice(&piece[..n])).await?;
        bar.set_length(checked.total().unwrap_or(0));
        bar.set_position(checked.bytes());
    }
    let bytes = checked.bytes();
    let (reader, description) = checked.finish()?;
    sink.finish().await?;
    Ok((bytes, reader, description))
}

fn statement(tenant: Option<&str>, with: &[(String, String)]) -> String {
    let name = tenant.map_or_else(String::new, |name| format!("{} ", quoted(name)));
    let options: Vec<String> = with
        .iter()
        .map(|(key, value)| format!("{} = '{}'", quoted(key), value.replace('\'', "''")))
        .collect();
    let with = if options.is_empty() { String::new() } else { format!(" WITH ({})", options.join(", ")) };
    format!("RESTORE TENANT {name}FROM STDIN{with}")
}

async fn id_of(client: &tokio_postgres::Client, tenant: &str) -> Result<u64, Error> {
    for message in client.simple_query("SHOW TENANTS").await? {
        if let SimpleQueryMessage::Row(row) = message
            && row.get("name") == Some(tenant)
        {
            return Ok(row.get("id").ok_or("SHOW TENANTS has no id")?.parse()?);
        }
    }
    Err(format!("the tenant \"{tenant}\" was made and is gone again").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_options_are_quoted() {
        let args = [
            "restore",
            "--url",
            "x",
            "--from",
            "f",
            "--tenant",
            "a\"b",
            "--with",
            "cpu=2",
            "--with",
            "memory=it's",
        ];
        let args = Args::try_parse_from(args).expect("good arguments");
        assert_eq!(
            statement(args.tenant.as_deref(), &args.with),
            r#"RESTORE TENANT "a""b" FROM STDIN WITH ("cpu" = '2', "memory" = 'it''s')"#
        );
        let args = Args::try_parse_from(["restore", "--url", "x", "--from", "f"]).expect("good arguments");
        assert_eq!(statement(args.tenant.as_deref(), &args.with), "RESTORE TENANT FROM STDIN");
    }
}
