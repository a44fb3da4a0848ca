//! Receipts over HTTP, for `kubectl m87`: what a caller may see of its own namespace, by its own token.
//!
//! The API server's service proxy forwards requests here and drops `Authorization`, so the caller sends its token once more in
//! a header of ours ([`TOKEN_HEADER`]). The API server says whose it is (TokenReview) and whether that user may `get
//! governedruns` there (SubjectAccessReview); this server decides nothing of its own and holds no session.

mod answer;
mod caller;
mod find;
mod serve;

#[cfg(test)]
mod tests;

pub use answer::Refused;
pub use caller::{ApiServer, Cluster, RunObject, Unreachable, User};
pub use serve::{serve, server_config};

use answer::{Answer, json, text};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use caller::Scope;
use futures::StreamExt;
use m87_authority::Authority;
use m87_authority::export::Page;
use m87_authority::row::Run;
use m87_core::decide::decide;
use m87_core::explain::{clauses, explain};
use m87_core::gates::{Clause, evaluate_constraints, tool_in_manifest};
use m87_core::log::LogPage;
use serde_json::json as object;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// The header with the caller's own bearer token. It is never logged.
pub const TOKEN_HEADER: &str = "x-m87-token";

/// No answer takes longer; the API server's proxy gives up after a minute.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// Answers that are made at one time. Each holds a bundle or a page of a log in memory.
const AT_ONCE: usize = 8;

/// No answer is larger, in bytes.
const MAX_ANSWER: usize = 64 << 20;

/// What answers are made from.
pub struct Receipts {
    /// Has the receipts.
    pub authority: Arc<Authority>,
    /// Says who may see them.
    pub cluster: Arc<dyn Cluster>,
    /// The cluster's uid, as it stands in receipts.
    pub cluster_uid: String,
}

/// Every route. What is served is the same for everybody who may `get governedruns`; only the public key is for all.
pub fn router(receipts: Arc<Receipts>) -> Router {
    let room = Arc::new(Semaphore::new(AT_ONCE));
    Router::new()
        .route("/v1/keys", get(keys))
        .route("/v1/namespaces/{namespace}/log", get(log))
        .route("/v1/namespaces/{namespace}/checkpoint", get(checkpoint))
        .route("/v1/namespaces/{namespace}/runs/{run}/bundle", get(bundle))
        .route("/v1/namespaces/{namespace}/runs/{run}/explain", get(explanation))
        .fallback(async || Refused::NotFound("there is nothing at this path".to_owned()))
        .method_not_allowed_fallback(async || Refused::NotFound("only GET is answered here".to_owned()))
        .layer(middleware::from_fn_with_state(room, bounded))
        .with_state(receipts)
}

/// So many answers at one time, and none for longer than its limit. An answer has its place until it is sent: whoever reads
/// slowly keeps it in memory.
async fn bounded(State(room): State<Arc<Semaphore>>, request: Request, next: Next) -> Response {
    let Ok(place) = room.try_acquire_owned() else {
        return Refused::Unavailable("too many requests at one time; try again in a moment".to_owned()).into_response();
    };
    match tokio::time::timeout(ANSWER_LIMIT, next.run(request)).await {
        Ok(response) => response.map(|body| {
            let until_sent = body.into_data_stream().inspect(move |_| {
                let _ = &place;
            });
            Body::from_stream(until_sent)
        }),
        Err(_) => Refused::Unavailable("the answer took too long; try again".to_owned()).into_response(),
    }
}

async fn keys(State(receipts): State<Arc<Receipts>>) -> Answer {
    let pem = receipts.authority.verifying_key().to_pem().map_err(Refused::internal)?;
    text("application/x-pem-file", pem.into_bytes())
}

/// A page of the namespace's log, the first with a checkpoint over the whole: `?from=ENTRY&size=SIZE`, where the size is that of
/// the first page's checkpoint. How much an answer holds is so known before anything is read.
async fn log(
    State(receipts): State<Arc<Receipts>>,
    Path(namespace): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Answer {
    let tenant = receipts.admit(&headers, &namespace, Scope::Namespace).await?;
    let (from, size) = page(uri.query().unwrap_or_default())?;
    let page = receipts.authority.page(&receipts.cluster_uid, &tenant.uid, from, size).await;
    let Page { checkpoint, entries } = page.map_err(Refused::of_export)?;
    let page = LogPage::new(from, entries, checkpoint, &receipts.authority.verifying_key());
    text("application/json", page.to_bytes().map_err(Refused::internal)?)
}

/// Which page is asked for: from which entry on, of a log of how many.
fn page(query: &str) -> Result<(u64, Option<u64>), Refused> {
    let wrong =
        |part: &str| Refused::Malformed(format!("{part:?} is not understood: ?from=ENTRY&size=SIZE, numbers both"));
    let (mut from, mut size) = (None, None);
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').ok_or_else(|| wrong(part))?;
        let field = match name {
            "from" => &mut from,
            "size" => &mut size,
            _ => return Err(wrong(part)),
        };
        if field.replace(value.parse::<u64>().map_err(|_| wrong(part))?).is_some() {
            return Err(wrong(part));
        }
    }
    Ok((from.unwrap_or_default(), size))
}

/// The signed size and root of the namespace's log as it is now, for whoever wants to hold a later log against it.
async fn checkpoint(
    State(receipts): State<Arc<Receipts>>,
    Path(namespace): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let tenant = receipts.admit(&headers, &namespace, Scope::Namespace).await?;
    let signed = receipts.authority.signed_checkpoint(&receipts.cluster_uid, &tenant.uid).await;
    let envelope = m87_core::json::to_canonical(&signed.map_err(Refused::of_export)?).map_err(Refused::internal)?;
    text("application/json", envelope.into_bytes())
}

/// The bundle of a run's receipt.
async fn bundle(
    State(receipts): State<Arc<Receipts>>,
    Path((namespace, run)): Path<(String, String)>,
    headers: HeaderMap,
) -> Answer {
    let tenant = receipts.admit(&headers, &namespace, Scope::of_run(&run)).await?;
    let found = receipts.find(&tenant, &run).await?;
    let bundle = receipts.authority.bundle(&found.dossier.run.uid).await.map_err(Refused::of_export)?;
    text("application/json", bundle.to_bytes().map_err(Refused::internal)?)
}

/// Why a run ended, clause by clause; of one that has not ended, what the gates before the contract say.
async fn explanation(
    State(receipts): State<Arc<Receipts>>,
    Path((namespace, run)): Path<(String, String)>,
    headers: HeaderMap,
) -> Answer {
    let tenant = receipts.admit(&headers, &namespace, Scope::of_run(&run)).await?;
    let found = receipts.find(&tenant, &run).await?;
    json(&explained(&found))
}

/// The trace of a run as data and in words.
fn explained(run: &Run) -> serde_json::Value {
    let dossier = &*run.dossier;
    let (name, uid) = (&dossier.run.name, &dossier.run.uid);
    if run.row.sealed().is_some() {
        let verdict = decide(dossier, &run.row.evidence);
        return object!({
            "namespace": dossier.namespace.name, "name": name, "uid": uid, "sealed": true,
            "terminal": verdict.terminal, "reason": verdict.reason, "message": verdict.message,
            "trace": verdict.trace, "text": explain(&verdict),
        });
    }
    let trace = before_contract(run);
    object!({
        "namespace": dossier.namespace.name, "name": name, "uid": uid, "sealed": false,
        "terminal": null, "reason": null,
        "message": "it has not ended; this is what the gates before the contract say",
        "trace": trace, "text": clauses(&trace),
    })
}

fn before_contract(run: &Run) -> Vec<Clause> {
    let constraints = evaluate_constraints(&run.dossier);
    let passed = constraints.passed();
    let mut trace: Vec<Clause> = constraints.into_iter().collect();
    if passed {
        trace.extend(tool_in_manifest(&run.dossier));
    }
    trace
}
