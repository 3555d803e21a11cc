//! PostgreSQL's numeric: exact decimals of any precision with a display scale.

/// An exact decimal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numeric;
