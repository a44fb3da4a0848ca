//! docs/faults.md names tests, files and scripts; each of them is there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The names of all functions of the workspace's sources.
fn functions(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            functions(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let after = text.split("fn ").skip(1);
            names.extend(after.filter_map(|rest| rest.split(['(', '<']).next()).map(str::to_owned));
        }
    }
}

#[test]
fn every_test_that_the_table_of_faults_names_is_there() {
    let root = root();
    let mut names = BTreeSet::new();
    functions(&root.join("src"), &mut names);
    functions(&root.join("tests"), &mut names);
    let table = std::fs::read_to_string(root.join("docs/faults.md")).unwrap();
    let rows: Vec<&str> =
        table.lines().filter(|line| line.starts_with("| ") && line.contains(char::is_numeric)).collect();
    assert!(rows.len() > 30, "{} rows", rows.len());
    for row in rows {
        for word in row.split('`').skip(1).step_by(2) {
            let is_file = word.contains('/') && root.join(word).exists();
            let is_other =
                ["crds/", "${…}", "--take-ownership", "keep", "m87.dev/schema-sha256", "m87 tenant"].contains(&word);
            assert!(is_file || is_other || names.contains(word), "{word} is nowhere: {row}");
        }
        for script in row.split([' ', ',', ';', ':', '|', '(', ')']).filter(|word| word.starts_with("tests/")) {
            assert!(root.join(script).exists(), "{script} is nowhere: {row}");
        }
    }
}
