//! Calls to the API server: each with a limit, and with an error that says what to do next.

use std::future::Future;
use std::time::Duration;

/// No call takes longer.
pub const LIMIT: Duration = Duration::from_secs(10);

/// Why a call has no good answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// There is no such object.
    #[error("{0}")]
    NotFound(String),
    /// The object was changed since it was read, or is there already.
    #[error("{0}")]
    Conflict(String),
    /// A right is missing, and the message names it; or it does not fit a quota or another rule of the namespace.
    #[error("{0}")]
    Forbidden(String),
    /// A definite no.
    #[error("{0}")]
    Refused(String),
    /// Nobody knows whether it was done: ask again.
    #[error("{0}")]
    Unavailable(String),
}

/// Makes one call within [`LIMIT`].
pub async fn call<T>(what: &str, call: impl Future<Output = kube::Result<T>> + Send) -> Result<T, CallError> {
    match tokio::time::timeout(LIMIT, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(classify(what, &error)),
        Err(_) => Err(CallError::Unavailable(format!("{what}: no answer within {} s", LIMIT.as_secs()))),
    }
}

fn classify(what: &str, error: &kube::Error) -> CallError {
    let kube::Error::Api(status) = error else {
        return CallError::Unavailable(format!("{what}: {}", chain(error)));
    };
    let message = format!("{what}: {}", status.message);
    match status.code {
        404 => CallError::NotFound(message),
        409 => CallError::Conflict(message),
        403 => CallError::Forbidden(advise(message)),
        400 | 405 | 413 | 415 | 422 => CallError::Refused(message),
        code => CallError::Unavailable(format!("{message} ({code})")),
    }
}

/// Who lacks a right is told how to get it; that is how RBAC says it, and a quota does not.
fn advise(message: String) -> String {
    if !message.contains(" cannot ") {
        return message;
    }
    format!(
        "{message}; apply the Roles and RoleBindings of the chart, or for a tenant those that `m87 tenant NAMESPACE` prints"
    )
}

/// An error and what caused it, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// Reads an object; `None` if it is not there.
pub async fn found<T>(what: &str, get: impl Future<Output = kube::Result<T>> + Send) -> Result<Option<T>, CallError> {
    match call(what, get).await {
        Ok(object) => Ok(Some(object)),
        Err(CallError::NotFound(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use kube::core::Status;

    fn answer(code: u16) -> CallError {
        let status = Status { code, message: "because".to_owned(), ..Status::default() };
        classify("the lease", &kube::Error::Api(Box::new(status)))
    }

    #[test]
    fn only_a_definite_answer_is_taken_for_one() {
        assert!(matches!(answer(404), CallError::NotFound(_)));
        assert!(matches!(answer(409), CallError::Conflict(_)));
        assert!(matches!(answer(422), CallError::Refused(_)));
        for code in [401, 408, 429, 500, 502, 503, 504, 0] {
            assert!(matches!(answer(code), CallError::Unavailable(_)), "{code}");
        }
        assert_eq!(answer(403), CallError::Forbidden("the lease: because".to_owned()), "a quota is no right");
        let forbidden = advise("the lease: User \"x\" cannot get resource \"leases\"".to_owned());
        assert!(forbidden.contains("\"leases\"; apply the Roles"), "{forbidden}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_without_an_answer_ends() {
        let never = std::future::pending::<kube::Result<()>>();
        assert!(matches!(call("it", never).await, Err(CallError::Unavailable(_))));
    }
}
