//! What a lane's Deployment looks like. Pure: the same settings give the same object.

use super::{LANE_LABEL, Settings, ZEEBE_FOLDER, name, service_account};
use crate::world::names::{AUDIENCE, PUBLIC};
use m87_core::lane::Lane;
use serde_json::{Value, json};

/// Who a lane's process is.
const USER: u32 = 65532;
/// How long a token is good for; the kubelet replaces it at four fifths of that. The shortest that Kubernetes allows.
const TOKEN_SECONDS: u32 = 600;
/// Where a lane says how it is.
const HEALTH_PORT: u16 = 8080;

/// The Deployment of a lane with so many pods, as it is applied.
pub fn deployment(settings: &Settings, lane: Lane, replicas: u32) -> Value {
    let selector = json!({
        "app.kubernetes.io/name": "m87",
        "app.kubernetes.io/component": "lane",
        LANE_LABEL: lane.name(),
    });
    let labels = json!({
        "app.kubernetes.io/name": "m87",
        "app.kubernetes.io/component": "lane",
        "app.kubernetes.io/part-of": "m87",
        "app.kubernetes.io/managed-by": "m87",
        LANE_LABEL: lane.name(),
    });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": name(lane),
            "namespace": settings.namespace,
            "labels": labels,
            "ownerReferences": [{
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "name": settings.owner.name,
                "uid": settings.owner.uid,
            }],
        },
        "spec": {
            "replicas": replicas,
            "revisionHistoryLimit": 2,
            "selector": {"matchLabels": selector},
            // A new pod has to be accepted by engine and authority before an old one goes.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "template": {"metadata": {"labels": labels}, "spec": pod(settings, lane)},
        },
    })
}

fn pod(settings: &Settings, lane: Lane) -> Value {
    let mut spec = json!({
        "serviceAccountName": service_account(lane),
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "terminationGracePeriodSeconds": 30,
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container(settings, lane)],
        "volumes": volumes(settings),
    });
    if !settings.pull_secrets.is_empty() {
        let secrets: Vec<Value> = settings.pull_secrets.iter().map(|name| json!({"name": name})).collect();
        put(&mut spec, "imagePullSecrets", json!(secrets));
    }
    spec
}

/// Server-side apply owns what it is sent, so what is not set is not there at all.
fn put(object: &mut Value, field: &str, value: Value) {
    if let Some(object) = object.as_object_mut() {
        object.insert(field.to_owned(), value);
    }
}

fn container(settings: &Settings, lane: Lane) -> Value {
    let mut mounts = vec![
        json!({"name": "token", "mountPath": "/m87/token", "readOnly": true}),
        json!({"name": "ca", "mountPath": "/m87/ca", "readOnly": true}),
    ];
    if secret(settings).is_some() {
        mounts.push(json!({"name": "zeebe", "mountPath": ZEEBE_FOLDER, "readOnly": true}));
    }
    let probe = |path: &str, period: u32| {
        json!({
            "httpGet": {"path": path, "port": "health"},
            "periodSeconds": period,
            "timeoutSeconds": 3,
        })
    };
    let mut container = json!({
        "name": "worker",
        "image": settings.image,
        "args": arguments(settings, lane),
        "env": [{"name": "M87_LOG", "value": "info"}],
        "ports": [{"name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP"}],
        "livenessProbe": probe("/livez", 20),
        "readinessProbe": probe("/readyz", 5),
        "resources": {
            "requests": {"cpu": settings.resources.cpu_request, "memory": settings.resources.memory_request},
            "limits": {"memory": settings.resources.memory_limit},
        },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    });
    if let Some(policy) = &settings.pull_policy {
        put(&mut container, "imagePullPolicy", json!(policy));
    }
    container
}

fn arguments(settings: &Settings, lane: Lane) -> Vec<String> {
    let host = format!("{}.{}.svc", settings.service, settings.namespace);
    let mut arguments: Vec<String> = ["worker", "--lane", lane.name()].map(str::to_owned).to_vec();
    let mut flag = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
    let engine = settings.zeebe.as_ref().map_or_else(|| format!("{host}:26500"), |zeebe| zeebe.address.clone());
    flag("--engine", engine);
    flag("--authority", format!("{host}:8443"));
    flag("--ca-file", "/m87/ca/ca.pem".to_owned());
    flag("--token-file", "/m87/token/token".to_owned());
    flag("--health", format!("[::]:{HEALTH_PORT}"));
    if let Some(timeout) = settings.job_timeout {
        flag("--job-timeout", timeout.as_secs().max(1).to_string());
    }
    if let Some(zeebe) = &settings.zeebe {
        if let Some(file) = zeebe.ca_file() {
            flag("--engine-ca-file", file);
        }
        if let Some(file) = zeebe.token_file() {
            flag("--engine-token-file", file);
        }
        if !zeebe.prefix.as_str().is_empty() {
            flag("--prefix", zeebe.prefix.as_str().to_owned());
        }
        arguments.push("--zeebe".to_owned());
    }
    arguments
}

fn volumes(settings: &Settings) -> Vec<Value> {
    let token = json!({"audience": AUDIENCE, "expirationSeconds": TOKEN_SECONDS, "path": "token"});
    let mut volumes = vec![
        json!({"name": "token", "projected": {"sources": [{"serviceAccountToken": token}]}}),
        json!({
            "name": "ca",
            "configMap": {"name": PUBLIC, "items": [{"key": "ca.pem", "path": "ca.pem"}]},
        }),
    ];
    if let Some(name) = secret(settings) {
        volumes.push(json!({"name": "zeebe", "secret": {"secretName": name}}));
    }
    volumes
}

fn secret(settings: &Settings) -> Option<&str> {
    settings.zeebe.as_ref()?.secret.as_ref().map(|secret| secret.name.as_str())
}
