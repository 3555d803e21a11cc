//! Sequences.

use base::{Oid, SqlResult};

use super::Ddl;
use crate::catalog::{GrantableKind, Sequence};
use crate::sequence::SequenceState;

impl Ddl<'_> {
    /// Makes a sequence; its oid is given here, the one in `sequence` is ignored. Errors: 42P07.
    pub fn create_sequence(&mut self, sequence: Sequence) -> SqlResult<Oid> {
        self.require_free_name(sequence.schema, &sequence.name)?;
        let oid = self.new_oid();
        let acl = self.catalog().initial_acl(sequence.owner, Some(sequence.schema), GrantableKind::Sequence);
        let sequence = Sequence { oid, acl, ..sequence };
        self.view.txn.sequences.begin(oid, SequenceState::at_start(&sequence));
        self.edit().put_sequence(sequence);
        Ok(oid)
    }

    /// Replaces a sequence's definition; its value stays.
    pub fn alter_sequence(&mut self, sequence: Sequence) {
        self.edit().put_sequence(sequence);
    }

    /// `RESTART`: the next value, seen by others at commit.
    pub fn restart_sequence(&mut self, sequence: Oid, value: i64) {
        let state = SequenceState { last: value, called: false, logged_ahead: 0 };
        self.view.txn.sequences.begin(sequence, state);
    }
}
