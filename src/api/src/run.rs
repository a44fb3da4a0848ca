//! What a `GovernedRun` says: a proposal, and under which policy and with which tools it is to be judged.

use m87_core::proposal::Proposal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The annotation by which a run's author says how it should end; `m87 run` compares.
pub const EXPECT_TERMINAL: &str = "m87.dev/expect-terminal";

/// One proposal and where its rules are. All references stay within the run's namespace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GovernedRunSpec {
    /// The `GovernancePolicy` that judges it; without such a policy the run ends in HALT.
    pub policy_ref: Reference,
    /// The `ToolManifest` whose tools it may name; without it the run ends in REJECT_MANIFEST.
    pub manifest_ref: Reference,
    /// What is asked for.
    pub proposal: Proposal,
    /// Identity of the effect in its namespace: a second run with the same one executes nothing. The run's name if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub idempotency_key: Option<String>,
    /// Seconds from the run's opening to the end of patience; 3600 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 604_800))]
    pub deadline_seconds: Option<i64>,
    /// Who asks: stamped by the API server's admission on CREATE and never changed; nobody writes it by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<StampedActor>,
    /// While true, the run is not started, contracted for or let loose; its deadline goes on. `m87 run` refuses to begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// True ends the run: HALT before dispatch, FAILED after. It cannot be taken back.
    /// `m87 run` refuses to begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<bool>,
}

impl GovernedRunSpec {
    /// What may change after a run was created; everything else is immutable.
    pub const MUTABLE: [&'static str; 2] = ["suspend", "cancel"];

    /// Whether it is suspended; absent is no.
    pub fn is_suspended(&self) -> bool {
        self.suspend == Some(true)
    }

    /// Whether it is cancelled; absent is no.
    pub fn is_cancelled(&self) -> bool {
        self.cancel == Some(true)
    }
}

/// Who asks, as the API server knows the requester.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StampedActor {
    /// The user's name.
    #[schemars(length(min = 1, max = 512))]
    pub username: String,
    /// The user's uid, where the authenticator gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub uid: Option<String>,
    /// The token or certificate of the request, where the API server names one. An impersonated request has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub credential_id: Option<String>,
}

/// An object of the same namespace, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reference {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}
