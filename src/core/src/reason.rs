//! Why a run ended: a closed set. Each reason has one failure class and, but for interruptions, one terminal.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a run ends. Every run ends in exactly one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Terminal {
    /// Done, and proved.
    Complete,
    /// Not let through: no effect, always.
    Halt,
    /// The manifest does not allow it: no effect, always.
    RejectManifest,
    /// Let through and contracted for, and then not as agreed.
    Failed,
    /// Done, but not proved.
    RejectVerify,
}

impl Terminal {
    /// Every terminal.
    pub const ALL: [Self; 5] = [Self::Complete, Self::Halt, Self::RejectManifest, Self::Failed, Self::RejectVerify];

    /// The name as written in receipts and in status.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Complete => "COMPLETE",
            Self::Halt => "HALT",
            Self::RejectManifest => "REJECT_MANIFEST",
            Self::Failed => "FAILED",
            Self::RejectVerify => "REJECT_VERIFY",
        }
    }

    /// The id of the process's end event that stands for it.
    pub const fn end_event(self) -> &'static str {
        match self {
            Self::Complete => "End_Complete",
            Self::Halt => "End_Halt",
            Self::RejectManifest => "End_RejManifest",
            Self::Failed => "End_Failed",
            Self::RejectVerify => "End_RejVerify",
        }
    }

    /// The terminal that an end event stands for.
    pub fn of_end_event(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|terminal| terminal.end_event() == id)
    }
}

/// What sort of failure a reason is (seed B's four classes).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FailureClass {
    /// What was written does not hold together: fix the objects.
    Structural,
    /// It holds together and was judged not good enough.
    Semantic,
    /// The world around did not do its part: try again.
    Environmental,
    /// Somebody did not have the right.
    Authority,
}

/// Which terminal follows from a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// Always this one.
    Always(Terminal),
    /// HALT before dispatch, FAILED after: interruptions and a process that disagrees with the evidence.
    ByDispatch,
}

macro_rules! reasons {
    ($($(#[doc = $doc:expr])* $name:ident => $ends:expr, $class:ident;)*) => {
        /// Why a run ended otherwise than COMPLETE, or why a gate refused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum Reason { $($(#[doc = $doc])* $name,)* }

        impl Reason {
            /// Every reason.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The name as written in receipts and in status.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// What it means, in a sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),*).trim(),)* }
            }

            /// The terminal that follows.
            pub const fn ends(self) -> Ends {
                match self { $(Self::$name => $ends,)* }
            }

            /// What sort of failure it is.
            pub const fn class(self) -> FailureClass {
                match self { $(Self::$name => FailureClass::$class,)* }
            }
        }
    };
}

const HALT: Ends = Ends::Always(Terminal::Halt);
const REJECT_MANIFEST: Ends = Ends::Always(Terminal::RejectManifest);
const FAILED: Ends = Ends::Always(Terminal::Failed);
const REJECT_VERIFY: Ends = Ends::Always(Terminal::RejectVerify);
const BY_DISPATCH: Ends = Ends::ByDispatch;

reasons! {
    /// The policy that the run names does not exist, or cannot be read.
    PolicyMissing => HALT, Structural;
    /// The policy, the baseline or the tool's entry was changed between the snapshot and Validate.
    Drifted => HALT, Authority;
    /// The policy's process did not pass the prover.
    ProcessNotProved => HALT, Structural;
    /// The tenant's namespace does not let m87 run tools in it (`m87 tenant NAMESPACE` prints what does).
    TenantNotBound => HALT, Authority;
    /// The key was used before, by another proposal or actor.
    IdempotencyKeyReused => HALT, Authority;
    /// The proposal does not say why.
    ReasoningMissing => HALT, Semantic;
    /// No risk is declared and no tool gives one, or it is none of low, medium, high, critical.
    RiskUnknown => HALT, Semantic;
    /// The higher of declared and the tool's risk is not among those allowed.
    RiskNotAllowed => HALT, Authority;
    /// The target is one that the policy forbids.
    TargetForbidden => HALT, Authority;
    /// The actor is not among those who may ask.
    ActorNotPermitted => HALT, Authority;
    /// The plan needs a person's yes and the policy did not give one in advance.
    ApprovalRequired => HALT, Authority;
    /// The manifest that the run names does not exist, or cannot be read.
    ManifestMissing => REJECT_MANIFEST, Structural;
    /// The proposal names neither a tool nor a capability, or both.
    ToolNotNamed => REJECT_MANIFEST, Structural;
    /// No tool of that name is in the manifest.
    ToolUnknown => REJECT_MANIFEST, Semantic;
    /// No tool in the manifest provides that capability.
    CapabilityUnknown => REJECT_MANIFEST, Semantic;
    /// The tool, or every tool with the capability, is disabled.
    ToolDisabled => REJECT_MANIFEST, Authority;
    /// The proposal's action type is absent or not the tool's.
    ActionTypeMismatch => REJECT_MANIFEST, Semantic;
    /// The proposal names no target.
    TargetMissing => REJECT_MANIFEST, Structural;
    /// The target is not written as targets are (docs/targets.md).
    TargetInvalid => REJECT_MANIFEST, Structural;
    /// The effective target, which m87 derives from the input, is not the proposal's.
    TargetMismatch => REJECT_MANIFEST, Semantic;
    /// The tool may not touch that target.
    TargetNotAllowed => REJECT_MANIFEST, Authority;
    /// The tool's image is named by a tag and not by a digest, and the policy does not allow tags.
    ImageNotPinned => REJECT_MANIFEST, Authority;
    /// The input does not fit the tool's schema, or the schema itself is broken.
    InputInvalid => REJECT_MANIFEST, Structural;
    /// The input is larger than 4 KiB.
    InputTooLarge => REJECT_MANIFEST, Structural;
    /// The authority gave no contract, or the contract was not redeemed; the cause is in the message.
    ContractRefused => FAILED, Authority;
    /// The tool did not start in time; its contract is void and nothing ran.
    NeverStarted => FAILED, Environmental;
    /// The contract was redeemed and nobody reported what came of it: the effect may have happened.
    OutcomeUnknown => FAILED, Environmental;
    /// A limited dimension was not reported.
    TelemetryMissing => FAILED, Structural;
    /// The telemetry is not an object, or a figure in it is no whole number from 0 up.
    TelemetryMalformed => FAILED, Structural;
    /// More was used than the budget allows.
    BudgetExceeded => FAILED, Semantic;
    /// The tool was killed at a limit of the operating system or of time.
    ToolLimitExceeded => FAILED, Semantic;
    /// The tool ended with an error.
    ToolFailed => FAILED, Semantic;
    /// The verified artifact was not taken into memory.
    PromotionRefused => FAILED, Authority;
    /// The tool left no artifact, or something that is not a regular file.
    ArtifactMissing => REJECT_VERIFY, Semantic;
    /// The artifact was not declared with a hash.
    HashMissing => REJECT_VERIFY, Structural;
    /// The stored artifact does not have the declared hash.
    HashMismatch => REJECT_VERIFY, Authority;
    /// Nobody reported on the validation.
    ValidationMissing => REJECT_VERIFY, Structural;
    /// The validation did not pass.
    ValidationFailed => REJECT_VERIFY, Semantic;
    /// The run did not end before its deadline.
    DeadlineExceeded => BY_DISPATCH, Environmental;
    /// The run was taken back by the person or the program that runs m87.
    Interrupted => BY_DISPATCH, Environmental;
    /// The run was cancelled (`spec.cancel`).
    Cancelled => BY_DISPATCH, Authority;
    /// The run's object, or its namespace, was deleted.
    Deleted => BY_DISPATCH, Authority;
    /// A job was handed out three times without a result.
    JobAbandoned => BY_DISPATCH, Environmental;
    /// The process reached another end than the recorded evidence decides.
    EngineDisagreement => BY_DISPATCH, Authority;
    /// The engine cannot go on with the process.
    EngineIncident => BY_DISPATCH, Environmental;
}

impl Reason {
    /// The reason of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.name() == name)
    }

    /// The terminal that follows, given whether the contract had been redeemed.
    pub const fn terminal(self, dispatched: bool) -> Terminal {
        match (self.ends(), dispatched) {
            (Ends::Always(terminal), _) => terminal,
            (Ends::ByDispatch, false) => Terminal::Halt,
            (Ends::ByDispatch, true) => Terminal::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn names_are_read_back_and_every_reason_means_something() {
        for &reason in Reason::ALL {
            assert_eq!(Reason::parse(reason.name()), Some(reason));
            assert!(reason.meaning().ends_with('.'), "{reason:?}");
        }
        assert_eq!(Reason::parse("policymissing"), None);
    }

    #[test]
    fn a_terminal_and_its_end_event_name_each_other() {
        for terminal in Terminal::ALL {
            assert_eq!(Terminal::of_end_event(terminal.end_event()), Some(terminal));
        }
        assert_eq!(Terminal::of_end_event("End_Other"), None);
    }
}
