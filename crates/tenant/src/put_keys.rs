//! Which rows a statement in slices has put into a table, where it has to know them again.
//!
//! INSERT … ON CONFLICT DO UPDATE may come to no row twice. What its slices before have put is poured and forgotten, and may be as many rows as the table has, so
//! their keys go to a tree of the branch. It is in no record of the log, and is given up at the statement's end.

use base::{SqlResult, TreeId};

use crate::catalog::Table;
use crate::commit::Steps;
use crate::interrupt::Step;
use crate::overlay::{Change, TreeChanges};
use crate::tenant::Tenant;
use crate::txn::Txn;
use crate::view::View;

impl Tenant {
    /// The statement that has just begun ([`Tenant::begin_statement`]) is told by [`View::has_put`], until its end, which rows of this table it has put and poured.
    pub fn remember_put(&mut self, txn: &Txn, table: &Table) {
        assert!(txn.branched, "a statement in slices has a branch");
        self.forget_put();
        let keys = self.next_tree();
        let branch = self.branch.as_mut().expect("the transaction has a branch");
        branch.put = Some((table.tree, keys));
    }

    pub(crate) fn forget_put(&mut self) {
        if let Some((_, keys)) = self.branch.as_mut().and_then(|branch| branch.put.take()) {
            self.at_side(true, |tenant| tenant.give_up_tree(keys));
        }
    }

    /// Notes that these changes of a tree are poured. The branch is current.
    ///
    /// Errors: as [`Tenant::pour`].
    pub(crate) fn note_put(
        &mut self,
        tree: TreeId,
        changes: &TreeChanges,
        steps: &mut Steps<'_>,
    ) -> SqlResult<()> {
        let put = self.branch.as_ref().and_then(|branch| branch.put);
        let Some((_, keys)) = put.filter(|(of, _)| *of == tree) else { return Ok(()) };
        let there = changes.iter().filter(|(_, change)| matches!(change, Change::Put(_)));
        self.note_keys(keys, there.map(|(key, _)| key), steps)
    }
}

impl View<'_> {
    /// Whether a slice before this one has put a row under this key, where that is remembered ([`Tenant::remember_put`]).
    pub fn has_put(&self, table: &Table, key: &[u8]) -> Step<bool> {
        let put = match &self.tenant.branch {
            Some(branch) if self.txn.branched => branch.put,
            _ => None,
        };
        match put {
            Some((of, keys)) if of == table.tree => {
                Ok(btree::contains(&self.tenant.pages, self.tenant.trees.root(keys), key)?)
            }
            _ => Ok(false),
        }
    }
}
