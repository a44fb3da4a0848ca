//! The shell around the pure parts: pods are created, read and deleted, one at a time, by name. Nothing is listed or watched,
//! and nothing but pods is touched: that is all the rights that m87 has in a tenant's namespace.

use super::compare::{changed, fingerprint};
use super::handle::PodHandle;
use super::look::{death, hindrance, verdict};
use super::pod::{BIRTH, PodSettings, name, pod};
use crate::events::{About, Events};
use crate::world::call::{CallError, call};
use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DeleteParams, DynamicObject, PostParams, Preconditions};
use kube::core::PartialObjectMeta;
use kube::{Api, Client};
use m87_authority::entropy::{Entropy, SystemEntropy};
use m87_authority::{AttemptName, AttemptOrder, Executor, ExecutorError, Handle};
use m87_core::evidence::{Ended, ValidationReport};
use m87_worker::sandbox::text::readable;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long a pod is tried to be made while the API server says "not now".
const CREATE: Duration = Duration::from_secs(15);
/// How long a deleted pod may take to be gone.
const GONE: Duration = Duration::from_secs(15);
/// Between two tries.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// How long a deleted pod's containers have. None of them has anything to put in order.
const GRACE: u32 = 1;

/// Where a certificate authority that is replaced from time to time is found.
pub type CurrentCa = Arc<dyn Fn() -> String + Send + Sync>;

/// The kind whose attempts these are, and the reasons of Events: about one that cannot start, and about one whose pod was changed.
const GOVERNED_RUN: &str = "GovernedRun";
const NOT_STARTED: &str = "NotStarted";
const TAMPERED: &str = "Tampered";

/// Starts attempts as pods in the tenant's namespace.
#[derive(Clone)]
pub struct PodExecutor {
    client: Client,
    settings: PodSettings,
    ca: CurrentCa,
    events: Option<Events>,
}

/// What a handle holds.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Made {
    #[serde(flatten)]
    pod: PodHandle,
    /// What must stay as it was created.
    fingerprint: String,
}

impl PodExecutor {
    /// An executor with these settings; `ca` answers with what signs the authority's certificate now.
    pub fn new(client: Client, settings: PodSettings, ca: CurrentCa) -> Self {
        Self { client, settings, ca, events: None }
    }

    /// The same, which tells people by an Event why an attempt cannot start.
    #[must_use]
    pub fn telling(self, events: Events) -> Self {
        Self { events: Some(events), ..self }
    }

    fn tell(&self, about: About<'_>, reason: &str, why: &str) {
        if let Some(events) = &self.events {
            events.warn_about(about, reason, why);
        }
    }

    /// Tells it of the run to which this pod belongs.
    fn tell_of_pod(&self, live: &Value, namespace: &str, reason: &str, why: &str) {
        let owner = |field: &str| live.pointer(&format!("/metadata/ownerReferences/0/{field}")).and_then(Value::as_str);
        if let (Some(name), Some(uid)) = (owner("name"), owner("uid")) {
            self.tell(About { kind: GOVERNED_RUN, namespace, name, uid }, reason, why);
        }
    }

    /// Says what kept a pod from starting, while it is still there to ask. Nothing depends on it.
    async fn tell_hindrance(&self, made: &Made) {
        if self.events.is_none() {
            return;
        }
        let Ok(Some(live)) = self.live(made).await else { return };
        if let Some(why) = hindrance(&live) {
            let PodHandle { namespace, name, .. } = &made.pod;
            self.tell_of_pod(&live, namespace, NOT_STARTED, &format!("pod {name}: {why}"));
        }
    }

    /// Read as it stands, so that no field is lost that this version does not know.
    fn pods(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &ApiResource::erase::<Pod>(&()))
    }

    /// The very pod of a handle; `None` if it is gone, whoever has its name now.
    async fn live(&self, made: &Made) -> Result<Option<Value>, ExecutorError> {
        let PodHandle { namespace, name, uid } = &made.pod;
        let place = format!("pod {namespace}/{name}");
        let found = call(&place, self.pods(namespace).get_opt(name)).await.map_err(failed)?;
        let found = found.filter(|pod| pod.metadata.uid.as_ref() == Some(uid));
        found.map(|pod| serde_json::to_value(pod).map_err(failed)).transpose()
    }

    /// Creates the pod, or finds that an earlier try had.
    async fn create(&self, made: &Value, namespace: &str, birth: &str) -> Result<Value, ExecutorError> {
        let object: DynamicObject = serde_json::from_value(made.clone()).map_err(failed)?;
        let name = object.metadata.name.clone().unwrap_or_default();
        let place = format!("pod {namespace}/{name}");
        let pods = self.pods(namespace);
        let parameters = PostParams { field_manager: Some("m87".to_owned()), ..PostParams::default() };
        let deadline = Instant::now() + CREATE;
        let mut pause = PAUSES.0;
        loop {
            let error = match call(&place, pods.create(&parameters, &object)).await {
                Ok(created) => return serde_json::to_value(created).map_err(failed),
                Err(error) => error,
            };
            match &error {
                CallError::Refused(_) | CallError::NotFound(_) => return Err(failed(error)),
                CallError::Conflict(_) => {
                    if let Some(found) = call(&place, pods.get_opt(&name)).await.map_err(failed)? {
                        return own(found, &place, birth);
                    }
                }
                // What forbids it may be a quota that is used up, or a right that was granted a moment ago.
                CallError::Forbidden(_) | CallError::Unavailable(_) => {}
            }
            if Instant::now() + pause > deadline {
                return Err(failed(error));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Deletes exactly this pod, and waits until it is gone.
    async fn delete(&self, pod: &PodHandle) -> Result<(), ExecutorError> {
        let PodHandle { namespace, name, uid } = pod;
        let pods = self.pods(namespace);
        let parameters = DeleteParams {
            grace_period_seconds: Some(GRACE),
            preconditions: Some(Preconditions { uid: Some(uid.clone()), resource_version: None }),
            ..DeleteParams::default()
        };
        let place = format!("pod {namespace}/{name}");
        match call(&place, pods.delete(name, &parameters)).await {
            Ok(_) => {}
            // Gone, or gone and made again by somebody.
            Err(CallError::NotFound(_) | CallError::Conflict(_)) => return Ok(()),
            Err(error) => return Err(failed(error)),
        }
        let deadline = Instant::now() + GONE;
        let mut pause = PAUSES.0;
        loop {
            let left = call(&place, pods.get_metadata_opt(name)).await.map_err(failed)?;
            if left.is_none_or(|left| left.metadata.uid.as_ref() != Some(uid)) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(failed(format_args!(
                    "pod {namespace}/{name} is deleted, and its node has not yet said that it is gone"
                )));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }
}

/// Why the live pod is not the one that was made.
fn differs(made: &Made, live: Option<&Value>) -> Option<String> {
    let PodHandle { namespace, name, .. } = &made.pod;
    let Some(live) = live else {
        return Some(format!("pod {namespace}/{name} is gone"));
    };
    if live.pointer("/metadata/deletionTimestamp").is_some() {
        return Some(format!("pod {namespace}/{name} is being deleted"));
    }
    was_changed(made, live).then(|| {
        let images = readable(images(live).join(", ").as_bytes());
        format!("pod {namespace}/{name} was changed after m87 had made it; its images are now {images}")
    })
}

fn was_changed(made: &Made, live: &Value) -> bool {
    fingerprint(live).as_ref() != Some(&made.fingerprint)
}

/// What each container runs, since an image is what most changes to a pod are about.
fn images(pod: &Value) -> Vec<String> {
    let containers = ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .filter_map(|of| pod.pointer(&format!("/spec/{of}"))?.as_array());
    let text = |of: &Value, field: &str| of.get(field).and_then(Value::as_str).unwrap_or("?").to_owned();
    containers.flatten().map(|container| format!("{}: {}", text(container, "name"), text(container, "image"))).collect()
}

#[async_trait]
impl Executor for PodExecutor {
    async fn start(&self, order: &AttemptOrder) -> Result<Handle, ExecutorError> {
        let birth = SystemEntropy.secret().map_err(failed)?;
        let namespace = &order.namespace.name;
        let wanted = pod(order, &self.settings, &(self.ca)(), &birth).map_err(failed)?;
        let created = self.create(&wanted, namespace, &birth).await.inspect_err(|error| {
            let about = About { kind: GOVERNED_RUN, namespace, name: &order.run_name, uid: &order.run_uid };
            self.tell(about, NOT_STARTED, &error.to_string());
        })?;
        let text = |pointer: &str| created.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let pod = PodHandle { namespace: namespace.clone(), name: text("/metadata/name"), uid: text("/metadata/uid") };
        let changes = changed(&wanted, &created);
        let (true, Some(fingerprint)) = (changes.is_empty(), fingerprint(&created)) else {
            self.delete(&pod).await?;
            let changes = changes.join(", ");
            return Err(failed(format_args!(
                "pod {namespace}/{}: somebody's admission changed {changes}; exempt the pods of m87 from it",
                pod.name
            )));
        };
        serde_json::to_string(&Made { pod, fingerprint }).map(Handle).map_err(failed)
    }

    async fn alive(&self, handle: &Handle) -> Result<bool, ExecutorError> {
        let made = parse(handle)?;
        let live = self.live(&made).await?;
        let why = live.as_ref().map_or(Some("the pod is gone"), death);
        if let Some(why) = why {
            tracing::info!(pod = made.pod.name, namespace = made.pod.namespace, why, "an attempt is over");
        }
        Ok(why.is_none())
    }

    async fn as_made(&self, handle: &Handle) -> Result<Result<(), String>, ExecutorError> {
        let made = parse(handle)?;
        let live = self.live(&made).await?;
        let why = differs(&made, live.as_ref());
        if let (Some(why), Some(live)) = (&why, live.filter(|live| was_changed(&made, live))) {
            self.tell_of_pod(&live, &made.pod.namespace, TAMPERED, why);
        }
        Ok(why.map_or(Ok(()), Err))
    }

    async fn verdict(&self, handle: &Handle) -> Result<Option<ValidationReport>, ExecutorError> {
        let made = parse(handle)?;
        let Some(live) = self.live(&made).await? else { return Ok(None) };
        let Some(report) = verdict(&live) else { return Ok(None) };
        // What another image says of an artifact is worth nothing.
        Ok(Some(match differs(&made, Some(&live)) {
            None => report,
            Some(why) => ValidationReport { ended: Ended::NotStarted(why), output: String::new() },
        }))
    }

    async fn discard(&self, handle: &Handle) -> Result<(), ExecutorError> {
        let made = parse(handle)?;
        self.tell_hindrance(&made).await;
        self.delete(&made.pod).await
    }

    async fn discard_unheard(&self, attempt: &AttemptName) -> Result<(), ExecutorError> {
        let (namespace, name) = (attempt.namespace.name.clone(), name(attempt).map_err(failed)?);
        let place = format!("pod {namespace}/{name}");
        let found = call(&place, self.pods(&namespace).get_metadata_opt(&name)).await.map_err(failed)?;
        let Some(uid) = found.filter(|pod| is_of(pod, &attempt.run_uid)).and_then(|pod| pod.metadata.uid) else {
            return Ok(());
        };
        self.delete(&PodHandle { namespace, name, uid }).await
    }
}

/// Whether a pod of a reserved name says that it was made for that run: admission lets nobody else say so.
fn is_of(pod: &PartialObjectMeta<DynamicObject>, run_uid: &str) -> bool {
    let labels = pod.metadata.labels.as_ref();
    let label = |key: &str| labels.and_then(|labels| labels.get(key)).map(String::as_str);
    label("app.kubernetes.io/managed-by") == Some("m87") && label("m87.dev/run-uid") == Some(run_uid)
}

/// A pod that was there already, if it is this very one, whose creation was not heard of.
fn own(found: DynamicObject, place: &str, birth: &str) -> Result<Value, ExecutorError> {
    let marked = found.metadata.annotations.as_ref().and_then(|all| all.get(BIRTH));
    if marked.is_some_and(|marked| marked == birth) {
        return serde_json::to_value(found).map_err(failed);
    }
    Err(failed(format_args!(
        "{place} was made by somebody else and is not used; delete it, and find out who may create pods under m87's names"
    )))
}

fn parse(handle: &Handle) -> Result<Made, ExecutorError> {
    serde_json::from_str(&handle.0).map_err(|error| failed(format_args!("the handle is not that of a pod: {error}")))
}

fn failed(error: impl Display) -> ExecutorError {
    ExecutorError(error.to_string())
}
