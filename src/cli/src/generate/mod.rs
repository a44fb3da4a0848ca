//! `m87 gen`: the files that say what the code says, so that they cannot drift from it. Also completions and the manual page.

mod reference;

use crate::args::{Arguments, GenArguments};
use crate::exit::Exit;
use crate::say::{put, say, tell};
use anyhow::Context;
use clap::CommandFactory;
use m87_api::{Spec, schema};
use m87_core::policy::PolicySpec;
use m87_core::tool::ManifestSpec;
use serde_json::Value;

/// Writes every generated file that is not current; with `--check`, only names them.
pub(crate) fn files(arguments: &GenArguments) -> anyhow::Result<Exit> {
    let mut stale = 0;
    for (name, text) in generated()? {
        let path = arguments.root.join(name);
        if std::fs::read_to_string(&path).is_ok_and(|current| current == text) {
            continue;
        }
        stale += 1;
        if arguments.check {
            tell!("{name} is not current; run m87 gen");
            continue;
        }
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
        say!("wrote {name}");
    }
    Ok(if arguments.check && stale > 0 { Exit::Otherwise } else { Exit::AsAsked })
}

/// Every generated file: its path from the root, and its text.
fn generated() -> anyhow::Result<Vec<(&'static str, String)>> {
    let policy = schema::structural::<PolicySpec>();
    let manifest = schema::structural::<ManifestSpec>();
    let run = schema::structural::<m87_api::GovernedRunSpec>();
    let kinds = [(PolicySpec::KIND, &policy), (ManifestSpec::KIND, &manifest), (m87_api::GovernedRunSpec::KIND, &run)];
    let resources = reference::resources(&kinds);
    Ok(vec![
        ("docs/schemas/governancepolicy.json", pretty(&policy)?),
        ("docs/schemas/toolmanifest.json", pretty(&manifest)?),
        ("docs/schemas/governedrun.json", pretty(&run)?),
        ("docs/reference/resources.md", resources),
        ("docs/reference/commands.md", reference::commands(Arguments::command())),
        ("docs/reference/reasons.md", reference::reasons()),
    ])
}

fn pretty(value: &Value) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

/// Prints a completion script.
pub(crate) fn completions(shell: clap_complete::Shell) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "m87", &mut script);
    put!(script);
    Ok(Exit::AsAsked)
}

/// Prints the manual page.
pub(crate) fn man() -> anyhow::Result<Exit> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Arguments::command()).render(&mut page)?;
    put!(page);
    Ok(Exit::AsAsked)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use std::path::Path;

    #[test]
    fn generated_files_are_current() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (name, text) in generated().unwrap() {
            let current = std::fs::read_to_string(root.join(name)).unwrap_or_default();
            assert!(current == text, "{name} is not current; run: cargo run -- gen");
        }
    }

    #[test]
    fn the_command_line_holds_together() {
        Arguments::command().debug_assert();
    }
}
