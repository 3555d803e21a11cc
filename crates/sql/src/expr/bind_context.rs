//! What binding an expression needs beside its scope: parameter types, the catalog's types, subqueries.

use std::cell::{Cell, RefCell};
use std::fmt;

use base::{SqlError, SqlResult, SqlState};
use sqlparser::ast;
use types::{FormatContext, PgType, TypeMod};

use super::scope::Scope;
use super::tree::SubqueryId;

/// Types of a statement's parameters, some declared by the client, the others found while binding.
#[derive(Debug, Default)]
pub struct ParamTypes {
    types: RefCell<Vec<PgType>>,
    /// Whether `$n` may be used at all.
    allowed: bool,
    asked: Asked,
}

/// Constants of up to some hundred milliseconds each between two looks at whether the statement is to end.
const CONSTANTS_UNASKED: u32 = 4;

/// Whose turn it takes to work constants out: a statement has as many of them as it likes, and it is bound at once.
#[derive(Default)]
struct Asked {
    /// Whether the statement is to end; others may have had their turns when this returns.
    host: Option<Box<dyn Fn() -> bool + Send>>,
    constants: Cell<u32>,
    is_to_end: Cell<bool>,
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Asked({})", self.constants.get())
    }
}

impl ParamTypes {
    /// Parameters with the declared types first; `Unknown` where the client left it open.
    pub fn new(declared: &[PgType]) -> ParamTypes {
        ParamTypes { types: RefCell::new(declared.to_vec()), allowed: true, asked: Asked::default() }
    }

    /// Has others have their turns while constants are worked out.
    #[must_use]
    pub(crate) fn at_length(mut self, asked: Box<dyn Fn() -> bool + Send>) -> ParamTypes {
        self.asked.host = Some(asked);
        self
    }

    /// Whether a constant may be worked out now, which may take long: not once the statement is to end, which whoever runs it will be told, too.
    pub(super) fn may_work_out(&self) -> bool {
        let Asked { host, constants, is_to_end } = &self.asked;
        constants.set((constants.get() + 1) % CONSTANTS_UNASKED);
        if constants.get() == 0
            && let Some(host) = host
        {
            is_to_end.set(host());
        }
        !is_to_end.get()
    }

    /// For a statement that takes no parameters: `$1` is 42P02.
    pub fn none() -> ParamTypes {
        ParamTypes::default()
    }

    /// The type of parameter `index` (from 0) as known so far; makes the parameter known.
    pub fn get(&self, index: usize) -> SqlResult<PgType> {
        if !self.allowed {
            let message = format!("there is no parameter ${}", index + 1);
            return Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, message));
        }
        let mut types = self.types.borrow_mut();
        if types.len() <= index {
            types.resize(index + 1, PgType::Unknown);
        }
        Ok(types[index])
    }

    /// Gives a parameter the type its context wants, unless it has one; answers the type it has now.
    pub fn infer(&self, index: usize, ty: PgType) -> PgType {
        let mut types = self.types.borrow_mut();
        if types[index] == PgType::Unknown {
            types[index] = ty;
        }
        types[index]
    }

    /// The types known so far, `Unknown` among them.
    pub fn known(&self) -> Vec<PgType> {
        self.types.borrow().clone()
    }

    /// The types of all parameters.
    ///
    /// # Errors
    /// 42P18 for one that no context has given a type.
    pub fn finish(&self) -> SqlResult<Vec<PgType>> {
        let types = self.types.borrow();
        match types.iter().position(|ty| *ty == PgType::Unknown) {
            Some(index) => Err(SqlError::new(
                SqlState::INDETERMINATE_DATATYPE,
                format!("could not determine data type of parameter ${}", index + 1),
            )),
            None => Ok(types.clone()),
        }
    }
}

/// A subquery that was bound.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundSubquery {
    pub id: SubqueryId,
    /// Type, modifier and name of each of its columns.
    pub columns: Vec<(PgType, TypeMod, String)>,
    /// Whether it uses columns of the scope it was bound in, or of one further out.
    pub correlated: bool,
}

/// Binds the subqueries within expressions; the planner's part.
pub trait SubqueryBinder {
    /// Binds `query`, whose names may also come from `outer`: what `outer` resolves at depth d is at depth d + 1 inside.
    fn bind_subquery(
        &self,
        query: &ast::Query,
        outer: &dyn Scope,
        ctx: &BindContext<'_>,
    ) -> SqlResult<BoundSubquery>;
}

/// Where the expression stands, for what is allowed there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aggregates {
    /// The select list, HAVING, ORDER BY: aggregates become [`super::ExprKind::Aggregate`].
    Allowed,
    /// A call with OVER: it runs over the groups, so that its arguments may aggregate the rows of each.
    OverWindow,
    /// An aggregate is 42803: "aggregate functions are not allowed in …".
    Forbidden(&'static str),
}

/// Everything binding needs beside the scope. Cheap to copy.
#[derive(Clone, Copy)]
pub struct BindContext<'a> {
    pub params: &'a ParamTypes,
    /// Settings for folding literals, and the catalog's types.
    pub format: &'a FormatContext,
    /// `None`: a subquery is 0A000 "cannot use subquery in …".
    pub subqueries: Option<&'a dyn SubqueryBinder>,
    pub aggregates: Aggregates,
}

impl<'a> BindContext<'a> {
    /// For an expression in `place` (`WHERE`, `CHECK constraints`) without aggregates and subqueries.
    pub fn simple(params: &'a ParamTypes, format: &'a FormatContext, place: &'static str) -> BindContext<'a> {
        BindContext { params, format, subqueries: None, aggregates: Aggregates::Forbidden(place) }
    }
}
