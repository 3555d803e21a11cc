//! The thread that writes the minutes of the ledger that are over: a volume that stalls, the files that a start finds, a day that becomes hours keep it for seconds and more. The
//! ledger's thread waits for none of them: as long as it waits a metering interval of processor time would become, in which what was missed is made up for later.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use env::{Env, JoinHandle};
use futures::StreamExt as _;
use futures::channel::mpsc;
use governor::{Retention, RollUpBlock, WallMinute};

use super::history::{History, HistoryWriter};
use super::unwritten::Unwritten;
use crate::shared::{Shared, charged};

/// For who has minutes to be written. Dropping it waits until all that can be written is.
pub(super) struct Writing {
    inbox: Arc<Mutex<Inbox>>,
    /// Rung when there is more; `None` at the end.
    bell: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle>,
}

/// What the thread has not taken yet.
#[derive(Default)]
struct Inbox {
    ended: Unwritten,
    /// When the last of it was given, and whether the wall's clock is to be believed by then.
    now: WallMinute,
    is_clock_steady: bool,
}

fn lock(inbox: &Mutex<Inbox>) -> MutexGuard<'_, Inbox> {
    inbox.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Writing {
    /// Starts the thread, whose time is charged to the server's own tenant.
    ///
    /// # Errors
    /// No thread can be had.
    pub(super) fn start(history: History, env: &Env, shared: Weak<Shared>) -> io::Result<Writing> {
        let inbox: Arc<Mutex<Inbox>> = Arc::default();
        let (bell, rung) = mpsc::channel(0);
        let (of_thread, taken) = (env.clone(), inbox.clone());
        let body = move || {
            let writing = charged(shared, of_thread.clone(), write_all(history, taken, rung));
            env::block_on(&of_thread, writing);
        };
        let thread = env.threads.spawn("ledger-history", None, Box::new(body))?;
        Ok(Writing { inbox, bell: Some(bell), thread: Some(thread) })
    }

    /// Has what ended by `now` written, and what could not be before. `is_clock_steady`: as [`HistoryWriter::set_clock_steady`] is told.
    pub(super) fn push(&mut self, ended: RollUpBlock, now: WallMinute, is_clock_steady: bool) {
        let mut inbox = lock(&self.inbox);
        inbox.ended.push(ended, now);
        // The thread may wait for its volume for hours.
        inbox.ended.keep_within(now);
        (inbox.now, inbox.is_clock_steady) = (now, is_clock_steady);
        drop(inbox);
        if let Some(bell) = &mut self.bell {
            // One that was not heard yet is enough.
            let _ = bell.try_send(());
        }
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.bell = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn write_all(history: History, inbox: Arc<Mutex<Inbox>>, mut rung: mpsc::Receiver<()>) {
    // Reads all there is.
    let mut writer = HistoryWriter::open(history, Retention::default())
        .inspect_err(|error| {
            tracing::warn!(%error, "the ledger's history cannot be written; it is kept for an hour only");
        })
        .ok();
    let mut unwritten = Unwritten::default();
    while rung.next().await.is_some() {
        let (now, is_clock_steady) = {
            let mut inbox = lock(&inbox);
            unwritten.take_in(&mut inbox.ended);
            (inbox.now, inbox.is_clock_steady)
        };
        match &mut writer {
            Some(writer) => {
                writer.set_clock_steady(is_clock_steady);
                unwritten.write(writer, now);
            }
            None => unwritten = Unwritten::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use base::Nanos;
    use env::sim::{DiskFault, DiskOp, World};

    use super::super::history::tests::{block, rows};
    use super::*;

    const FIRST: u32 = 20_000 * 24 * 60;

    #[test]
    fn who_has_minutes_to_be_written_waits_for_the_disk_at_the_end_alone() {
        let world = World::new(1);
        let env = world.env();
        let history = History::new(env.disk.clone(), Path::new("/data"));
        let mut writing = Writing::start(history.clone(), &env, Weak::new()).expect("a thread");
        let mut end =
            |minute: u32| writing.push(block(FIRST + minute, 1), WallMinute(FIRST + minute + 1), true);
        let written = || rows(&history, None).len();
        end(0);
        assert_eq!(written(), 0, "nobody has waited yet");
        env::block_on(&env, env::sleep(Nanos::from_millis(1)));
        assert_eq!(written(), 1);
        world.inject(DiskFault::eio(DiskOp::Sync, ".rollup"));
        end(1);
        env::block_on(&env, env::sleep(Nanos::from_millis(1)));
        assert!(world.faults_struck() > 0);
        // Several at once, and what the disk did not take.
        (2..5).for_each(end);
        drop(writing);
        assert_eq!(written(), 5);
    }
}
