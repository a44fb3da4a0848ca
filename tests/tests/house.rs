//! The house stands as CONTRIBUTING.md draws it: a crate depends only on those above it, and what it must not know it does
//! not link. That the core reads no clock is Clippy's to say, by `src/core/clippy.toml`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates by their folders in `src/`, from the one that knows nothing of any other.
const CRATES: [(&str, &str); 9] = [
    ("core", "m87-core"),
    ("bpmn", "m87-bpmn"),
    ("api", "m87-api"),
    ("zeebe", "m87-zeebe"),
    ("engine", "m87-engine"),
    ("authority", "m87-authority"),
    ("worker", "m87-worker"),
    ("operator", "m87-operator"),
    ("cli", "m87"),
];

const KUBERNETES: [&str; 4] = ["kube", "kube-client", "kube-runtime", "k8s-openapi"];
/// What waits, connects or serves.
const ASYNCHRONOUS: [&str; 9] =
    ["tokio", "async-std", "futures", "mio", "socket2", "hyper", "axum", "tonic", "reqwest"];
/// What a crate that is a function of its arguments has no use for.
const OUTSIDE: [&str; 7] = ["sqlx", "object_store", "rustix", "nix", "tempfile", "tracing", "chrono"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn cargo(arguments: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output =
        Command::new(cargo).args(arguments).args(["--offline", "--locked"]).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "cargo {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What each crate of the workspace names in its Cargo.toml for what is shipped: all but what is for tests and benches alone.
fn named() -> BTreeMap<String, BTreeSet<String>> {
    let metadata: Value = serde_json::from_str(&cargo(&["metadata", "--no-deps", "--format-version", "1"])).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let shipped = |package: &Value| {
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        let shipped = dependencies.filter(|dependency| dependency["kind"] != "dev");
        shipped.map(|dependency| dependency["name"].as_str().unwrap().to_owned()).collect()
    };
    packages.map(|package| (package["name"].as_str().unwrap().to_owned(), shipped(package))).collect()
}

/// Everything that is compiled into a crate, itself left out.
fn linked(crate_name: &str) -> BTreeSet<String> {
    let tree = cargo(&["tree", "--package", crate_name, "--edges", "normal", "--prefix", "none", "--format", "{p}"]);
    let names = tree.lines().filter_map(|line| line.split(' ').next());
    names.filter(|name| !name.is_empty() && *name != crate_name).map(str::to_owned).collect()
}

#[test]
fn a_crate_depends_only_on_those_above_it() {
    let named = named();
    let known: BTreeSet<&str> = CRATES.iter().map(|(_, name)| *name).chain(["m87-tests"]).collect();
    assert_eq!(
        named.keys().map(String::as_str).collect::<BTreeSet<_>>(),
        known,
        "a crate that the house does not know"
    );
    for (place, (_, name)) in CRATES.iter().enumerate() {
        let above: BTreeSet<&str> = CRATES[..place].iter().map(|(_, name)| *name).collect();
        let own: BTreeSet<&str> =
            named[*name].iter().map(String::as_str).filter(|other| known.contains(other)).collect();
        let below: Vec<_> = own.difference(&above).collect();
        assert!(below.is_empty(), "{name} depends on {below:?}, which it may not know");
    }
    // Only whoever speaks to Kubernetes knows its resources: the authority has them as traits.
    for name in ["m87-authority", "m87-worker", "m87-engine", "m87-zeebe"] {
        assert!(!linked(name).contains("m87-api"), "{name} knows the resources");
    }
}

#[test]
fn the_pure_crates_link_nothing_that_reaches_outside() {
    for name in ["m87-core", "m87-bpmn", "m87-api"] {
        let linked = linked(name);
        assert!(linked.contains("serde_json"), "{name}: {linked:?}");
        let outside: Vec<_> =
            KUBERNETES.iter().chain(&ASYNCHRONOUS).chain(&OUTSIDE).filter(|other| linked.contains(**other)).collect();
        assert!(outside.is_empty(), "{name} links {outside:?}");
    }
    // Others draw random numbers for their own tables; the core has none at hand.
    let named = named();
    for name in ["getrandom", "rand", "uuid", "ahash"] {
        assert!(!named["m87-core"].contains(name), "m87-core names {name}");
    }
}

#[test]
fn only_the_operator_and_the_command_line_link_kubernetes() {
    for (_, name) in CRATES {
        let linked = linked(name);
        let speaks = ["m87-operator", "m87"].contains(&name);
        for library in KUBERNETES {
            // Those that do are asked too, so that a library whose name has changed does not pass unseen.
            assert_eq!(linked.contains(library), speaks, "{name}: {library}");
        }
    }
}

#[test]
fn the_list_is_the_one_that_is_written_down() {
    let text = std::fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `src/")?.split('`').next());
    assert_eq!(rows.collect::<Vec<_>>(), CRATES.map(|(folder, _)| folder));
    for (folder, name) in CRATES {
        let manifest = std::fs::read_to_string(root().join("src").join(folder).join("Cargo.toml")).unwrap();
        assert!(manifest.contains(&format!("\nname = \"{name}\"\n")), "src/{folder} is not {name}");
        assert!(manifest.contains("\n[lints]\nworkspace = true\n"), "src/{folder} has lints of its own");
    }
}

#[test]
fn the_core_is_checked_for_clocks_and_nobody_looks_away() {
    let rules = std::fs::read_to_string(root().join("src/core/clippy.toml")).unwrap();
    for clock in ["std::time::SystemTime::now", "std::time::Instant::now", "time::OffsetDateTime::now_utc"] {
        assert!(rules.contains(&format!("\"{clock}\"")), "{clock} is not refused");
    }
    // A test may measure how long it takes; what is shipped may not say that it may.
    let mut looked = 0;
    sources(&root().join("src/core/src"), &mut |path, text| {
        looked += 1;
        let is_test = path.ends_with("tests.rs") || path.components().any(|part| part.as_os_str() == "tests");
        let shipped = if is_test { "" } else { text.split("\n#[cfg(test)]\nmod tests {").next().unwrap() };
        for word in ["disallowed_methods", "SystemTime", "Instant::now"] {
            assert!(!shipped.contains(word), "{}: {word}", path.display());
        }
    });
    assert!(looked > 40, "{looked} files");
}

fn sources(folder: &Path, look: &mut impl FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, look);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            look(&path, &std::fs::read_to_string(&path).unwrap());
        }
    }
}
