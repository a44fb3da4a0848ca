//! `m87 bpmn check`: would this process be deployed, and does it keep the promise?

use crate::args::{BpmnArguments, BpmnCommand};
use crate::exit::Exit;
use crate::files;
use crate::local::report::printable;
use crate::say::{say, tell};
use anyhow::Context;
use m87_api::GovernancePolicy;
use m87_api::local::Key;
use m87_bpmn::model::{Definitions, parse};
use m87_bpmn::prove::prove;
use m87_bpmn::{EXECUTABLE, lint, svg, validate};
use std::path::Path;

/// A policy holds no larger one.
const MAX_BYTES: u64 = 262_144;

const SHIPPED: &str = "the process that m87 ships";

/// Reads, validates and proves; prints the proof or what refuses it.
pub(crate) fn run(arguments: &BpmnArguments) -> anyhow::Result<Exit> {
    let BpmnCommand::Check { file, svg } = &arguments.command;
    let processes = match file {
        None => vec![(SHIPPED.to_owned(), EXECUTABLE.as_bytes().to_vec())],
        Some(file) if is_policy(file) => match of_policies(file) {
            Some(processes) => processes,
            None => return Ok(Exit::Invalid),
        },
        Some(file) => match files::read(file, MAX_BYTES) {
            Ok(bytes) => vec![(file.display().to_string(), bytes)],
            Err(error) => {
                tell!("{error:#}");
                return Ok(Exit::Invalid);
            }
        },
    };
    if let (Some(svg), [_, _, ..]) = (svg, processes.as_slice()) {
        tell!(
            "{}: there are {} policies, and one drawing; name a file with one policy",
            svg.display(),
            processes.len()
        );
        return Ok(Exit::Invalid);
    }
    let mut worst = Exit::AsAsked;
    for (name, bytes) in &processes {
        let exit = check(name, bytes, svg.as_deref())?;
        if worst == Exit::AsAsked || exit == Exit::Invalid {
            worst = exit;
        }
    }
    Ok(worst)
}

/// A process is XML; what is written as YAML or JSON can only be the policy that holds one.
fn is_policy(file: &Path) -> bool {
    file.extension()
        .is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|one| extension.eq_ignore_ascii_case(one)))
}

/// The process of each policy of a file, with its name; a policy without one goes through the one that m87 ships.
fn of_policies(file: &Path) -> Option<Vec<(String, Vec<u8>)>> {
    let objects = match m87_api::local::read(&[file.to_owned()]) {
        Ok(objects) => objects,
        Err(errors) => {
            errors.iter().for_each(|error| tell!("{}", printable(&error.to_string())));
            return None;
        }
    };
    if objects.policies.is_empty() {
        tell!("{}: holds no GovernancePolicy; name one with spec.process, or a BPMN file", file.display());
        return None;
    }
    let of_policy = |(key, policy): (&Key, &GovernancePolicy)| {
        let name = format!("{}: policy {:?}", file.display(), key.name);
        match &policy.spec.rules.process {
            Some(process) => (name, process.bpmn.as_bytes().to_vec()),
            None => (format!("{name} has no process of its own: {SHIPPED}"), EXECUTABLE.as_bytes().to_vec()),
        }
    };
    Some(objects.policies.iter().map(of_policy).collect())
}

fn check(name: &str, bytes: &[u8], svg: Option<&Path>) -> anyhow::Result<Exit> {
    let definitions = match parse(bytes) {
        Ok(definitions) => definitions,
        Err(error) => {
            tell!("{name}: {error}");
            return Ok(Exit::Invalid);
        }
    };
    if let Err(problems) = validate::deployable(&definitions) {
        problems.iter().for_each(|problem| tell!("{name}: {problem}"));
        draw(svg, &definitions, &[])?;
        return Ok(Exit::Otherwise);
    }
    lint::lint(&definitions).iter().for_each(|warning| tell!("{name}: warning: {warning}"));
    match prove(&definitions) {
        Ok(proof) => {
            say!("{name}: {proof}");
            draw(svg, &definitions, &[])?;
            Ok(Exit::AsAsked)
        }
        Err(counterexample) => {
            tell!("{name}: {counterexample}");
            draw(svg, &definitions, &counterexample.path)?;
            Ok(Exit::Otherwise)
        }
    }
}

/// What refuses a process, in one line; `None` if nothing does.
pub(crate) fn refusal(bpmn: &str) -> Option<String> {
    let definitions = match parse(bpmn.as_bytes()) {
        Ok(definitions) => definitions,
        Err(error) => return Some(error.to_string()),
    };
    prove(&definitions).err().map(|counterexample| counterexample.to_string())
}

fn draw(file: Option<&Path>, definitions: &Definitions, path: &[String]) -> anyhow::Result<()> {
    let Some(file) = file else { return Ok(()) };
    std::fs::write(file, svg::draw(definitions, path)).with_context(|| file.display().to_string())
}
