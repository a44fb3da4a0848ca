//! What the jobs and gates of the governed loop are to each other, as tables.

pub(super) use m87_core::lane::JobType as Job;
use m87_core::reason::Terminal;
use serde_json::Value;

/// The four gates, by their variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Gate {
    Constraints,
    Manifest,
    Budget,
    Verified,
}

/// What a job of the process is to the others and to the gates.
pub(super) trait Rules: Sized {
    /// The gates whose values its result gives.
    fn reports(self) -> &'static [Gate];

    /// The job that must be done before it.
    fn follows(self) -> Option<Self>;

    /// The gates that must have passed before it.
    fn requires(self) -> &'static [Gate];
}

impl Rules for Job {
    fn reports(self) -> &'static [Gate] {
        match self {
            Self::Validate => &[Gate::Constraints, Gate::Manifest],
            Self::Execute => &[Gate::Budget],
            Self::VerifyArtifact => &[Gate::Verified],
            Self::ClaimRun
            | Self::Propose
            | Self::BuildContract
            | Self::EmitArtifact
            | Self::RouteMemory
            | Self::FailureReceipt
            | Self::RecordTerminal => &[],
        }
    }

    fn follows(self) -> Option<Self> {
        match self {
            Self::ClaimRun => None,
            Self::Propose | Self::FailureReceipt | Self::RecordTerminal => Some(Self::ClaimRun),
            Self::Validate => Some(Self::Propose),
            Self::BuildContract => Some(Self::Validate),
            Self::Execute => Some(Self::BuildContract),
            Self::EmitArtifact => Some(Self::Execute),
            Self::VerifyArtifact => Some(Self::EmitArtifact),
            Self::RouteMemory => Some(Self::VerifyArtifact),
        }
    }

    fn requires(self) -> &'static [Gate] {
        match self {
            Self::BuildContract | Self::Execute => &[Gate::Constraints, Gate::Manifest],
            Self::EmitArtifact | Self::VerifyArtifact => &[Gate::Constraints, Gate::Manifest, Gate::Budget],
            Self::RouteMemory => &Gate::ALL,
            Self::ClaimRun | Self::Propose | Self::Validate | Self::FailureReceipt | Self::RecordTerminal => &[],
        }
    }
}

impl Gate {
    pub(super) const ALL: [Self; 4] = [Self::Constraints, Self::Manifest, Self::Budget, Self::Verified];

    pub(super) const fn variable(self) -> &'static str {
        match self {
            Self::Constraints => "constraints_ok",
            Self::Manifest => "tool_in_manifest",
            Self::Budget => "budget_exceeded",
            Self::Verified => "artifact_verified",
        }
    }

    /// Whether a job's answer passes the gate.
    pub(super) fn passes(self, answer: &Value) -> bool {
        let passing = match self {
            Self::Constraints | Self::Manifest | Self::Verified => true,
            Self::Budget => false,
        };
        answer.as_bool() == Some(passing)
    }

    /// The terminal of a run that this gate refuses.
    pub(super) const fn refusal(self) -> Terminal {
        match self {
            Self::Constraints => Terminal::Halt,
            Self::Manifest => Terminal::RejectManifest,
            Self::Budget => Terminal::Failed,
            Self::Verified => Terminal::RejectVerify,
        }
    }
}

/// A set of gates or of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Set(u16);

impl Set {
    pub(super) fn has(self, bit: impl Bit) -> bool {
        self.0 & bit.bit() != 0
    }

    pub(super) fn add(&mut self, bit: impl Bit) {
        self.0 |= bit.bit();
    }
}

/// A member of a small closed set.
pub(super) trait Bit {
    fn bit(self) -> u16;
}

impl Bit for Job {
    fn bit(self) -> u16 {
        1 << (self as u16)
    }
}

impl Bit for Gate {
    fn bit(self) -> u16 {
        1 << (self as u16)
    }
}

/// `decide`'s table: the first gate that did not pass names the terminal; a gate that was not asked did not pass.
pub(super) fn terminal(passed: Set) -> Terminal {
    Gate::ALL.into_iter().find(|gate| !passed.has(*gate)).map_or(Terminal::Complete, Gate::refusal)
}
