//! `kubectl m87 logs`: what a run's tool says, from its pod while that is there, else from the receipt.

use super::args::LogsArguments;
use super::cluster::{Cluster, told};
use crate::exit::Exit;
use crate::receipt::outputs;
use crate::say::{put, say, tell};
use ::kube::api::{ListParams, LogParams};
use ::kube::{Api, ResourceExt};
use anyhow::{Context, anyhow};
use k8s_openapi::api::core::v1::Pod;
use m87_core::json::read_document;
use m87_core::receipt::Bundle;
use m87_worker::sandbox::text::clean;

/// The container of a tool pod in which the tool runs.
const TOOL: &str = "tool";

/// Lines and bytes that are shown of a pod's log.
const LINES: i64 = 10_000;
const BYTES: i64 = 16 << 20;

/// Shows the pod's log, or what was recorded of it.
pub(crate) async fn run(arguments: &LogsArguments) -> anyhow::Result<Exit> {
    let cluster = Cluster::open(&arguments.access).await?;
    let name = &arguments.run;
    let uid = match cluster.runs().get_opt(name).await {
        Ok(Some(object)) => object.uid(),
        Ok(None) => None,
        Err(error) => return Err(anyhow!("run {name:?}: {}", told(&error))),
    };
    if let Some(uid) = uid
        && let Some(pod) = pod(&cluster, &uid).await?
    {
        let asked = LogParams {
            container: Some(TOOL.to_owned()),
            tail_lines: Some(LINES),
            limit_bytes: Some(BYTES),
            ..LogParams::default()
        };
        let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
        match pods.logs(&pod, &asked).await {
            Ok(log) => {
                put!(clean(&log));
                return Ok(Exit::AsAsked);
            }
            Err(error) => tell!("pod {pod}: {}; what is recorded:", told(&error)),
        }
    }
    let bytes = cluster.ask_of_run(name, "bundle").await?;
    let bundle: Bundle = read_document(bytes.as_bytes()).context("the bundle")?;
    let lines = outputs(&bundle.evidence);
    if lines.is_empty() {
        tell!("nothing is recorded of what the tool of run {name:?} said");
    }
    lines.iter().for_each(|line| say!("{line}"));
    Ok(Exit::AsAsked)
}

/// The pod of the run's last attempt, if one is there.
async fn pod(cluster: &Cluster, uid: &str) -> anyhow::Result<Option<String>> {
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let asked = ListParams::default().labels(&format!("m87.dev/run-uid={uid},m87.dev/kind=tool"));
    match pods.list(&asked).await {
        Ok(found) => Ok(found.items.iter().max_by_key(|pod| attempt(pod)).map(ResourceExt::name_any)),
        // Who may see runs need not be allowed to see pods; the receipt is there all the same.
        Err(::kube::Error::Api(status)) if status.code == 403 => Ok(None),
        Err(error) => Err(anyhow!("pods: {}", told(&error))),
    }
}

fn attempt(pod: &Pod) -> u32 {
    pod.labels().get("m87.dev/attempt").and_then(|number| number.parse().ok()).unwrap_or_default()
}
