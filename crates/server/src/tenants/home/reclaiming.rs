//! Giving the pages of dropped tables and indexes back, a few in each turn.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use base::{Nanos, TreeId};
use tenant::{Interrupt, PageRequest, Tenant};

use super::{Home, Redo};
use crate::executor::yield_now;

/// Pages of dropped trees released in one turn.
const RECLAIM_PAGES_A_TURN: usize = 256;

/// What came of a step of giving pages back.
enum Reclaim {
    Done,
    More,
    /// A page of this tree has to be read first.
    Page(TreeId, PageRequest),
}

/// Whether there is more, and what is to be read first.
fn step_of(tenant: &mut Tenant) -> Result<(bool, Option<(TreeId, PageRequest)>), Interrupt> {
    match tenant.reclaim(RECLAIM_PAGES_A_TURN) {
        Err(Interrupt::Miss(page)) => {
            let tree = tenant.next_to_reclaim().expect("it misses a page");
            let request = tenant.page_to_reclaim(page).map_err(Interrupt::Error);
            request.map(|request| (true, request.map(|request| (tree, request))))
        }
        other => other.map(|more| (more, None)),
    }
}

impl Home {
    /// Gives some pages of dropped trees back; true if there are more for [`Home::reclaim`]. At home only.
    pub(in crate::tenants) fn reclaim_some(&self) -> bool {
        !matches!(self.reclaim_step(), Reclaim::Done)
    }

    /// About how many pages were given back since the last checkpoint began.
    pub(in crate::tenants) fn given_back(&self) -> u64 {
        self.with_tenant(|tenant| tenant.given_back()).unwrap_or(0)
    }

    /// Gives the pages of dropped trees back, a few in each turn, reading those that are not in memory, until the instant `until`; true if all are.
    pub(crate) async fn reclaim(self: &Arc<Home>, until: Nanos) -> bool {
        loop {
            match self.reclaim_step() {
                Reclaim::Done => return true,
                _ if env::now() >= until => return false,
                Reclaim::More => yield_now().await,
                Reclaim::Page(tree, request) => {
                    if self.load_page(request).await.is_err() {
                        self.with_tenant(|tenant| tenant.reclaim_failed(tree));
                    }
                }
            }
        }
    }

    fn reclaim_step(&self) -> Reclaim {
        let step = self.cell.with(|state| {
            let Some(tenant) = &mut state.tenant else { return Ok((false, None)) };
            catch_unwind(AssertUnwindSafe(|| step_of(tenant))).unwrap_or_else(|panic| {
                // Nobody can vouch for its live pages.
                self.lose(state, Redo::Newest);
                resume_unwind(panic)
            })
        });
        match step {
            Ok((false, _)) => Reclaim::Done,
            Ok((true, None)) => Reclaim::More,
            Ok((true, Some((tree, request)))) => Reclaim::Page(tree, request),
            Err(interrupt) => {
                let error = interrupt.into_error().expect("releasing pages waits for nobody");
                tracing::error!(
                    tenant = self.id.0, %error,
                    "a dropped table or index has a damaged page: its space is kept until `rowhouse repair`"
                );
                Reclaim::More
            }
        }
    }
}
