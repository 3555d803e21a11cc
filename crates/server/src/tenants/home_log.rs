//! The log of a tenant's home, with positions that go on when the tenant moves to a worker of another log.
//!
//! A position is kept by whoever read or wrote something that was not durable: the tenant, its transactions, its sessions. When the tenant moves all of
//! that is durable (decision 17), so positions through that of the move are, whatever the other log's own are; what was lost when a log failed stays lost. Those of the other log are raised by as much
//! as it takes to come behind them.

use base::Lsn;
use storage::redo::{LogFailed, LogWriter};

/// Clones are of the same log.
#[derive(Clone)]
pub(super) struct HomeLog {
    writer: LogWriter,
    /// What is added to the log's own positions.
    raised_by: u64,
    /// The position of the move to this log: what was appended before is durable, or lost.
    since: Lsn,
    /// Where the log itself was then.
    arrived_at: Lsn,
    /// The last position of this tenant that is lost, of the logs before this one, and why.
    lost: Option<(Lsn, LogFailed)>,
}

/// A position that no log has: of what was appended after its log had failed.
const NOWHERE: Lsn = Lsn(u64::MAX);

impl HomeLog {
    /// The first log of a tenant of this start.
    pub(super) fn new(writer: LogWriter) -> HomeLog {
        HomeLog { writer, raised_by: 0, since: Lsn(0), arrived_at: Lsn(0), lost: None }
    }

    /// The log that the tenant goes on in, once this one is durable through all of the tenant's records.
    pub(super) fn moved_to(&self, writer: LogWriter) -> HomeLog {
        // Not what the tenant has appended, but at least that: nobody has a position beyond it.
        let since = self.appended();
        let arrived_at = writer.durable();
        let raised_by = since.0.saturating_sub(arrived_at.0);
        let lost = self.newest_loss().or_else(|| self.lost.clone());
        HomeLog { writer, raised_by, since, arrived_at, lost }
    }

    /// What the log lost while the tenant was here: everybody who had a position of the tenant then belongs to an opening that is gone.
    fn newest_loss(&self) -> Option<(Lsn, LogFailed)> {
        let (through, failed) = self.writer.newest_loss()?;
        (through > self.arrived_at).then(|| (self.position(through), failed))
    }

    /// For what has no position: admission, failures, parts of long records, giving records up.
    pub(super) fn writer(&self) -> &LogWriter {
        &self.writer
    }

    /// The tenant's position for one of the log's own.
    pub(super) fn position(&self, of_log: Lsn) -> Lsn {
        if of_log == NOWHERE { NOWHERE } else { Lsn(of_log.0 + self.raised_by) }
    }

    /// The end of what was appended.
    pub(super) fn appended(&self) -> Lsn {
        self.position(self.writer.appended())
    }

    /// The end of what survives power loss.
    pub(super) fn durable(&self) -> Lsn {
        self.position(self.writer.durable())
    }

    /// Waits until everything before `position` survives power loss.
    ///
    /// # Errors
    /// The log failed before.
    pub(super) async fn wait_durable(&self, position: Lsn) -> Result<(), LogFailed> {
        let failed = self.lost.as_ref().filter(|(through, _)| position <= *through || position == NOWHERE);
        if let Some((_, failed)) = failed {
            return Err(failed.clone());
        }
        if position <= self.since {
            return Ok(());
        }
        let of_log = if position == NOWHERE { NOWHERE } else { Lsn(position.0 - self.raised_by) };
        self.writer.wait_durable(of_log).await
    }

    /// Whether both are of one stay of the tenant at one home.
    pub(super) fn is_same(&self, other: &HomeLog) -> bool {
        self.writer.is_same(&other.writer) && self.since == other.since
    }
}
