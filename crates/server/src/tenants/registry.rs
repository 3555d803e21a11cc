//! Tenants by name and by id.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::TenantId;
use governor::{Promise, PromiseOptions};
use rustc_hash::FxHashMap;

use super::reserved::{Part, Reserved, ReservedSums};
use super::{Home, SYSTEM_DATABASE, SYSTEM_TENANT};

/// What a tenant's row in the catalogue says.
#[derive(Clone, Debug)]
pub(crate) struct TenantRow {
    pub(crate) name: String,
    pub(crate) volume: String,
    /// The size it has, if any.
    pub(crate) size: Option<String>,
    /// What it was given by hand.
    pub(crate) options: PromiseOptions,
    /// What is in force: what it was given by hand over what its size says. Not in the catalogue.
    pub(crate) promise: Promise,
}

/// One tenant, open or not.
pub(crate) struct Entry {
    pub(crate) id: TenantId,
    pub(crate) home: Arc<Home>,
    kept: Mutex<Kept>,
}

struct Kept {
    row: TenantRow,
    /// Where what it has reserved is counted; `None` while it is not registered.
    counted_in: Option<Arc<ReservedSums>>,
}

impl Entry {
    pub(crate) fn new(id: TenantId, home: Arc<Home>, row: TenantRow) -> Arc<Entry> {
        home.set_promise(&row.promise);
        Arc::new(Entry { id, home, kept: Mutex::new(Kept { row, counted_in: None }) })
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn row(&self) -> TenantRow {
        self.lock().row.clone()
    }

    /// What it adds to the sums of all tenants.
    fn part(&self, promise: &Promise) -> Part {
        Part::of(promise, self.id == TenantId::SYSTEM, self.home.volumes())
    }

    /// Counts what it has reserved, from now on and whenever that changes.
    fn count_in(&self, sums: &Arc<ReservedSums>) {
        let mut kept = self.lock();
        let before = kept.counted_in.replace(sums.clone());
        assert!(before.is_none(), "a tenant is registered once");
        sums.exchange(None, Some(self.part(&kept.row.promise)));
    }

    /// Counts it no more: who still has it and changes it changes no sums.
    fn count_out(&self) {
        let mut kept = self.lock();
        if let Some(sums) = kept.counted_in.take() {
            sums.exchange(Some(self.part(&kept.row.promise)), None);
        }
    }

    /// Changes its row and puts what it promises in force. For who may change it, see [`super::claims`].
    pub(super) fn change_row(&self, change: impl FnOnce(&mut TenantRow)) {
        let mut kept = self.lock();
        let before = kept.row.promise.clone();
        change(&mut kept.row);
        // One that was dropped meanwhile is promised nothing any more: nobody would take it back.
        let Some(sums) = &kept.counted_in else { return };
        let after = &kept.row.promise;
        self.home.set_promise(after);
        sums.exchange(Some(self.part(&before)), Some(self.part(after)));
        if after.cpu.reserved != before.cpu.reserved
            && let Some(shared) = self.home.shared_if_running()
        {
            shared.placement.ask();
        }
    }

    /// Looks at its row without a copy.
    pub(crate) fn with_row<T>(&self, look: impl FnOnce(&TenantRow) -> T) -> T {
        look(&self.lock().row)
    }
}

#[derive(Default)]
struct Inner {
    /// By the database that clients name: the tenant's name, but for the server's own.
    by_database: FxHashMap<String, Arc<Entry>>,
    by_id: FxHashMap<TenantId, Arc<Entry>>,
    next_id: u64,
    /// Counts changes of names.
    version: u64,
}

/// Every tenant's name, as they were at one instant.
#[derive(Default)]
pub(crate) struct Names {
    by_id: FxHashMap<TenantId, String>,
    version: u64,
}

impl Names {
    pub(crate) fn get(&self, tenant: TenantId) -> Option<&str> {
        self.by_id.get(&tenant).map(String::as_str)
    }
}

/// All tenants. Readable from any thread.
#[derive(Default)]
pub(crate) struct Tenants {
    inner: Mutex<Inner>,
    reserved: Arc<ReservedSums>,
}

impl Tenants {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tenant whose database has this name.
    pub(crate) fn find(&self, database: &str) -> Option<Arc<Entry>> {
        self.lock().by_database.get(database).cloned()
    }

    /// The tenant of this name; `system` is the server's own, unless a tenant from before that name was the server's has it.
    pub(crate) fn named(&self, name: &str) -> Option<Arc<Entry>> {
        let inner = self.lock();
        let own = || inner.by_id.get(&TenantId::SYSTEM).filter(|_| name == SYSTEM_TENANT);
        inner.by_database.get(name).or_else(own).cloned()
    }

    pub(crate) fn get(&self, id: TenantId) -> Option<Arc<Entry>> {
        self.lock().by_id.get(&id).cloned()
    }

    /// All tenants.
    pub(crate) fn entries(&self) -> Vec<Arc<Entry>> {
        self.lock().by_id.values().cloned().collect()
    }

    /// All tenants by name.
    pub(crate) fn list(&self) -> Vec<(String, Arc<Entry>)> {
        let named = |entry: Arc<Entry>| (entry.with_row(|row| row.name.clone()), entry);
        let mut list: Vec<_> = self.entries().into_iter().map(named).collect();
        list.sort_by(|a, b| a.0.cmp(&b.0));
        list
    }

    /// The names of all databases, in order.
    pub(crate) fn databases(&self) -> Vec<String> {
        let mut names: Vec<_> = self.lock().by_database.keys().cloned().collect();
        names.sort();
        names
    }

    /// The names as they are now: `known` again if none has changed since.
    pub(crate) fn names_by_id(&self, known: &Arc<Names>) -> Arc<Names> {
        let inner = self.lock();
        if inner.version == known.version {
            return known.clone();
        }
        let name = |entry: &Arc<Entry>| entry.with_row(|row| row.name.clone());
        let by_id = inner.by_id.iter().map(|(id, entry)| (*id, name(entry))).collect();
        Arc::new(Names { by_id, version: inner.version })
    }

    /// How often tenants came, went or were renamed.
    pub(crate) fn version(&self) -> u64 {
        self.lock().version
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().by_id.len()
    }

    /// What all tenants have reserved together. Takes no longer for many of them than for few.
    pub(crate) fn reserved(&self) -> Reserved {
        self.reserved.get()
    }

    pub(crate) fn insert(&self, entry: Arc<Entry>) {
        let database = match entry.id {
            TenantId::SYSTEM => SYSTEM_DATABASE.to_owned(),
            _ => entry.row().name,
        };
        let mut inner = self.lock();
        inner.version += 1;
        entry.count_in(&self.reserved);
        inner.by_id.insert(entry.id, entry.clone());
        let before = inner.by_database.insert(database, entry);
        assert!(before.is_none(), "a tenant's name is unique");
    }

    pub(crate) fn rename(&self, entry: &Arc<Entry>, to: &str) {
        assert_ne!(entry.id, TenantId::SYSTEM, "the server's own tenant keeps its name");
        let mut inner = self.lock();
        inner.version += 1;
        inner.by_database.remove(&entry.row().name);
        inner.by_database.insert(to.to_owned(), entry.clone());
        entry.change_row(|row| to.clone_into(&mut row.name));
    }

    pub(crate) fn remove(&self, entry: &Entry) {
        assert_ne!(entry.id, TenantId::SYSTEM, "the server's own tenant stays");
        let mut inner = self.lock();
        inner.version += 1;
        inner.by_database.remove(&entry.row().name);
        inner.by_id.remove(&entry.id);
        entry.count_out();
    }

    /// Ids at or below this were given out in earlier starts.
    pub(crate) fn set_last_id(&self, last: u64) {
        let mut inner = self.lock();
        inner.next_id = inner.next_id.max(last + 1).max(TenantId::FIRST_USER.0);
    }

    /// An id never given out before.
    pub(crate) fn new_id(&self) -> TenantId {
        let mut inner = self.lock();
        let id = inner.next_id.max(TenantId::FIRST_USER.0);
        inner.next_id = id + 1;
        TenantId(id)
    }
}
