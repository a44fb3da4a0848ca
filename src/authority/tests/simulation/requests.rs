//! What is asked for: mostly good runs, some with a fault of their own.

use crate::random::Random;
use m87_authority::RunRequest;
use m87_core::dossier::Named;
use m87_core::fixtures;

pub fn key(request: &RunRequest) -> String {
    request.idempotency_key.clone().unwrap_or_else(|| request.name.clone())
}

/// Some requests.
pub fn requests(random: &mut Random) -> Vec<RunRequest> {
    let good = RunRequest {
        namespace: Named { name: "default".to_owned(), uid: "uid-of-default".to_owned() },
        name: "run".to_owned(),
        uid: None,
        idempotency_key: None,
        actor: fixtures::actor(),
        proposal: fixtures::proposal(),
        policy: "policy".to_owned(),
        manifest: "tools".to_owned(),
        deadline_seconds: 3600,
    };
    (0..=random.below(3))
        .map(|index| {
            let mut request = RunRequest { name: format!("run{index}"), ..good.clone() };
            match random.below(9) {
                0 => request.proposal.reasoning_trace = None,
                1 => request.policy = "missing".to_owned(),
                2 => request.manifest = "missing".to_owned(),
                3 => {
                    request.idempotency_key = Some("shared".to_owned());
                    request.proposal.reasoning_trace = Some(format!("because of {index}"));
                }
                _ => {}
            }
            request
        })
        .collect()
}
