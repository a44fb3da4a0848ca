//! The autonomy budget: what a run may use up, by dimension. Missing telemetry is exceeded; at the limit is allowed.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// What can be limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Dimension {
    /// Steps that the tool says it took.
    Steps,
    /// Processes of the tool that m87 started.
    ToolCalls,
    /// Language-model tokens that the tool says it used.
    Tokens,
    /// Seconds of wall-clock time by a monotonic clock, begun ones counted whole.
    Seconds,
    /// Calls that the tool says it made to services outside.
    ExternalCalls,
    /// Bytes of the artifact.
    ArtifactBytes,
}

impl Dimension {
    /// Every dimension, in the order in which the budget gate looks at them.
    pub const ALL: [Self; 6] =
        [Self::Steps, Self::ToolCalls, Self::Tokens, Self::Seconds, Self::ExternalCalls, Self::ArtifactBytes];

    /// The field's name in policies, telemetry and receipts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Steps => "steps",
            Self::ToolCalls => "toolCalls",
            Self::Tokens => "tokens",
            Self::Seconds => "seconds",
            Self::ExternalCalls => "externalCalls",
            Self::ArtifactBytes => "artifactBytes",
        }
    }

    /// Whether m87 measures it itself; the others can only be reported by the tool.
    pub const fn is_measured(self) -> bool {
        match self {
            Self::ToolCalls | Self::Seconds | Self::ArtifactBytes => true,
            Self::Steps | Self::Tokens | Self::ExternalCalls => false,
        }
    }
}

/// Limits by dimension. A dimension that is left out may not be used at all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutonomyBudget {
    /// Limit of steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<Limit>,
    /// Limit of tool processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Limit>,
    /// Limit of tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Limit>,
    /// Limit of seconds; the tool is killed there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<Limit>,
    /// Limit of calls to the outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_calls: Option<Limit>,
    /// Limit of the artifact's size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_bytes: Option<Limit>,
    /// Which dimensions the tool may report itself; of `steps`, `tokens` and `externalCalls`.
    #[schemars(length(max = 3))]
    pub reported: Vec<Dimension>,
}

impl AutonomyBudget {
    /// The limit of one dimension.
    pub const fn limit(&self, dimension: Dimension) -> Option<Limit> {
        match dimension {
            Dimension::Steps => self.steps,
            Dimension::ToolCalls => self.tool_calls,
            Dimension::Tokens => self.tokens,
            Dimension::Seconds => self.seconds,
            Dimension::ExternalCalls => self.external_calls,
            Dimension::ArtifactBytes => self.artifact_bytes,
        }
    }
}

/// `{limit: n}` or `{unlimited: true}`: to be without a limit must be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Limit {
    /// At most so many; not negative.
    Limit(#[schemars(range(min = 0, max = 9_007_199_254_740_991_i64))] i64),
    /// As many as it likes.
    Unlimited(True),
}

/// The constant `true`: `unlimited: false` means nothing and is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[schemars(with = "bool", extend("enum" = [true]))]
pub struct True;

impl Serialize for True {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(true)
    }
}

impl<'de> Deserialize<'de> for True {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if bool::deserialize(deserializer)? {
            Ok(Self)
        } else {
            Err(serde::de::Error::custom("unlimited can only be true; leave it out or write a limit"))
        }
    }
}

/// What was used, with who says so; as written in receipts.
pub type Usage = BTreeMap<Dimension, Used>;

/// One figure of usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Used {
    /// The figure.
    pub value: i64,
    /// Who says so.
    pub source: Source,
}

/// Who says so: m87's own measurement beats the tool's report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// m87, from outside the tool.
    Measured,
    /// The tool itself.
    Reported,
}
