//! What a `ToolManifest` says of its tools.

use crate::effects::EffectSignature;
use crate::risk::Risk;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The tools that proposals of a namespace may name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestSpec {
    /// The tools, by name.
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub tools: Vec<ToolEntry>,
}

/// One tool: what it is, what it may touch, what it does, how it runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolEntry {
    /// Its name, unique in the manifest.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its version, by semantic versioning.
    #[schemars(length(min = 1, max = 64))]
    pub version: String,
    /// The capabilities that it offers.
    #[schemars(length(max = 64), inner(length(min = 1, max = 253)))]
    pub provides: Vec<String>,
    /// The kind of action; a proposal must name the same.
    #[schemars(length(min = 1, max = 253))]
    pub action_type: String,
    /// Globs of what it may touch; none, if empty. `*` does not cross `/`, `**` does.
    #[schemars(length(max = 256), inner(length(min = 1, max = 1024)))]
    pub targets_allowed: Vec<String>,
    /// Where in its input the target stands.
    pub target_from: TargetFrom,
    /// How much harm it could do.
    pub risk_class: Risk,
    /// Whether what it does can be undone.
    pub reversibility: Reversibility,
    /// Whether it may be used.
    pub enabled: bool,
    /// What it does to the world. A tool that declares nothing is not believed to do nothing.
    #[schemars(length(max = 64))]
    pub effects: Vec<EffectSignature>,
    /// JSON Schema (2020-12) of its input; at most 64 KiB as canonical JSON.
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
    pub input_schema: Value,
    /// How it is run.
    pub run: Run,
    /// How its artifact is checked, by someone else than the tool.
    pub validation: Validation,
}

/// Where the effective target comes from: `prefix` and then the string at `pointer` in the input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetFrom {
    /// JSON Pointer (RFC 6901) to a string in the input.
    #[schemars(length(max = 256))]
    pub pointer: String,
    /// What is put before that string; may be empty.
    #[schemars(length(max = 256))]
    pub prefix: String,
}

/// Whether what was done can be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Reversibility {
    /// Wholly.
    Reversible,
    /// In part.
    PartiallyReversible,
    /// Not at all: never approved in advance.
    Irreversible,
}

/// How a tool is run: exactly one member, named for the tool's kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Run {
    /// A command.
    Command(Command),
}

/// A command with a clean environment. It finds its input in the file `$M87_INPUT`, writes its artifact into the folder
/// `$M87_OUTPUT`, and may report its usage as a JSON object in the file `$M87_USAGE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Command {
    /// Program and arguments; nothing of the proposal is ever put in here.
    #[schemars(length(min = 1, max = 64), inner(length(max = 65_536)))]
    pub argv: Vec<String>,
    /// The image that it runs in on a cluster, by digest (`name@sha256:…`) unless the policy allows tags; the platform's own tool
    /// image if absent.
    /// Without a cluster it runs on the machine itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
    /// The artifact's file name inside the output folder: letters, digits, `.`, `_` and `-`, not beginning with a dot.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z0-9_-][A-Za-z0-9._-]*$"))]
    pub artifact: String,
    /// What the operating system allows it.
    pub limits: CommandLimits,
}

impl Command {
    /// Whether its image can never become another one: it is named by digest, or it is the platform's own.
    pub fn image_is_pinned(&self) -> bool {
        self.image.as_deref().is_none_or(has_digest)
    }
}

/// `name@sha256:` and 64 digits of lower-case hex.
fn has_digest(image: &str) -> bool {
    let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    image
        .split_once("@sha256:")
        .is_some_and(|(name, digest)| !name.trim().is_empty() && digest.len() == 64 && digest.bytes().all(hex))
}

/// What the operating system allows a command. Each is a hard limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandLimits {
    /// Wall-clock seconds; then it is killed with all its descendants.
    #[schemars(range(min = 1, max = 86_400))]
    pub seconds: i64,
    /// Seconds of processor time.
    #[schemars(range(min = 1, max = 86_400))]
    pub cpu_seconds: i64,
    /// Bytes of address space, for each process.
    #[schemars(range(min = 1_048_576, max = 1_099_511_627_776_i64))]
    pub memory_bytes: i64,
    /// Bytes that it may write, in all files of its folder together and in its output streams.
    #[schemars(range(min = 0, max = 1_099_511_627_776_i64))]
    pub output_bytes: i64,
    /// Processes at one time, itself included.
    #[schemars(range(min = 1, max = 4096))]
    pub processes: i64,
}

/// How an artifact is checked: a command of its own, on a read-only copy `$M87_ARTIFACT`, with the input in `$M87_INPUT`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Validation {
    /// Program and arguments; exit code 0 passes.
    #[schemars(length(min = 1, max = 64), inner(length(max = 65_536)))]
    pub argv: Vec<String>,
    /// What the operating system allows it.
    pub limits: CommandLimits,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_digest_pins_an_image() {
        let digest = "0123456789abcdef".repeat(4);
        for pinned in ["r.example:5000/a/b@sha256:", "busybox:1.37@sha256:"] {
            assert!(has_digest(&format!("{pinned}{digest}")), "{pinned}");
        }
        let upper = digest.to_uppercase();
        for open in [
            "busybox".to_owned(),
            "busybox:1.37".to_owned(),
            format!("@sha256:{digest}"),
            format!(" @sha256:{digest}"),
            format!("busybox@sha256:{upper}"),
            format!("busybox@sha256:{digest}0"),
            format!("busybox@sha256:{digest}\n"),
            format!("busybox@sha512:{digest}"),
            format!("busybox@sha256:@sha256:{digest}"),
            "busybox@sha256:".to_owned(),
            String::new(),
        ] {
            assert!(!has_digest(&open), "{open:?}");
        }
    }
}
