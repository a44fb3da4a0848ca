//! What is held back by `suspend` or `cancel`. On a cluster such a run waits, or ends, while somebody can still say otherwise;
//! nobody can say anything to files while they are run, so `m87 run` does not begin.

use m87_api::local::{Key, Objects};

/// Why nothing may be run: every run that is suspended or cancelled, and every suspended policy that a run is under.
pub(crate) fn held(objects: &Objects) -> Vec<String> {
    let mut held = Vec::new();
    for (key, _) in objects.policies.iter().filter(|(_, policy)| policy.spec.is_suspended()) {
        let under = objects.runs.iter().filter(|(run, object)| run.beside(&object.spec.policy_ref.name) == *key);
        let under: Vec<String> = under.map(|(run, _)| title(run)).collect();
        if !under.is_empty() {
            held.push(format!(
                "policy {}: spec.suspend: is true, and nobody can resume it while m87 run works on files; take it out, or leave \
                 these runs out: {}",
                title(key),
                under.join(", ")
            ));
        }
    }
    for (key, run) in &objects.runs {
        let fields = [("suspend", run.spec.is_suspended()), ("cancel", run.spec.is_cancelled())];
        for (field, _) in fields.into_iter().filter(|(_, set)| *set) {
            held.push(format!(
                "run {}: spec.{field}: is true; take it out, or leave the run out of what -f names",
                title(key)
            ));
        }
    }
    held
}

fn title(key: &Key) -> String {
    match key.namespace.as_str() {
        "default" => format!("{:?}", key.name),
        namespace => format!("{:?}", format!("{namespace}/{}", key.name)),
    }
}
