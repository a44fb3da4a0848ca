//! The model made ready to walk through, and the rules that can be seen without walking.

use super::rules::{Gate, Job, Rules};
use super::{Counterexample, Rule, domain};
use crate::feel;
use crate::model::{Definitions, Element, EventDefinition, Kind, ListenerEvent, Mapping, Process};
use crate::validate;
use m87_core::reason::Terminal;
use std::collections::BTreeSet;

/// The most ways in which one step may go on.
const MAX_BRANCHES: usize = 20_000;
/// The id of the element at which a run is claimed.
const CLAIMED_AT: &str = "Propose";
/// The most elements a process may have.
const MAX_ELEMENTS: usize = 500;

/// A process with everything looked up and parsed.
pub(super) struct Program<'a> {
    pub(super) process: &'a Process,
    pub(super) nodes: Vec<Node<'a>>,
    /// Every variable that some expression reads.
    pub(super) names: Vec<String>,
    /// What a value from outside can be, beside missing.
    pub(super) values: Vec<serde_json::Value>,
    /// Every error code that some boundary event catches by name.
    pub(super) codes: BTreeSet<String>,
}

/// One element.
pub(super) struct Node<'a> {
    pub(super) element: &'a Element,
    pub(super) inputs: Vec<Assign>,
    pub(super) outputs: Vec<Assign>,
    pub(super) job: Option<Job>,
    /// Jobs before it starts.
    pub(super) listeners: Vec<Job>,
    pub(super) ways: Vec<Way>,
    /// The index of the flow that is taken if no condition holds.
    pub(super) default: Option<usize>,
    /// The indices of the flows that enter it.
    pub(super) entering: Vec<usize>,
    /// The indices of the events on its edge, with the code that each catches; `None` catches all.
    pub(super) boundary: Vec<(usize, Option<String>)>,
    /// The index of the start event inside a sub-process.
    pub(super) start: Option<usize>,
}

/// One way out.
pub(super) struct Way {
    /// The index of the flow.
    pub(super) flow: usize,
    pub(super) condition: Option<Expression>,
}

/// One mapping.
pub(super) struct Assign {
    pub(super) source: Expression,
    pub(super) target: String,
}

/// A parsed expression.
pub(super) struct Expression {
    pub(super) text: String,
    pub(super) expr: feel::Expr,
    pub(super) reads: Vec<String>,
}

/// Looks everything up, or says which rule the drawing itself breaks.
pub(super) fn compile(definitions: &Definitions) -> Result<Program<'_>, Counterexample> {
    let processes: Vec<&Process> = definitions.executable().collect();
    let [process] = processes.as_slice() else {
        let message = format!("the file has {} executable processes; exactly one can be proved", processes.len());
        return Err(broken(Rule::Deployable, "", message));
    };
    if process.elements.len() > MAX_ELEMENTS {
        let message =
            format!("the process has {} elements; at most {MAX_ELEMENTS} are walked through", process.elements.len());
        return Err(broken(Rule::Bounded, &process.id, message));
    }
    defaults(process)?;
    if let Err(problems) = validate::deployable(definitions) {
        let problem =
            problems.first().map(|problem| (problem.element.clone(), problem.message.clone())).unwrap_or_default();
        return Err(broken(Rule::Deployable, &problem.0, problem.1));
    }
    for element in &process.elements {
        jobs(element)?;
        ends(element)?;
        mappings(element)?;
    }
    link(process)
}

/// A rule that is broken at one place of the drawing.
pub(super) fn broken(rule: Rule, at: &str, message: impl Into<String>) -> Counterexample {
    let path = if at.is_empty() { Vec::new() } else { vec![at.to_owned()] };
    Counterexample { rule, message: message.into(), assignment: Vec::new(), path }
}

fn defaults(process: &Process) -> Result<(), Counterexample> {
    for gateway in process.elements.iter().filter(|element| element.kind == Kind::ExclusiveGateway) {
        let chooses = process.outgoing(&gateway.id).any(|flow| flow.condition.is_some())
            || process.outgoing(&gateway.id).count() > 1;
        if chooses && gateway.default.is_none() {
            let message = "the gateway has no default flow; give it one that leads to a refusal";
            return Err(broken(Rule::DefaultsRefuse, &gateway.id, message));
        }
    }
    Ok(())
}

fn jobs(element: &Element) -> Result<(), Counterexample> {
    let id = &element.id;
    let retried = |retries: &str| match retries.trim().parse::<u32>() {
        Ok(1..) => Ok(()),
        Ok(0) | Err(_) => {
            Err(broken(Rule::JobsAreKnown, id, format!("retries is {retries:?}; write a whole number from 1 up")))
        }
    };
    for job in &element.jobs {
        match Job::parse(&job.job_type) {
            Some(known) if known.lane().is_some() => retried(&job.retries)?,
            Some(_) | None => {
                let message = format!("nobody does jobs of type {:?} here; use one of {}", job.job_type, types(false));
                return Err(broken(Rule::JobsAreKnown, id, message));
            }
        }
    }
    for listener in &element.listeners {
        if listener.job_type == Job::ClaimRun.name() && id != CLAIMED_AT {
            let message = format!("claim-run belongs to the start of {CLAIMED_AT}, where the authority expects it");
            return Err(broken(Rule::ClaimRunFirst, id, message));
        }
        match (Job::parse(&listener.job_type), &listener.event) {
            (Some(job), ListenerEvent::Start) if job.lane().is_none() => retried(&listener.retries)?,
            (Some(_) | None, _) => {
                let message = format!("the listener {:?} is none of {} at a start", listener.job_type, types(true));
                return Err(broken(Rule::JobsAreKnown, id, message));
            }
        }
    }
    Ok(())
}

fn types(listeners: bool) -> String {
    let names: Vec<&str> =
        Job::ALL.into_iter().filter(|job| job.lane().is_none() == listeners).map(Job::name).collect();
    names.join(", ")
}

fn ends(element: &Element) -> Result<(), Counterexample> {
    let id = &element.id;
    let is_root_end = element.kind == Kind::EndEvent && element.scope.is_none();
    let recorders = element.listeners.iter().filter(|listener| listener.job_type == Job::RecordTerminal.name()).count();
    match (is_root_end, recorders) {
        (true, 1) => {}
        (true, _) => {
            let message = "the end event has no record-terminal listener at its start: nobody would seal the run";
            return Err(broken(Rule::RecordTerminal, id, message));
        }
        (false, 0) => return Ok(()),
        (false, _) => {
            return Err(broken(
                Rule::RecordTerminal,
                id,
                "record-terminal belongs to the process's own end events only",
            ));
        }
    }
    if Terminal::of_end_event(id).is_none() {
        let known: Vec<&str> = Terminal::ALL.into_iter().map(Terminal::end_event).collect();
        let message = format!("the end event is none of {}; its id names the terminal", known.join(", "));
        return Err(broken(Rule::EndsAreKnown, id, message));
    }
    Ok(())
}

/// Nothing leaves a job's task, or a caught error, but what belongs to it.
fn mappings(element: &Element) -> Result<(), Counterexample> {
    let id = &element.id;
    let mappings = element.inputs.iter().chain(&element.outputs);
    if matches!(element.kind, Kind::ExclusiveGateway | Kind::ParallelGateway) && mappings.clone().next().is_some() {
        return Err(broken(Rule::Supported, id, "mappings at a gateway are not modelled; move them to a task"));
    }
    for mapping in mappings {
        if mapping.target.contains('.') {
            let message = format!(
                "the mapping to {:?} builds a context, which is not modelled; map to a plain name",
                mapping.target
            );
            return Err(broken(Rule::Supported, id, message));
        }
        if mapping.target == "run" {
            return Err(broken(Rule::HardenedMappings, id, "a mapping must not change the run's reference, \"run\""));
        }
    }
    let job = element.job().and_then(|job| Job::parse(&job.job_type));
    if job.is_none() && !matches!(element.kind, Kind::BoundaryEvent { .. }) {
        return Ok(());
    }
    if element.outputs.is_empty() {
        let message = "without an output mapping every variable of the result leaks into the process; map an output";
        return Err(broken(Rule::HardenedMappings, id, message));
    }
    let own: Vec<&str> = job.map(Job::reports).unwrap_or_default().iter().map(|gate| gate.variable()).collect();
    for output in &element.outputs {
        let allowed: &[&str] = if own.contains(&output.target.as_str()) { &[output.target.as_str()] } else { &[] };
        if let Some(leak) = parse(id, &output.source)?.reads.iter().find(|name| !allowed.contains(&name.as_str())) {
            let message = format!(
                "the output mapping to {:?} lets the result's {leak:?} out; only a constant may go there",
                output.target
            );
            return Err(broken(Rule::HardenedMappings, id, message));
        }
    }
    for gate in own {
        if !element.outputs.iter().any(|output| output.target == gate) {
            return Err(broken(
                Rule::HardenedMappings,
                id,
                format!("the task gives {gate:?} but has no output mapping for it"),
            ));
        }
    }
    Ok(())
}

fn parse(id: &str, text: &str) -> Result<Expression, Counterexample> {
    match feel::Attribute::parse(text) {
        Ok(feel::Attribute::Expression(expr)) => {
            let reads = expr.variables().into_iter().collect();
            Ok(Expression { text: expr.text().to_owned(), expr, reads })
        }
        Ok(feel::Attribute::Static(_)) => {
            Err(broken(Rule::Deployable, id, format!("{text:?} is no expression; start it with =")))
        }
        Err(error) => Err(broken(Rule::Deployable, id, format!("{text:?}: {error}"))),
    }
}

fn link(process: &Process) -> Result<Program<'_>, Counterexample> {
    let position = |id: &str| process.elements.iter().position(|element| element.id == id);
    let mut literals: Vec<feel::Value> = Vec::new();
    let mut names: BTreeSet<String> = Gate::ALL.into_iter().map(|gate| gate.variable().to_owned()).collect();
    let mut read = |id: &str, text: &str| -> Result<Expression, Counterexample> {
        let parsed = parse(id, text)?;
        match parsed.expr.plain_literals() {
            Ok(found) => literals.extend(found),
            Err(what) => {
                let message = format!(
                    "the expression {:?} uses {what}, which is not modelled; compare variables with literals and combine with \
                     and, or, not, if, get or else, is defined",
                    parsed.text
                );
                return Err(broken(Rule::Supported, id, message));
            }
        }
        names.extend(parsed.reads.iter().cloned());
        Ok(parsed)
    };
    let mut nodes = Vec::with_capacity(process.elements.len());
    let mut codes = BTreeSet::new();
    for element in &process.elements {
        let id = element.id.as_str();
        let mut assigns = |mappings: &[Mapping]| -> Result<Vec<Assign>, Counterexample> {
            let assign =
                |mapping: &Mapping| Ok(Assign { source: read(id, &mapping.source)?, target: mapping.target.clone() });
            mappings.iter().map(assign).collect()
        };
        let (inputs, outputs) = (assigns(&element.inputs)?, assigns(&element.outputs)?);
        let mut ways = Vec::new();
        let mut entering = Vec::new();
        for (at, flow) in process.flows.iter().enumerate() {
            if flow.source == id {
                let condition = flow.condition.as_deref().map(|condition| read(&flow.id, condition)).transpose()?;
                ways.push(Way { flow: at, condition });
            }
            if flow.target == id {
                entering.push(at);
            }
        }
        let mut boundary = Vec::new();
        for event in process.boundary_events(id) {
            let code = match event.events.first() {
                Some(EventDefinition::Error { code }) => code.clone().filter(|code| !code.is_empty()),
                Some(_) | None => continue,
            };
            codes.extend(code.clone());
            boundary.extend(position(&event.id).map(|at| (at, code)));
        }
        nodes.push(Node {
            element,
            inputs,
            outputs,
            job: element.job().and_then(|job| Job::parse(&job.job_type)),
            listeners: element.listeners.iter().filter_map(|listener| Job::parse(&listener.job_type)).collect(),
            default: element
                .default
                .as_ref()
                .and_then(|default| process.flows.iter().position(|flow| flow.id == *default)),
            ways,
            entering,
            boundary,
            start: match element.kind {
                Kind::SubProcess => process.none_start(Some(id)).and_then(|start| position(&start.id)),
                _ => None,
            },
        });
    }
    let values = domain::values(&literals);
    nodes.iter().try_for_each(|node| bounded(node, values.len() + 1))?;
    Ok(Program { process, nodes, names: names.into_iter().collect(), values, codes })
}

/// One step chooses a value for each variable that it reads, so how many it may read is bounded.
fn bounded(node: &Node<'_>, choices: usize) -> Result<(), Counterexample> {
    let mappings = node.inputs.iter().chain(&node.outputs);
    let conditions = node.ways.iter().filter_map(|way| way.condition.as_ref());
    let expressions = mappings.clone().map(|assign| &assign.source).chain(conditions);
    let mut names: BTreeSet<&str> = expressions.flat_map(|expression| &expression.reads).map(String::as_str).collect();
    // Inside of a sub-process it may be open which scope has the target.
    names.extend(mappings.filter(|_| node.element.scope.is_some()).map(|assign| assign.target.as_str()));
    names.extend(node.job.map(Job::reports).unwrap_or_default().iter().map(|gate| gate.variable()));
    let count = u32::try_from(names.len()).unwrap_or(u32::MAX);
    match choices.checked_pow(count) {
        Some(branches) if branches <= MAX_BRANCHES => Ok(()),
        Some(_) | None => {
            let message = format!(
                "{count} variables with {choices} possible values each are too many in one place; use fewer variables or literals"
            );
            Err(broken(Rule::Bounded, &node.element.id, message))
        }
    }
}

impl Program<'_> {
    /// The id of a flow.
    pub(super) fn flow_id(&self, flow: usize) -> String {
        self.process.flows.get(flow).map(|flow| flow.id.clone()).unwrap_or_default()
    }

    /// The index of the element that a flow enters.
    pub(super) fn target(&self, flow: usize) -> Option<usize> {
        self.nodes.iter().position(|node| node.entering.contains(&flow))
    }
}
