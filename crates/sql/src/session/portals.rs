//! A session's portals by name. The unnamed one, which drivers use for nearly everything, is found without hashing.

use rustc_hash::FxHashMap;

use super::prepared::{Portal, Prepared, ROOM_MIN};

#[derive(Default)]
pub(super) struct Portals {
    unnamed: Option<Box<Portal>>,
    named: FxHashMap<String, Box<Portal>>,
    /// The number of the newest.
    newest: u64,
    /// What the named ones keep, but for one that is taken out.
    kept: usize,
}

impl Portals {
    pub(super) fn get(&self, name: &str) -> Option<&Portal> {
        if name.is_empty() { self.unnamed.as_deref() } else { self.named.get(name).map(|portal| &**portal) }
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Portal> {
        if name.is_empty() {
            self.unnamed.as_deref_mut()
        } else {
            self.named.get_mut(name).map(|portal| &mut **portal)
        }
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Puts a portal in the place of one of the same name.
    pub(super) fn insert(&mut self, name: &str, mut portal: Portal) {
        self.newest += 1;
        portal.number = self.newest;
        if name.is_empty()
            && let Some(place) = &mut self.unnamed
        {
            **place = portal;
            return;
        }
        self.take(name);
        self.put_back(name, Box::new(portal));
    }

    /// The one without a name, to be bound again and the newest from here on, if it is of this statement.
    pub(super) fn unnamed_of(&mut self, prepared: &Prepared) -> Option<&mut Portal> {
        let portal = self.unnamed.as_deref_mut().filter(|portal| portal.is_of(prepared))?;
        self.newest += 1;
        portal.number = self.newest;
        Some(portal)
    }

    /// Gives back the room of many that are gone.
    pub(super) fn trim(&mut self) {
        if self.named.capacity() > ROOM_MIN.max(4 * self.named.len()) {
            self.named.shrink_to_fit();
        }
    }

    /// See [`Portal::kept`].
    pub(super) fn kept(&self) -> usize {
        self.kept
    }

    /// The same with the one that has no name.
    pub(super) fn kept_in_all(&self) -> usize {
        self.kept + self.unnamed.as_ref().map_or(0, |unnamed| unnamed.kept)
    }

    /// See [`Portal::shed`]: of the one without a name.
    pub(super) fn shed(&mut self) {
        if let Some(unnamed) = &mut self.unnamed {
            unnamed.shed();
        }
    }

    /// Takes a portal out, to be given back with [`Portals::put_back`].
    pub(super) fn take(&mut self, name: &str) -> Option<Box<Portal>> {
        if name.is_empty() {
            return self.unnamed.take();
        }
        let taken = self.named.remove(name)?;
        self.kept -= taken.kept;
        Some(taken)
    }

    /// One that its run has declared by the same name stays in its place.
    pub(super) fn put_back(&mut self, name: &str, portal: Box<Portal>) {
        if name.is_empty() {
            self.unnamed = Some(portal);
        } else if !self.named.contains_key(name) {
            self.kept += portal.kept;
            self.named.insert(name.to_owned(), portal);
        }
    }

    /// A point to go back to with [`Portals::roll_back_to`].
    pub(super) fn mark(&self) -> u64 {
        self.newest
    }

    /// Drops those made since `mark`.
    pub(super) fn roll_back_to(&mut self, mark: u64) {
        self.retain(|portal| portal.number <= mark);
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&Portal) -> bool) {
        self.unnamed = self.unnamed.take().filter(|portal| keep(portal));
        if !self.named.is_empty() {
            self.named.retain(|_, portal| keep(portal));
            self.kept = self.named.values().map(|portal| portal.kept).sum();
        }
    }

    pub(super) fn clear(&mut self) {
        self.retain(|_| false);
    }
}
