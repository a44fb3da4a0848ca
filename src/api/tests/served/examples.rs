//! One object of each kind in which every field is written, and whatever can be loose is as loose as it gets.

use m87_api::{API_VERSION, Spec};
use serde_json::{Value, json};

pub(crate) fn object<S: Spec>(name: &str, spec: Value) -> Value {
    json!({"apiVersion": API_VERSION, "kind": S::KIND, "metadata": {"name": name}, "spec": spec})
}

pub(crate) fn policy() -> Value {
    json!({
        "constraints": {
            "reasoningTrace": "Optional",
            "risksAllowed": ["low", "medium", "high"],
            "targetsForbidden": ["prod/**"],
            "actorsAllowed": ["*"],
            "imageTags": "Allowed",
        },
        "autonomyBudget": {
            "steps": {"limit": 20},
            "toolCalls": {"limit": 1},
            "tokens": {"unlimited": true},
            "seconds": {"limit": 60},
            "externalCalls": {"limit": 3},
            "artifactBytes": {"limit": 1000},
            "reported": ["steps"],
        },
        "approvals": {"autoApprove": {"riskAtMost": "medium", "nonHumans": ["system:serviceaccount:a:b"]}},
        "process": {"bpmn": "<definitions/>"},
        "suspend": false,
        "retention": {"ttlSecondsAfterSealed": 3600},
    })
}

pub(crate) fn tool(name: &str) -> Value {
    let limits =
        json!({"seconds": 10, "cpuSeconds": 10, "memoryBytes": 268_435_456, "outputBytes": 1000, "processes": 16});
    json!({
        "name": name,
        "version": "1.0.0",
        "provides": ["sum"],
        "actionType": "report",
        "targetsAllowed": ["reports/*"],
        "targetFrom": {"pointer": "/out", "prefix": "reports/"},
        "riskClass": "low",
        "reversibility": "Reversible",
        "enabled": true,
        "effects": [{"kind": "file", "operation": "create", "targetType": "report"}],
        "inputSchema": {"type": "object", "properties": {"out": {"type": "string"}}, "allOf": [{"not": {"type": "null"}}]},
        "run": {"command": {"argv": ["sh", "-c", "true"], "image": "busybox:1.37", "artifact": "a.json", "limits": limits}},
        "validation": {"argv": ["true"], "limits": limits},
    })
}

pub(crate) fn manifest() -> Value {
    json!({"tools": [tool("totals")]})
}

pub(crate) fn run() -> Value {
    json!({
        "policyRef": {"name": "payments"},
        "manifestRef": {"name": "office"},
        "proposal": {
            "tool": "totals",
            "capability": "sum",
            "actionType": "report",
            "target": "reports/a",
            "risk": "low",
            "reasoningTrace": "because",
            "input": {"out": "a", "rows": [1, null, {"deep": [true]}]},
        },
        "idempotencyKey": "key",
        "deadlineSeconds": 60,
        "actor": {"username": "alice", "uid": "7", "credentialId": "JTI=7"},
        "suspend": false,
        "cancel": false,
    })
}
