//! The syntax tree. Chains of left-associative operators are flat lists, so the depth of the tree is the nesting
//! that the author wrote, and the parser bounds it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::value::Value;

#[derive(Debug, Clone)]
pub(super) enum Node {
    Literal(Value),
    /// `?`: the left side of the `in` around it.
    Input,
    Variable(Arc<str>),
    /// `base.a[b].c(d)`
    Chain {
        base: Box<Node>,
        steps: Vec<Step>,
    },
    Negate(Box<Node>),
    /// `first + a * b - …`, folded from the left; the parser has resolved precedence.
    Arithmetic {
        first: Box<Node>,
        rest: Vec<(Arithmetic, Node)>,
    },
    Compare(Comparison, Box<(Node, Node)>),
    Between(Box<(Node, Node, Node)>),
    In(Box<Node>, Vec<Test>),
    InstanceOf(Box<Node>, Box<str>),
    And(Vec<Node>),
    Or(Vec<Node>),
    If(Box<(Node, Node, Node)>),
    For(Box<For>),
    Quantified(Quantifier, Box<Quantified>),
    List(Vec<Node>),
    Context(Vec<(Arc<str>, Node)>),
    Range(Box<RangeNode>),
    Call {
        name: Box<str>,
        arguments: Arguments,
    },
    Function(Arc<FunctionNode>),
}

#[derive(Debug, Clone)]
pub(super) enum Step {
    Field(Box<str>),
    Filter(Node),
    Call { name: Box<str>, arguments: Arguments },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Power,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantifier {
    Some,
    Every,
}

/// What the right side of `in` asks of the left side.
#[derive(Debug, Clone)]
pub(super) enum Test {
    Compare(Comparison, Node),
    Within(RangeNode),
    /// An expression over `?` that must be true.
    Condition(Node),
    /// A value to be equal to, or a list to be in.
    Matches(Node),
}

#[derive(Debug, Clone)]
pub(super) struct RangeNode {
    pub(super) start: Node,
    pub(super) end: Node,
    pub(super) start_included: bool,
    pub(super) end_included: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Iterator {
    pub(super) name: Arc<str>,
    pub(super) over: Over,
}

#[derive(Debug, Clone)]
pub(super) enum Over {
    List(Node),
    /// `a..b`, counting by one in either direction.
    Count(Node, Node),
}

#[derive(Debug, Clone)]
pub(super) struct For {
    pub(super) iterators: Vec<Iterator>,
    pub(super) body: Node,
    /// Whether the body reads `partial`, the results so far.
    pub(super) reads_partial: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Quantified {
    pub(super) iterators: Vec<Iterator>,
    pub(super) condition: Node,
}

#[derive(Debug, Clone)]
pub(super) enum Arguments {
    Positional(Vec<Node>),
    Named(Vec<(Box<str>, Node)>),
}

#[derive(Debug)]
pub(super) struct FunctionNode {
    pub(super) parameters: Vec<Arc<str>>,
    pub(super) body: Node,
}

impl Node {
    /// Adds to `found` the names that the node may read from outside; `bound` are those that are bound around it.
    /// An entry of a filtered item looks like a variable, so it is counted as one.
    pub(super) fn free(&self, bound: &mut Vec<Arc<str>>, found: &mut BTreeSet<String>) {
        match self {
            Self::Literal(_) | Self::Input => {}
            Self::Variable(name) => {
                if !bound.contains(name) {
                    found.insert(name.as_ref().to_owned());
                }
            }
            Self::Chain { base, steps } => {
                base.free(bound, found);
                for step in steps {
                    match step {
                        Step::Field(_) => {}
                        Step::Filter(filter) => within(bound, ["item".into()], |bound| filter.free(bound, found)),
                        Step::Call { arguments, .. } => arguments.free(bound, found),
                    }
                }
            }
            Self::Negate(inner) | Self::InstanceOf(inner, _) => inner.free(bound, found),
            Self::Arithmetic { first, rest } => {
                first.free(bound, found);
                rest.iter().for_each(|(_, node)| node.free(bound, found));
            }
            Self::Compare(_, sides) => {
                sides.0.free(bound, found);
                sides.1.free(bound, found);
            }
            Self::Between(parts) | Self::If(parts) => {
                parts.0.free(bound, found);
                parts.1.free(bound, found);
                parts.2.free(bound, found);
            }
            Self::In(value, tests) => {
                value.free(bound, found);
                tests.iter().for_each(|test| test.free(bound, found));
            }
            Self::And(nodes) | Self::Or(nodes) | Self::List(nodes) => {
                nodes.iter().for_each(|node| node.free(bound, found))
            }
            Self::For(node) => {
                iterators_free(&node.iterators, bound, found);
                let names = node.iterators.iter().map(|iterator| Arc::clone(&iterator.name)).chain(["partial".into()]);
                within(bound, names, |bound| node.body.free(bound, found));
            }
            Self::Quantified(_, node) => {
                iterators_free(&node.iterators, bound, found);
                let names = node.iterators.iter().map(|iterator| Arc::clone(&iterator.name));
                within(bound, names, |bound| node.condition.free(bound, found));
            }
            Self::Context(entries) => {
                let outside = bound.len();
                for (key, node) in entries {
                    node.free(bound, found);
                    bound.push(Arc::clone(key));
                }
                bound.truncate(outside);
            }
            Self::Range(range) => range.free(bound, found),
            Self::Call { arguments, .. } => arguments.free(bound, found),
            Self::Function(function) => {
                within(bound, function.parameters.iter().cloned(), |bound| function.body.free(bound, found));
            }
        }
    }

    /// Whether the node reads `name` from outside.
    pub(super) fn reads(&self, name: &str) -> bool {
        let mut found = BTreeSet::new();
        self.free(&mut Vec::new(), &mut found);
        found.contains(name)
    }
}

fn within(bound: &mut Vec<Arc<str>>, names: impl IntoIterator<Item = Arc<str>>, walk: impl FnOnce(&mut Vec<Arc<str>>)) {
    let outside = bound.len();
    bound.extend(names);
    walk(bound);
    bound.truncate(outside);
}

fn iterators_free(iterators: &[Iterator], bound: &mut Vec<Arc<str>>, found: &mut BTreeSet<String>) {
    for iterator in iterators {
        match &iterator.over {
            Over::List(list) => list.free(bound, found),
            Over::Count(from, to) => {
                from.free(bound, found);
                to.free(bound, found);
            }
        }
    }
}

impl RangeNode {
    fn free(&self, bound: &mut Vec<Arc<str>>, found: &mut BTreeSet<String>) {
        self.start.free(bound, found);
        self.end.free(bound, found);
    }
}

impl Test {
    fn free(&self, bound: &mut Vec<Arc<str>>, found: &mut BTreeSet<String>) {
        match self {
            Self::Compare(_, node) | Self::Condition(node) | Self::Matches(node) => node.free(bound, found),
            Self::Within(range) => range.free(bound, found),
        }
    }
}

impl Arguments {
    fn free(&self, bound: &mut Vec<Arc<str>>, found: &mut BTreeSet<String>) {
        match self {
            Self::Positional(nodes) => nodes.iter().for_each(|node| node.free(bound, found)),
            Self::Named(nodes) => nodes.iter().for_each(|(_, node)| node.free(bound, found)),
        }
    }
}
