use super::*;
pub(super) static FUNCTIONS: &[FunctionDef] = &[];
pub(super) static OPERATORS: &[FunctionDef] = &[];
