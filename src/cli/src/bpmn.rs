//! `m87 bpmn check`: would this process be deployed, and does it keep the promise?

use crate::args::{BpmnArguments, BpmnCommand};
use crate::exit::Exit;
use crate::files;
use crate::say::{say, tell};
use anyhow::Context;
use m87_bpmn::model::{Definitions, parse};
use m87_bpmn::prove::prove;
use m87_bpmn::{EXECUTABLE, lint, svg, validate};
use std::path::Path;

/// A policy holds no larger one.
const MAX_BYTES: u64 = 262_144;

/// Reads, validates and proves; prints the proof or what refuses it.
pub(crate) fn run(arguments: &BpmnArguments) -> anyhow::Result<Exit> {
    let BpmnCommand::Check { file, svg } = &arguments.command;
    let (name, bytes) = match file {
        Some(file) => match files::read(file, MAX_BYTES) {
            Ok(bytes) => (file.display().to_string(), bytes),
            Err(error) => {
                tell!("{error:#}");
                return Ok(Exit::Invalid);
            }
        },
        None => ("the process that m87 ships".to_owned(), EXECUTABLE.as_bytes().to_vec()),
    };
    let definitions = match parse(&bytes) {
        Ok(definitions) => definitions,
        Err(error) => {
            tell!("{name}: {error}");
            return Ok(Exit::Invalid);
        }
    };
    if let Err(problems) = validate::deployable(&definitions) {
        problems.iter().for_each(|problem| tell!("{name}: {problem}"));
        draw(svg.as_deref(), &definitions, &[])?;
        return Ok(Exit::Otherwise);
    }
    lint::lint(&definitions).iter().for_each(|warning| tell!("{name}: warning: {warning}"));
    match prove(&definitions) {
        Ok(proof) => {
            say!("{name}: {proof}");
            draw(svg.as_deref(), &definitions, &[])?;
            Ok(Exit::AsAsked)
        }
        Err(counterexample) => {
            tell!("{name}: {counterexample}");
            draw(svg.as_deref(), &definitions, &counterexample.path)?;
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
