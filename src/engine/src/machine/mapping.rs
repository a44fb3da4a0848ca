//! Input and output mappings: in order, each seeing what the ones before it made.

use serde_json::{Map, Value};

use super::expression::{Failure, Site};
use super::graph::Mapping;

/// The variables that an element gets in its own scope.
pub(super) fn inputs(site: Site<'_>, mappings: &[Mapping]) -> Result<Map<String, Value>, Failure> {
    let mut made = Map::new();
    for mapping in mappings {
        let value = site.mapped(&mapping.source, &made)?;
        // A path builds a context of its own: nothing of a variable with that name is kept.
        put(&mut made, &mapping.target, value);
    }
    Ok(made)
}

/// The variables that leave an element.
pub(super) fn outputs(site: Site<'_>, parent: i64, mappings: &[Mapping]) -> Result<Map<String, Value>, Failure> {
    let mut made = Map::new();
    for mapping in mappings {
        let value = site.mapped(&mapping.source, &made)?;
        // A path changes one leaf of the variable that is there.
        if let [name, _, ..] = mapping.target.as_slice()
            && !made.contains_key(name)
            && let Some(there) = site.state.variable(parent, name)
        {
            made.insert(name.clone(), there.clone());
        }
        put(&mut made, &mapping.target, value);
    }
    Ok(made)
}

fn put(into: &mut Map<String, Value>, path: &[String], value: Value) {
    match path {
        [] => {}
        [name] => {
            into.insert(name.clone(), value);
        }
        [name, rest @ ..] => {
            let mut inner = match into.remove(name) {
                Some(Value::Object(inner)) => inner,
                Some(_) | None => Map::new(),
            };
            put(&mut inner, rest, value);
            into.insert(name.clone(), Value::Object(inner));
        }
    }
}
