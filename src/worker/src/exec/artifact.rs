//! What the tool left: its artifact, hashed while it is sent to the authority, and its report of usage.

use crate::sandbox::text::readable;
use crate::shim::link::Left;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use m87_core::evidence::DeclaredArtifact;
use m87_core::json::to_canonical;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of one piece on its way.
const PIECE: usize = 64 * 1024;
/// A report of usage larger than this is none.
const USAGE_BYTES: u64 = 64 * 1024;

/// The artifact, opened.
pub(super) struct Artifact {
    file: Arc<File>,
    seen: Arc<Mutex<Seen>>,
}

/// What one reading of the artifact came to.
#[derive(Debug, Clone, Default)]
struct Seen {
    size: u64,
    /// Present once the end was read.
    sha256: Option<String>,
}

impl Artifact {
    pub(super) fn new(file: File) -> Self {
        Self { file: Arc::new(file), seen: Arc::default() }
    }

    /// Its bytes from the start, hashed as they go. It ends early if the file cannot be read on; then there is no hash.
    pub(super) fn stream(&self) -> BoxStream<'static, Bytes> {
        let seen = Arc::clone(&self.seen);
        let keep = move |now: Seen| *seen.lock().unwrap_or_else(PoisonError::into_inner) = now;
        keep(Seen::default());
        let start = (Arc::clone(&self.file), Sha256::new(), 0_u64, keep);
        futures::stream::unfold(start, |(file, mut hash, size, keep)| async move {
            let mut piece = vec![0; PIECE];
            match read_at(&file, &mut piece, size) {
                Ok(0) => {
                    keep(Seen { size, sha256: Some(hex::encode(hash.finalize())) });
                    None
                }
                Ok(count) => {
                    piece.truncate(count);
                    hash.update(&piece);
                    let size = size.saturating_add(count as u64);
                    keep(Seen { size, sha256: None });
                    Some((Bytes::from(piece), (file, hash, size, keep)))
                }
                Err(error) => {
                    tracing::warn!(%error, "the artifact cannot be read to its end");
                    None
                }
            }
        })
        .boxed()
    }

    /// What was read last. If nobody wanted all of it, it is read now.
    pub(super) async fn declare(&self) -> DeclaredArtifact {
        if self.seen().sha256.is_none() {
            self.stream().for_each(|_| std::future::ready(())).await;
        }
        let Seen { size, sha256 } = self.seen();
        DeclaredArtifact { sha256, size: i64::try_from(size).unwrap_or(i64::MAX) }
    }

    fn seen(&self) -> Seen {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn read_at(file: &File, piece: &mut [u8], offset: u64) -> std::io::Result<usize> {
    loop {
        match file.read_at(piece, offset) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

/// What the tool reported of its usage: JSON as it stands, or a string that says why it is none. `None` if it left no
/// file. Whatever it is, it can be written into a report.
pub(super) fn usage(left: &Left, file: Option<File>) -> Option<Value> {
    match (left, file) {
        (Left::Nothing, _) => None,
        (Left::Unusable(why), _) => Some(Value::String(why.clone())),
        (Left::File, Some(file)) => {
            Some(read_usage(file).unwrap_or_else(|why| Value::String(readable(why.as_bytes()))))
        }
        (Left::File, None) => Some(Value::String("it was not handed over".to_owned())),
    }
}

fn read_usage(file: File) -> Result<Value, String> {
    let mut bytes = Vec::new();
    file.take(USAGE_BYTES + 1).read_to_end(&mut bytes).map_err(|error| format!("unreadable: {error}"))?;
    let small = |bytes: &[u8]| bytes.len() as u64 <= USAGE_BYTES;
    let too_large = || format!("larger than {USAGE_BYTES} bytes");
    if !small(&bytes) {
        return Err(too_large());
    }
    let value = m87_core::strict::json(&bytes).map_err(|error| format!("not JSON: {error}"))?;
    // `1e20` has twenty more digits as it will be written.
    let text = to_canonical(&value).map_err(|error| error.to_string())?;
    if small(text.as_bytes()) { Ok(value) } else { Err(too_large()) }
}
