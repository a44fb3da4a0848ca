//! `m87 hash`: the hash that receipts and plans use, of any JSON or YAML document.

use crate::args::HashArguments;
use crate::exit::Exit;
use crate::files;
use crate::say::{say, tell};
use m87_api::local::MAX_FILE_BYTES;
use m87_core::json;
use m87_core::strict::{self, Bounds};

/// Prints `compute_hash` of each document, and with `--canonical` the text that is hashed.
pub(crate) fn run(arguments: &HashArguments) -> anyhow::Result<Exit> {
    let name = arguments.file.display();
    let bytes = files::read(&arguments.file, MAX_FILE_BYTES)?;
    let bounds = Bounds { bytes: bytes.len(), ..Bounds::DEFAULT };
    let is_json = arguments.file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    let parsed = if is_json {
        strict::json_within(&bytes, bounds).map(|value| vec![value])
    } else {
        strict::yaml_within(&bytes, bounds)
    };
    let documents = match parsed {
        Ok(documents) => documents,
        Err(error) => {
            tell!("{name}: {error}");
            return Ok(Exit::Invalid);
        }
    };
    for document in &documents {
        match json::canonical(document) {
            Ok(text) if arguments.canonical => say!("{text}"),
            Ok(text) => say!("{}", json::sha256_hex(text.as_bytes())),
            Err(error) => {
                tell!("{name}: {error}");
                return Ok(Exit::Invalid);
            }
        }
    }
    Ok(Exit::AsAsked)
}
