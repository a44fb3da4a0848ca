//! What is answered: documents as they are, and refusals in the form of the API server's own (`Status`), which kubectl and
//! every client library shows as it stands.

use super::MAX_ANSWER;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use m87_authority::export::ExportError;
use serde::Serialize;
use serde_json::json as object;
use std::fmt::Display;

/// A document, or why there is none.
pub(super) type Answer = Result<Response, Refused>;

/// Why nothing is shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The request names nothing that there can be.
    #[error("{0}")]
    Malformed(String),
    /// Nobody knows who asks.
    #[error("{0}")]
    Unknown(&'static str),
    /// The caller is known, and may not.
    #[error(
        "user {user:?} may not get governedruns in namespace {namespace:?}: ask for the role m87-viewer there \
         (kubectl auth can-i get governedruns.m87.dev -n {namespace})"
    )]
    MayNot {
        /// Who.
        user: String,
        /// Where.
        namespace: String,
    },
    /// There is no such thing.
    #[error("{0}")]
    NotFound(String),
    /// Nobody can say now.
    #[error("{0}")]
    Unavailable(String),
    /// What is stored cannot be shown.
    #[error("{0}")]
    Internal(String),
}

/// There is no token in the header.
pub(super) const NO_TOKEN: &str = "no token in the header X-M87-Token: the API server forwards none, so the caller sends its own once more. \
     A user with a client certificate has none; make one with `kubectl create token SERVICEACCOUNT` and pass it with --token";

/// The API server does not know the token.
pub(super) const UNKNOWN_TOKEN: &str = "the token is not one that the API server knows, or it has expired; log in again, or make one with \
     `kubectl create token SERVICEACCOUNT` and pass it with --token";

impl Refused {
    pub(super) fn internal(error: impl Display) -> Self {
        Self::Internal(format!("what is stored cannot be shown: {error}"))
    }

    pub(super) fn unavailable(error: impl Display) -> Self {
        Self::Unavailable(format!("{error}; try again"))
    }

    pub(super) fn of_export(error: ExportError) -> Self {
        match error {
            ExportError::UnknownRun(_) | ExportError::NotSealed(_) => Self::NotFound(error.to_string()),
            ExportError::NoSuchPage { .. } => Self::Malformed(error.to_string()),
            ExportError::Store(_) => Self::unavailable(error),
            ExportError::Json(_) | ExportError::Log { .. } | ExportError::Closure(_) => Self::internal(error),
        }
    }

    const fn code(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Malformed(_) => (StatusCode::BAD_REQUEST, "BadRequest"),
            Self::Unknown(_) => (StatusCode::UNAUTHORIZED, "Unauthorized"),
            Self::MayNot { .. } => (StatusCode::FORBIDDEN, "Forbidden"),
            Self::NotFound(_) => (StatusCode::NOT_FOUND, "NotFound"),
            Self::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
            Self::Internal(_) => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let (code, reason) = self.code();
        let status = object!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.to_string(), "reason": reason, "code": code.as_u16(),
        });
        let mut response = Response::new(Body::from(status.to_string()));
        *response.status_mut() = code;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

/// A document as it stands.
pub(super) fn text(content_type: &'static str, bytes: Vec<u8>) -> Answer {
    if bytes.len() > MAX_ANSWER {
        return Err(Refused::Internal(format!(
            "the answer has {} bytes, more than the {MAX_ANSWER} that are sent; ask for receipts one by one",
            bytes.len()
        )));
    }
    let mut response = Response::new(Body::from(bytes));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// A document for programs.
pub(super) fn json<T: Serialize>(value: &T) -> Answer {
    text("application/json", serde_json::to_vec(value).map_err(Refused::internal)?)
}
