//! Who does which job of the process: four lanes under separate identities, and the operator's two listeners.

use serde::{Deserialize, Serialize};

/// A lane of the process. Each is an identity of its own; none can do another's jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lane {
    /// Hashes the proposal and its trace, and cannot change them.
    Proposer,
    /// Judges, contracts, verifies.
    Governance,
    /// Asks for the tool to be run; records nothing by itself.
    Runner,
    /// Takes the verified artifact into memory.
    Memory,
}

impl Lane {
    /// Every lane.
    pub const ALL: [Self; 4] = [Self::Proposer, Self::Governance, Self::Runner, Self::Memory];

    /// The name on the command line and in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Proposer => "proposer",
            Self::Governance => "governance",
            Self::Runner => "runner",
            Self::Memory => "memory",
        }
    }

    /// The lane of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|lane| lane.name() == name)
    }

    /// The jobs that are this lane's.
    pub fn jobs(self) -> impl Iterator<Item = JobType> {
        JobType::ALL.into_iter().filter(move |job| job.lane() == Some(self))
    }
}

/// A type of job of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobType {
    /// Binds the run to its process instance; a listener at the start of Propose.
    ClaimRun,
    /// The task Propose.
    Propose,
    /// The task Validate.
    Validate,
    /// The task Contract.
    BuildContract,
    /// The task Execute.
    Execute,
    /// The task Artifact.
    EmitArtifact,
    /// The task Verify.
    VerifyArtifact,
    /// The task FailReceipt.
    FailureReceipt,
    /// The task Memory.
    RouteMemory,
    /// Seals the run; a listener at the start of each end event.
    RecordTerminal,
}

impl JobType {
    /// Every type of job.
    pub const ALL: [Self; 10] = [
        Self::ClaimRun,
        Self::Propose,
        Self::Validate,
        Self::BuildContract,
        Self::Execute,
        Self::EmitArtifact,
        Self::VerifyArtifact,
        Self::FailureReceipt,
        Self::RouteMemory,
        Self::RecordTerminal,
    ];

    /// The type as the process and the engine write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClaimRun => "claim-run",
            Self::Propose => "propose",
            Self::Validate => "validate",
            Self::BuildContract => "build-contract",
            Self::Execute => "execute",
            Self::EmitArtifact => "emit-artifact",
            Self::VerifyArtifact => "verify-artifact",
            Self::FailureReceipt => "failure-receipt",
            Self::RouteMemory => "route-memory",
            Self::RecordTerminal => "record-terminal",
        }
    }

    /// The type of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|job| job.name() == name)
    }

    /// Whose job it is; `None`: the operator's own.
    pub const fn lane(self) -> Option<Lane> {
        match self {
            Self::ClaimRun | Self::RecordTerminal => None,
            Self::Propose => Some(Lane::Proposer),
            Self::Validate | Self::BuildContract | Self::VerifyArtifact | Self::FailureReceipt => {
                Some(Lane::Governance)
            }
            Self::Execute | Self::EmitArtifact => Some(Lane::Runner),
            Self::RouteMemory => Some(Lane::Memory),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_is_one_lanes_or_the_operators() {
        let lanes: usize = Lane::ALL.into_iter().map(|lane| lane.jobs().count()).sum();
        assert_eq!(lanes + 2, JobType::ALL.len());
        for job in JobType::ALL {
            assert_eq!(JobType::parse(job.name()), Some(job));
        }
        assert!(Lane::ALL.into_iter().all(|lane| Lane::parse(lane.name()) == Some(lane)));
    }
}
