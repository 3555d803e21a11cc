//! Aggregates: their definitions and what they accumulate.

use base::SqlResult;
use types::{Datum, PgType};

use super::tree::BoundExpr;

/// Which aggregate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AggregateKind {
    /// `count(*)`.
    CountRows,
    Count,
    Sum,
    Avg,
    Min,
    Max,
    BoolAnd,
    BoolOr,
    BitAnd,
    BitOr,
    StringAgg,
    ArrayAgg,
    StddevSamp,
    StddevPop,
    VarSamp,
    VarPop,
}

/// One use of an aggregate. DISTINCT, FILTER and ORDER BY are the executor's to honour.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregateCall {
    pub kind: AggregateKind,
    pub args: Vec<BoundExpr>,
    pub distinct: bool,
    pub filter: Option<BoundExpr>,
    pub order_by: Vec<SortKey>,
    /// The type of the result.
    pub ty: PgType,
}

/// One key of an ORDER BY.
#[derive(Clone, Debug, PartialEq)]
pub struct SortKey {
    pub expr: BoundExpr,
    pub descending: bool,
    pub nulls_first: bool,
}

/// The state of one aggregate over one group.
#[derive(Clone, Debug)]
pub struct Accumulator(());

impl AggregateCall {
    /// The state before any row.
    pub fn start(&self) -> Accumulator {
        unimplemented!()
    }
}

impl Accumulator {
    /// Takes one row's arguments (those of the call, evaluated). NULLs are ignored where PostgreSQL ignores them.
    pub fn add(&mut self, args: &[Datum]) -> SqlResult<()> {
        let _ = args;
        unimplemented!()
    }

    /// The aggregate's value.
    pub fn finish(self) -> SqlResult<Datum> {
        unimplemented!()
    }

    /// Bytes the state holds on the heap, for memory accounting.
    pub fn heap_bytes(&self) -> usize {
        unimplemented!()
    }
}
