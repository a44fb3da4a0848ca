//! docs/faults.md names tests by their functions and checks of scripts by their words; each of them is there. What can only be shown
//! by the sources themselves is shown here.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use m87_core::strict;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// The functions of a source that are run as tests: those under `#[test]` or `#[tokio::test]`, with nothing but notes between.
fn tests_in(text: &str) -> Vec<String> {
    let (mut names, mut is_test) = (Vec::new(), false);
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if line.starts_with("#[") || line.starts_with("//") || line.starts_with("#![") {
            continue;
        } else {
            let function = line.split_once("fn ").filter(|(before, _)| ["", "async "].contains(before));
            if let (true, Some((_, rest))) = (is_test, function) {
                names.extend(rest.split(['(', '<']).next().map(str::to_owned));
            }
            is_test = false;
        }
    }
    names
}

/// The names of all tests of the workspace.
fn tests(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            tests(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            names.extend(tests_in(&std::fs::read_to_string(&path).unwrap()));
        }
    }
}

/// What a script's checks begin with, before the words that say what must hold.
const CHECKS: [&str; 8] = ["check", "refused", "same", "has", "eventually", "becomes", "ends", "allowed"];

/// Whether a script has a check of those words.
fn checks(script: &str, words: &str) -> bool {
    let line_checks = |line: &str| CHECKS.iter().any(|check| line.contains(&format!("{check} \"{words}\"")));
    script.lines().any(|line| !line.trim_start().starts_with('#') && line_checks(line))
}

/// What a row names in words and not as a test.
const WORDS: [&str; 6] = ["crds/", "keep", "m87.dev/schema-sha256", "--take-ownership", "m87 tenant", "${…}"];

/// Whatever does not hold of a row's last cell; and how much it names that shows something.
fn judge(cell: &str, names: &BTreeSet<String>) -> (Vec<String>, usize) {
    let (mut wrong, mut shown) = (Vec::new(), 0);
    for word in cell.split('`').skip(1).step_by(2).filter(|word| !WORDS.contains(word)) {
        shown += 1;
        if !names.contains(word) {
            wrong.push(format!("{word} is no test"));
        }
    }
    for part in cell.split("tests/").skip(1) {
        let script = format!("tests/{}", part.split([' ', ',', ';', ':', ')', '|']).next().unwrap());
        let Ok(text) = std::fs::read_to_string(root().join(&script)) else {
            wrong.push(format!("{script} is nowhere"));
            continue;
        };
        let checked: Vec<&str> = part.split('"').skip(1).step_by(2).collect();
        if checked.is_empty() {
            wrong.push(format!("no check of {script} is named"));
        }
        shown += checked.len();
        let missing = checked.into_iter().filter(|words| !checks(&text, words));
        wrong.extend(missing.map(|words| format!("{script} does not check \"{words}\"")));
    }
    (wrong, shown)
}

fn names() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    tests(&root().join("src"), &mut names);
    tests(&root().join("tests"), &mut names);
    names
}

#[test]
fn every_fault_of_the_table_has_a_test_or_a_check_that_is_there() {
    let (names, table) = (names(), read("docs/faults.md"));
    let mut numbers = Vec::new();
    for row in table.lines().filter(|line| line.starts_with("| ")).skip(2) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [number, fault, cell] = cells.as_slice() else { panic!("three cells: {row}") };
        numbers.push(number.parse::<u32>().unwrap());
        let (wrong, shown) = judge(cell, &names);
        assert_eq!(wrong, Vec::<String>::new(), "{number}, {fault}");
        assert!(shown > 0, "nothing shows {number}, {fault}");
    }
    assert_eq!(numbers, (1..=40).collect::<Vec<_>>(), "one row for each fault of the collection");
}

#[test]
fn a_row_that_names_no_test_is_found() {
    let names = names();
    assert!(names.contains("a_row_that_names_no_test_is_found") && names.len() > 500);
    for cell in [
        "`judge`",
        "`put_status`",
        "`src/operator/src/events.rs`",
        "`a_test_that_nobody_wrote`",
        "tests/kube/crds",
        "tests/kube/crds creates them",
        "tests/kube/nowhere: \"a check\"",
        "tests/kube/crds: \"helm\"",
        "tests/kube/crds: \"applied again\"",
        "`a_row_that_names_no_test_is_found`, tests/kube/crds: \"and by manifest\", \"and by nobody\"",
    ] {
        assert_eq!(judge(cell, &names).0.len(), 1, "{cell}");
    }
    let good = "`a_row_that_names_no_test_is_found`; tests/kube/crds: \"and by manifest\"";
    assert_eq!(judge(good, &names), (Vec::new(), 2));
    assert_eq!(judge("there are none", &names), (Vec::new(), 0));
    let text = "#[test]\n#[ignore = \"x\"]\n// Why.\nfn a() {}\nfn b() {}\n#[tokio::test(start_paused = true)]\nasync fn c() {}\n";
    assert_eq!(tests_in(text), ["a", "c"]);
}

/// Fault 15. Two of them abort the process at its first handshake.
#[test]
fn one_tls_provider_is_locked() {
    let lock = read("Cargo.lock");
    let locked: BTreeSet<&str> = lock.lines().filter_map(|line| line.strip_prefix("name = ")).collect();
    assert!(locked.contains("\"rustls\"") && locked.contains("\"ring\""));
    for other in ["aws-lc-rs", "aws-lc-sys", "openssl", "openssl-sys", "native-tls", "boring", "rustls-openssl"] {
        assert!(!locked.contains(format!("\"{other}\"").as_str()), "{other}");
    }
}

/// Fault 19. Objects of a version that is no longer served are what hinders.
#[test]
fn there_is_one_version_of_each_kind() {
    let files = std::fs::read_dir(root().join("crds")).unwrap().map(|file| file.unwrap().path());
    let files: Vec<_> = files.filter(|path| path.extension().is_some_and(|extension| extension == "yaml")).collect();
    assert_eq!(files.len(), 3);
    for file in files {
        let definition = strict::yaml(&std::fs::read(&file).unwrap()).unwrap().remove(0);
        let versions = definition["spec"]["versions"].as_array().unwrap();
        let of = |version: &serde_json::Value| {
            (version["name"].clone(), version["served"].clone(), version["storage"].clone())
        };
        let all: Vec<_> = versions.iter().map(of).collect();
        assert_eq!(all, [("v1alpha1".into(), true.into(), true.into())], "{}", file.display());
    }
}
