//! Tools and validations by a script: what their processes would ask of the authority, without the processes.

use crate::stage::Parts;
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use m87_authority::proto::{RedeemRequest, ReportRequest, ReportValidationRequest};
use m87_authority::{
    AttemptKind, AttemptName, AttemptOrder, AuthorityClient, AuthorityError, Executor, ExecutorError, Handle,
    InProcess, Service,
};
use m87_core::evidence::{DeclaredArtifact, Ended, ExecutionReport, Measured, ValidationReport};
use m87_core::json::{sha256_hex, to_canonical};
use serde_json::json;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

const ARTIFACT: &[u8] = b"{\"total\":3}";
const NONCE: &str = "nonce";

/// What becomes of a run's processes.
#[derive(Debug, Clone)]
pub struct Script {
    pub tool: Tool,
    /// How the validation ends; `None` if its process can never be made.
    pub validation: Option<Ended>,
    /// Whether the executor sees that end itself, instead of a report.
    pub seen: bool,
}

#[derive(Debug, Clone)]
pub enum Tool {
    /// Its process can never be made.
    Unmade,
    /// It is no longer what was made when it redeems.
    Tampered,
    /// It redeems, and is never heard of again.
    Vanishes,
    /// It leaves its artifact and reports.
    Reports(Box<ExecutionReport>),
}

impl Default for Script {
    fn default() -> Self {
        Self { tool: Tool::Reports(Box::new(report())), validation: Some(Ended::Exited(0)), seen: false }
    }
}

/// The report of a tool that did well.
pub fn report() -> ExecutionReport {
    let size = ARTIFACT.len() as i64;
    ExecutionReport {
        ended: Ended::Exited(0),
        measured: Measured { tool_calls: 1, seconds: 1, artifact_bytes: size },
        reported: Some(json!({"steps": 3})),
        artifact: Some(DeclaredArtifact { sha256: Some(sha256_hex(ARTIFACT)), size }),
        output: String::new(),
    }
}

/// Plays every attempt by its run's script.
pub struct Player {
    parts: Parts,
    pub service: OnceLock<Service>,
    /// Handles of processes that have ended.
    over: Arc<Mutex<HashSet<String>>>,
    /// Handles that the authority has asked about, and so has written down.
    known: Arc<Mutex<HashSet<String>>>,
}

impl Player {
    pub fn new(parts: Parts) -> Self {
        Self { parts, service: OnceLock::new(), over: Arc::default(), known: Arc::default() }
    }

    fn script(&self, handle: &Handle) -> Script {
        let uid = handle.0.rsplitn(3, ' ').last().unwrap();
        self.parts.lock().unwrap()[uid].script.clone()
    }
}

#[async_trait]
impl Executor for Player {
    async fn start(&self, order: &AttemptOrder) -> Result<Handle, ExecutorError> {
        let script = self.parts.lock().unwrap()[&order.run_uid].script.clone();
        let service = self.service.get().unwrap().clone();
        let principal = service.attempt(&order.credentials.token).await.unwrap().expect("the attempt is durable");
        let client = InProcess::new(service, principal);
        let handle = format!("{} {} {}", order.run_uid, order.kind.name(), order.attempt);
        let (contract, name, over) = (order.contract_id.clone(), handle.clone(), self.over.clone());
        match (order.kind, script) {
            (AttemptKind::Tool, Script { tool: Tool::Unmade, .. })
            | (AttemptKind::Validation, Script { validation: None, .. }) => {
                return Err(ExecutorError("no such process".to_owned()));
            }
            (AttemptKind::Tool, Script { tool: Tool::Tampered, .. }) => {
                let known = self.known.clone();
                tokio::spawn(async move {
                    while !known.lock().unwrap().contains(&name) {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    refused(&client, &contract).await;
                })
            }
            (AttemptKind::Tool, Script { tool: Tool::Vanishes, .. }) => tokio::spawn(async move {
                redeem(&client, &contract).await;
                over.lock().unwrap().insert(name);
            }),
            (AttemptKind::Tool, Script { tool: Tool::Reports(report), .. }) => {
                tokio::spawn(async move { tool(&client, &contract, &report).await })
            }
            (AttemptKind::Validation, Script { seen: true, .. }) => return Ok(Handle(handle)),
            (AttemptKind::Validation, Script { validation: Some(ended), .. }) => {
                tokio::spawn(async move { validation(&client, ended).await })
            }
        };
        Ok(Handle(handle))
    }

    async fn alive(&self, handle: &Handle) -> Result<bool, ExecutorError> {
        self.known.lock().unwrap().insert(handle.0.clone());
        Ok(!self.over.lock().unwrap().contains(&handle.0))
    }

    async fn as_made(&self, handle: &Handle) -> Result<Result<(), String>, ExecutorError> {
        Ok(match self.script(handle).tool {
            Tool::Tampered => Err("another container".to_owned()),
            Tool::Unmade | Tool::Vanishes | Tool::Reports(_) => Ok(()),
        })
    }

    async fn verdict(&self, handle: &Handle) -> Result<Option<ValidationReport>, ExecutorError> {
        let Script { validation, seen, .. } = self.script(handle);
        Ok(validation.filter(|_| seen).map(|ended| ValidationReport { ended, output: String::new() }))
    }

    async fn discard(&self, _: &Handle) -> Result<(), ExecutorError> {
        Ok(())
    }

    async fn discard_unheard(&self, _: &AttemptName) -> Result<(), ExecutorError> {
        Ok(())
    }
}

/// Asks until there is an answer, as the processes do: somebody else may have changed the run meanwhile.
async fn answered<T, F: Future<Output = Result<T, AuthorityError>>>(ask: impl Fn() -> F) -> T {
    loop {
        match ask().await {
            Err(AuthorityError::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(5)).await,
            answer => return answer.unwrap(),
        }
    }
}

/// Redeems in vain.
async fn refused(client: &InProcess, contract: &str) {
    let request = RedeemRequest { contract_id: contract.to_owned(), nonce: NONCE.to_owned() };
    while let Err(AuthorityError::Unavailable(_)) = client.redeem(request.clone()).await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn redeem(client: &InProcess, contract: &str) {
    let request = RedeemRequest { contract_id: contract.to_owned(), nonce: NONCE.to_owned() };
    answered(|| client.redeem(request.clone())).await;
}

async fn tool(client: &InProcess, contract: &str, report: &ExecutionReport) {
    redeem(client, contract).await;
    let (contract_id, nonce) = (contract.to_owned(), NONCE.to_owned());
    if report.artifact.is_some() {
        let data = || futures::stream::iter([Bytes::from_static(ARTIFACT)]).boxed();
        answered(|| client.put_artifact(contract_id.clone(), nonce.clone(), data())).await;
    }
    let request = ReportRequest { contract_id, nonce, json: to_canonical(report).unwrap() };
    answered(|| client.report(request.clone())).await;
}

async fn validation(client: &InProcess, ended: Ended) {
    answered(|| client.validation_order()).await;
    let json = to_canonical(&ValidationReport { ended, output: String::new() }).unwrap();
    let request = ReportValidationRequest { json };
    answered(|| client.report_validation(request.clone())).await;
}
