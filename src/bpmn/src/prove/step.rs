//! One step of one token: what an engine does, with every choice that the outside has, and the rules on the way.

use super::Rule;
use super::checks::{self, Violation};
use super::program::{Assign, Node, Program};
use super::rules::{Job, Rules};
use super::scopes::{Branch, Passed};
use super::state::{Place, ROOT, Slot, State, Token};
use crate::model::{EventDefinition, Kind};
use m87_core::reason::Terminal;
use serde_json::Value;

/// A step that breaks no rule.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) branch: Branch,
    /// The element or flow that is newly passed, if any.
    pub(super) at: Option<String>,
}

type Steps = Result<Vec<Step>, Violation>;

/// Every step that any token can take.
pub(super) fn steps(program: &Program<'_>, state: &State) -> Steps {
    let mut steps = Vec::new();
    let mut movable = false;
    let mut last = None;
    for (at, token) in state.tokens.iter().enumerate() {
        // Tokens in the same place take the same steps.
        if last == Some(token) || matches!(token.place, Place::Joining(_) | Place::Inside { .. }) {
            continue;
        }
        last = Some(token);
        movable = true;
        let mut state = state.clone();
        state.tokens.remove(at);
        steps.extend(Walker { program }.step(Branch { state, chosen: Vec::new() }, *token)?);
    }
    if movable || state.tokens.is_empty() {
        return Ok(steps);
    }
    let waiting = state.tokens.iter().find_map(|token| match token.place {
        Place::Joining(flow) => program.target(flow).and_then(|node| program.nodes.get(node)),
        _ => None,
    });
    let at = waiting.map(|node| node.element.id.clone()).unwrap_or_default();
    let message = "the token waits at the gateway for another that never comes".to_owned();
    Err(Violation { rule: Rule::EveryPathEnds, message, at, chosen: Vec::new() })
}

struct Walker<'p, 'm> {
    program: &'p Program<'m>,
}

impl<'p> Walker<'p, '_> {
    fn step(&self, branch: Branch, token: Token) -> Steps {
        match token.place {
            Place::Flow(flow) => Ok(vec![self.arrive(branch, token.scope, flow)]),
            Place::Enter(node) => self.enter(branch, token.scope, node),
            Place::Listening { node, at, local } => self.listened(branch, token.scope, node, at, local),
            Place::Act { node, local } => self.act(branch, token.scope, node, local),
            Place::Working { node, local } => self.work(branch, token.scope, node, local),
            Place::Leave { node, local, results } => self.leave(branch, token.scope, node, local, results),
            Place::Joining(_) | Place::Inside { .. } => Ok(Vec::new()),
        }
    }

    fn arrive(&self, mut branch: Branch, scope: u32, flow: usize) -> Step {
        let at = Some(self.program.flow_id(flow));
        let Some(target) = self.program.target(flow) else { return Step { branch, at } };
        let node = self.node(target);
        let joins = node.is_some_and(|node| node.element.kind == Kind::ParallelGateway && node.entering.len() > 1);
        if !joins {
            branch.state.put(scope, Place::Enter(target));
            return Step { branch, at };
        }
        branch.state.put(scope, Place::Joining(flow));
        let waiting: Option<Vec<usize>> = node.map(|node| node.entering.iter()).and_then(|flows| {
            flows
                .map(|flow| branch.state.tokens.binary_search(&Token { scope, place: Place::Joining(*flow) }).ok())
                .collect()
        });
        if let Some(mut tokens) = waiting {
            tokens.sort_unstable();
            for at in tokens.into_iter().rev() {
                branch.state.tokens.remove(at);
            }
            branch.state.put(scope, Place::Enter(target));
        }
        Step { branch, at }
    }

    fn enter(&self, mut branch: Branch, scope: u32, at: usize) -> Steps {
        let Some(node) = self.node(at) else { return Ok(Vec::new()) };
        if node.element.kind == Kind::EndEvent && scope == ROOT {
            checks::end(node, &branch)?;
        }
        let local = branch.state.open(scope);
        let branches = self.assign(branch, local, &node.inputs, node, |_, branch, _, _| vec![branch])?;
        let mut steps = Vec::new();
        for mut branch in branches {
            match node.listeners.first() {
                Some(job) => {
                    self.begin(node, *job, &mut branch, local)?;
                    branch.state.put(scope, Place::Listening { node: at, at: 0, local });
                }
                None => branch.state.put(scope, Place::Act { node: at, local }),
            }
            steps.push(Step { branch, at: Some(node.element.id.clone()) });
        }
        Ok(steps)
    }

    fn listened(&self, mut branch: Branch, scope: u32, at: usize, listener: usize, local: u32) -> Steps {
        let Some(node) = self.node(at) else { return Ok(Vec::new()) };
        if let Some(job) = node.listeners.get(listener) {
            branch.state.done.add(*job);
        }
        branch.state.expose(local, at, &self.program.names);
        match node.listeners.get(listener + 1) {
            Some(next) => {
                self.begin(node, *next, &mut branch, local)?;
                branch.state.put(scope, Place::Listening { node: at, at: listener + 1, local });
            }
            None => branch.state.put(scope, Place::Act { node: at, local }),
        }
        Ok(vec![Step { branch, at: None }])
    }

    fn act(&self, mut branch: Branch, scope: u32, at: usize, local: u32) -> Steps {
        let Some(node) = self.node(at) else { return Ok(Vec::new()) };
        match &node.element.kind {
            Kind::ExclusiveGateway => return self.choose(branch, scope, node, local),
            Kind::SubProcess => {
                branch.state.put(scope, Place::Inside { node: at, local });
                if let Some(start) = node.start {
                    branch.state.put(local, Place::Enter(start));
                }
            }
            Kind::EndEvent => match node.element.events.first() {
                Some(EventDefinition::Error { code }) => {
                    let uncaught = Violation::new(
                        Rule::NoIncident,
                        "nobody catches the error of this end event",
                        &node.element.id,
                        &branch,
                    );
                    branch.state.close(local);
                    return match self.throw(branch, scope, None, code.as_deref(), at) {
                        Some(step) => Ok(vec![step]),
                        None => Err(uncaught),
                    };
                }
                Some(EventDefinition::Terminate) => {
                    branch.state.close(local);
                    self.terminate(&mut branch, scope);
                    return self.vanish(branch, scope, node);
                }
                Some(_) | None => branch.state.put(scope, Place::Leave { node: at, local, results: false }),
            },
            Kind::Task(_) if node.job.is_some() => {
                if let Some(job) = node.job {
                    self.begin(node, job, &mut branch, local)?;
                }
                branch.state.put(scope, Place::Working { node: at, local });
            }
            Kind::Task(_)
            | Kind::StartEvent
            | Kind::BoundaryEvent { .. }
            | Kind::CatchEvent
            | Kind::ThrowEvent
            | Kind::ParallelGateway
            | Kind::Other(_) => branch.state.put(scope, Place::Leave { node: at, local, results: false }),
        }
        Ok(vec![Step { branch, at: None }])
    }

    /// The exclusive gateway: in the file's order, the first condition that is true, else the default.
    fn choose(&self, mut branch: Branch, scope: u32, node: &Node<'_>, local: u32) -> Steps {
        if node.ways.is_empty() {
            branch.state.close(local);
            return self.vanish(branch, scope, node);
        }
        let take = |mut branch: Branch, flow: usize| {
            branch.state.close(local);
            branch.state.put(scope, Place::Flow(flow));
            Step { branch, at: None }
        };
        let mut steps = Vec::new();
        let mut open = vec![branch];
        for way in node.ways.iter().filter(|way| Some(way.flow) != node.default) {
            let Some(condition) = &way.condition else {
                // Only a single way may have no condition.
                steps.extend(std::mem::take(&mut open).into_iter().map(|branch| take(branch, way.flow)));
                continue;
            };
            let mut not_taken = Vec::new();
            for (branch, value) in open.into_iter().flat_map(|branch| branch.eval(self.program, local, condition)) {
                let what = match value {
                    Ok(Value::Bool(true)) => {
                        steps.push(take(branch, way.flow));
                        continue;
                    }
                    Ok(Value::Bool(false)) => {
                        not_taken.push(branch);
                        continue;
                    }
                    Ok(other) => format!("is {other}, not a boolean"),
                    Err(failure) => format!("fails: {failure}"),
                };
                let message = format!("the condition {:?} {what}: an incident", condition.text);
                return Err(Violation::new(Rule::NoIncident, message, self.program.flow_id(way.flow), &branch));
            }
            open = not_taken;
        }
        for mut branch in open {
            let Some(default) = node.default else {
                let message = "no condition holds and there is no default: an incident";
                return Err(Violation::new(Rule::NoIncident, message, &node.element.id, &branch));
            };
            branch.state.by_default = true;
            steps.push(take(branch, default));
        }
        Ok(steps)
    }

    /// The task's job ends: with any result, or with any error that is caught.
    fn work(&self, branch: Branch, scope: u32, at: usize, local: u32) -> Steps {
        let Some(node) = self.node(at) else { return Ok(Vec::new()) };
        let mut steps = Vec::new();
        let codes = self.program.codes.iter().map(|code| Some(code.as_str())).chain([None]);
        let mut caught = Vec::new();
        for code in codes {
            let mut thrown = branch.clone();
            thrown.state.close(local);
            if let Some(step) = self.throw(thrown, scope, Some(node), code, at)
                && !caught.contains(&step.at)
            {
                caught.push(step.at.clone());
                steps.push(step);
            }
        }
        let mut done = branch;
        done.state.expose(local, at, &self.program.names);
        let mut branches = vec![done];
        for gate in node.job.map(Job::reports).unwrap_or_default() {
            branches =
                branches.into_iter().flat_map(|branch| branch.split(self.program, local, gate.variable())).collect();
            for branch in &mut branches {
                // A missing answer leaves the null that was there when the job was created.
                if let Some(Slot::Known(answer)) = branch.state.slot(local, gate.variable())
                    && gate.passes(answer)
                {
                    branch.state.passed.add(*gate);
                }
            }
        }
        for mut branch in branches {
            if let Some(job) = node.job {
                branch.state.done.add(job);
            }
            branch.state.put(scope, Place::Leave { node: at, local, results: true });
            steps.push(Step { branch, at: None });
        }
        Ok(steps)
    }

    fn leave(&self, branch: Branch, scope: u32, at: usize, local: u32, results: bool) -> Steps {
        let Some(node) = self.node(at) else { return Ok(Vec::new()) };
        let mut branches = if !node.outputs.is_empty() {
            self.assign(branch, local, &node.outputs, node, |program, branch, name, value| {
                branch.pass_on(program, scope, name, &Passed::Value(value))
            })?
        } else if results {
            let pass = |branches: Vec<Branch>, name: &String| {
                branches
                    .into_iter()
                    .flat_map(|branch| branch.pass_on(self.program, scope, name, &Passed::Anything(at)))
                    .collect()
            };
            self.program.names.iter().fold(vec![branch], pass)
        } else {
            vec![branch]
        };
        for branch in &mut branches {
            branch.state.close(local);
            for way in &node.ways {
                branch.state.put(scope, Place::Flow(way.flow));
            }
        }
        if !node.ways.is_empty() {
            return Ok(branches.into_iter().map(|branch| Step { branch, at: None }).collect());
        }
        let mut steps = Vec::new();
        for branch in branches {
            steps.extend(self.vanish(branch, scope, node)?);
        }
        Ok(steps)
    }

    /// The token is gone; if it was the last of its scope, the scope is done.
    fn vanish(&self, mut branch: Branch, scope: u32, node: &Node<'_>) -> Steps {
        if scope == ROOT {
            if node.element.kind != Kind::EndEvent {
                let message = "the path ends here without an end event, so in no terminal";
                return Err(Violation::new(Rule::EveryPathEnds, message, &node.element.id, &branch));
            }
            branch.state.terminal = Terminal::of_end_event(&node.element.id);
        } else if !branch.state.tokens.iter().any(|token| token.scope == scope) {
            let owner = branch
                .state
                .tokens
                .iter()
                .position(|token| matches!(token.place, Place::Inside { local, .. } if local == scope));
            if let Some(owner) = owner {
                let token = branch.state.tokens.remove(owner);
                if let Place::Inside { node, local } = token.place {
                    branch.state.put(token.scope, Place::Leave { node, local, results: false });
                }
            }
        }
        Ok(vec![Step { branch, at: None }])
    }

    /// Ends everything in a scope, but not the scope.
    fn terminate(&self, branch: &mut Branch, scope: u32) {
        branch.state.tokens.retain(|token| token.scope != scope);
        let inner: Vec<u32> =
            branch.state.scopes.iter().filter(|(_, inner)| inner.parent == Some(scope)).map(|(id, _)| *id).collect();
        for inner in inner {
            branch.state.close(inner);
        }
    }

    /// The nearest event that catches the error takes over; `None` if there is none. A code of `None` is one that nobody names.
    fn throw(
        &self,
        mut branch: Branch,
        mut scope: u32,
        job: Option<&Node<'_>>,
        code: Option<&str>,
        from: usize,
    ) -> Option<Step> {
        let mut host = job;
        loop {
            if let Some(node) = host {
                let by_name = node.boundary.iter().find(|(_, caught)| caught.is_some() && caught.as_deref() == code);
                let caught = by_name.or_else(|| node.boundary.iter().find(|(_, caught)| caught.is_none()));
                if let Some((event, _)) = caught {
                    let local = branch.state.open(scope);
                    branch.state.expose(local, from, &self.program.names);
                    branch.state.put(scope, Place::Leave { node: *event, local, results: true });
                    return Some(Step { branch, at: self.node(*event).map(|node| node.element.id.clone()) });
                }
            }
            // Outwards: the sub-process that this scope is of ends with everything in it.
            let owner = branch
                .state
                .tokens
                .iter()
                .position(|token| matches!(token.place, Place::Inside { local, .. } if local == scope))?;
            let token = branch.state.tokens.remove(owner);
            let Place::Inside { node, local } = token.place else { return None };
            branch.state.close(local);
            host = self.node(node);
            scope = token.scope;
        }
    }

    /// Mappings in order; each sees the targets of those before it.
    fn assign(
        &self,
        branch: Branch,
        local: u32,
        mappings: &[Assign],
        node: &Node<'_>,
        pass: impl Fn(&Program<'_>, Branch, &str, Value) -> Vec<Branch>,
    ) -> Result<Vec<Branch>, Violation> {
        let mut branches = vec![branch];
        for mapping in mappings {
            let mut next = Vec::new();
            for (mut branch, value) in
                branches.into_iter().flat_map(|branch| branch.eval(self.program, local, &mapping.source))
            {
                let value = match value {
                    Ok(value) => value,
                    Err(failure) => {
                        let message = format!("the mapping {:?} fails: {failure}", mapping.source.text);
                        return Err(Violation::new(Rule::NoIncident, message, &node.element.id, &branch));
                    }
                };
                branch.state.set(local, &mapping.target, Some(Slot::Known(value.clone())));
                next.extend(pass(self.program, branch, &mapping.target, value));
            }
            branches = next;
        }
        Ok(branches)
    }

    fn begin(&self, node: &Node<'_>, job: Job, branch: &mut Branch, local: u32) -> Result<(), Violation> {
        checks::job(node, job, branch, local)?;
        branch.state.begun.add(job);
        Ok(())
    }

    fn node(&self, at: usize) -> Option<&'p Node<'_>> {
        self.program.nodes.get(at)
    }
}
