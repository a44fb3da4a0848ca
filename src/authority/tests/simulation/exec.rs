//! The processes of attempts: each redeems, runs, uploads, reports; and may die in between, ask again, or have a twin that
//! stole its token.

use crate::random::Random;
use crate::world::Outside;
use bytes::Bytes;
use futures::StreamExt;
use m87_authority::proto::{RedeemRequest, ReportRequest, ReportValidationRequest};
use m87_authority::{AttemptKind, AttemptOrder, AuthorityClient, AuthorityError, InProcess, Service};
use m87_core::evidence::{DeclaredArtifact, Ended, ExecutionReport, Measured, ValidationReport};
use m87_core::json::{sha256_hex, to_canonical};
use serde_json::json;
use std::collections::BTreeMap;

const ARTIFACT: &[u8] = b"{\"total\":3}";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    New,
    Go,
    Ran,
    Stored,
}

/// Every process that was started, by its place in the executor's list.
#[derive(Default)]
pub struct Processes {
    phases: BTreeMap<usize, Phase>,
    effects: BTreeMap<String, u32>,
}

impl Processes {
    /// How often the tool of a run was let loose.
    pub fn effects(&self, uid: &str) -> u32 {
        self.effects.get(uid).copied().unwrap_or(0)
    }

    /// One process does one thing.
    pub async fn step(
        &mut self,
        random: &mut Random,
        outside: &Outside,
        service: &Service,
        is_restored: bool,
        calm: bool,
    ) {
        let living: Vec<(usize, AttemptOrder)> = outside.with(|state| {
            let all = state.attempts.iter().enumerate();
            all.filter(|(_, (_, alive))| *alive).map(|(index, (order, _))| (index, order.clone())).collect()
        });
        let Some((index, order)) = random.pick(&living).cloned() else { return };
        if !calm && random.one_in(25) {
            return outside.with(|state| state.attempts[index].1 = false);
        }
        let Ok(Some(principal)) = service.attempt(&order.credentials.token).await else { return };
        let client = InProcess::new(service.clone(), principal);
        let is_over = match order.kind {
            AttemptKind::Tool => self.tool(random, index, &order, &client, is_restored, calm).await,
            AttemptKind::Validation => validation(random, outside, index, &client).await,
        };
        if is_over {
            outside.with(|state| state.attempts[index].1 = false);
        }
    }

    async fn tool(
        &mut self,
        random: &mut Random,
        index: usize,
        order: &AttemptOrder,
        client: &InProcess,
        is_restored: bool,
        calm: bool,
    ) -> bool {
        let phase = *self.phases.entry(index).or_insert(Phase::New);
        let nonce = format!("nonce-{index}");
        let redeem = |nonce: String| client.redeem(RedeemRequest { contract_id: order.contract_id.clone(), nonce });
        if !calm && random.one_in(15) && redeem(format!("twin-{index}")).await.is_ok() {
            assert!(!is_restored, "a restored store said go");
            *self.effects.entry(order.run_uid.clone()).or_default() += 1;
        }
        let next = match phase {
            Phase::New => match redeem(nonce).await {
                Ok(_) => {
                    assert!(!is_restored, "a restored store said go");
                    // The answer may be lost; the same process asks again.
                    if !calm && random.one_in(6) { Phase::New } else { Phase::Go }
                }
                Err(AuthorityError::Unavailable(_)) => Phase::New,
                Err(AuthorityError::Refused { .. }) => return true,
            },
            Phase::Go => {
                *self.effects.entry(order.run_uid.clone()).or_default() += 1;
                Phase::Ran
            }
            Phase::Ran => {
                let data = futures::stream::iter([Bytes::from_static(ARTIFACT)]).boxed();
                match client.put_artifact(order.contract_id.clone(), nonce, data).await {
                    Ok(_) | Err(AuthorityError::Refused { .. }) => Phase::Stored,
                    Err(AuthorityError::Unavailable(_)) => Phase::Ran,
                }
            }
            Phase::Stored => {
                let report = ExecutionReport {
                    ended: Ended::Exited(0),
                    measured: Measured { tool_calls: 1, seconds: 1, artifact_bytes: ARTIFACT.len() as i64 },
                    reported: Some(json!({"steps": 3})),
                    artifact: Some(DeclaredArtifact {
                        sha256: Some(sha256_hex(ARTIFACT)),
                        size: ARTIFACT.len() as i64,
                    }),
                    output: String::new(),
                };
                let json = to_canonical(&report).unwrap();
                let request = ReportRequest { contract_id: order.contract_id.clone(), nonce, json };
                match client.report(request).await {
                    Ok(()) | Err(AuthorityError::Refused { .. }) => return true,
                    Err(AuthorityError::Unavailable(_)) => Phase::Stored,
                }
            }
        };
        self.phases.insert(index, next);
        false
    }
}

/// A validating process, which reports itself or is only seen to end.
async fn validation(random: &mut Random, outside: &Outside, index: usize, client: &InProcess) -> bool {
    match client.validation_order().await {
        Ok(_) => {}
        Err(AuthorityError::Unavailable(_)) => return false,
        Err(AuthorityError::Refused { .. }) => return true,
    }
    let ended = if random.one_in(10) { Ended::Exited(1) } else { Ended::Exited(0) };
    let report = ValidationReport { ended, output: String::new() };
    if random.one_in(2) {
        outside.with(|state| state.verdicts.insert(index, report));
        return true;
    }
    let json = to_canonical(&report).unwrap();
    !matches!(client.report_validation(ReportValidationRequest { json }).await, Err(AuthorityError::Unavailable(_)))
}
