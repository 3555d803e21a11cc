//! What requests are answered with when they fail: an HTTP status and `{"error": {code, message, detail, hint}}`.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base::{Nanos, SqlError, SqlState};
use serde_json::json;

/// Why a request was not carried out, as every answer of the console tells it.
#[derive(Debug)]
pub struct Refusal {
    status: StatusCode,
    error: SqlError,
    retry_after: Option<Nanos>,
}

/// An answer, or why there is none.
pub(super) type Answer<T> = Result<T, Refusal>;

impl Refusal {
    /// With this status, SQLSTATE and message.
    pub fn new(status: StatusCode, state: SqlState, message: impl Into<String>) -> Refusal {
        Refusal { status, error: SqlError::new(state, message), retry_after: None }
    }

    /// 400: what was sent makes no sense.
    pub fn bad_input(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, SqlState::INVALID_PARAMETER_VALUE, message)
    }

    /// 403: who asks may not.
    pub(super) fn forbidden(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::FORBIDDEN, SqlState::INSUFFICIENT_PRIVILEGE, message)
    }

    /// 404: there is no such thing.
    pub fn missing(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, SqlState::UNDEFINED_OBJECT, message)
    }

    /// 503: the server ends.
    pub(super) fn stopping() -> Refusal {
        Refusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            SqlState::CANNOT_CONNECT_NOW,
            "the database system is shutting down",
        )
    }

    /// 404 if the error is one of these, which then tell of what is in the address.
    pub(super) fn or_missing(mut self, states: &[SqlState]) -> Refusal {
        if states.contains(&self.error.state()) {
            self.status = StatusCode::NOT_FOUND;
        }
        self
    }

    pub(super) fn with_hint(mut self, hint: &str) -> Refusal {
        self.error = self.error.with_hint(hint);
        self
    }

    /// Tells when to try again.
    pub(super) fn with_retry_after(mut self, wait: Nanos) -> Refusal {
        self.retry_after = Some(wait);
        self
    }
}

impl From<SqlError> for Refusal {
    fn from(error: SqlError) -> Refusal {
        let status = match error.state() {
            SqlState::INVALID_CATALOG_NAME => StatusCode::NOT_FOUND,
            SqlState::OBJECT_IN_USE
            | SqlState::DEPENDENT_OBJECTS_STILL_EXIST
            | SqlState::DUPLICATE_DATABASE
            | SqlState::DUPLICATE_OBJECT => StatusCode::CONFLICT,
            SqlState::INSUFFICIENT_PRIVILEGE => StatusCode::FORBIDDEN,
            SqlState::CANNOT_CONNECT_NOW => StatusCode::SERVICE_UNAVAILABLE,
            SqlState::INTERNAL_ERROR | SqlState::IO_ERROR | SqlState::DATA_CORRUPTED => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
            _ => StatusCode::BAD_REQUEST,
        };
        Refusal { status, error, retry_after: None }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let error = &self.error;
        let body = json!({ "error": {
            "code": error.state().as_str(),
            "message": error.message(),
            "detail": error.detail(),
            "hint": error.hint(),
        }});
        let mut response = (self.status, Json(body)).into_response();
        if let Some(wait) = self.retry_after {
            let seconds = wait.0.div_ceil(1_000_000_000).max(1);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_when_to_come_back() {
        let wait = Nanos::from_millis(1200);
        let response = Refusal::bad_input("no").with_retry_after(wait).into_response();
        assert_eq!(response.headers()[header::RETRY_AFTER], "2");
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    }

    #[test]
    fn what_sql_refuses_has_a_status_of_its_kind() {
        let status = |state| Refusal::from(SqlError::new(state, "no")).status.as_u16();
        let expected = [
            (SqlState::INVALID_CATALOG_NAME, 404),
            (SqlState::OBJECT_IN_USE, 409),
            (SqlState::DUPLICATE_DATABASE, 409),
            (SqlState::INVALID_PARAMETER_VALUE, 400),
            (SqlState::SYNTAX_ERROR, 400),
            (SqlState::CANNOT_CONNECT_NOW, 503),
            (SqlState::INTERNAL_ERROR, 500),
        ];
        for (state, code) in expected {
            assert_eq!(status(state), code, "{state}");
        }
    }
}
