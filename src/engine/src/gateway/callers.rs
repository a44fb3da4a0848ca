//! Who calls. A gateway is either open, like a plain Zeebe, or it maps bearer tokens to callers; then a caller that it
//! cannot name gets nothing.

use async_trait::async_trait;
use m87_core::lane::Lane;
use sha2::{Digest, Sha256};
use tonic::{Status, metadata::MetadataMap};

/// Who makes a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Caller {
    /// m87's operator: it deploys, starts, cancels, resolves, and does the process's two listeners.
    Operator,
    /// The worker of a lane: it does its lane's jobs, and nothing else.
    Lane(Lane),
    /// Anybody, on a gateway that asks nobody who they are: may do everything, like on a plain Zeebe.
    Anonymous,
}

/// Why a caller could not be named.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unidentified {
    /// No token, or one that nobody here knows.
    #[error("no known bearer token: send `authorization: Bearer …` with the token of an operator or a lane")]
    Unknown,
    /// Nobody could say at the moment.
    #[error("callers cannot be identified now, try again: {0}")]
    Unavailable(String),
}

impl From<Unidentified> for Status {
    fn from(error: Unidentified) -> Self {
        match error {
            Unidentified::Unknown => Self::unauthenticated(error.to_string()),
            Unidentified::Unavailable(_) => Self::unavailable(error.to_string()),
        }
    }
}

/// Maps the bearer token of a request to its caller.
#[async_trait]
pub trait Callers: Send + Sync + 'static {
    /// The caller with this token; `None` if the request carries none.
    ///
    /// # Errors
    /// If there is no such caller, or nobody can say now.
    async fn identify(&self, token: Option<&str>) -> Result<Caller, Unidentified>;
}

/// Everybody is [`Caller::Anonymous`], whatever they send.
#[derive(Debug, Clone, Copy, Default)]
pub struct Open;

#[async_trait]
impl Callers for Open {
    async fn identify(&self, _token: Option<&str>) -> Result<Caller, Unidentified> {
        Ok(Caller::Anonymous)
    }
}

/// One and the same caller, whoever calls: for a channel within the process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Always(pub(super) Caller);

#[async_trait]
impl Callers for Always {
    async fn identify(&self, _token: Option<&str>) -> Result<Caller, Unidentified> {
        Ok(self.0)
    }
}

/// A fixed set of tokens. Only their hashes are kept, and every one is compared, to the end.
#[derive(Debug, Clone, Default)]
pub struct Tokens(Vec<([u8; 32], Caller)>);

impl Tokens {
    /// Makes `token` that of `caller`. A blank token is left out: it would let in whoever sends nothing.
    #[must_use]
    pub fn with(mut self, token: &str, caller: Caller) -> Self {
        if !token.trim().is_empty() {
            self.0.push((Sha256::digest(token.as_bytes()).into(), caller));
        }
        self
    }
}

#[async_trait]
impl Callers for Tokens {
    async fn identify(&self, token: Option<&str>) -> Result<Caller, Unidentified> {
        let offered: [u8; 32] = Sha256::digest(token.ok_or(Unidentified::Unknown)?.as_bytes()).into();
        let mut found = None;
        for (known, caller) in &self.0 {
            let differing = known.iter().zip(&offered).fold(0, |bits, (a, b)| bits | (a ^ b));
            if std::hint::black_box(differing) == 0 {
                found = Some(*caller);
            }
        }
        found.ok_or(Unidentified::Unknown)
    }
}

/// The bearer token of a request. Clients without one may send the header empty.
pub(super) fn bearer(metadata: &MetadataMap) -> Option<&str> {
    let value = metadata.get("authorization")?.to_str().ok()?.trim();
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[tokio::test]
    async fn only_a_known_token_names_a_caller() {
        let tokens = Tokens::default()
            .with("secret-o", Caller::Operator)
            .with("secret-r", Caller::Lane(Lane::Runner))
            .with("", Caller::Operator)
            .with("  ", Caller::Operator);
        assert_eq!(tokens.identify(Some("secret-o")).await, Ok(Caller::Operator));
        assert_eq!(tokens.identify(Some("secret-r")).await, Ok(Caller::Lane(Lane::Runner)));
        for token in [None, Some(""), Some("  "), Some("secret"), Some("secret-o "), Some("Secret-o")] {
            assert_eq!(tokens.identify(token).await, Err(Unidentified::Unknown), "{token:?}");
        }
    }

    #[test]
    fn nobody_to_ask_is_not_a_no() {
        assert_eq!(Status::from(Unidentified::Unknown).code(), tonic::Code::Unauthenticated);
        assert_eq!(Status::from(Unidentified::Unavailable("down".into())).code(), tonic::Code::Unavailable);
    }

    #[test]
    fn an_empty_or_foreign_authorization_header_is_no_token() {
        for (header, token) in [
            ("Bearer abc", Some("abc")),
            ("bearer  abc ", Some("abc")),
            ("", None),
            ("Bearer", None),
            ("Bearer ", None),
            ("Basic dXNlcjpwYXNz", None),
            ("abc", None),
        ] {
            let mut metadata = MetadataMap::new();
            metadata.insert("authorization", header.parse().unwrap());
            assert_eq!(bearer(&metadata), token, "{header:?}");
        }
        assert_eq!(bearer(&MetadataMap::new()), None);
    }
}
