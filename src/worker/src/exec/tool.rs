//! A tool attempt: redeem, run, send the artifact, report.

use super::artifact::{self, Artifact};
use super::persist::persist;
use super::shim::{Over, Shim};
use super::{Attempt, ExecError, ORDER_PATIENCE};
use crate::shim::link::{Done, Go, Left, Task};
use m87_authority::AuthorityError;
use m87_authority::proto::{RedeemRequest, ReportRequest};
use m87_core::contract::WorkOrder;
use m87_core::evidence::{DeclaredArtifact, Ended, ExecutionReport, Measured};
use m87_core::json::{read_document, to_canonical};
use m87_core::tool::Run;
use std::time::Duration;
use tokio::time::Instant;

pub(super) async fn run(attempt: &Attempt<'_>, contract_id: &str) -> Result<(), ExecError> {
    let shim = attempt.shim().await?;
    let nonce = nonce().map_err(ExecError::system("no randomness for a nonce"))?;
    let held = Held { attempt, contract_id, nonce };

    // From the answer on, an effect is possible and this process is the only one that may have it.
    let order = held.redeem().await?;
    attempt.forget_credentials();
    let limit = order.as_ref().map_or(0, |order| order.limits().seconds);
    let limit = Duration::from_secs(u64::try_from(limit).unwrap_or(0));
    let until = Instant::now() + limit + attempt.args.report_grace;
    let (over, report) = match order {
        Ok(order) => held.execute(order, shim, until).await?,
        Err(why) => {
            let over = Over::not_started(why);
            let report = report(&over.done, true, None);
            (over, report)
        }
    };
    held.report(&report, until).await?;
    // Only now: the shim's end is the end of a pod.
    drop(over);
    Ok(())
}

/// A redeemable contract in the one process that can redeem it.
struct Held<'a> {
    attempt: &'a Attempt<'a>,
    contract_id: &'a str,
    nonce: String,
}

impl Held<'_> {
    /// The order; or, once redeemed, why it cannot be followed.
    async fn redeem(&self) -> Result<Result<WorkOrder, String>, ExecError> {
        let request = RedeemRequest { contract_id: self.contract_id.to_owned(), nonce: self.nonce.clone() };
        let ask = || self.attempt.authority.redeem(request.clone());
        let reply = persist(Instant::now() + ORDER_PATIENCE, ask).await;
        let reply = reply.map_err(ExecError::authority("the contract was not redeemed"))?;
        Ok(self.read(reply.order.as_bytes()))
    }

    fn read(&self, text: &[u8]) -> Result<WorkOrder, String> {
        let order: WorkOrder = read_document(text).map_err(|error| format!("the authority's work order {error}"))?;
        if order.contract_id != self.contract_id {
            return Err("the work order is for another contract".to_owned());
        }
        Ok(order)
    }

    async fn execute(
        &self,
        order: WorkOrder,
        shim: Shim,
        until: Instant,
    ) -> Result<(Over, ExecutionReport), ExecError> {
        let injected_clock = order.injected_clock;
        let Run::Command(command) = order.run;
        let task = Task::Tool { artifact: command.artifact };
        let go = Go { argv: command.argv, input: order.input, task, limits: command.limits };
        let mut over = shim.run(&go).await;
        let artifact = match (&over.done.artifact, over.artifact.take()) {
            (Left::File, Some(file)) => Some(self.send(Artifact::new(file), until).await?),
            (left, _) => {
                tracing::info!(?left, "there is no artifact");
                None
            }
        };
        let mut report = report(&over.done, injected_clock, artifact);
        report.reported = artifact::usage(&over.done.usage, over.usage.take());
        Ok((over, report))
    }

    /// Sends the artifact. A refusal by the authority does not undo that it is declared: what is not stored will not be
    /// verified.
    async fn send(&self, artifact: Artifact, until: Instant) -> Result<DeclaredArtifact, ExecError> {
        let put = || {
            let (contract_id, nonce) = (self.contract_id.to_owned(), self.nonce.clone());
            self.attempt.authority.put_artifact(contract_id, nonce, artifact.stream())
        };
        match persist(until, put).await {
            Ok(_) => {}
            Err(AuthorityError::Refused { reason, message }) => {
                tracing::warn!(%reason, message, "the artifact was not stored");
            }
            Err(source) => return Err(ExecError::Authority { what: "the artifact was not sent", source }),
        }
        Ok(artifact.declare().await)
    }

    async fn report(&self, report: &ExecutionReport, until: Instant) -> Result<(), ExecError> {
        let json = to_canonical(report).map_err(|error| ExecError::System {
            what: "the report".to_owned(),
            source: std::io::Error::other(error),
        })?;
        let request = ReportRequest { contract_id: self.contract_id.to_owned(), nonce: self.nonce.clone(), json };
        let tell = || self.attempt.authority.report(request.clone());
        persist(until, tell).await.map_err(ExecError::authority("the report was not heard"))
    }
}

/// What m87 measured, in the report's units.
fn report(done: &Done, injected_clock: bool, artifact: Option<DeclaredArtifact>) -> ExecutionReport {
    let seconds = if injected_clock { 0 } else { done.millis.div_ceil(1000) };
    ExecutionReport {
        measured: Measured {
            tool_calls: i64::from(!matches!(done.ended, Ended::NotStarted(_))),
            seconds: i64::try_from(seconds).unwrap_or(i64::MAX),
            artifact_bytes: artifact.as_ref().map_or(0, |artifact| artifact.size),
        },
        ended: done.ended.clone(),
        reported: None,
        artifact,
        output: done.output.clone(),
    }
}

fn nonce() -> std::io::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(hex::encode(bytes))
}
