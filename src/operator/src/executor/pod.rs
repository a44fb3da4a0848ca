//! The pod of an attempt, as a pure function of its order and the operator's settings.
//!
//! A tool pod has three containers. `bin` copies m87 into a folder, since a tool's image knows nothing of it. `exec`, a
//! sidecar, has the token and talks to the authority. `tool` runs m87's shim, and under it the tool, in the tool's image: it
//! has no token, another user, and of what the others own it sees the binary and the socket, both read-only. A validation pod
//! has the same shape, but that `fetch` has the token, and has ended before the check begins.
//!
//! Nothing of the run but its uid and name goes into the pod: labels and annotations that a tenant wrote would hand the pod
//! to whatever tool looks for them.

use crate::world::callers::{CHECK_PREFIX, TOOL_PREFIX};
use m87_authority::{AttemptKind, AttemptName, AttemptOrder};
use m87_core::tool::CommandLimits;
use m87_worker::exec::SHIM_GRACE;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// For whom the tokens of pods are made out.
pub const AUDIENCE: &str = "m87.dev";
/// The annotation by which this process knows a pod that it has made, should the answer be lost.
pub const BIRTH: &str = "m87.dev/birth";
/// The sidecar that redeems.
pub const EXEC: &str = "exec";
/// The container that fetches what is to be checked.
pub const FETCH: &str = "fetch";
/// The container that checks.
pub const CHECK: &str = "check";

/// The user of containers with a token.
const TRUSTED: u32 = 65_532;
/// The user of containers that run what a tenant wrote.
const TENANT: u32 = 65_533;

const BINARY: &str = "/m87/bin/m87";
const BIN: &str = "/m87/bin";
const LINK: &str = "/m87/link";
const SOCKET: &str = "/m87/link/socket";
const WORK: &str = "/m87/work";
const FETCHED: &str = "/m87/order";
const TOKEN_FOLDER: &str = "/var/run/secrets/m87.dev";
const TOKEN_FILE: &str = "/var/run/secrets/m87.dev/token";
const LAST_WORDS: &str = "/dev/termination-log";

/// What the shim itself needs beside the tool.
const SHIM_MEMORY: i64 = 64 << 20;
/// Room in a folder beside what a tool may write: its limit is the shim's to enforce, and only then the kubelet's.
const SPARE_ROOM: i64 = 64 << 20;
/// What a pod may take beyond all that is limited within it.
const SPARE_TIME: Duration = Duration::from_secs(120);

/// What an operator decides for every pod.
#[derive(Debug, Clone, PartialEq)]
pub struct PodSettings {
    /// The image of m87 itself.
    pub image: String,
    /// The image of tools that name none.
    pub tool_image: Option<String>,
    /// The authority, as `host:port`; its certificate has to carry that host.
    pub authority: String,
    /// The tenant's ServiceAccount that pods run as. It needs no rights.
    pub service_account: String,
    /// When images are pulled.
    pub image_pull_policy: String,
    /// What a tool gets for certain, as quantities.
    pub tool_requests: Requests,
    /// How many processors a tool may use.
    pub tool_cpu_limit: String,
    /// The pods' priority class.
    pub priority_class: Option<String>,
    /// The pods' runtime class, for example a sandboxed one.
    pub runtime_class: Option<String>,
    /// On which nodes they may run.
    pub node_selector: BTreeMap<String, String>,
    /// Taints that they tolerate, as in a pod.
    pub tolerations: Vec<Value>,
    /// How long a pod may take to start.
    pub start_limit: Duration,
    /// How long `exec` goes on reporting after the tool's limit.
    pub report_grace: Duration,
}

/// Quantities of processor and memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requests {
    /// For example `50m`.
    pub cpu: String,
    /// For example `64Mi`.
    pub memory: String,
}

impl PodSettings {
    /// Settings with usual values, for an authority at that address.
    pub fn new(image: impl Into<String>, tool_image: Option<String>, authority: impl Into<String>) -> Self {
        Self {
            image: image.into(),
            tool_image,
            authority: authority.into(),
            service_account: "default".to_owned(),
            image_pull_policy: "IfNotPresent".to_owned(),
            tool_requests: Requests { cpu: "50m".to_owned(), memory: "64Mi".to_owned() },
            tool_cpu_limit: "1".to_owned(),
            priority_class: None,
            runtime_class: None,
            node_selector: BTreeMap::new(),
            tolerations: Vec::new(),
            start_limit: Duration::from_secs(120),
            report_grace: Duration::from_secs(60),
        }
    }
}

/// There can be no pod for this order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PodError {
    /// The uid is no part of a name.
    #[error("the run's uid {0:?} cannot name a pod")]
    Name(String),
    /// Neither the tool nor the operator names one.
    #[error("the tool names no image, and the operator has no --tool-image for such tools")]
    NoImage,
}

/// The name of the attempt's pod. Admission lets nobody else make a pod of such a name.
pub fn name(attempt: &AttemptName) -> Result<String, PodError> {
    let uid = &attempt.run_uid;
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if uid.is_empty() || uid.len() > 63 || !uid.bytes().all(plain) || uid.starts_with('-') || uid.ends_with('-') {
        return Err(PodError::Name(uid.clone()));
    }
    let prefix = match attempt.kind {
        AttemptKind::Tool => TOOL_PREFIX,
        AttemptKind::Validation => CHECK_PREFIX,
    };
    Ok(format!("{prefix}{uid}-{}", attempt.attempt))
}

/// The pod, as it is to be created. `birth` is known to nobody else.
pub fn pod(order: &AttemptOrder, settings: &PodSettings, ca_pem: &str, birth: &str) -> Result<Value, PodError> {
    let image = order.image.as_ref().or(settings.tool_image.as_ref()).ok_or(PodError::NoImage)?;
    let parts = Parts { order, settings, ca_pem, image };
    let mut spec = json!({
        "restartPolicy": "Never",
        "serviceAccountName": settings.service_account,
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "dnsPolicy": "ClusterFirst",
        "terminationGracePeriodSeconds": 5,
        "activeDeadlineSeconds": parts.longest().as_secs(),
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
    });
    let containers = match order.kind {
        AttemptKind::Tool => parts.tool(),
        AttemptKind::Validation => parts.check(),
    };
    merge(&mut spec, containers);
    merge(&mut spec, parts.placement());
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name(&order.name())?,
            "namespace": order.namespace.name,
            "labels": {
                "app.kubernetes.io/managed-by": "m87",
                "m87.dev/run-uid": order.run_uid,
                "m87.dev/attempt": order.attempt.to_string(),
                "m87.dev/kind": order.kind.name(),
            },
            "annotations": {BIRTH: birth},
            // What is left of a run that is gone is cleared away by the cluster itself.
            "ownerReferences": [{
                "apiVersion": "m87.dev/v1alpha1",
                "kind": "GovernedRun",
                "name": order.run_name,
                "uid": order.run_uid,
                "controller": false,
                "blockOwnerDeletion": false,
            }],
        },
        "spec": spec,
    }))
}

struct Parts<'a> {
    order: &'a AttemptOrder,
    settings: &'a PodSettings,
    ca_pem: &'a str,
    image: &'a str,
}

impl Parts<'_> {
    fn tool(&self) -> Value {
        let limits = &self.order.limits;
        json!({
            "initContainers": [self.bin(), self.exec()],
            "containers": [{
                "name": "tool",
                "image": self.image,
                "imagePullPolicy": self.settings.image_pull_policy,
                "command": [BINARY, "shim", "--connect", SOCKET, "--work", WORK],
                "workingDir": WORK,
                "securityContext": security(TENANT),
                "resources": self.tenant_resources(),
                "volumeMounts": [mount("bin", BIN, true), mount("link", LINK, true), mount("work", WORK, false), mount("tmp", "/tmp", false)],
            }],
            "volumes": [
                folder("bin", SPARE_ROOM * 2),
                folder("link", 1 << 20),
                folder("work", room(limits)),
                folder("tmp", room(limits)),
                token(),
            ],
        })
    }

    fn check(&self) -> Value {
        let limits = &self.order.limits;
        json!({
            "initContainers": [self.bin(), self.fetch()],
            "containers": [{
                "name": CHECK,
                "image": self.image,
                "imagePullPolicy": self.settings.image_pull_policy,
                "command": [BINARY, "shim", "--check", FETCHED, "--work", WORK, "--report", LAST_WORDS],
                "workingDir": WORK,
                "securityContext": security(TENANT),
                "resources": self.tenant_resources(),
                "volumeMounts": [mount("bin", BIN, true), mount("order", FETCHED, true), mount("work", WORK, false), mount("tmp", "/tmp", false)],
            }],
            "volumes": [
                folder("bin", SPARE_ROOM * 2),
                // How large an artifact may be is the authority's to limit.
                json!({"name": "order", "emptyDir": {}}),
                folder("work", room(limits)),
                folder("tmp", room(limits)),
                token(),
            ],
        })
    }

    fn bin(&self) -> Value {
        json!({
            "name": "bin",
            "image": self.settings.image,
            "imagePullPolicy": self.settings.image_pull_policy,
            "args": ["install-self", BINARY],
            "securityContext": security(TRUSTED),
            "resources": own_resources(),
            "volumeMounts": [mount("bin", BIN, false)],
        })
    }

    /// Always restarted, since only so Kubernetes runs it beside the tool; started again, it finds its mark and does nothing.
    fn exec(&self) -> Value {
        json!({
            "name": EXEC,
            "restartPolicy": "Always",
            "image": self.settings.image,
            "imagePullPolicy": self.settings.image_pull_policy,
            "args": [
                "exec",
                "--listen", SOCKET,
                "--peer", TENANT.to_string(),
                "--authority", self.settings.authority,
                "--token-file", TOKEN_FILE,
                "--contract", self.order.contract_id,
                "--start-limit", self.settings.start_limit.as_secs().to_string(),
                "--report-grace", self.settings.report_grace.as_secs().to_string(),
            ],
            "env": [{"name": "M87_AUTHORITY_CA", "value": self.ca_pem}],
            "securityContext": security(TRUSTED),
            "resources": own_resources(),
            "volumeMounts": [mount("link", LINK, false), mount("token", TOKEN_FOLDER, true)],
        })
    }

    fn fetch(&self) -> Value {
        json!({
            "name": FETCH,
            "image": self.settings.image,
            "imagePullPolicy": self.settings.image_pull_policy,
            "args": [
                "exec",
                "--fetch", FETCHED,
                "--authority", self.settings.authority,
                "--token-file", TOKEN_FILE,
                "--report", LAST_WORDS,
            ],
            "env": [{"name": "M87_AUTHORITY_CA", "value": self.ca_pem}],
            "securityContext": security(TRUSTED),
            "resources": own_resources(),
            "volumeMounts": [mount("order", FETCHED, false), mount("token", TOKEN_FOLDER, true)],
        })
    }

    /// A command is limited by the shim; this is what the kernel sees to, whatever becomes of the shim.
    fn tenant_resources(&self) -> Value {
        let PodSettings { tool_requests, tool_cpu_limit, .. } = self.settings;
        let memory = self.order.limits.memory_bytes.max(0).saturating_add(SHIM_MEMORY);
        json!({
            "requests": {"cpu": tool_requests.cpu, "memory": tool_requests.memory},
            "limits": {"cpu": tool_cpu_limit, "memory": quantity(memory)},
        })
    }

    /// After this the kubelet ends the pod, whatever m87 does.
    fn longest(&self) -> Duration {
        let limit = Duration::from_secs(u64::try_from(self.order.limits.seconds).unwrap_or(0));
        self.settings.start_limit + limit + SHIM_GRACE + self.settings.report_grace + SPARE_TIME
    }

    fn placement(&self) -> Value {
        let PodSettings { priority_class, runtime_class, node_selector, tolerations, .. } = self.settings;
        let mut placement = json!({});
        if let Some(class) = priority_class {
            merge(&mut placement, json!({"priorityClassName": class}));
        }
        if let Some(class) = runtime_class {
            merge(&mut placement, json!({"runtimeClassName": class}));
        }
        if !node_selector.is_empty() {
            merge(&mut placement, json!({"nodeSelector": node_selector}));
        }
        if !tolerations.is_empty() {
            merge(&mut placement, json!({"tolerations": tolerations}));
        }
        placement
    }
}

fn security(user: u32) -> Value {
    json!({
        "runAsUser": user,
        "runAsGroup": user,
        "runAsNonRoot": true,
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    })
}

fn own_resources() -> Value {
    json!({"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "1", "memory": "128Mi"}})
}

fn mount(volume: &str, path: &str, read_only: bool) -> Value {
    if read_only {
        json!({"name": volume, "mountPath": path, "readOnly": true})
    } else {
        json!({"name": volume, "mountPath": path})
    }
}

fn folder(name: &str, bytes: i64) -> Value {
    json!({"name": name, "emptyDir": {"sizeLimit": quantity(bytes)}})
}

fn token() -> Value {
    let source = json!({"serviceAccountToken": {"audience": AUDIENCE, "expirationSeconds": 3600, "path": "token"}});
    json!({"name": "token", "projected": {"sources": [source], "defaultMode": 0o444}})
}

fn room(limits: &CommandLimits) -> i64 {
    limits.output_bytes.max(0).saturating_mul(2).saturating_add(SPARE_ROOM)
}

/// Bytes as Kubernetes writes them back: whole Ki, in the largest unit that has no fraction.
fn quantity(bytes: i64) -> String {
    let mut amount = bytes.max(0).saturating_add(1023) / 1024;
    let mut units = ["Ki", "Mi", "Gi", "Ti", "Pi"].into_iter().peekable();
    while amount > 0 && amount % 1024 == 0 && units.len() > 1 {
        amount /= 1024;
        units.next();
    }
    format!("{amount}{}", units.peek().copied().unwrap_or("Ki"))
}

fn merge(into: &mut Value, more: Value) {
    if let (Some(into), Value::Object(more)) = (into.as_object_mut(), more) {
        into.extend(more);
    }
}

#[cfg(test)]
pub(super) mod tests;
