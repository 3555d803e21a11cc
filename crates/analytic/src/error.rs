//! DataFusion's errors as the client sees them.

use base::{SqlError, SqlState};
use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;

/// One of ours on its way through DataFusion; [`sql_error`] finds it again.
pub(crate) fn external(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// What to tell the client. Our own errors come back as they were; the few that Arrow raises get PostgreSQL's words.
pub(crate) fn sql_error(error: DataFusionError) -> SqlError {
    match error {
        DataFusionError::External(inner) => match inner.downcast::<SqlError>() {
            Ok(ours) => *ours,
            Err(other) => match other.downcast::<DataFusionError>() {
                Ok(nested) => sql_error(*nested),
                Err(other) => SqlError::internal(other.to_string()),
            },
        },
        DataFusionError::ArrowError(arrow, _) => arrow_error(*arrow),
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => sql_error(*inner),
        DataFusionError::Shared(inner) => shared_error(&inner),
        DataFusionError::ResourcesExhausted(message) => out_of_memory(message),
        DataFusionError::IoError(error) => io_error(error),
        DataFusionError::NotImplemented(message) => SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message),
        other => SqlError::internal(other.to_string()),
    }
}

fn out_of_memory(detail: String) -> SqlError {
    SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory").with_detail(detail)
}

fn shared_error(error: &DataFusionError) -> SqlError {
    match error {
        DataFusionError::External(inner) => match inner.downcast_ref::<SqlError>() {
            Some(ours) => ours.clone(),
            None => SqlError::internal(error.to_string()),
        },
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => shared_error(inner),
        DataFusionError::Shared(inner) => shared_error(inner),
        DataFusionError::ResourcesExhausted(message) => out_of_memory(message.clone()),
        other => SqlError::internal(other.to_string()),
    }
}

/// Of a spill file: ours, in the only clothes that a writer lets through.
fn io_error(error: std::io::Error) -> SqlError {
    match error.downcast::<SqlError>() {
        Ok(ours) => ours,
        Err(other) => SqlError::new(SqlState::IO_ERROR, other.to_string()),
    }
}

pub(crate) fn arrow_error(error: ArrowError) -> SqlError {
    match error {
        ArrowError::DivideByZero => SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero"),
        ArrowError::ArithmeticOverflow(_) => {
            SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range")
        }
        ArrowError::IoError(_, error) => io_error(error),
        ArrowError::ExternalError(inner) => match inner.downcast::<SqlError>() {
            Ok(ours) => *ours,
            Err(other) => match other.downcast::<DataFusionError>() {
                Ok(nested) => sql_error(*nested),
                Err(other) => SqlError::internal(other.to_string()),
            },
        },
        other => SqlError::internal(other.to_string()),
    }
}

/// What DataFusion says while a plan is made.
pub(crate) trait Planned<T> {
    fn planned(self) -> Result<T, SqlError>;
}

impl<T> Planned<T> for Result<T, DataFusionError> {
    fn planned(self) -> Result<T, SqlError> {
        self.map_err(sql_error)
    }
}
