//! Functions of the server's that are called in FROM and give rows, those of `pg_catalog` also without their schema; `analytic` makes them.

use std::sync::LazyLock;

use types::PgType;

use super::{SystemTable, parse_table};

/// What a function takes.
#[derive(Debug)]
pub struct Parameter {
    pub name: &'static str,
    pub ty: PgType,
    /// Whether a call may leave it out: it is NULL then.
    pub is_optional: bool,
}

/// A function that gives rows.
#[derive(Debug)]
pub struct RowsFunction {
    /// Its name, and the columns of its rows.
    pub result: SystemTable,
    pub parameters: Vec<Parameter>,
}

/// Columns as in `tables.txt`.
const ADVISE: &str = "rowhouse.advise 15101 f candidate:text size:text cpu:float8 iops:int8 memory:text work_memory:text enough:bool too_little:text \
cpu_intervals:int8 cpu_broken_min:int8 cpu_broken_max:int8 cpu_missed_min:float8 cpu_missed_max:float8 \
io_volume:text io_intervals:int8 io_broken_min:int8 io_broken_max:int8 io_missed_min:int8 io_missed_max:int8 \
cache_excess:int8 spills:int8 spills_of:int8 keeps_p99:bool since:timestamptz note:text";

const KEYWORDS: &str =
    "pg_catalog.pg_get_keywords 1686 f word:text catcode:char barelabel:bool catdesc:text baredesc:text";

/// The columns of `pg_settings`.
const SETTINGS: &str = "pg_catalog.pg_show_all_settings 2084 f name:text setting:text unit:text category:text short_desc:text extra_desc:text \
context:text vartype:text source:text min_val:text max_val:text enumvals:_text boot_val:text reset_val:text sourcefile:text sourceline:int4 \
pending_restart:bool";

static FUNCTIONS: LazyLock<[RowsFunction; 3]> = LazyLock::new(|| {
    let parameter = |name, ty, is_optional| Parameter { name, ty, is_optional };
    [
        RowsFunction {
            result: parse_table(ADVISE),
            parameters: vec![
                parameter("tenant", PgType::Text, false),
                parameter("p99_ms", PgType::Float8, true),
            ],
        },
        RowsFunction { result: parse_table(KEYWORDS), parameters: Vec::new() },
        RowsFunction { result: parse_table(SETTINGS), parameters: Vec::new() },
    ]
});

/// The function of that name that gives rows.
pub fn rows_function(schema: &str, name: &str) -> Option<&'static RowsFunction> {
    FUNCTIONS.iter().find(|function| (function.result.schema, function.result.name) == (schema, name))
}
