//! The error a client sees: PostgreSQL's fields, with the SQLSTATE as a constant.

use std::fmt;

/// A five-character SQLSTATE of PostgreSQL's table of error codes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState(pub [u8; 5]);

impl fmt::Debug for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
impl fmt::Display for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

macro_rules! states {
    ($($name:ident = $code:literal;)*) => {
        impl SqlState {
            $(pub const $name: SqlState = SqlState(*$code);)*
            /// Every constant above with PostgreSQL's condition name in capitals; a test holds them against its table.
            pub const ALL: &[(&'static str, SqlState)] = &[$((stringify!($name), SqlState::$name)),*];
        }
    };
}

states! {
    SUCCESSFUL_COMPLETION = b"00000";
    WARNING = b"01000";
    NO_DATA = b"02000";
    CONNECTION_EXCEPTION = b"08000";
    CONNECTION_FAILURE = b"08006";
    PROTOCOL_VIOLATION = b"08P01";
    FEATURE_NOT_SUPPORTED = b"0A000";
    CARDINALITY_VIOLATION = b"21000";
    STRING_DATA_RIGHT_TRUNCATION = b"22001";
    NUMERIC_VALUE_OUT_OF_RANGE = b"22003";
    NULL_VALUE_NOT_ALLOWED = b"22004";
    INVALID_DATETIME_FORMAT = b"22007";
    DATETIME_FIELD_OVERFLOW = b"22008";
    INVALID_TIME_ZONE_DISPLACEMENT_VALUE = b"22009";
    SUBSTRING_ERROR = b"22011";
    DIVISION_BY_ZERO = b"22012";
    INVALID_PRECEDING_OR_FOLLOWING_SIZE = b"22013";
    INVALID_ARGUMENT_FOR_NTILE_FUNCTION = b"22014";
    INTERVAL_FIELD_OVERFLOW = b"22015";
    INVALID_ARGUMENT_FOR_NTH_VALUE_FUNCTION = b"22016";
    INVALID_ARGUMENT_FOR_LOG = b"2201E";
    INVALID_ARGUMENT_FOR_POWER_FUNCTION = b"2201F";
    INVALID_ARGUMENT_FOR_WIDTH_BUCKET_FUNCTION = b"2201G";
    INVALID_ROW_COUNT_IN_LIMIT_CLAUSE = b"2201W";
    INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE = b"2201X";
    CHARACTER_NOT_IN_REPERTOIRE = b"22021";
    INVALID_PARAMETER_VALUE = b"22023";
    INVALID_ESCAPE_SEQUENCE = b"22025";
    INVALID_USE_OF_ESCAPE_CHARACTER = b"2200C";
    ARRAY_SUBSCRIPT_ERROR = b"2202E";
    INVALID_TEXT_REPRESENTATION = b"22P02";
    INVALID_BINARY_REPRESENTATION = b"22P03";
    BAD_COPY_FILE_FORMAT = b"22P04";
    UNTRANSLATABLE_CHARACTER = b"22P05";
    INVALID_REGULAR_EXPRESSION = b"2201B";
    SEQUENCE_GENERATOR_LIMIT_EXCEEDED = b"2200H";
    INTEGRITY_CONSTRAINT_VIOLATION = b"23000";
    NOT_NULL_VIOLATION = b"23502";
    FOREIGN_KEY_VIOLATION = b"23503";
    UNIQUE_VIOLATION = b"23505";
    CHECK_VIOLATION = b"23514";
    INVALID_CURSOR_STATE = b"24000";
    INVALID_TRANSACTION_STATE = b"25000";
    ACTIVE_SQL_TRANSACTION = b"25001";
    READ_ONLY_SQL_TRANSACTION = b"25006";
    NO_ACTIVE_SQL_TRANSACTION = b"25P01";
    IN_FAILED_SQL_TRANSACTION = b"25P02";
    IDLE_IN_TRANSACTION_SESSION_TIMEOUT = b"25P03";
    INVALID_SQL_STATEMENT_NAME = b"26000";
    INVALID_AUTHORIZATION_SPECIFICATION = b"28000";
    INVALID_PASSWORD = b"28P01";
    DEPENDENT_OBJECTS_STILL_EXIST = b"2BP01";
    INVALID_CURSOR_NAME = b"34000";
    SAVEPOINT_EXCEPTION = b"3B000";
    INVALID_SAVEPOINT_SPECIFICATION = b"3B001";
    INVALID_CATALOG_NAME = b"3D000";
    INVALID_SCHEMA_NAME = b"3F000";
    SERIALIZATION_FAILURE = b"40001";
    DEADLOCK_DETECTED = b"40P01";
    SYNTAX_ERROR = b"42601";
    INSUFFICIENT_PRIVILEGE = b"42501";
    CANNOT_COERCE = b"42846";
    GROUPING_ERROR = b"42803";
    WINDOWING_ERROR = b"42P20";
    INVALID_RECURSION = b"42P19";
    INVALID_FOREIGN_KEY = b"42830";
    INVALID_NAME = b"42602";
    NAME_TOO_LONG = b"42622";
    RESERVED_NAME = b"42939";
    DATATYPE_MISMATCH = b"42804";
    INDETERMINATE_DATATYPE = b"42P18";
    COLLATION_MISMATCH = b"42P21";
    WRONG_OBJECT_TYPE = b"42809";
    GENERATED_ALWAYS = b"428C9";
    UNDEFINED_COLUMN = b"42703";
    UNDEFINED_FUNCTION = b"42883";
    UNDEFINED_TABLE = b"42P01";
    UNDEFINED_PARAMETER = b"42P02";
    UNDEFINED_OBJECT = b"42704";
    DUPLICATE_COLUMN = b"42701";
    DUPLICATE_CURSOR = b"42P03";
    DUPLICATE_DATABASE = b"42P04";
    DUPLICATE_FUNCTION = b"42723";
    DUPLICATE_PREPARED_STATEMENT = b"42P05";
    DUPLICATE_SCHEMA = b"42P06";
    DUPLICATE_TABLE = b"42P07";
    DUPLICATE_ALIAS = b"42712";
    DUPLICATE_OBJECT = b"42710";
    AMBIGUOUS_COLUMN = b"42702";
    AMBIGUOUS_FUNCTION = b"42725";
    AMBIGUOUS_PARAMETER = b"42P08";
    INVALID_COLUMN_REFERENCE = b"42P10";
    INVALID_COLUMN_DEFINITION = b"42611";
    INVALID_CURSOR_DEFINITION = b"42P11";
    INVALID_DATABASE_DEFINITION = b"42P12";
    INVALID_FUNCTION_DEFINITION = b"42P13";
    INVALID_SCHEMA_DEFINITION = b"42P15";
    INVALID_TABLE_DEFINITION = b"42P16";
    INVALID_OBJECT_DEFINITION = b"42P17";
    WITH_CHECK_OPTION_VIOLATION = b"44000";
    DISK_FULL = b"53100";
    OUT_OF_MEMORY = b"53200";
    TOO_MANY_CONNECTIONS = b"53300";
    CONFIGURATION_LIMIT_EXCEEDED = b"53400";
    PROGRAM_LIMIT_EXCEEDED = b"54000";
    STATEMENT_TOO_COMPLEX = b"54001";
    TOO_MANY_COLUMNS = b"54011";
    TOO_MANY_ARGUMENTS = b"54023";
    OBJECT_NOT_IN_PREREQUISITE_STATE = b"55000";
    OBJECT_IN_USE = b"55006";
    CANT_CHANGE_RUNTIME_PARAM = b"55P02";
    LOCK_NOT_AVAILABLE = b"55P03";
    QUERY_CANCELED = b"57014";
    ADMIN_SHUTDOWN = b"57P01";
    CRASH_SHUTDOWN = b"57P02";
    CANNOT_CONNECT_NOW = b"57P03";
    DATABASE_DROPPED = b"57P04";
    IDLE_SESSION_TIMEOUT = b"57P05";
    SYSTEM_ERROR = b"58000";
    IO_ERROR = b"58030";
    DUPLICATE_FILE = b"58P02";
    SNAPSHOT_TOO_OLD = b"72000";
    INTERNAL_ERROR = b"XX000";
    DATA_CORRUPTED = b"XX001";
    INDEX_CORRUPTED = b"XX002";
}

impl SqlState {
    /// The five characters.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("SQLSTATEs are ASCII")
    }
}

/// How serious a report is; decides what the session does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    /// The statement failed; the session goes on.
    Error,
    /// The session ends.
    Fatal,
    /// Told to the client beside a result.
    Warning,
    /// Told to the client beside a result.
    Notice,
}

impl Severity {
    /// PostgreSQL's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Error => "ERROR",
            Severity::Fatal => "FATAL",
            Severity::Warning => "WARNING",
            Severity::Notice => "NOTICE",
        }
    }
}

/// An error or notice with PostgreSQL's fields. Boxed, because it travels in the `Err` of every row operation.
#[derive(Clone, PartialEq, Eq)]
pub struct SqlError(Box<Fields>);

#[derive(Clone, PartialEq, Eq, Debug)]
struct Fields {
    severity: Severity,
    state: SqlState,
    message: String,
    detail: Option<String>,
    hint: Option<String>,
    position: Option<u32>,
    /// Line and column of the token at fault, both from 1; not sent.
    location: Option<(u64, u64)>,
    schema: Option<String>,
    table: Option<String>,
    column: Option<String>,
    data_type: Option<String>,
    constraint: Option<String>,
    context: Option<String>,
}

macro_rules! field {
    ($set:ident, $get:ident) => {
        /// Sets the field of that name.
        #[must_use]
        pub fn $set(mut self, value: impl Into<String>) -> SqlError {
            self.0.$get = Some(value.into());
            self
        }
        /// The field of that name, if set.
        pub fn $get(&self) -> Option<&str> {
            self.0.$get.as_deref()
        }
    };
}

impl SqlError {
    /// An error that ends the statement.
    pub fn new(state: SqlState, message: impl Into<String>) -> SqlError {
        SqlError(Box::new(Fields {
            severity: Severity::Error,
            state,
            message: message.into(),
            detail: None,
            hint: None,
            position: None,
            location: None,
            schema: None,
            table: None,
            column: None,
            data_type: None,
            constraint: None,
            context: None,
        }))
    }

    /// An error that ends the session.
    pub fn fatal(state: SqlState, message: impl Into<String>) -> SqlError {
        SqlError::new(state, message).with_severity(Severity::Fatal)
    }

    /// `what` is not supported (0A000).
    pub fn unsupported(what: impl fmt::Display) -> SqlError {
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{what} is not supported"))
    }

    /// A defect of ours that the statement ran into (XX000).
    pub fn internal(message: impl Into<String>) -> SqlError {
        SqlError::new(SqlState::INTERNAL_ERROR, message)
    }

    /// The same report with another severity.
    #[must_use]
    pub fn with_severity(mut self, severity: Severity) -> SqlError {
        self.0.severity = severity;
        self
    }

    /// Character position in the statement's text, counted from 1.
    #[must_use]
    pub fn with_position(mut self, position: u32) -> SqlError {
        self.0.position = Some(position);
        self
    }

    /// Where in the statement's text the fault stands, as line and column from 1, for [`SqlError::located_in`]. The first one
    /// given stays: the innermost name at fault.
    #[must_use]
    pub fn with_location(mut self, line: u64, column: u64) -> SqlError {
        if self.0.location.is_none() && line > 0 {
            self.0.location = Some((line, column));
        }
        self
    }

    /// The same report for a text that the client did not send (a view's, a default's): nothing in it can be pointed at.
    #[must_use]
    pub fn without_location(mut self) -> SqlError {
        self.0.location = None;
        self.0.position = None;
        self
    }

    /// The same report for one who may not see the values that its detail shows.
    #[must_use]
    pub fn without_detail(mut self) -> SqlError {
        self.0.detail = None;
        self
    }

    /// Turns a location into a position in `sql`, the text it was counted in. A position that is set already stays.
    #[must_use]
    pub fn located_in(mut self, sql: &str) -> SqlError {
        if let (None, Some((line, column))) = (self.0.position, self.0.location.take()) {
            let before: usize = sql
                .split_inclusive('\n')
                .take(usize::try_from(line - 1).unwrap_or(usize::MAX))
                .map(|line| line.chars().count())
                .sum();
            self.0.position = u32::try_from(before as u64 + column).ok();
        }
        self
    }

    field!(with_detail, detail);
    field!(with_hint, hint);
    field!(with_schema, schema);
    field!(with_table, table);
    field!(with_column, column);
    field!(with_data_type, data_type);
    field!(with_constraint, constraint);
    field!(with_context, context);

    pub fn severity(&self) -> Severity {
        self.0.severity
    }
    pub fn state(&self) -> SqlState {
        self.0.state
    }
    pub fn message(&self) -> &str {
        &self.0.message
    }
    pub fn position(&self) -> Option<u32> {
        self.0.position
    }
}

impl fmt::Debug for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.0.severity.as_str(), self.0.message, self.0.state)
    }
}
impl std::error::Error for SqlError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_becomes_a_position_in_characters() {
        let error = |line, column| SqlError::new(SqlState::UNDEFINED_COLUMN, "x").with_location(line, column);
        assert_eq!(error(1, 8).located_in("SELECT nothing").position(), Some(8));
        assert_eq!(error(2, 3).located_in("☃\n  nothing").position(), Some(5));
        assert_eq!(error(1, 8).with_location(9, 9).located_in("SELECT a").position(), Some(8));
        assert_eq!(error(0, 0).located_in("SELECT a").position(), None);
        assert_eq!(error(1, 8).without_location().located_in("SELECT a").position(), None);
    }
}
