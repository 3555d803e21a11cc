//! What a tenant's statements took, by their normal texts: a table of few of them, whatever many there are.
//!
//! A tenant has the counts of [`TENANT_MAX`] texts at most, and all tenants together of [`SERVER_MAX`]. One more, and those of the texts that were
//! used least are dropped: a sixteenth of the tenant's, or a quarter of each of the largest tables where the server's are too many. A text's use is
//! how long its statements took, of which a 64th is forgotten each time: what was heavy last month goes before what is now. What is dropped is added
//! up ([`StatementsShown`]), so that sums over a tenant's statements are right. Of a tenant none of whose statements ran there is an empty table.
//!
//! Statements add to counts they hold ([`StatementCounts`]), without the table. Its lock is taken at a text's first run in a session (at each
//! run of a simple Query) for a look-up, and by who reads for one pointer.

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustc_hash::FxHashSet;
use sql::session::{StatementCounts, StatementFigures};

/// Some 200 KiB as texts usually are, and 1.2 MiB at the longest.
const TENANT_MAX: usize = 500;
/// Some 20 MiB as texts usually are, and 120 MiB at the longest.
const SERVER_MAX: usize = 50_000;
/// Of a tenant's texts too many, one in so many goes.
const DROPPED_SHARE: usize = 16;
/// Of the largest table's where the server's are too many.
const DROPPED_SHARE_OF_LARGEST: usize = 4;
/// One in so many of all goes then, at least: a look at the tables of all tenants makes room for that many texts.
const MADE_SHARE: usize = 256;
/// One in so many of a text's use is forgotten whenever some are dropped.
const FORGOTTEN_SHARE: u64 = 64;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Room for the counts of all tenants' statements.
pub(crate) struct StatementRoom {
    max: usize,
    tenant_max: usize,
    taken: AtomicUsize,
    /// Those that ever had any counts.
    tables: Mutex<Vec<Weak<StatementTable>>>,
}

impl Default for StatementRoom {
    fn default() -> StatementRoom {
        StatementRoom::new(SERVER_MAX, TENANT_MAX)
    }
}

impl StatementRoom {
    fn new(max: usize, tenant_max: usize) -> StatementRoom {
        StatementRoom { max, tenant_max, taken: AtomicUsize::new(0), tables: Mutex::default() }
    }

    fn take(&self) -> bool {
        let one_more = |taken| (taken < self.max).then_some(taken + 1);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    fn give_back(&self, count: usize) {
        let before = self.taken.fetch_sub(count, Ordering::Relaxed);
        assert!(before >= count, "what is given back was taken");
    }

    /// Has the largest tables drop some if all room is taken. The caller holds no table's lock.
    fn make(&self) {
        let wanted = (self.max / MADE_SHARE).max(1);
        while self.taken.load(Ordering::Relaxed) >= self.max {
            let mut made = 0;
            for table in self.largest(wanted) {
                made += table.drop_least(DROPPED_SHARE_OF_LARGEST);
                if made >= wanted {
                    break;
                }
            }
            if made == 0 {
                return;
            }
        }
    }

    /// So many tables, the largest first.
    fn largest(&self, count: usize) -> Vec<Arc<StatementTable>> {
        let mut found: Vec<(Reverse<usize>, Arc<StatementTable>)> = {
            let mut tables = lock(&self.tables);
            tables.retain(|table| table.strong_count() > 0);
            let with_len = |table: Arc<StatementTable>| (Reverse(table.len.load(Ordering::Relaxed)), table);
            tables.iter().filter_map(Weak::upgrade).map(with_len).collect()
        };
        if found.len() > count {
            found.select_nth_unstable_by_key(count, |(len, _)| *len);
            found.truncate(count);
        }
        found.sort_unstable_by_key(|(len, _)| *len);
        found.into_iter().map(|(_, table)| table).collect()
    }
}

/// The counts of one tenant's statements. From any thread.
pub(crate) struct StatementTable {
    room: Arc<StatementRoom>,
    is_known: AtomicBool,
    /// Texts in it, for [`StatementRoom`].
    len: AtomicUsize,
    inner: Mutex<Option<Box<Inner>>>,
}

#[derive(Default)]
struct Inner {
    by_text: FxHashSet<ByText>,
    /// The same; copied if somebody reads it while it changes.
    all: Arc<Vec<Arc<StatementCounts>>>,
    /// Of the text at the same place in `all`.
    uses: Vec<Use>,
    /// What statements took whose counts were dropped.
    others: StatementFigures,
    dropped: u64,
    /// When it was reset, in microseconds since 2000-01-01 UTC.
    reset: Option<i64>,
}

/// How much a text is used, in nanoseconds.
#[derive(Clone, Copy, Default)]
struct Use {
    amount: u64,
    /// How long its statements had taken when that was last looked at.
    time: u64,
}

struct ByText(Arc<StatementCounts>);

impl Borrow<str> for ByText {
    fn borrow(&self) -> &str {
        self.0.text()
    }
}
impl Hash for ByText {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.text().hash(state);
    }
}
impl PartialEq for ByText {
    fn eq(&self, other: &ByText) -> bool {
        self.0.text() == other.0.text()
    }
}
impl Eq for ByText {}

/// One text's counts as they were at one instant.
pub(crate) struct StatementShown {
    counts: Arc<StatementCounts>,
    pub(crate) figures: StatementFigures,
}

impl StatementShown {
    /// The normal text: without literals.
    pub(crate) fn text(&self) -> &str {
        self.counts.text()
    }
}

/// What a tenant's statements took.
#[derive(Default)]
pub(crate) struct StatementsShown {
    /// Of each text that is in the table, in no order.
    pub(crate) texts: Vec<StatementShown>,
    /// Of those that were dropped from it.
    pub(crate) others: StatementFigures,
    /// How often a text was dropped.
    pub(crate) dropped: u64,
    /// When counting began: at a reset, else when the first statement that was counted began, in microseconds since 2000-01-01 UTC.
    pub(crate) since: Option<i64>,
}

impl Inner {
    fn find(&self, text: &str) -> Option<Arc<StatementCounts>> {
        self.by_text.get(text).map(|found| found.0.clone())
    }

    fn insert(&mut self, counts: Arc<StatementCounts>) {
        counts.set_dropped(false);
        Arc::make_mut(&mut self.all).push(counts.clone());
        self.uses.push(Use { amount: 0, time: counts.time().0 });
        let is_new = self.by_text.insert(ByText(counts));
        assert!(is_new && self.by_text.len() == self.all.len(), "a text is in the table once");
    }

    /// Takes a text's counts out of use.
    fn note_dropped(&mut self, counts: &StatementCounts) {
        // First the mark, then what was counted: who looked before the mark may still add, to be found when the text is used again.
        counts.set_dropped(true);
        self.others += counts.take();
        self.dropped += 1;
    }

    /// Drops one in `share` of the texts, those that were used least; how many. At least one if there is any.
    fn drop_least(&mut self, share: usize) -> usize {
        let count = self.all.len();
        let mut order: Vec<(u64, i64, usize)> = Vec::with_capacity(count);
        for (at, (counts, used)) in self.all.iter().zip(&mut self.uses).enumerate() {
            let time = counts.time().0;
            used.amount -= used.amount / FORGOTTEN_SHARE;
            used.amount += time.saturating_sub(std::mem::replace(&mut used.time, time));
            order.push((used.amount, counts.figures().last_seen, at));
        }
        let dropped = count.div_ceil(share);
        order.sort_unstable();
        let mut goes = vec![false; count];
        order[..dropped].iter().for_each(|(_, _, at)| goes[*at] = true);
        let (all, uses) = (std::mem::take(&mut self.all), std::mem::take(&mut self.uses));
        let mut kept = Vec::with_capacity(count);
        for (at, counts) in all.iter().enumerate() {
            if goes[at] {
                self.by_text.remove(counts.text());
                self.note_dropped(counts);
            } else {
                kept.push(counts.clone());
                self.uses.push(uses[at]);
            }
        }
        self.all = Arc::new(kept);
        assert_eq!(self.by_text.len(), self.all.len(), "a text is in the table once");
        dropped
    }
}

impl StatementTable {
    pub(crate) fn new(room: &Arc<StatementRoom>) -> Arc<StatementTable> {
        Arc::new(StatementTable {
            room: room.clone(),
            is_known: AtomicBool::new(false),
            len: AtomicUsize::new(0),
            inner: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<Inner>>> {
        lock(&self.inner)
    }

    /// The counts of statements with this normal text.
    pub(crate) fn counts(self: &Arc<StatementTable>, text: &str) -> Arc<StatementCounts> {
        self.enter(text, || Arc::new(StatementCounts::new(text)))
    }

    /// The counts of statements whose counts were dropped: the same ones, unless there are others by now.
    pub(crate) fn counts_again(
        self: &Arc<StatementTable>,
        dropped: &Arc<StatementCounts>,
    ) -> Arc<StatementCounts> {
        self.enter(dropped.text(), || dropped.clone())
    }

    fn enter(
        self: &Arc<StatementTable>,
        text: &str,
        make: impl FnOnce() -> Arc<StatementCounts>,
    ) -> Arc<StatementCounts> {
        if let Some(found) = self.lock().as_ref().and_then(|inner| inner.find(text)) {
            return found;
        }
        if !self.is_known.swap(true, Ordering::Relaxed) {
            lock(&self.room.tables).push(Arc::downgrade(self));
        }
        if self.len.load(Ordering::Relaxed) >= self.room.tenant_max {
            self.drop_least(DROPPED_SHARE);
        }
        self.room.make();
        let mut inner = self.lock();
        let inner = inner.get_or_insert_default();
        if let Some(found) = inner.find(text) {
            return found;
        }
        let counts = make();
        if self.room.take() {
            inner.insert(counts.clone());
            self.len.store(inner.all.len(), Ordering::Relaxed);
        } else {
            // Others took the room meanwhile. Marked so, it asks again at its next use.
            inner.note_dropped(&counts);
        }
        counts
    }

    fn drop_least(&self, share: usize) -> usize {
        let mut inner = self.lock();
        let Some(inner) = inner.as_mut() else { return 0 };
        let dropped = inner.drop_least(share);
        self.len.store(inner.all.len(), Ordering::Relaxed);
        self.room.give_back(dropped);
        dropped
    }

    /// Counts from nothing again, at this time in microseconds since 2000-01-01 UTC.
    pub(crate) fn reset(&self, at: i64) {
        let mut inner = self.lock();
        let inner = inner.get_or_insert_default();
        let before = std::mem::take(&mut **inner);
        for counts in before.all.iter() {
            counts.set_dropped(true);
            counts.take();
        }
        inner.reset = Some(at);
        self.len.store(0, Ordering::Relaxed);
        self.room.give_back(before.all.len());
    }

    /// What they took.
    pub(crate) fn show(&self) -> StatementsShown {
        let (all, others, dropped, reset) = match &*self.lock() {
            Some(inner) => (inner.all.clone(), inner.others, inner.dropped, inner.reset),
            None => return StatementsShown::default(),
        };
        let shown = |counts: &Arc<StatementCounts>| StatementShown {
            counts: counts.clone(),
            figures: counts.figures(),
        };
        // One that runs for the first time was not called yet.
        let texts: Vec<_> = all.iter().map(shown).filter(|shown| shown.figures.calls > 0).collect();
        let figures = texts.iter().map(|text| &text.figures).chain([&others]);
        let first = || figures.filter(|figures| figures.calls > 0).map(|figures| figures.first_seen).min();
        let since = reset.or_else(first);
        StatementsShown { texts, others, dropped, since }
    }
}

impl Drop for StatementTable {
    fn drop(&mut self) {
        self.room.give_back(*self.len.get_mut());
    }
}

#[cfg(test)]
mod tests;
