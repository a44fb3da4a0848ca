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
        (Value::Object(live), Value::Object(desired)) => desired.iter().all(|(key, value)| {
            live.get(key).is_some_and(|found| match key.as_str() {
                "limits" | "requests" => quantities_hold(found, value),
                _ => holds(found, value),
            })
        }),
        (Value::Array(live), Value::Array(desired)) => {
            live.len() == desired.len() && live.iter().zip(desired).all(|(live, desired)| holds(live, desired))
        }
        (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_), _)
        | (Value::Object(_) | Value::Array(_), _) => live == desired,
    }
}

/// The API server writes quantities its own way: `0.1` comes back as `100m`, `1024Mi` as `1Gi`.
fn quantities_hold(live: &Value, desired: &Value) -> bool {
    desired.as_object().into_iter().flatten().all(|(resource, wanted)| {
        let amount = |value: Option<&Value>| value.and_then(Value::as_str).and_then(amount);
        live.get(resource) == Some(wanted)
            || amount(live.get(resource)).is_some_and(|found| Some(found) == amount(Some(wanted)))
    })
}

/// A quantity in thousandths; what is finer counts as one more, as the API server rounds.
fn amount(quantity: &str) -> Option<u128> {
    const UNITS: [(&str, u128); 9] = [
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("Ti", 1 << 40),
        ("k", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
        ("T", 1_000_000_000_000),
        ("", 1),
    ];
    let (number, thousandths) = match quantity.strip_suffix('m') {
        Some(number) => (number, 1),
        None => UNITS.iter().find_map(|(unit, size)| Some((quantity.strip_suffix(unit)?, size * 1000)))?,
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits: u128 = format!("{whole}{part}").parse().ok()?;
    let scale = 10_u128.checked_pow(u32::try_from(part.len()).ok()?)?;
    Some(digits.checked_mul(thousandths)?.div_ceil(scale))
}

#[cfg(test)]
mod tests;
