//! `m87 gen`: the files that say what the code says, so that they cannot drift from it. Also completions and the manual page.

mod reference;

use crate::args::{Arguments, GenArguments, ManArguments};
use crate::exit::Exit;
use crate::say::{counted, put, say, tell};
use anyhow::Context;
use clap::CommandFactory;
use m87_api::status::Status;
use m87_api::{
    GovernancePolicySpec, GovernancePolicyStatus, GovernedRunSpec, GovernedRunStatus, Spec, ToolManifestStatus, crd,
    schema,
};
use m87_core::tool::ManifestSpec;
use serde_json::Value;
use std::collections::BTreeMap;

/// Writes every generated file that is not current; with `--check`, only names them.
pub(crate) fn files(arguments: &GenArguments) -> anyhow::Result<Exit> {
    let mut stale = 0;
    for (name, text) in generated()? {
        let path = arguments.root.join(&name);
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
fn generated() -> anyhow::Result<Vec<(String, String)>> {
    let policy = schema::structural::<GovernancePolicySpec>();
    let manifest = schema::structural::<ManifestSpec>();
    let run = schema::structural::<GovernedRunSpec>();
    let kinds = [
        (GovernancePolicySpec::KIND, &policy, GovernancePolicyStatus::schema()),
        (ManifestSpec::KIND, &manifest, ToolManifestStatus::schema()),
        (GovernedRunSpec::KIND, &run, GovernedRunStatus::schema()),
    ];
    let resources = reference::resources(&kinds);
    let pages = [
        ("docs/schemas/governancepolicy.json", pretty(&policy)?),
        ("docs/schemas/toolmanifest.json", pretty(&manifest)?),
        ("docs/schemas/governedrun.json", pretty(&run)?),
        ("docs/reference/resources.md", resources),
        ("docs/reference/commands.md", reference::commands(Arguments::command())),
        ("docs/reference/reasons.md", reference::reasons()),
    ];
    let definitions = crd::files()?.into_iter().map(|(name, text)| (format!("crds/{name}"), text));
    Ok(pages.map(|(name, text)| (name.to_owned(), text)).into_iter().chain(definitions).collect())
}

fn pretty(value: &Value) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

/// The command line as people use it: without the commands that m87 starts itself.
fn for_people() -> clap::Command {
    let whole = Arguments::command();
    let mut root = clap::Command::new("m87").version(env!("CARGO_PKG_VERSION")).propagate_version(true);
    if let (Some(about), Some(long)) = (whole.get_about(), whole.get_long_about()) {
        root = root.about(about.clone()).long_about(long.clone());
    }
    let commands = whole.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    root.args(whole.get_arguments().cloned()).subcommands(commands)
}

/// Prints a completion script.
pub(crate) fn completions(shell: clap_complete::Shell) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut for_people(), "m87", &mut script);
    put!(script);
    Ok(Exit::AsAsked)
}

/// Prints one manual page, or writes all of them.
pub(crate) fn man(arguments: &ManArguments) -> anyhow::Result<Exit> {
    let mut root = for_people();
    root.build();
    let mut pages = BTreeMap::new();
    manual(&root, "m87", &mut pages)?;
    if let Some(folder) = &arguments.dir {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        for (name, page) in &pages {
            let file = folder.join(format!("{name}.1"));
            std::fs::write(&file, page).with_context(|| file.display().to_string())?;
        }
        say!("wrote {} to {}", counted(pages.len(), "page"), folder.display());
        return Ok(Exit::AsAsked);
    }
    let mut name = vec!["m87"];
    name.extend(arguments.command.iter().map(String::as_str));
    let Some(page) = pages.get(&name.join("-")) else {
        tell!("there is no command {:?}; see m87 --help", name.join(" "));
        return Ok(Exit::Invalid);
    };
    put!(page);
    Ok(Exit::AsAsked)
}

/// The page of a command and of each below it, by its name: `m87-receipt-verify`.
fn manual(command: &clap::Command, name: &str, pages: &mut BTreeMap<String, Vec<u8>>) -> anyhow::Result<()> {
    let shown = |inner: &&clap::Command| !inner.is_hide_set() && inner.get_name() != "help";
    for inner in command.get_subcommands().filter(shown) {
        manual(inner, &format!("{name}-{}", inner.get_name()), pages)?;
    }
    let mut page = Vec::new();
    let source = concat!("m87 ", env!("CARGO_PKG_VERSION"));
    clap_mangen::Man::new(command.clone()).title(name).source(source).render(&mut page)?;
    pages.insert(name.to_owned(), page);
    Ok(())
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
            let current = std::fs::read_to_string(root.join(&name)).unwrap_or_default();
            assert!(current == text, "{name} is not current; run: cargo run -- gen");
        }
    }

    #[test]
    fn the_command_line_holds_together() {
        Arguments::command().debug_assert();
    }
}
