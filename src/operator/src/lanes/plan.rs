//! What to do about the lanes' Deployments: facts in, actions out. Nothing is written while nothing differs.

use super::{Settings, deployment};
use m87_core::lane::Lane;
use serde_json::Value;

/// What is known of one lane.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The lane.
    pub lane: Lane,
    /// The pods it should have.
    pub wanted: u32,
    /// Its Deployment.
    pub found: Found,
}

/// A lane's Deployment as it was found.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    /// There is none.
    Absent,
    /// It is being deleted.
    Going,
    /// As it is now.
    There(Box<Value>),
}

/// What to do about one Deployment.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Apply it like this.
    Apply {
        /// Whose it is.
        lane: Lane,
        /// The object.
        object: Box<Value>,
    },
    /// Delete it: its selector is another, and no selector can be changed. It is made again once it is gone.
    Delete {
        /// Whose it is.
        lane: Lane,
    },
}

impl Action {
    /// Whose Deployment it is about.
    pub const fn lane(&self) -> Lane {
        match self {
            Self::Apply { lane, .. } | Self::Delete { lane } => *lane,
        }
    }
}

/// What to do about the lanes; nothing for one that is as it should be.
pub fn plan(settings: &Settings, lanes: &[Facts]) -> Vec<Action> {
    lanes.iter().filter_map(|facts| act(settings, facts)).collect()
}

fn act(settings: &Settings, facts: &Facts) -> Option<Action> {
    let lane = facts.lane;
    let object = Box::new(deployment(settings, lane, facts.wanted));
    match &facts.found {
        Found::Going => None,
        Found::Absent => Some(Action::Apply { lane, object }),
        Found::There(live) if live.pointer("/spec/selector") != object.pointer("/spec/selector") => {
            Some(Action::Delete { lane })
        }
        Found::There(live) => (!holds(live, &object)).then_some(Action::Apply { lane, object }),
    }
}

/// Whether everything that is desired is there. What the API server or others add beside it is not looked at, save in lists,
/// whose elements belong to whoever wrote the list.
fn holds(live: &Value, desired: &Value) -> bool {
    match (live, desired) {
        (Value::Object(live), Value::Object(desired)) => {
            desired.iter().all(|(key, value)| live.get(key).is_some_and(|found| holds(found, value)))
        }
        (Value::Array(live), Value::Array(desired)) => {
            live.len() == desired.len() && live.iter().zip(desired).all(|(live, desired)| holds(live, desired))
        }
        (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_), _)
        | (Value::Object(_) | Value::Array(_), _) => live == desired,
    }
}

#[cfg(test)]
mod tests;
