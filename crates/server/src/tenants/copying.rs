//! The image of a tenant, piece by piece, for a backup or another tenant, while the tenant goes on working.
//!
//! Made by a task of the tenant at its home, so the tenant is charged for it; a bounded channel brings the pieces to whoever
//! wants them, on any worker, and stops the task while they are not taken. What the tenant changes meanwhile is kept twice
//! in memory until the image is made.

use std::pin::pin;
use std::sync::Arc;

use base::{Nanos, SqlError, SqlResult};
use env::IoBuf;
use futures::SinkExt;
use futures::channel::mpsc;
use futures::future::{Either, select};
use futures::stream::StreamExt;
use tenant::Description;

use super::home::Copying;
use super::{Home, Subject, file_failed, statements};
use crate::shared::Shared;

/// Pieces made and not taken: 1 MiB.
const PIECES_MAX: usize = 4;

/// How often a copy that waits for its piece to be taken looks whether it may stay.
const LOOK_INTERVAL: Nanos = Nanos::from_secs(1);

/// What the task says: a piece, or `None` behind the last one.
type Said = SqlResult<Option<IoBuf>>;

/// The pieces of an image. Dropping it ends the image's making.
pub(crate) struct Pieces(mpsc::Receiver<Said>);

impl Pieces {
    /// The next piece, whole slots; `None` after the last one. The first one comes when the log is durable through all
    /// that is in the image.
    ///
    /// # Errors
    /// The tenant cannot be opened, a page cannot be read; 72000 where what the copy keeps took the tenant over its `storage_max`.
    pub(crate) async fn next(&mut self) -> SqlResult<Option<IoBuf>> {
        let unfinished = || Err(SqlError::internal("a copy of the tenant did not finish"));
        self.0.next().await.unwrap_or_else(unfinished)
    }
}

/// Begins an image of the tenant `name`: its state at a moment after the call.
///
/// # Errors
/// 3D000; 55006 while another session changes the tenant.
pub(crate) fn begin(shared: &Arc<Shared>, name: &str) -> SqlResult<Pieces> {
    let _claim = shared.claims.change(Subject::Tenant(name.to_owned()))?;
    let entry = statements::existing(shared, name)?;
    let row = entry.row();
    let description = Description {
        name: row.name,
        promise: row.promise.to_string(),
        taken_at: shared.env.clock.unix_micros(),
        server: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let home = entry.home.clone();
    let copying = home.begin_copying();
    let (mut to, from) = mpsc::channel(PIECES_MAX);
    let task = async move {
        if let Err(error) = send(&home, copying, &description, &mut to).await {
            // Whoever listened may be gone.
            let _ = to.send(Err(error)).await;
        }
    };
    entry.home.spawn(task).detach();
    Ok(Pieces(from))
}

async fn send(
    home: &Arc<Home>,
    copying: Copying,
    description: &Description,
    to: &mut mpsc::Sender<Said>,
) -> SqlResult<()> {
    home.open().await?;
    let (copy, wait_for) = home.with(|home| (home.tenant.begin_copy(), home.tenant.newest_pending()))?;
    let copy = copy.map_err(|error| {
        tracing::error!(tenant = home.id().0, %error, "a copy of the tenant failed");
        SqlError::new(error.state(), format!("the tenant cannot be copied: {error}"))
    })?;
    let incarnation = home.incarnation();
    home.wait_durable(wait_for).await?;
    let failed = |error: storage::FileError| {
        tracing::error!(tenant = home.id().0, %error, "a copy of the tenant failed");
        file_failed("the tenant cannot be copied", &error)
    };
    let mut image = copy.image(home.id(), Some(description)).await.map_err(failed)?;
    loop {
        let piece = image.next().await;
        // Opened anew, the tenant gives away slots that only the copy's snapshot needs.
        home.with_opening(incarnation, |_| ())?;
        copy.require_kept()?;
        let piece = piece.map_err(failed)?;
        let is_end = piece.is_none();
        let mut sending = to.send(Ok(piece));
        let sent = loop {
            match select(&mut sending, pin!(env::sleep(LOOK_INTERVAL))).await {
                Either::Left((sent, _)) => break sent,
                // Nobody takes it: what the copy keeps may be wanted back meanwhile.
                Either::Right(_) => copy.require_kept()?,
            }
        };
        if is_end || sent.is_err() {
            break;
        }
    }
    drop(image);
    // If the tenant is not another opening's by now: what the copy kept is much where it took long.
    let _ = home.with_opening(incarnation, |home| home.tenant.end_copy(copy));
    drop(copying);
    Ok(())
}

#[cfg(test)]
mod tests {
    use env::block_on;
    use env::sim::World;

    use super::*;

    #[test]
    fn a_copy_that_ends_without_a_word_is_no_whole_one() {
        block_on(&World::new(1).env(), async {
            let (mut to, from) = mpsc::channel(PIECES_MAX);
            let mut pieces = Pieces(from);
            to.send(Ok(Some(IoBuf::zeroed(8)))).await.unwrap();
            to.send(Ok(None)).await.unwrap();
            assert_eq!(pieces.next().await.unwrap().map(|piece| piece.len()), Some(8));
            assert!(pieces.next().await.unwrap().is_none());
            drop(to);
            assert!(pieces.next().await.is_err());
        });
    }
}
