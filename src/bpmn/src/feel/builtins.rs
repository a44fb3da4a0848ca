//! The functions of FEEL and of Camunda's extension of it. One table a kind of value; a function is chosen by its
//! name and its parameters, and its arguments are checked by the patterns it matches.

use super::eval::{Call, Refusal};
use super::value::Value;

mod boolean;
mod context;
mod conversion;
mod list;
mod number;
mod range;
mod statistics;
mod string;
mod temporal;

type Answer = Result<Value, Refusal>;

/// A function with one list of parameters; a name may have several.
pub(super) struct Builtin {
    pub(super) name: &'static str,
    pub(super) parameters: &'static [&'static str],
    /// The last parameter takes all the arguments that are left.
    pub(super) variadic: bool,
    pub(super) call: fn(&mut Call<'_, '_>, &[Value]) -> Answer,
}

const fn function(
    name: &'static str,
    parameters: &'static [&'static str],
    call: fn(&mut Call<'_, '_>, &[Value]) -> Answer,
) -> Builtin {
    Builtin { name, parameters, variadic: false, call }
}

const fn variadic(
    name: &'static str,
    parameters: &'static [&'static str],
    call: fn(&mut Call<'_, '_>, &[Value]) -> Answer,
) -> Builtin {
    Builtin { name, parameters, variadic: true, call }
}

const TABLES: [&[Builtin]; 9] = [
    boolean::FUNCTIONS,
    string::FUNCTIONS,
    number::FUNCTIONS,
    list::FUNCTIONS,
    statistics::FUNCTIONS,
    context::FUNCTIONS,
    conversion::FUNCTIONS,
    temporal::FUNCTIONS,
    range::FUNCTIONS,
];

fn named<'n>(name: &'n str) -> impl Iterator<Item = &'static Builtin> + use<'n> {
    TABLES.into_iter().flatten().filter(move |builtin| builtin.name == name)
}

/// The function of this name for `count` arguments.
pub(super) fn by_position(name: &str, count: usize) -> Option<&'static Builtin> {
    named(name)
        .find(|builtin| builtin.parameters.len() == count || (builtin.variadic && builtin.parameters.len() < count))
}

/// The function of this name that has all these parameters.
pub(super) fn by_name(name: &str, parameters: &[&str]) -> Option<&'static Builtin> {
    named(name).find(|builtin| parameters.iter().all(|parameter| builtin.parameters.contains(parameter)))
}

/// The item before which a 1-based position stands; negative positions count from the end.
fn offset(position: i64, length: usize) -> i64 {
    if position > 0 { position - 1 } else { i64::try_from(length).unwrap_or(i64::MAX).saturating_add(position) }
}

/// A 0-based offset, cut to what there is.
fn clamp(offset: i64, length: usize) -> usize {
    usize::try_from(offset.max(0)).unwrap_or(length).min(length)
}

/// Every name, for tests that go through them all.
#[cfg(test)]
pub(super) fn names() -> Vec<&'static str> {
    TABLES.into_iter().flatten().map(|builtin| builtin.name).collect()
}
