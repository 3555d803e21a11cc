//! A query of this session on an analytical thread.

use std::ops::Deref;
use std::sync::Arc;

use sql::session::{AnalyticEvent, AnalyticRequest, StatementCounts};

use super::connection::Connection;
use super::drive::Failed;
use super::watch::StatementPatience;
use crate::analytic_pool::Events;
use crate::executor::{TaskUse, Wait};

/// Output gathered before rows are sent on.
const OUTPUT_LEN_MAX: usize = 64 << 10;

/// A query's events; dropping them has what it took counted as its session's.
struct Counting {
    events: Events,
    counts: Option<Arc<StatementCounts>>,
    used: Arc<TaskUse>,
}

impl Deref for Counting {
    type Target = Events;

    fn deref(&self) -> &Events {
        &self.events
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        let taken = self.events.give_up(self.counts.take());
        self.used.add(taken.cpu, taken.io);
    }
}

impl Connection {
    /// Runs `request` and feeds its events to the session. Leaving early, by an error, an interruption or a client that
    /// hangs up, tells the thread to stop.
    pub(super) async fn analytic(
        &mut self,
        mut request: AnalyticRequest,
        patience: &StatementPatience,
    ) -> Result<(), Failed> {
        request.limits = self.home.query_limits();
        let worker = self.home.worker_for_query(&self.shared.analytic);
        let background = self.control.background.clone();
        let is_promised = self.home.has_cpu_promise();
        let events =
            self.shared.analytic.start(&worker, self.control.tenant, is_promised, request, background)?;
        let counts = self.session.running_counts().cloned();
        let events = Counting { events, counts, used: self.used.clone() };
        let outcome = self.follow(&events, patience).await;
        self.home.add_wait(Wait::Thread, events.waited_for_thread(env::now()));
        outcome
    }

    /// Feeds a query's events to the session.
    async fn follow(&mut self, events: &Counting, patience: &StatementPatience) -> Result<(), Failed> {
        let _watched = self.watch.begin_query(&patience.statement, events.meter());
        loop {
            let event = self.race_with_client(patience, events.next()).await?;
            let done = matches!(event, AnalyticEvent::Done(_));
            self.session.analytic_event(event, &mut self.output);
            if done {
                return Ok(());
            }
            if self.output.len() > OUTPUT_LEN_MAX {
                self.flush().await?;
                self.give_way().await?;
            }
            // A client that always takes what is there would never be found waiting.
            self.check(patience)?;
        }
    }
}
