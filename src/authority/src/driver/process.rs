//! Which process a run goes through: the policy's own, or the one that m87 ships; proved, once per content.

use m87_bpmn::{EXECUTABLE, model, prove};
use m87_core::dossier::ProcessPin;
use m87_core::json::sha256_hex;
use m87_core::policy::PolicySpec;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

/// Processes that were proved (their ids) or refused (why), by SHA-256 of their bytes. A proof follows from the bytes alone, so one memory
/// serves the whole program.
static PROVED: LazyLock<Mutex<HashMap<String, Result<String, String>>>> = LazyLock::new(Mutex::default);

/// The bytes of the process that a policy asks for.
pub(super) fn bpmn(policy: &PolicySpec) -> &str {
    policy.process.as_ref().map_or(EXECUTABLE, |process| &process.bpmn)
}

/// The pin of a policy's process; `None` if it is not proved.
pub fn pin(policy: &PolicySpec) -> Option<ProcessPin> {
    proof(policy).ok()
}

/// The pin of a policy's process, or the path on which it breaks its promise. May take as long as the process is large.
pub fn proof(policy: &PolicySpec) -> Result<ProcessPin, String> {
    let bytes = bpmn(policy);
    let bpmn_sha256 = sha256_hex(bytes.as_bytes());
    let mut known = PROVED.lock().unwrap_or_else(PoisonError::into_inner);
    let id = known.entry(bpmn_sha256.clone()).or_insert_with(|| proved(bytes)).clone()?;
    Ok(ProcessPin { id, bpmn_sha256 })
}

fn proved(bytes: &str) -> Result<String, String> {
    let proof = match model::parse(bytes.as_bytes()) {
        Ok(definitions) => prove::prove(&definitions).map_err(|counterexample| counterexample.to_string()),
        Err(error) => Err(error.to_string()),
    };
    if let Err(why) = &proof {
        tracing::warn!(why, "a process is not proved: runs under its policy are refused");
    }
    proof.map(|proof| proof.process)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use m87_core::fixtures;
    use m87_core::policy::ProcessSource;

    #[test]
    fn the_shipped_process_is_proved_and_a_broken_one_is_not() {
        let mut policy = fixtures::policy();
        assert_eq!(pin(&policy).unwrap().id, "m87-governed-loop");
        for bpmn in ["no xml", "<definitions/>"] {
            policy.process = Some(ProcessSource { bpmn: bpmn.to_owned() });
            assert_eq!(pin(&policy), None);
        }
    }
}
