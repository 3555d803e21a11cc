//! What a tenant committed since it was last recovered, and how much of it a client knows.

use base::CommitNo;

use crate::{Stop, require};

/// A tenant's commits since the last recovery with their effects. Some commits have no effect here, such as those that
/// only move a sequence.
#[derive(Debug)]
pub struct Journal<E> {
    entries: Vec<(CommitNo, E)>,
    /// The newest commit that a reply told of, and what kind of reply.
    known: (CommitNo, &'static str),
}

impl<E> Default for Journal<E> {
    fn default() -> Journal<E> {
        Journal { entries: Vec::new(), known: (CommitNo(0), "nothing") }
    }
}

impl<E> Journal<E> {
    /// Notes a commit; it is in memory only.
    pub fn commit(&mut self, commit: CommitNo, effect: E) {
        assert!(self.entries.last().is_none_or(|(last, _)| *last < commit), "commits come in order");
        self.entries.push((commit, effect));
    }

    /// A reply left that tells of `commit`: it must never be lost.
    pub fn told(&mut self, commit: CommitNo, by: &'static str) {
        if commit > self.known.0 {
            self.known = (commit, by);
        }
    }

    /// # Errors
    /// A violation if a client knows of a later commit than `recovered`.
    pub fn check(&self, recovered: CommitNo) -> Result<(), Stop> {
        let (known, by) = self.known;
        require!(
            recovered >= known,
            "recovered at commit {recovered}, but {by} told a client of commit {known}"
        );
        Ok(())
    }

    /// The effects that are left when the tenant comes back at `recovered`, in order. The rest is forgotten.
    ///
    /// # Errors
    /// A violation if a client knows of a later commit.
    pub fn recover(&mut self, recovered: CommitNo) -> Result<impl Iterator<Item = E> + use<E>, Stop> {
        self.check(recovered)?;
        let entries = std::mem::take(&mut self.entries);
        self.known = (recovered, "recovery");
        Ok(entries.into_iter().take_while(move |(commit, _)| *commit <= recovered).map(|(_, effect)| effect))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_commit_is_a_violation_only_if_somebody_knows() {
        let mut journal = Journal::default();
        (1..=5).for_each(|n| journal.commit(CommitNo(n), n));
        journal.told(CommitNo(3), "a commit's reply");
        assert_eq!(journal.recover(CommitNo(4)).unwrap().collect::<Vec<_>>(), [1, 2, 3, 4]);
        journal.commit(CommitNo(5), 5);
        journal.told(CommitNo(5), "a read's reply");
        assert!(matches!(journal.recover(CommitNo(4)).err(), Some(Stop::Violation(_))));
    }
}
