//! Artifacts, named by their content: written under a passing name, hashed on the way, then renamed.

use crate::row::StoredArtifact;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload};
use sha2::{Digest, Sha256};
use std::path::Path;
use std::sync::Arc;

/// The artifacts of all runs.
#[derive(Debug, Clone)]
pub struct Artifacts {
    store: Arc<dyn ObjectStore>,
}

/// Where uploads are until their hash is known.
const INCOMING: &str = "incoming";

/// An artifact cannot be stored or read.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// Larger than it may be.
    #[error("the artifact has more than {limit} bytes")]
    TooLarge {
        /// In bytes.
        limit: u64,
    },
    /// The upload broke off.
    #[error("the upload broke off: {0}")]
    BrokenOff(String),
    /// It is not there.
    #[error("no artifact {0} is stored")]
    Missing(String),
    /// The store failed.
    #[error("the artifact store failed: {0}")]
    Store(#[from] object_store::Error),
    /// The folder cannot be made.
    #[error("{path}: {source}")]
    Folder {
        /// Which one.
        path: String,
        /// Why.
        source: std::io::Error,
    },
}

/// Bytes as they come in.
pub type Incoming = BoxStream<'static, Result<Bytes, String>>;

/// Bytes as they go out.
pub type Outgoing = BoxStream<'static, Result<Bytes, ArtifactError>>;

impl Artifacts {
    /// Artifacts in a folder, which is made if it is not there. Uploads that were cut off by a crash are cleared away: nobody
    /// else may be using the folder.
    pub fn in_folder(folder: &Path) -> Result<Self, ArtifactError> {
        let failed = |source| ArtifactError::Folder { path: folder.display().to_string(), source };
        std::fs::create_dir_all(folder).map_err(failed)?;
        match std::fs::remove_dir_all(folder.join(INCOMING)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
            Err(_) | Ok(()) => {}
        }
        Ok(Self { store: Arc::new(LocalFileSystem::new_with_prefix(folder)?.with_fsync(true)) })
    }

    /// Artifacts in any object store.
    pub fn new(store: Arc<dyn ObjectStore>) -> Self {
        Self { store }
    }

    /// Stores what comes in, unless it is more than `limit` bytes. `name` is unique to this upload.
    pub async fn put(&self, name: &str, limit: u64, data: Incoming) -> Result<StoredArtifact, ArtifactError> {
        let passing = ObjectPath::from(format!("{INCOMING}/{name}"));
        let mut upload = self.store.put_multipart(&passing).await?;
        match copy(&mut *upload, limit, data).await {
            Ok(artifact) => {
                upload.complete().await?;
                self.store.rename(&passing, &object(&artifact.sha256)).await?;
                Ok(artifact)
            }
            Err(error) => {
                if let Err(abort) = upload.abort().await {
                    tracing::warn!(%passing, %abort, "a broken upload could not be cleared away");
                }
                Err(error)
            }
        }
    }

    /// Reads an artifact.
    pub async fn get(&self, sha256: &str) -> Result<Outgoing, ArtifactError> {
        match self.store.get(&object(sha256)).await {
            Ok(found) => Ok(found.into_stream().map(|bytes| bytes.map_err(ArtifactError::Store)).boxed()),
            Err(object_store::Error::NotFound { .. }) => Err(ArtifactError::Missing(sha256.to_owned())),
            Err(error) => Err(ArtifactError::Store(error)),
        }
    }

    /// Whether the store still holds those bytes, by reading them all.
    pub async fn holds(&self, sha256: &str) -> Result<bool, ArtifactError> {
        let mut data = match self.get(sha256).await {
            Ok(data) => data,
            Err(ArtifactError::Missing(_)) => return Ok(false),
            Err(error) => return Err(error),
        };
        let mut hasher = Sha256::new();
        while let Some(bytes) = data.next().await {
            hasher.update(bytes?);
        }
        Ok(hex::encode(hasher.finalize()) == sha256)
    }
}

async fn copy(
    upload: &mut dyn MultipartUpload,
    limit: u64,
    mut data: Incoming,
) -> Result<StoredArtifact, ArtifactError> {
    let (mut hasher, mut size) = (Sha256::new(), 0_u64);
    while let Some(bytes) = data.next().await {
        let bytes = bytes.map_err(ArtifactError::BrokenOff)?;
        size = size.saturating_add(bytes.len() as u64);
        if size > limit {
            return Err(ArtifactError::TooLarge { limit });
        }
        hasher.update(&bytes);
        if !bytes.is_empty() {
            upload.put_part(PutPayload::from_bytes(bytes)).await?;
        }
    }
    let size = i64::try_from(size).map_err(|_| ArtifactError::TooLarge { limit })?;
    Ok(StoredArtifact { sha256: hex::encode(hasher.finalize()), size })
}

/// `sha256/ab/cdef…`.
fn object(sha256: &str) -> ObjectPath {
    let (folder, rest) = sha256.split_at_checked(2).unwrap_or((sha256, ""));
    ObjectPath::from(format!("sha256/{folder}/{rest}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use futures::TryStreamExt;

    fn incoming(parts: &[&'static str]) -> Incoming {
        let parts: Vec<_> = parts.iter().map(|part| Ok(Bytes::from_static(part.as_bytes()))).collect();
        futures::stream::iter(parts).boxed()
    }

    #[tokio::test]
    async fn an_artifact_is_stored_under_its_hash_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let artifacts = Artifacts::in_folder(folder.path()).unwrap();
        let stored = artifacts.put("one", 100, incoming(&["ab", "", "c"])).await.unwrap();
        let of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(stored, StoredArtifact { sha256: of_abc.to_owned(), size: 3 });
        assert_eq!(artifacts.put("two", 100, incoming(&["abc"])).await.unwrap(), stored);
        let read: Vec<Bytes> = artifacts.get(of_abc).await.unwrap().try_collect().await.unwrap();
        assert_eq!(read.concat(), b"abc");
        assert!(artifacts.holds(of_abc).await.unwrap());
        std::fs::write(folder.path().join("sha256/ba").join(&of_abc[2..]), b"abd").unwrap();
        assert!(!artifacts.holds(of_abc).await.unwrap());
    }

    #[tokio::test]
    async fn an_empty_artifact_is_an_artifact() {
        let folder = tempfile::tempdir().unwrap();
        let artifacts = Artifacts::in_folder(folder.path()).unwrap();
        let stored = artifacts.put("one", 0, incoming(&[])).await.unwrap();
        assert_eq!(stored.size, 0);
        assert!(artifacts.holds(&stored.sha256).await.unwrap());
    }

    #[tokio::test]
    async fn what_is_too_large_or_broken_off_is_not_stored() {
        let folder = tempfile::tempdir().unwrap();
        let artifacts = Artifacts::in_folder(folder.path()).unwrap();
        let error = artifacts.put("one", 2, incoming(&["abc"])).await.unwrap_err();
        assert!(matches!(error, ArtifactError::TooLarge { limit: 2 }));
        let broken = futures::stream::iter([Ok(Bytes::from_static(b"a")), Err("cut".to_owned())]).boxed();
        assert!(matches!(artifacts.put("two", 9, broken).await, Err(ArtifactError::BrokenOff(_))));
        let missing = artifacts.get(&"0".repeat(64)).await;
        assert!(matches!(missing, Err(ArtifactError::Missing(_))));
        let left: Vec<_> = std::fs::read_dir(folder.path().join("incoming")).map(Iterator::collect).unwrap_or_default();
        assert!(left.is_empty(), "{left:?}");
    }
}
