//! Tenants by name and by id.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{SqlError, SqlResult, SqlState, TenantId};
use governor::Promise;
use rustc_hash::{FxHashMap, FxHashSet};

use super::Home;

/// What a tenant's row in the catalogue says.
#[derive(Clone, Debug)]
pub(crate) struct TenantRow {
    pub(crate) name: String,
    pub(crate) volume: String,
    pub(crate) promise: Promise,
}

/// One tenant, open or not.
pub(crate) struct Entry {
    pub(crate) id: TenantId,
    pub(crate) home: Arc<Home>,
    row: Mutex<TenantRow>,
}

impl Entry {
    pub(crate) fn new(id: TenantId, home: Arc<Home>, row: TenantRow) -> Arc<Entry> {
        home.set_promise(&row.promise);
        Arc::new(Entry { id, home, row: Mutex::new(row) })
    }

    pub(crate) fn row(&self) -> TenantRow {
        self.row.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_row(&self, row: TenantRow) {
        self.home.set_promise(&row.promise);
        *self.row.lock().unwrap_or_else(PoisonError::into_inner) = row;
    }
}

#[derive(Default)]
struct Inner {
    by_name: FxHashMap<String, Arc<Entry>>,
    by_id: FxHashMap<TenantId, Arc<Entry>>,
    /// Names a statement is changing just now.
    busy: FxHashSet<String>,
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
pub(crate) struct Tenants(Mutex<Inner>);

impl Tenants {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn find(&self, name: &str) -> Option<Arc<Entry>> {
        self.lock().by_name.get(name).cloned()
    }

    pub(crate) fn get(&self, id: TenantId) -> Option<Arc<Entry>> {
        self.lock().by_id.get(&id).cloned()
    }

    /// All tenants by name.
    pub(crate) fn list(&self) -> Vec<(String, Arc<Entry>)> {
        let inner = self.lock();
        let mut list: Vec<_> =
            inner.by_name.iter().map(|(name, entry)| (name.clone(), entry.clone())).collect();
        drop(inner);
        list.sort_by(|a, b| a.0.cmp(&b.0));
        list
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.list().into_iter().map(|(name, _)| name).collect()
    }

    /// The names as they are now: `known` again if none has changed since.
    pub(crate) fn names_by_id(&self, known: &Arc<Names>) -> Arc<Names> {
        let inner = self.lock();
        if inner.version == known.version {
            return known.clone();
        }
        let by_id = inner.by_name.iter().map(|(name, entry)| (entry.id, name.clone())).collect();
        Arc::new(Names { by_id, version: inner.version })
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().by_name.len()
    }

    pub(crate) fn insert(&self, entry: Arc<Entry>) {
        let name = entry.row().name;
        let mut inner = self.lock();
        inner.version += 1;
        inner.by_id.insert(entry.id, entry.clone());
        let before = inner.by_name.insert(name, entry);
        assert!(before.is_none(), "a tenant's name is unique");
    }

    pub(crate) fn rename(&self, entry: &Arc<Entry>, to: &str) {
        let mut inner = self.lock();
        inner.version += 1;
        let mut row = entry.row();
        inner.by_name.remove(&row.name);
        inner.by_name.insert(to.to_owned(), entry.clone());
        row.name = to.to_owned();
        entry.set_row(row);
    }

    pub(crate) fn remove(&self, entry: &Entry) {
        let mut inner = self.lock();
        inner.version += 1;
        inner.by_name.remove(&entry.row().name);
        inner.by_id.remove(&entry.id);
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

    /// Keeps other statements off a name until the guard is dropped.
    ///
    /// # Errors
    /// 55006 when another statement is changing that tenant.
    pub(crate) fn reserve(self: &Tenants, name: &str) -> SqlResult<Reserved<'_>> {
        if !self.lock().busy.insert(name.to_owned()) {
            return Err(SqlError::new(
                SqlState::OBJECT_IN_USE,
                format!("tenant \"{name}\" is being changed by another session"),
            ));
        }
        Ok(Reserved { tenants: self, name: name.to_owned() })
    }
}

/// A name no other statement can change.
pub(crate) struct Reserved<'a> {
    tenants: &'a Tenants,
    name: String,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.tenants.lock().busy.remove(&self.name);
    }
}
