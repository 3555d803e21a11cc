//! How a population is sent: by COPY in text form, with the rows sent so far told to whoever waits.

use futures::SinkExt as _;
use tokio_postgres::Client;

use crate::Result;

/// Called with the rows sent so far and their total.
pub type Progress<'a> = &'a mut (dyn FnMut(u64, u64) + Send);

/// Text sent to the server at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// A load under way: one COPY after the other.
pub(crate) struct Loader<'a> {
    client: &'a Client,
    sent: u64,
    /// As expected; grows with `sent` if that is more.
    total: u64,
    progress: Progress<'a>,
}

impl<'a> Loader<'a> {
    /// A load of some `total` rows.
    pub(crate) fn new(client: &'a Client, total: u64, progress: Progress<'a>) -> Loader<'a> {
        Loader { client, sent: 0, total, progress }
    }

    /// Begins a COPY into a table. `columns` are in parentheses, or empty for all of them.
    pub(crate) async fn copy<'l>(&'l mut self, table: &str, columns: &str) -> Result<Copy<'l, 'a>> {
        let sink = Box::pin(self.client.copy_in(&format!("copy {table} {columns} from stdin")).await?);
        Ok(Copy { loader: self, sink, text: String::with_capacity(CHUNK_BYTES + 1024), unsent: 0 })
    }
}

/// One COPY under way. Rows are appended to `text`, fields with tabs between them; none may hold a tab, a line's end or a
/// backslash but for `\N`.
pub(crate) struct Copy<'l, 'a> {
    loader: &'l mut Loader<'a>,
    sink: std::pin::Pin<Box<tokio_postgres::CopyInSink<bytes::Bytes>>>,
    pub(crate) text: String,
    unsent: u64,
}

impl Copy<'_, '_> {
    /// Ends the row whose text was appended.
    pub(crate) async fn end_row(&mut self) -> Result<()> {
        self.text.push('\n');
        self.unsent += 1;
        if self.text.len() >= CHUNK_BYTES { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<()> {
        let text = std::mem::replace(&mut self.text, String::with_capacity(CHUNK_BYTES + 1024));
        self.sink.send(text.into()).await?;
        let loader = &mut *self.loader;
        loader.sent += std::mem::take(&mut self.unsent);
        loader.total = loader.total.max(loader.sent);
        (loader.progress)(loader.sent, loader.total);
        Ok(())
    }

    /// Ends the COPY: after `Ok` its rows are committed.
    pub(crate) async fn finish(mut self) -> Result<()> {
        self.flush().await?;
        self.sink.as_mut().finish().await?;
        Ok(())
    }
}
