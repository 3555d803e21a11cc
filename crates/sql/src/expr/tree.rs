//! Bound expressions: every name resolved, every node typed, every implicit cast written out.

use std::fmt;

use types::{CastContext, Datum, ElementType, PgType, TypeMod};

use super::aggregate::AggregateCall;
use super::function::FunctionDef;

/// An expression ready to be evaluated.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundExpr {
    pub ty: PgType,
    pub typmod: TypeMod,
    pub kind: ExprKind,
}

/// Names a subquery within its statement; given by the [`super::SubqueryBinder`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SubqueryId(pub u32);

/// A comparison of two values of one family.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CompareOp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// How values are compared.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Collate {
    /// As [`types::compare`].
    Plain,
    /// `char(n)`: trailing blanks do not count.
    Blanks,
}

/// A function or operator of the built-in catalog; equal when it is the same definition.
#[derive(Clone, Copy)]
pub struct FunctionRef(pub &'static FunctionDef);

impl PartialEq for FunctionRef {
    fn eq(&self, other: &FunctionRef) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}
impl fmt::Debug for FunctionRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

/// What a bound expression does.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    Const(Datum),
    /// A column of the current row.
    Column(usize),
    /// A column of an enclosing query's row; depth 1 is the next one out.
    Outer {
        depth: usize,
        index: usize,
    },
    /// `$1` is 0.
    Param(usize),
    Compare {
        op: CompareOp,
        collate: Collate,
        left: Box<BoundExpr>,
        right: Box<BoundExpr>,
    },
    And(Vec<BoundExpr>),
    Or(Vec<BoundExpr>),
    Not(Box<BoundExpr>),
    IsNull {
        expr: Box<BoundExpr>,
        negated: bool,
    },
    /// `IS [NOT] TRUE`, `IS [NOT] FALSE`.
    IsBool {
        expr: Box<BoundExpr>,
        value: bool,
        negated: bool,
    },
    /// `IS [NOT] DISTINCT FROM`.
    IsDistinct {
        collate: Collate,
        left: Box<BoundExpr>,
        right: Box<BoundExpr>,
        negated: bool,
    },
    /// `expr [NOT] IN (items)`; all of one family.
    InList {
        collate: Collate,
        expr: Box<BoundExpr>,
        items: Vec<BoundExpr>,
        negated: bool,
    },
    /// `left op ANY (array)` or `left op ALL (array)` for a comparison.
    CompareArray {
        op: CompareOp,
        collate: Collate,
        all: bool,
        left: Box<BoundExpr>,
        array: Box<BoundExpr>,
    },
    /// `left op ANY (array)` for any other operator that yields a boolean.
    CallArray {
        function: FunctionRef,
        all: bool,
        left: Box<BoundExpr>,
        array: Box<BoundExpr>,
    },
    /// A function or operator; strict ones answer NULL for a NULL argument without being called.
    Call {
        function: FunctionRef,
        args: Vec<BoundExpr>,
    },
    /// Searched CASE; a simple one is turned into comparisons.
    Case {
        whens: Vec<(BoundExpr, BoundExpr)>,
        otherwise: Option<Box<BoundExpr>>,
    },
    Coalesce(Vec<BoundExpr>),
    /// NULL if the two are equal, else the first.
    NullIf {
        collate: Collate,
        left: Box<BoundExpr>,
        right: Box<BoundExpr>,
    },
    /// GREATEST or LEAST.
    Extreme {
        greatest: bool,
        collate: Collate,
        args: Vec<BoundExpr>,
    },
    /// A conversion to this node's type and modifier.
    Cast {
        expr: Box<BoundExpr>,
        how: CastContext,
    },
    Array {
        element: ElementType,
        items: Vec<BoundExpr>,
    },
    /// `array[index]`.
    Subscript {
        array: Box<BoundExpr>,
        index: Box<BoundExpr>,
    },
    /// `array[lower:upper]`.
    Slice {
        array: Box<BoundExpr>,
        lower: Option<Box<BoundExpr>>,
        upper: Option<Box<BoundExpr>>,
    },
    /// An aggregate of the query this expression belongs to. The planner replaces it by a column before evaluation.
    Aggregate(Box<AggregateCall>),
    Subquery(Box<SubqueryExpr>),
}

/// A subquery within an expression.
#[derive(Clone, Debug, PartialEq)]
pub struct SubqueryExpr {
    pub id: SubqueryId,
    /// True if it uses columns of an enclosing row; otherwise its answer is the same for every row of the statement.
    pub correlated: bool,
    pub test: SubqueryTest,
}

/// What is asked of a subquery's rows.
#[derive(Clone, Debug, PartialEq)]
pub enum SubqueryTest {
    /// Its only value; NULL when there is no row; more than one row is 21000.
    Scalar,
    /// The same of one of its columns: of several that are assigned from one row.
    Field(usize),
    Exists {
        negated: bool,
    },
    /// `left op ANY (subquery)` (also `IN`) or `left op ALL (subquery)` (also `NOT IN`), column by column.
    Compare {
        all: bool,
        columns: Vec<SubqueryColumn>,
    },
    /// `ARRAY(subquery)`.
    Array {
        element: ElementType,
    },
}

/// The comparison of one column of a subquery's row with a value of the outer row.
#[derive(Clone, Debug, PartialEq)]
pub struct SubqueryColumn {
    pub op: CompareOp,
    pub collate: Collate,
    pub left: BoundExpr,
    /// A conversion of the subquery's column before the comparison: from, to.
    pub cast: Option<(PgType, PgType)>,
}

impl CompareOp {
    /// The operator with its sides exchanged: `a < b` is `b > a`.
    #[must_use]
    pub fn commuted(self) -> CompareOp {
        match self {
            CompareOp::Lt => CompareOp::Gt,
            CompareOp::Le => CompareOp::Ge,
            CompareOp::Gt => CompareOp::Lt,
            CompareOp::Ge => CompareOp::Le,
            same => same,
        }
    }

    /// The operator that holds exactly when this one does not.
    #[must_use]
    pub fn negated(self) -> CompareOp {
        match self {
            CompareOp::Eq => CompareOp::Ne,
            CompareOp::Ne => CompareOp::Eq,
            CompareOp::Lt => CompareOp::Ge,
            CompareOp::Le => CompareOp::Gt,
            CompareOp::Gt => CompareOp::Le,
            CompareOp::Ge => CompareOp::Lt,
        }
    }

    /// Whether `order` of left to right satisfies the operator.
    #[inline]
    pub fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            CompareOp::Eq => order.is_eq(),
            CompareOp::Ne => order.is_ne(),
            CompareOp::Lt => order.is_lt(),
            CompareOp::Le => order.is_le(),
            CompareOp::Gt => order.is_gt(),
            CompareOp::Ge => order.is_ge(),
        }
    }

    pub fn symbol(self) -> &'static str {
        match self {
            CompareOp::Eq => "=",
            CompareOp::Ne => "<>",
            CompareOp::Lt => "<",
            CompareOp::Le => "<=",
            CompareOp::Gt => ">",
            CompareOp::Ge => ">=",
        }
    }
}

impl BoundExpr {
    pub fn new(ty: PgType, typmod: TypeMod, kind: ExprKind) -> BoundExpr {
        BoundExpr { ty, typmod, kind }
    }

    /// A value of type `ty`.
    pub fn constant(value: Datum, ty: PgType) -> BoundExpr {
        BoundExpr::new(ty, TypeMod::NONE, ExprKind::Const(value))
    }

    /// Column `index` of the current row.
    pub fn column(index: usize, ty: PgType, typmod: TypeMod) -> BoundExpr {
        BoundExpr::new(ty, typmod, ExprKind::Column(index))
    }

    /// A condition.
    pub fn boolean(kind: ExprKind) -> BoundExpr {
        BoundExpr::new(PgType::Bool, TypeMod::NONE, kind)
    }

    /// `left op right` of two expressions that already are of one family.
    pub fn compare(op: CompareOp, left: BoundExpr, right: BoundExpr) -> BoundExpr {
        let collate = if left.ty == PgType::Bpchar && right.ty == PgType::Bpchar {
            Collate::Blanks
        } else {
            Collate::Plain
        };
        BoundExpr::boolean(ExprKind::Compare { op, collate, left: Box::new(left), right: Box::new(right) })
    }

    /// The conditions of a conjunction, taken apart; one element if it is none.
    pub fn into_conjuncts(self) -> Vec<BoundExpr> {
        match self.kind {
            ExprKind::And(parts) => parts.into_iter().flat_map(BoundExpr::into_conjuncts).collect(),
            _ => vec![self],
        }
    }

    /// The conjunction of `parts`; `None` if there are none.
    pub fn conjunction(mut parts: Vec<BoundExpr>) -> Option<BoundExpr> {
        if parts.len() <= 1 { parts.pop() } else { Some(BoundExpr::boolean(ExprKind::And(parts))) }
    }

    /// The value if this is a constant.
    pub fn as_const(&self) -> Option<&Datum> {
        match &self.kind {
            ExprKind::Const(value) => Some(value),
            _ => None,
        }
    }

    /// The index if this is a bare column of the current row.
    pub fn as_column(&self) -> Option<usize> {
        match self.kind {
            ExprKind::Column(index) => Some(index),
            _ => None,
        }
    }
}
