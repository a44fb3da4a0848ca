//! `m87 tenant`: what the administrator of a namespace applies so that tools may run there. It is printed and not applied: m87
//! gives itself no rights.

use super::args::TenantArguments;
use crate::exit::Exit;
use crate::say::{put, tell};

/// Prints the objects.
pub(crate) fn run(arguments: &TenantArguments) -> anyhow::Result<Exit> {
    for name in [&arguments.namespace, &arguments.operator_namespace] {
        if let Err(problem) = m87_api::label(name) {
            tell!("namespace {name:?} {problem}");
            return Ok(Exit::Invalid);
        }
    }
    put!(objects(&arguments.namespace, &arguments.operator_namespace));
    Ok(Exit::AsAsked)
}

/// The right to make tool pods, and the walls around them. The chart has it, since its admission policies keep it as it is.
const OBJECTS: &str = include_str!("../../../../charts/m87/files/tenant.yaml");

fn objects(namespace: &str, operator: &str) -> String {
    OBJECTS.replace("TENANT", namespace).replace("HOME", operator)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use m87_core::strict::{Bounds, yaml_within};

    #[test]
    fn the_operator_is_bound_in_that_namespace_and_checks_are_walled_in() {
        let documents = yaml_within(objects("pay", "m87-system").as_bytes(), Bounds::DEFAULT).unwrap();
        let [binding, tools, policy] = documents.as_slice() else { panic!("{documents:?}") };
        assert_eq!(tools["spec"]["podSelector"]["matchLabels"]["m87.dev/kind"], "tool");
        assert_eq!(tools["spec"]["policyTypes"], serde_json::json!(["Ingress"]), "nobody connects to a tool");
        assert_eq!(binding["metadata"]["namespace"], "pay");
        assert_eq!(binding["roleRef"]["name"], "m87-tenant");
        assert_eq!(binding["subjects"][0]["namespace"], "m87-system");
        assert_eq!(policy["metadata"]["namespace"], "pay");
        assert_eq!(policy["spec"]["podSelector"]["matchLabels"]["m87.dev/kind"], "validation");
        assert!(policy["spec"].get("ingress").is_none(), "nobody reaches them");
        assert_eq!(policy["spec"]["egress"].as_array().unwrap().len(), 2);
    }
}
