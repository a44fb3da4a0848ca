//! The life of an element instance: input mappings, start listeners, what it is for, output mappings, end listeners, gone.
//!
//! An instance goes on until it has to wait; only then is its stage written down. What it waits for (a job, the elements
//! inside it, an incident) calls it back with the stage to go on from.

use super::event::Event;
use super::expression::{Failure, Site};
use super::graph::{JobSource, Kind, Node};
use super::mapping;
use super::process::{Stop, Walk};
use super::state::{Element, Stage, Wait};
use crate::machine::JobKind;
use crate::view::{Ending, IncidentKind};

/// Element instances that may go on in one command. Deployment refuses loops without a wait, so that a sound process stays
/// far below; what does not is stopped by an incident.
const MOVES: usize = 10_000;

/// What becomes of an element instance that went on.
enum Next {
    /// It goes on at once, from there.
    Stage(Stage),
    /// It waits, or is gone.
    Rest,
}

impl Walk {
    /// Lets everything go on that can.
    pub(super) fn run(&mut self) -> Result<(), Stop> {
        while let Some((key, stage)) = self.todo.pop_front() {
            self.moves += 1;
            if self.moves > MOVES && self.state.element(key).is_some() {
                let message = format!("Expected a wait within {MOVES} steps of one command, but there was none");
                self.stick(key, stage, Failure { kind: IncidentKind::Unknown, message })?;
            } else {
                self.go_on(key, stage)?;
            }
        }
        Ok(())
    }

    const fn site(&self, at: i64) -> Site<'_> {
        Site { state: &self.state, at, now: self.now }
    }

    /// A new element instance in a scope.
    pub(super) fn enter(&mut self, scope: i64, node: &str, start_at: Vec<String>) -> Result<i64, Stop> {
        let key = self.new_key();
        let definition = self.state.element(scope).map_or(0, |scope| scope.definition);
        self.emit(Event::Entered { key, parent: Some(scope), definition, node: node.to_owned(), start_at })?;
        self.todo.push_back((key, Stage::Entering));
        Ok(key)
    }

    fn go_on(&mut self, key: i64, from: Stage) -> Result<(), Stop> {
        let mut stage = from;
        loop {
            // It may have been ended by what another one did since.
            let Some(element) = self.state.element(key) else { return Ok(()) };
            let Some(definition) = self.state.definitions.get(&element.definition).cloned() else { return Ok(()) };
            let Some(node) = definition.process.node(&element.node) else { return Ok(()) };
            let next = match stage {
                Stage::Entering => self.take_inputs(key, node)?,
                Stage::Starting(at) => match node.start_listeners.get(at) {
                    Some(listener) => self.await_job(key, stage, listener, JobKind::StartListener)?,
                    None => Next::Stage(Stage::Active),
                },
                Stage::Active => self.act(key, node)?,
                Stage::Leaving => self.give_outputs(key, node)?,
                Stage::Ending(at) => match node.end_listeners.get(at) {
                    Some(listener) => self.await_job(key, stage, listener, JobKind::EndListener)?,
                    None => self.finish(key, node, &node.outgoing)?,
                },
            };
            match next {
                Next::Stage(further) => stage = further,
                Next::Rest => return Ok(()),
            }
        }
    }

    fn take_inputs(&mut self, key: i64, node: &Node) -> Result<Next, Stop> {
        match mapping::inputs(self.site(key), &node.inputs) {
            Ok(values) => {
                self.set_local(key, values)?;
                Ok(Next::Stage(Stage::Starting(0)))
            }
            Err(failure) => self.stick(key, Stage::Entering, failure),
        }
    }

    fn give_outputs(&mut self, key: i64, node: &Node) -> Result<Next, Stop> {
        let Some(scope) = self.state.element(key).and_then(|element| element.parent) else {
            return Ok(Next::Stage(Stage::Ending(0)));
        };
        if node.outputs.is_empty() {
            if matches!(node.kind, Kind::Catch) {
                self.propagate(scope, self.state.local(key))?;
            }
            return Ok(Next::Stage(Stage::Ending(0)));
        }
        match mapping::outputs(self.site(key), scope, &node.outputs) {
            Ok(values) => {
                self.propagate(scope, values)?;
                Ok(Next::Stage(Stage::Ending(0)))
            }
            Err(failure) => self.stick(key, Stage::Leaving, failure),
        }
    }

    /// What a node is for.
    fn act(&mut self, key: i64, node: &Node) -> Result<Next, Stop> {
        match &node.kind {
            Kind::Scope { start } => self.open_scope(key, start.as_deref()),
            Kind::Pass | Kind::Catch | Kind::Parallel | Kind::TerminateEnd => Ok(Next::Stage(Stage::Leaving)),
            Kind::Job(source) => self.await_job(key, Stage::Active, source, JobKind::Element),
            Kind::Exclusive { default } => match self.choose(key, node, default.as_deref()) {
                Ok(flow) => self.finish(key, node, flow.as_slice()),
                Err(failure) => self.stick(key, Stage::Active, failure),
            },
            Kind::ErrorEnd { code } => {
                let thrown = self.site(key).string(code);
                match thrown.and_then(|code| self.catcher(key, &code).ok_or_else(|| uncaught(&code, ""))) {
                    Ok(catcher) => {
                        self.catch(catcher, serde_json::Map::new())?;
                        Ok(Next::Rest)
                    }
                    Err(failure) => self.stick(key, Stage::Active, failure),
                }
            }
        }
    }

    fn open_scope(&mut self, key: i64, start: Option<&str>) -> Result<Next, Stop> {
        let Some(element) = self.state.element(key) else { return Ok(Next::Rest) };
        match element.wait {
            Wait::Children if element.children.is_empty() && element.tokens.is_empty() => {
                return Ok(Next::Stage(Stage::Leaving));
            }
            Wait::Children => return Ok(Next::Rest),
            Wait::Nothing | Wait::Job(_) | Wait::Incident(_) => {}
        }
        let starts = self.starts(element, start);
        self.reach(key, Stage::Active)?;
        self.emit(Event::Opened { key })?;
        if starts.is_empty() {
            self.todo.push_back((key, Stage::Active));
        }
        for (node, start_at) in starts {
            self.enter(key, &node, start_at)?;
        }
        Ok(Next::Rest)
    }

    /// Where a scope starts: at its start event, or on the way to the elements it was told to start at.
    fn starts(&self, scope: &Element, start: Option<&str>) -> Vec<(String, Vec<String>)> {
        let mut starts: Vec<(String, Vec<String>)> = Vec::new();
        let process = self.state.definition(scope.definition).map(|definition| &definition.process);
        for target in &scope.start_at {
            // Up from the target to the node that is directly in this scope.
            let mut inner = process.and_then(|process| process.node(target));
            while let Some(node) = inner.filter(|node| node.scope.as_deref() != Some(&scope.node)) {
                inner = node.scope.as_deref().and_then(|outer| process.and_then(|process| process.node(outer)));
            }
            let Some(inner) = inner else { continue };
            if inner.id == *target {
                starts.push((inner.id.clone(), Vec::new()));
            } else if let Some((_, further)) =
                starts.iter_mut().find(|(node, further)| *node == inner.id && !further.is_empty())
            {
                further.push(target.clone());
            } else {
                starts.push((inner.id.clone(), vec![target.clone()]));
            }
        }
        if scope.start_at.is_empty() {
            starts.extend(start.map(|start| (start.to_owned(), Vec::new())));
        }
        starts
    }

    /// The flow that an exclusive gateway takes; none if it has none.
    fn choose(&self, key: i64, node: &Node, default: Option<&str>) -> Result<Option<String>, Failure> {
        let process = self
            .state
            .element(key)
            .and_then(|element| self.state.definition(element.definition))
            .map(|definition| &definition.process);
        for id in node.outgoing.iter().filter(|id| Some(id.as_str()) != default) {
            match process.and_then(|process| process.flow(id)).and_then(|flow| flow.condition.as_ref()) {
                Some(condition) if !self.site(key).condition(condition)? => {}
                Some(_) | None => return Ok(Some(id.clone())),
            }
        }
        match default {
            Some(default) => Ok(Some(default.to_owned())),
            None if node.outgoing.is_empty() => Ok(None),
            None => Err(Failure {
                kind: IncidentKind::ConditionError,
                message: "Expected at least one condition to evaluate to true, or to have a default flow".to_owned(),
            }),
        }
    }

    fn await_job(&mut self, key: i64, stage: Stage, source: &JobSource, kind: JobKind) -> Result<Next, Stop> {
        let site = self.site(key);
        let evaluated = site.name(&source.job_type).and_then(|job_type| Ok((job_type, site.integer(&source.retries)?)));
        let (job_type, retries) = match evaluated {
            Ok(evaluated) => evaluated,
            Err(failure) => return self.stick(key, stage, failure),
        };
        self.reach(key, stage)?;
        let job = self.new_key();
        let headers = source.headers.clone();
        self.emit(Event::JobCreated { key: job, element: key, job_type, kind, retries, headers })?;
        if retries <= 0 {
            self.no_retries(job, "")?;
        }
        Ok(Next::Rest)
    }

    /// The element instance is done: it goes, and tokens take the flows.
    fn finish(&mut self, key: i64, node: &Node, flows: &[String]) -> Result<Next, Stop> {
        let Some(element) = self.state.element(key) else { return Ok(Next::Rest) };
        let parent = element.parent;
        self.leave(key, Ending::Completed)?;
        let Some(scope) = parent else { return Ok(Next::Rest) };
        if matches!(node.kind, Kind::TerminateEnd) {
            self.empty_scope(scope)?;
        }
        for flow in flows {
            self.take(scope, flow)?;
        }
        self.close_if_empty(scope);
        Ok(Next::Rest)
    }

    pub(super) fn close_if_empty(&mut self, scope: i64) {
        if self.state.element(scope).is_some_and(|scope| scope.children.is_empty() && scope.tokens.is_empty()) {
            self.todo.push_back((scope, Stage::Active));
        }
    }

    /// A token takes a flow.
    fn take(&mut self, scope: i64, flow: &str) -> Result<(), Stop> {
        let Some(element) = self.state.element(scope) else { return Ok(()) };
        let Some(definition) = self.state.definitions.get(&element.definition).cloned() else { return Ok(()) };
        let target = definition.process.flow(flow).and_then(|flow| definition.process.node(&flow.target));
        let Some(target) = target else { return Ok(()) };
        if matches!(target.kind, Kind::Parallel) && target.incoming.len() > 1 {
            self.emit(Event::TokenArrived { scope, flow: flow.to_owned() })?;
            let joined = self
                .state
                .element(scope)
                .is_some_and(|scope| target.incoming.iter().all(|flow| scope.tokens.contains_key(flow)));
            if !joined {
                return Ok(());
            }
            self.emit(Event::TokensConsumed { scope, flows: target.incoming.clone() })?;
        }
        self.enter(scope, &target.id, Vec::new()).map(drop)
    }

    /// Ends an element instance with all that is in it and all that it waits for.
    pub(super) fn terminate(&mut self, key: i64) -> Result<(), Stop> {
        let Some(element) = self.state.element(key) else { return Ok(()) };
        let (wait, children) = (element.wait, element.children.clone());
        for child in children {
            self.terminate(child)?;
        }
        match wait {
            Wait::Job(job) => {
                self.close_incident_of(job)?;
                self.emit(Event::JobCanceled { job })?;
            }
            Wait::Incident(incident) => self.emit(Event::IncidentResolved { key: incident })?,
            Wait::Nothing | Wait::Children => {}
        }
        self.leave(key, Ending::Terminated)
    }

    fn leave(&mut self, key: i64, ending: Ending) -> Result<(), Stop> {
        match self.state.element(key).and_then(|element| element.parent) {
            Some(_) => self.emit(Event::Left { key }),
            None => self.emit(Event::Ended { key, ending }),
        }
    }

    /// Ends everything in a scope, waiting tokens too.
    fn empty_scope(&mut self, scope: i64) -> Result<(), Stop> {
        let Some(element) = self.state.element(scope) else { return Ok(()) };
        let (children, tokens) = (element.children.clone(), element.tokens.clone());
        for child in children {
            self.terminate(child)?;
        }
        let flows: Vec<String> =
            tokens.iter().flat_map(|(flow, count)| std::iter::repeat_n(flow.clone(), *count as usize)).collect();
        if flows.is_empty() { Ok(()) } else { self.emit(Event::TokensConsumed { scope, flows }) }
    }

    /// Writes down where an element instance stands, if that is news.
    fn reach(&mut self, key: i64, stage: Stage) -> Result<(), Stop> {
        match self.state.element(key) {
            Some(element) if element.stage != stage => self.emit(Event::Reached { key, stage }),
            Some(_) | None => Ok(()),
        }
    }

    /// The element instance cannot go on: an incident, at the stage that is to be tried again.
    fn stick(&mut self, key: i64, stage: Stage, failure: Failure) -> Result<Next, Stop> {
        self.reach(key, stage)?;
        let incident = self.new_key();
        self.emit(Event::IncidentRaised {
            key: incident,
            element: key,
            job: None,
            kind: failure.kind,
            message: failure.message,
        })?;
        Ok(Next::Rest)
    }
}

/// An error that nothing catches.
pub(super) fn uncaught(code: &str, message: &str) -> Failure {
    let with = if message.is_empty() { String::new() } else { format!(" with message '{message}'") };
    Failure {
        kind: IncidentKind::UnhandledErrorEvent,
        message: format!("Expected to throw an error event with the code '{code}'{with}, but it was not caught"),
    }
}
