//! The strict reader of objects on a disk. It reads everything, collects every error, and gives out either all objects or
//! none: a typing mistake in one file must not let the others run under half a policy.

mod check;
mod error;
mod files;
#[cfg(test)]
mod tests;

pub use error::ReadError;
pub use files::MAX_FILE_BYTES;

use crate::metadata::Metadata;
use crate::object::{API_VERSION, GovernancePolicy, GovernedRun, Object, Spec, ToolManifest};
use crate::policy::GovernancePolicySpec;
use crate::run::GovernedRunSpec;
use check::Checker;
use m87_core::strict::{self, Bounds};
use m87_core::tool::ManifestSpec;
use serde_json::Value;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};

/// The most one object may take as JSON, in bytes: what fits into a cluster's store with room for status.
pub const MAX_OBJECT_BYTES: usize = 1 << 20;

/// Namespace and name of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The tenant.
    pub namespace: String,
    /// The name in it.
    pub name: String,
}

impl Key {
    /// Of an object.
    pub fn of(metadata: &Metadata) -> Self {
        Self { namespace: metadata.namespace.clone(), name: metadata.name.clone() }
    }

    /// Of what an object of this namespace refers to by name.
    pub fn beside(&self, name: &str) -> Self {
        Self { namespace: self.namespace.clone(), name: name.to_owned() }
    }
}

/// Everything that was read, in the order of names.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Objects {
    /// The policies.
    pub policies: BTreeMap<Key, GovernancePolicy>,
    /// The manifests.
    pub manifests: BTreeMap<Key, ToolManifest>,
    /// The runs.
    pub runs: BTreeMap<Key, GovernedRun>,
}

/// Reads files, and the `*.yaml`, `*.yml` and `*.json` of folders (not of folders within).
///
/// # Errors
/// Every problem that was found, in the order of files; then nothing should run.
pub fn read(paths: &[PathBuf]) -> Result<Objects, Vec<ReadError>> {
    let mut reading = Reading::default();
    let mut errors = Vec::new();
    for file in files::expand(paths, &mut errors) {
        match files::load(&file).and_then(|bytes| parse(&file, &bytes)) {
            Ok(documents) => {
                for (at, document) in documents.into_iter().enumerate().filter(|(_, document)| !document.is_null()) {
                    reading.take(&file, at + 1, document, &mut errors);
                }
            }
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(reading.objects) } else { Err(errors) }
}

/// The documents of one file.
fn parse(file: &Path, bytes: &[u8]) -> Result<Vec<Value>, ReadError> {
    let is_json = file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    let bounds = Bounds { bytes: bytes.len(), ..Bounds::DEFAULT };
    let parsed = match is_json {
        true => strict::json_within(bytes, bounds).map(|value| vec![value]),
        false => strict::yaml_within(bytes, bounds),
    };
    parsed.map_err(|error| ReadError::file(file, error.to_string()))
}

#[derive(Default)]
struct Reading {
    checker: Checker,
    objects: Objects,
    seen: BTreeMap<(&'static str, Key), PathBuf>,
}

impl Reading {
    fn take(&mut self, file: &Path, number: usize, document: Value, errors: &mut Vec<ReadError>) {
        let place = ReadError::file(file, String::new()).of(format!("document {number}"));
        let Value::Object(fields) = &document else {
            errors.push(place.saying("is not an object; write apiVersion, kind, metadata and spec"));
            return;
        };
        let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
        let (version, kind) = (text("apiVersion").to_owned(), text("kind").to_owned());
        match kind.as_str() {
            _ if version != API_VERSION => {
                errors.push(place.at("apiVersion").saying(format!("is {version:?}; write {API_VERSION}")));
            }
            GovernancePolicySpec::KIND => self.typed(file, &place, document, errors, |objects, key, object| {
                objects.policies.insert(key, object);
            }),
            ManifestSpec::KIND => self.typed(file, &place, document, errors, |objects, key, object| {
                objects.manifests.insert(key, object);
            }),
            GovernedRunSpec::KIND => self.typed(file, &place, document, errors, |objects, key, object| {
                objects.runs.insert(key, object);
            }),
            _ => {
                let known = [GovernancePolicySpec::KIND, ManifestSpec::KIND, GovernedRunSpec::KIND];
                let hint = error::suggestion(&kind, known.into_iter());
                errors.push(place.at("kind").saying(format!("{kind:?} is not a kind of {API_VERSION}; {hint}")));
            }
        }
    }

    fn typed<S: check::Checked>(
        &mut self,
        file: &Path,
        place: &ReadError,
        document: Value,
        errors: &mut Vec<ReadError>,
        insert: impl FnOnce(&mut Objects, Key, Object<S>),
    ) {
        let object = match self.checker.check::<S>(place, document) {
            Ok(object) => object,
            Err(found) => return errors.extend(found),
        };
        let key = Key::of(&object.metadata);
        match self.seen.entry((S::KIND, key.clone())) {
            Entry::Occupied(first) => {
                let problem = format!("is also in {}; names are unique by kind and namespace", first.get().display());
                errors.push(place.clone().of(check::called::<S>(&object.metadata)).at("metadata.name").saying(problem));
            }
            Entry::Vacant(slot) => {
                slot.insert(file.to_owned());
                insert(&mut self.objects, key, object);
            }
        }
    }
}
