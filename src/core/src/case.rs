//! A case: one proposal before the rules it is judged by.
//!
//! Rules are compiled once for any number of proposals (`Rules`, `Tools`), a case only looks things up. Both ways into the
//! gates, from a dossier and from rules that stay compiled, meet here, so that they cannot judge differently.

use crate::actor::Actor;
use crate::dossier::Dossier;
use crate::policy::{self, Effective, PolicySpec};
use crate::proposal::Proposal;
use crate::resolve::{self, MAX_INPUT, Tool, Tools, Unresolved};
use crate::risk::Risk;
use crate::target::{self, GlobError, Globs, Of, TargetError};
use crate::tool::{CommandLimits, Run};
use serde_json::Value;
use std::borrow::Cow;

/// A policy and the platform's baseline, intersected and compiled.
#[derive(Debug)]
pub struct Rules {
    /// What they say together.
    pub effective: Effective,
    /// Targets that nobody may touch.
    pub targets_forbidden: Result<Globs, GlobError>,
    /// Who may ask: in every one of these lists.
    pub actors_allowed: Result<Vec<Globs>, GlobError>,
}

impl Rules {
    /// Compiles a policy, the stricter of it and the baseline.
    pub fn new(policy: &PolicySpec, baseline: Option<&PolicySpec>) -> Self {
        let effective = policy::effective(policy, baseline);
        Self {
            targets_forbidden: Globs::new(&effective.targets_forbidden, Of::Targets),
            actors_allowed: effective.actors_allowed.iter().map(|list| Globs::new(list, Of::Usernames)).collect(),
            effective,
        }
    }
}

/// The rules of one dossier, compiled.
#[derive(Debug)]
pub struct Prepared<'d> {
    dossier: &'d Dossier,
    rules: Option<Rules>,
    tools: Option<Tools<'d>>,
}

impl<'d> Prepared<'d> {
    /// Compiles what is pinned.
    pub fn new(dossier: &'d Dossier) -> Self {
        let baseline = dossier.baseline.as_ref().map(|pinned| &pinned.spec);
        Self {
            dossier,
            rules: dossier.policy.as_ref().map(|pinned| Rules::new(&pinned.spec, baseline)),
            tools: dossier.manifest.as_ref().map(|pinned| Tools::new(&pinned.spec.tools)),
        }
    }

    /// The dossier's own case.
    pub fn case(&self) -> Case<'_> {
        let has_process = self.dossier.process.is_some();
        Case::new(&self.dossier.proposal, &self.dossier.actor, has_process, self.rules.as_ref(), self.tools.as_ref())
    }
}

/// One proposal, its actor, and what the rules make of them.
#[derive(Debug)]
pub struct Case<'a> {
    /// What is asked for.
    pub proposal: &'a Proposal,
    /// Who asks.
    pub actor: &'a Actor,
    /// Whether there is a process to go through.
    pub has_process: bool,
    /// The rules; `None` if the policy is missing.
    pub rules: Option<&'a Rules>,
    /// The tool that is meant, or why none is.
    pub tool: Result<&'a Tool<'a>, Unresolved>,
    /// The higher of declared and the tool's risk.
    pub risk: Result<Risk, RiskUnknown<'a>>,
    /// The input's size in bytes, or why it has none.
    pub input_size: Result<usize, String>,
    /// Whether the proposal's target is written as targets are; `None` if it has none.
    pub named_written: Option<Result<(), TargetError>>,
    /// What the tool would touch; `None` without a tool, or without a string in the input where it should stand.
    pub target: Option<Cow<'a, str>>,
    /// Whether that is written as targets are.
    pub target_written: bool,
}

/// Why the risk is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RiskUnknown<'a> {
    /// Neither the proposal nor a tool says.
    NotDeclared,
    /// The proposal says something that is no risk class.
    NotAClass(&'a str),
}

/// What a plan is made of.
#[derive(Debug, Clone, Copy)]
pub struct Planned<'c> {
    /// The tool.
    pub tool: &'c Tool<'c>,
    /// The risk that counts.
    pub risk: Risk,
    /// What would be touched.
    pub target: &'c str,
}

impl<'a> Case<'a> {
    /// Looks up what the rules need to know of a proposal.
    pub fn new(
        proposal: &'a Proposal,
        actor: &'a Actor,
        has_process: bool,
        rules: Option<&'a Rules>,
        tools: Option<&'a Tools<'a>>,
    ) -> Self {
        let tool = tools.ok_or(Unresolved::NoManifest).and_then(|tools| tools.resolve(proposal));
        let input = proposal.input.as_ref().unwrap_or(&Value::Null);
        let named = proposal.target.as_deref();
        let named_written = named.map(target::validate);
        let target = tool.ok().and_then(|tool| resolve::effective_target(&tool.entry.target_from, input));
        let target_written = match target.as_deref() {
            Some(target) if Some(target) == named => named_written == Some(Ok(())),
            Some(target) => target::validate(target).is_ok(),
            None => false,
        };
        Self {
            proposal,
            actor,
            has_process,
            rules,
            risk: risk(proposal.risk.as_deref(), tool.ok().map(|tool| tool.entry.risk_class)),
            input_size: resolve::input_size(input).map_err(|error| error.to_string()),
            named_written,
            target,
            target_written,
            tool,
        }
    }

    /// What the operating system allows the tool; `None` without a tool.
    pub fn limits(&self) -> Option<&'a CommandLimits> {
        self.tool.ok().map(|tool| {
            let Run::Command(command) = &tool.entry.run;
            &command.limits
        })
    }

    /// The input; `null` if the proposal has none.
    pub fn input(&self) -> &'a Value {
        self.proposal.input.as_ref().unwrap_or(&Value::Null)
    }

    /// What a plan would be made of; `None` where it cannot be said what would happen.
    pub fn planned(&self) -> Option<Planned<'_>> {
        let measured = matches!(self.input_size, Ok(size) if size <= MAX_INPUT);
        match (self.rules, self.tool, self.risk, self.target.as_deref()) {
            (Some(_), Ok(tool), Ok(risk), Some(target)) if measured => Some(Planned { tool, risk, target }),
            (_, _, _, _) => None,
        }
    }
}

/// The higher of both counts; what is declared must be a class, even where the tool's is known.
fn risk(declared: Option<&str>, tool: Option<Risk>) -> Result<Risk, RiskUnknown<'_>> {
    let declared = match declared {
        Some(name) => Some(Risk::parse(name).ok_or(RiskUnknown::NotAClass(name))?),
        None => None,
    };
    declared.max(tool).ok_or(RiskUnknown::NotDeclared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_higher_of_declared_and_the_tools_risk_counts() {
        for declared in Risk::ALL {
            for tool in Risk::ALL {
                assert_eq!(risk(Some(declared.name()), Some(tool)), Ok(declared.max(tool)));
            }
            assert_eq!(risk(Some(declared.name()), None), Ok(declared));
            assert_eq!(risk(None, Some(declared)), Ok(declared));
        }
        assert_eq!(risk(None, None), Err(RiskUnknown::NotDeclared));
        for unknown in ["", "Low", "none", "LOW", " low", "severe"] {
            assert_eq!(risk(Some(unknown), Some(Risk::Low)), Err(RiskUnknown::NotAClass(unknown)), "{unknown:?}");
        }
    }
}
