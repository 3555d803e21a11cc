//! The JSON that a request brings.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse as _;
use base::SqlState;
use serde::de::DeserializeOwned;

use super::answer::{Answer, Refusal};

/// Bytes of a body at most, unless a route says otherwise.
pub(super) const BODY_LEN_MAX: usize = 64 << 10;

/// How long a body may take to come.
const BODY_TIME_MAX: Duration = Duration::from_secs(20);

/// What a request's body says: JSON, and called so.
pub struct Sent<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Sent<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Answer<Sent<T>> {
        let content_type = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let kind = content_type.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
        // A page of another site could send anything else without asking first.
        if !kind.eq_ignore_ascii_case("application/json") {
            let (status, state) = (StatusCode::UNSUPPORTED_MEDIA_TYPE, SqlState::INVALID_PARAMETER_VALUE);
            return Err(Refusal::new(status, state, "the body has to be application/json"));
        }
        let bytes = tokio::time::timeout(BODY_TIME_MAX, Bytes::from_request(request, state)).await;
        let late = |_| {
            let (status, state) = (StatusCode::REQUEST_TIMEOUT, SqlState::QUERY_CANCELED);
            Refusal::new(status, state, "the body did not come in time")
        };
        let bytes = bytes.map_err(late)?.map_err(|rejection| {
            let (message, status) = (rejection.body_text(), rejection.into_response().status());
            Refusal::new(status, SqlState::PROGRAM_LIMIT_EXCEEDED, message)
        })?;
        let parsed = serde_json::from_slice(&bytes);
        parsed.map(Sent).map_err(|error| Refusal::bad_input(format!("the body makes no sense: {error}")))
    }
}
