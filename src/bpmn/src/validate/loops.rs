//! Straight-through processing loops: cycles in which nothing waits, so that an engine would run round for ever.
//!
//! A token waits where a job is created: at a worker's task, or at any element with an execution listener. A sub-process is
//! passed straight through if its start reaches its end without a wait; a BPMN error may leave it the same way.

use crate::model::{Element, EventDefinition, Kind, Process, TaskKind};
use std::collections::{HashMap, HashSet};

/// How a sub-process can be left without a wait.
#[derive(Clone, Copy, Default)]
struct Passage {
    completes: bool,
    raises: bool,
}

/// The ids along one loop, the first repeated at the end.
pub(super) fn find(process: &Process) -> Option<Vec<String>> {
    let graph = Graph::new(process);
    let mut finished: HashSet<&str> = HashSet::new();
    for start in &process.elements {
        if !finished.contains(start.id.as_str())
            && let Some(path) = graph.cycle_from(start, &mut finished)
        {
            return Some(path);
        }
    }
    None
}

struct Graph<'a> {
    process: &'a Process,
    passages: HashMap<&'a str, Passage>,
}

impl<'a> Graph<'a> {
    fn new(process: &'a Process) -> Self {
        let mut graph = Self { process, passages: HashMap::new() };
        // A scope is listed before what is in it, so from the end every inner passage is known first.
        for element in process.elements.iter().rev().filter(|element| element.kind == Kind::SubProcess) {
            let passage = graph.passage(&element.id);
            graph.passages.insert(&element.id, passage);
        }
        graph
    }

    fn passage(&self, scope: &str) -> Passage {
        let mut passage = Passage::default();
        let mut open: Vec<&Element> = self.process.none_start(Some(scope)).into_iter().collect();
        let mut seen: HashSet<&str> = HashSet::new();
        while let Some(element) = open.pop() {
            if !seen.insert(&element.id) || waits(element) {
                continue;
            }
            let inner = self.inner(element);
            let raised =
                element.kind == Kind::EndEvent && matches!(element.events.first(), Some(EventDefinition::Error { .. }));
            passage.raises |= raised || inner.raises;
            passage.completes |= !raised && inner.completes && self.process.outgoing(&element.id).next().is_none();
            let next = self.next(element);
            open.extend(next);
        }
        passage
    }

    /// How the element itself can be left without a wait, given that no job holds it.
    fn inner(&self, element: &Element) -> Passage {
        match element.kind {
            Kind::SubProcess => self.passages.get(element.id.as_str()).copied().unwrap_or_default(),
            _ => Passage { completes: true, raises: false },
        }
    }

    /// Where a token goes from an element without a wait.
    fn next(&self, element: &'a Element) -> Vec<&'a Element> {
        if waits(element) {
            return Vec::new();
        }
        let passage = self.inner(element);
        let mut next = Vec::new();
        if passage.completes {
            next.extend(self.process.outgoing(&element.id).filter_map(|flow| self.process.element(&flow.target)));
        }
        if passage.raises {
            next.extend(self.process.boundary_events(&element.id));
        }
        next
    }

    /// Depth-first search without recursion: the depth is the model's, not the stack's.
    fn cycle_from(&self, start: &'a Element, finished: &mut HashSet<&'a str>) -> Option<Vec<String>> {
        let mut path: Vec<(&Element, Vec<&'a Element>)> = vec![(start, self.next(start))];
        let mut on_path: HashSet<&str> = HashSet::from([start.id.as_str()]);
        while let Some((element, open)) = path.last_mut() {
            let Some(next) = open.pop() else {
                on_path.remove(element.id.as_str());
                finished.insert(&element.id);
                path.pop();
                continue;
            };
            if on_path.contains(next.id.as_str()) {
                let ids = path.iter().map(|(element, _)| element.id.clone()).skip_while(|id| *id != next.id);
                return Some(ids.chain([next.id.clone()]).collect());
            }
            if !finished.contains(next.id.as_str()) {
                on_path.insert(&next.id);
                path.push((next, self.next(next)));
            }
        }
        None
    }
}

/// Whether a token stays until a job is done or something else happens.
fn waits(element: &Element) -> bool {
    !element.listeners.is_empty()
        || match element.kind {
            Kind::Task(TaskKind::Manual | TaskKind::Undefined) => false,
            Kind::Task(_) | Kind::CatchEvent => true,
            Kind::StartEvent
            | Kind::EndEvent
            | Kind::BoundaryEvent { .. }
            | Kind::ThrowEvent
            | Kind::ExclusiveGateway
            | Kind::ParallelGateway
            | Kind::SubProcess
            | Kind::Other(_) => false,
        }
}
