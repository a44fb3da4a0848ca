//! The bearer token that goes with each call.

use std::{fmt, path::PathBuf, sync::Arc};

use tonic::{Request, Status, metadata::MetadataValue, service::Interceptor};

/// Where a token comes from. Asked at each call, so that one that was rotated is used at once.
pub trait TokenSource: Send + Sync {
    /// The token, without `Bearer`.
    ///
    /// # Errors
    /// Why there is none now, in words for people; the call then counts as unavailable.
    fn token(&self) -> Result<String, String>;
}

/// The usual sources of a token.
#[derive(Clone)]
pub enum Token {
    /// Always this one.
    Fixed(String),
    /// The content of a file, read at each call (a projected token is replaced on disk).
    File(PathBuf),
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(_) => f.write_str("Fixed(…)"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

impl TokenSource for Token {
    fn token(&self) -> Result<String, String> {
        match self {
            Self::Fixed(token) => Ok(token.clone()),
            Self::File(path) => match std::fs::read_to_string(path) {
                Ok(text) => Ok(text.trim().to_owned()),
                Err(error) => Err(format!("{}: the token cannot be read: {error}", path.display())),
            },
        }
    }
}

/// Puts the token, if there is a source of one, on each request.
#[derive(Clone, Default)]
pub(crate) struct Bearer(pub(crate) Option<Arc<dyn TokenSource>>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(source) = &self.0 {
            let token = source.token().map_err(Status::unavailable)?;
            let mut value = MetadataValue::try_from(format!("Bearer {token}"))
                .map_err(|_| Status::unauthenticated("the token has characters that a header cannot carry"))?;
            value.set_sensitive(true);
            request.metadata_mut().insert("authorization", value);
        }
        Ok(request)
    }
}
