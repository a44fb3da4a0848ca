//! Snapshots: the whole state at one position of the journal, in a file of its own with a checksum. Written beside the
//! running engine; a snapshot appears complete or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::machine::State;

/// The version of the state that this build writes and reads.
const STATE_VERSION: u32 = 1;

/// The first line of a snapshot file; the state follows.
#[derive(Serialize, Deserialize)]
struct Header {
    version: u32,
    engine: String,
    position: i64,
    sha256: String,
}

/// A snapshot's file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) position: i64,
    pub(super) path: PathBuf,
}

/// The snapshots of a folder, oldest first.
pub(super) fn list(folder: &Path) -> io::Result<Vec<Place>> {
    let mut places = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let position = name.strip_prefix("snapshot-").and_then(|name| name.strip_suffix(".json"));
        if let Some(position) = position.and_then(|position| position.parse().ok()) {
            places.push(Place { position, path });
        }
    }
    places.sort();
    Ok(places)
}

/// Writes a snapshot and answers its size in bytes. On an error nothing but an ignored temporary file is left.
pub(super) fn write(folder: &Path, engine: &str, position: i64, state: &State) -> io::Result<u64> {
    let body = serde_json::to_vec(state)?;
    let header = Header {
        version: STATE_VERSION,
        engine: engine.to_owned(),
        position,
        sha256: hex::encode(Sha256::digest(&body)),
    };
    let mut head = serde_json::to_vec(&header)?;
    head.push(b'\n');
    let temporary = folder.join("snapshot.tmp");
    let mut file = File::create(&temporary)?;
    file.write_all(&head)?;
    file.write_all(&body)?;
    file.sync_all()?;
    fs::rename(&temporary, folder.join(format!("snapshot-{position:020}.json")))?;
    File::open(folder)?.sync_all()?;
    Ok((head.len() + body.len()) as u64)
}

/// Reads a snapshot; an error says what is wrong with it.
pub(super) fn read(place: &Place, engine: &str) -> Result<State, String> {
    let bytes = fs::read(&place.path).map_err(|error| error.to_string())?;
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or("it has no header")?;
    let (head, body) = bytes.split_at(end);
    let body = body.get(1..).unwrap_or_default();
    let header: Header = serde_json::from_slice(head).map_err(|error| format!("its header is damaged: {error}"))?;
    if header.version != STATE_VERSION {
        return Err(format!("it has version {}, and this build reads version {STATE_VERSION}", header.version));
    }
    if header.engine != engine || header.position != place.position {
        return Err(format!("it is of engine {:?} at position {}", header.engine, header.position));
    }
    if header.sha256 != hex::encode(Sha256::digest(body)) {
        return Err("its checksum does not match".to_owned());
    }
    serde_json::from_slice(body).map_err(|error| format!("its state does not read: {error}"))
}
