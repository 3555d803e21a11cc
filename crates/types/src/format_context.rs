//! What text forms depend on beside the value: the session's settings, the current time and the catalog's names.

use std::fmt;
use std::sync::Arc;

use jiff::tz::TimeZone;

/// Microseconds from the Unix epoch to 2000-01-01, PostgreSQL's epoch.
pub const UNIX_TO_PG_EPOCH_MICROS: i64 = 946_684_800_000_000;

/// How dates and times are written (the first half of the setting `DateStyle`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DateFormat {
    #[default]
    Iso,
    Sql,
    Postgres,
    German,
}

/// How `01/02/03` is read (the second half of the setting `DateStyle`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DateOrder {
    #[default]
    Mdy,
    Dmy,
    Ymd,
}

/// The setting `IntervalStyle`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IntervalStyle {
    #[default]
    Postgres,
    PostgresVerbose,
    SqlStandard,
    Iso8601,
}

/// The setting `bytea_output`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ByteaOutput {
    #[default]
    Hex,
    Escape,
}

/// Names and oids that only a tenant's catalog knows. Unknown ones answer `None`.
pub trait CatalogNames: Send + Sync {
    /// The label of a user's enum with that sort order.
    fn enum_label(&self, type_oid: u32, order: u32) -> Option<&str>;
    /// The sort order of a label.
    fn enum_order(&self, type_oid: u32, label: &str) -> Option<u32>;
    /// All labels of an enum with their sort orders, in that order.
    fn enum_labels(&self, type_oid: u32) -> Vec<(u32, String)>;
    /// The name of a user's type, as `format_type` shows it.
    fn type_name(&self, type_oid: u32) -> Option<String>;
    /// A user's type by its name, schema-qualified or on the search path.
    fn type_by_name(&self, schema: Option<&str>, name: &str) -> Option<crate::PgType>;
    /// A type that only stands in signatures, as `trigger`, by its name.
    fn pseudo_type_oid(&self, _name: &str) -> Option<u32> {
        None
    }
    /// The name of such a type.
    fn pseudo_type_name(&self, _oid: u32) -> Option<String> {
        None
    }
    /// The table, view, index or sequence of that name, schema-qualified or on the search path.
    fn relation_oid(&self, schema: Option<&str>, name: &str) -> Option<u32>;
    /// The name a relation's `regclass` shows: qualified where the search path does not find it, quoted where needed.
    fn relation_name(&self, oid: u32) -> Option<String>;
    /// A schema by its name.
    fn namespace_oid(&self, _name: &str) -> Option<u32> {
        None
    }
    /// The name of a schema.
    fn namespace_name(&self, _oid: u32) -> Option<String> {
        None
    }
    /// A role by its name.
    fn role_oid(&self, _name: &str) -> Option<u32> {
        None
    }
    /// A function by its name, where there is only one of that name.
    fn function_oid(&self, _name: &str) -> Option<u32> {
        None
    }
    /// The name of a function.
    fn function_name(&self, _oid: u32) -> Option<String> {
        None
    }
    /// The name of a role.
    fn role_name(&self, _oid: u32) -> Option<String> {
        None
    }
}

/// Everything input and output functions depend on beside the value. Cheap to clone.
#[derive(Clone)]
pub struct FormatContext {
    pub date_format: DateFormat,
    pub date_order: DateOrder,
    pub interval_style: IntervalStyle,
    pub time_zone: TimeZone,
    pub bytea_output: ByteaOutput,
    pub extra_float_digits: i32,
    /// The transaction's start, in microseconds since 2000-01-01 UTC: the meaning of `'now'` and `'today'`.
    pub now: i64,
    pub names: Option<Arc<dyn CatalogNames>>,
}

impl Default for FormatContext {
    /// PostgreSQL's defaults in UTC, at its epoch.
    fn default() -> FormatContext {
        FormatContext {
            date_format: DateFormat::Iso,
            date_order: DateOrder::Mdy,
            interval_style: IntervalStyle::Postgres,
            time_zone: TimeZone::UTC,
            bytea_output: ByteaOutput::Hex,
            extra_float_digits: 1,
            now: 0,
            names: None,
        }
    }
}

impl fmt::Debug for FormatContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FormatContext")
            .field("date_format", &self.date_format)
            .field("date_order", &self.date_order)
            .field("time_zone", &self.time_zone)
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}
