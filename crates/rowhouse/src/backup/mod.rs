//! `rowhouse backup` and `rowhouse restore`: a tenant's image from a running server into a file, and back.
//!
//! Both speak to the server as its administrator; the server makes and checks the image, the client checks every slot of
//! it again on its way (`checked`), so that a file that was written is a file that can be restored.

mod checked;
mod restore;
mod save;

pub(crate) use checked::check_file;
pub(crate) use restore::{Args as RestoreArgs, run as run_restore};
pub(crate) use save::{Args as BackupArgs, run as run_backup};

use base::limits::IDENTIFIER_LEN_MAX;
use indicatif::{ProgressBar, ProgressStyle};
use tokio_postgres::Client;
use workloads::Error;
use workloads::target::Target;

/// Stands for standard input or output.
const DASH: &str = "-";

/// A tenant's name as an argument. SQL would cut a longer one, and mean another tenant.
fn tenant_name(text: &str) -> Result<String, String> {
    let has_length = (1..=IDENTIFIER_LEN_MAX).contains(&text.len());
    if has_length { Ok(text.to_owned()) } else { Err(format!("not of 1 to {IDENTIFIER_LEN_MAX} bytes")) }
}

/// `name` as a quoted SQL identifier.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Bytes of an image on standard error; hidden where that is no terminal.
fn progress_bar(doing: &'static str) -> Result<ProgressBar, Error> {
    let style = "{msg} [{bar:40}] {bytes}/{total_bytes}, {bytes_per_sec}, {eta} left";
    Ok(ProgressBar::new(0).with_style(ProgressStyle::with_template(style)?).with_message(doing))
}

/// A session of the administrator's. No timeout that others of his begin with ends it: a tenant takes the time it takes.
async fn connect(url: &str) -> Result<Client, Error> {
    let client = Target::new(url, None)?.connect_admin().await?;
    client.batch_execute("SET statement_timeout = 0").await?;
    Ok(client)
}

/// Runs a command's future on a runtime of its own.
pub(crate) fn block_on<T>(command: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(command)
}
