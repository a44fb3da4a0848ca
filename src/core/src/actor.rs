//! Who asks. An absent or unattested actor is a non-human one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who made the proposal, as someone other than the actor has attested it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Actor {
    /// The user's name as the API server or the operating system knows it.
    #[schemars(length(max = 256))]
    pub username: String,
    /// The user's uid where the authenticator gives one, else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 256))]
    pub uid: String,
    /// Who says so.
    pub attestation: Attestation,
}

/// Who vouches for the actor's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Attestation {
    /// Nobody: a name without a witness is not believed.
    Unattested,
    /// The operating system under which `m87 run` was started.
    OperatingSystem,
    /// The API server's admission, which stamped the name on the object.
    Admission,
}

impl Actor {
    /// Whether a person is asking: someone vouches for the name, and it is none that programs have.
    pub fn is_human(&self) -> bool {
        self.is_attested() && !self.username.starts_with("system:")
    }

    /// Whether someone vouches for the name. A blank name is nobody's.
    pub fn is_attested(&self) -> bool {
        self.attestation != Attestation::Unattested && !self.username.trim().is_empty()
    }
}
