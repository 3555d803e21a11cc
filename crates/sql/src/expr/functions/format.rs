//! Conversions between values and text by a template: to_char, to_date, to_timestamp, to_number.

use super::*;
pub(super) static FUNCTIONS: &[FunctionDef] = &[];
