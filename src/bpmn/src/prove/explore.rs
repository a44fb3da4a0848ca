//! Breadth first through every state, so that a counterexample is a shortest one.

use super::checks::Violation;
use super::program::{Program, broken};
use super::state::State;
use super::step::steps;
use super::{Assigned, Counterexample, Proof, Rule};
use crate::model::Kind;
use m87_core::reason::Terminal;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::rc::Rc;

/// The most states that are visited.
pub const MAX_STATES: usize = 50_000;

/// The most steps that are taken.
const MAX_STEPS: usize = 500_000;

/// How a state was reached.
struct Visit {
    before: Option<usize>,
    at: Option<String>,
    chosen: Vec<Assigned>,
}

/// Visits every state, or stops at the first rule that is broken.
pub(super) fn explore(program: &Program<'_>) -> Result<Proof, Counterexample> {
    let start = program.nodes.iter().position(|node| {
        node.element.kind == Kind::StartEvent && node.element.scope.is_none() && node.element.events.is_empty()
    });
    let Some(start) = start else {
        return Err(broken(Rule::Deployable, &program.process.id, "the process has no none start event"));
    };
    let mut visits: Vec<Visit> = Vec::new();
    let mut seen: HashSet<Rc<State>> = HashSet::new();
    let mut queue: VecDeque<(usize, Rc<State>)> = VecDeque::new();
    let mut ends: BTreeMap<Terminal, usize> = BTreeMap::new();
    let (mut assignments, mut taken) = (0, 0);

    let first = Rc::new(State::initial(start, &program.names));
    visits.push(Visit { before: None, at: None, chosen: Vec::new() });
    seen.insert(Rc::clone(&first));
    queue.push_back((0, first));
    while let Some((visit, state)) = queue.pop_front() {
        if let (Some(terminal), true) = (state.terminal, state.tokens.is_empty()) {
            *ends.entry(terminal).or_default() += 1;
            continue;
        }
        for step in steps(program, &state).map_err(|violation| counterexample(&visits, visit, violation))? {
            assignments += step.branch.chosen.len();
            taken += 1;
            let next = Rc::new(step.branch.state);
            if !seen.insert(Rc::clone(&next)) && taken <= MAX_STEPS {
                continue;
            }
            if seen.len() > MAX_STATES || taken > MAX_STEPS {
                let message = format!(
                    "the model has more than {MAX_STATES} states or {MAX_STEPS} steps; use fewer parallel branches, variables and literals"
                );
                return Err(broken(Rule::Bounded, &program.process.id, message));
            }
            visits.push(Visit { before: Some(visit), at: step.at, chosen: step.branch.chosen });
            queue.push_back((visits.len() - 1, next));
        }
    }
    if !ends.contains_key(&Terminal::Complete) {
        let message = "no path reaches COMPLETE, so no run could ever succeed";
        return Err(broken(Rule::CompleteIsReachable, Terminal::Complete.end_event(), message));
    }
    Ok(Proof { process: program.process.id.clone(), states: seen.len(), assignments, ends })
}

fn counterexample(visits: &[Visit], last: usize, violation: Violation) -> Counterexample {
    let mut path = Vec::new();
    let mut assignment = Vec::new();
    let mut next = Some(last);
    while let Some(visit) = next.and_then(|at| visits.get(at)) {
        path.extend(visit.at.clone());
        assignment.extend(visit.chosen.iter().rev().cloned());
        next = visit.before;
    }
    path.reverse();
    assignment.reverse();
    if !violation.at.is_empty() && path.last() != Some(&violation.at) {
        path.push(violation.at);
    }
    assignment.extend(violation.chosen);
    Counterexample { rule: violation.rule, message: violation.message, assignment, path }
}
