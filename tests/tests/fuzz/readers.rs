//! The strict reader and the canonical writer.

use crate::fuzz;
use crate::mutate::{mutated, value};
use m87_core::json::{canonical, canonical_size, from_canonical};
use m87_core::strict;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The files of policy/, as they are.
fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../policy");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|end| end == "yaml")).map(|path| fs::read(path).unwrap()).collect()
}

/// What was read has one canonical text, which reads back as itself.
fn assert_has_one_text(value: &Value) {
    let text = canonical(value).expect("what the strict reader takes has a canonical text");
    assert_eq!(canonical_size(value), Ok(text.len()));
    let again: Value = from_canonical(text.as_bytes()).unwrap();
    assert_eq!(canonical(&again).unwrap(), text);
}

#[test]
fn strict_yaml() {
    let corpus = corpus();
    fuzz("strict_yaml", |random| {
        let (one, other) = (random.below(corpus.len()), random.below(corpus.len()));
        let text = mutated(random, &corpus[one], &corpus[other]);
        if let Ok(documents) = strict::yaml(&text) {
            documents.iter().for_each(assert_has_one_text);
        }
    });
}

#[test]
fn strict_json() {
    let mut corpus: Vec<Vec<u8>> =
        vec![br#"{"a":[1,2.5,-3e7,"\u00e9",null,true,{"b":{}}],"c":"9007199254740991"}"#.to_vec()];
    for text in self::corpus() {
        corpus.extend(strict::yaml(&text).unwrap().iter().map(|document| canonical(document).unwrap().into_bytes()));
    }
    fuzz("strict_json", |random| {
        let (one, other) = (random.below(corpus.len()), random.below(corpus.len()));
        let text = mutated(random, &corpus[one], &corpus[other]);
        if let Ok(read) = strict::json(&text) {
            assert_has_one_text(&read);
            // Whoever reads it with another reader reads the same.
            assert_eq!(serde_json::from_slice::<Value>(&text).unwrap(), read);
        }
    });
}

#[test]
fn canonical_writer() {
    fuzz("canonical_writer", |random| {
        let value = value(random, 5);
        let written = canonical(&value);
        assert_eq!(canonical_size(&value), written.as_ref().map(String::len).map_err(Clone::clone));
        if let Ok(text) = written {
            let again: Value = from_canonical(text.as_bytes()).unwrap();
            assert_eq!(canonical(&again).unwrap(), text);
            let mut bytes = text.into_bytes();
            let at = random.below(bytes.len());
            bytes[at] ^= 1 << random.below(7);
            // Another text is another value, or none.
            if let Ok(other) = from_canonical::<Value>(&bytes) {
                assert_eq!(canonical(&other).unwrap().into_bytes(), bytes);
                assert_ne!(other, value);
            }
        }
    });
}
