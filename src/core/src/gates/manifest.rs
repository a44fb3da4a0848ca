//! Gate 2: does the manifest have the tool, and may it do exactly this to exactly that?

use super::{Check, Clauses, Gate, no, yes};
use crate::case::Case;
use crate::policy::ImageTags;
use crate::reason::Reason;
use crate::resolve::{MAX_INPUT, Tool, Unresolved};
use crate::tool::Run;

/// All REJECT_MANIFEST clauses of a case. Without a tool there is nothing else to look at.
pub fn judge(case: &Case<'_>) -> Clauses {
    let clauses = Clauses::of(Gate::ToolInManifest);
    let tool = match case.tool {
        Ok(tool) => tool,
        Err(why) => return clauses.require("the tool resolves", why.reason(), unresolved(case, why)),
    };
    clauses
        .require("the tool resolves", Reason::ToolUnknown, yes("known and enabled"))
        .require("the action type is the tool's", Reason::ActionTypeMismatch, action_type(case, tool))
        .require("a target is named", Reason::TargetMissing, target_named(case))
        .require("the target is written as targets are", Reason::TargetInvalid, target_valid(case))
        .require("the input is small", Reason::InputTooLarge, input_small(case))
        .require("the input fits the tool's schema", Reason::InputInvalid, input_fits(case, tool))
        .require("the tool would touch the proposal's target", Reason::TargetMismatch, target_equal(case, tool))
        .require("the tool may touch it", Reason::TargetNotAllowed, target_allowed(case, tool))
        .require("the tool's image is pinned", Reason::ImageNotPinned, image_pinned(case, tool))
}

fn unresolved(case: &Case<'_>, why: Unresolved) -> Check {
    let name = case.proposal.tool.as_deref().or(case.proposal.capability.as_deref()).unwrap_or_default();
    match why {
        Unresolved::NoManifest => no(
            "the manifest that the run names does not exist, or cannot be read",
            "a manifestRef to a ToolManifest that is there and ready",
        ),
        Unresolved::NotNamed => no(
            "the proposal names neither a tool nor a capability, or both",
            "either proposal.tool or proposal.capability",
        ),
        Unresolved::CapabilityUnknown => {
            no(format!("no tool provides the capability {name:?}"), "a capability that a tool of the manifest provides")
        }
        Unresolved::Disabled => no(format!("what {name:?} means is disabled"), "an enabled tool"),
        Unresolved::ToolUnknown => {
            no(format!("the manifest has not exactly one tool {name:?}"), "the name of a tool in the manifest")
        }
    }
}

fn action_type(case: &Case<'_>, tool: &Tool<'_>) -> Check {
    let own = &tool.entry.action_type;
    match case.proposal.action_type.as_deref() {
        Some(named) if named == own && !own.trim().is_empty() => yes("the same"),
        Some(named) => no(format!("{named:?} is not the tool's"), format!("proposal.actionType: {own:?}")),
        None => no("the proposal names no action type", format!("proposal.actionType: {own:?}")),
    }
}

fn target_named(case: &Case<'_>) -> Check {
    match case.proposal.target.as_deref() {
        Some(text) if !text.trim().is_empty() => yes("named"),
        Some(_) | None => no("the proposal's target is absent or blank", "proposal.target"),
    }
}

fn target_valid(case: &Case<'_>) -> Check {
    let text = case.proposal.target.as_deref().unwrap_or_default();
    match &case.named_written {
        Some(Ok(())) => yes("it is"),
        None => no("there is none", "a target (docs/targets.md)"),
        Some(Err(error)) => no(format!("{text:?}: {error}"), "a target (docs/targets.md)"),
    }
}

fn input_small(case: &Case<'_>) -> Check {
    match &case.input_size {
        Ok(size) if *size <= MAX_INPUT => yes("it is"),
        Ok(size) => no(format!("{size} bytes as canonical JSON"), format!("at most {MAX_INPUT} bytes")),
        Err(error) => no(format!("it cannot be measured: {error}"), format!("JSON of at most {MAX_INPUT} bytes")),
    }
}

fn input_fits(case: &Case<'_>, tool: &Tool<'_>) -> Check {
    // What is too large is not looked into.
    if !matches!(case.input_size, Ok(size) if size <= MAX_INPUT) {
        return no("not looked into, because of its size", "a smaller input that fits the tool's inputSchema");
    }
    match tool.check_input(case.input()) {
        Ok(()) => yes("it does"),
        Err(error) => no(error, "an input that fits the tool's inputSchema"),
    }
}

fn target_equal(case: &Case<'_>, tool: &Tool<'_>) -> Check {
    let from = &tool.entry.target_from;
    match (case.target.as_deref(), case.proposal.target.as_deref()) {
        (Some(effective), Some(named)) if effective == named => yes("the same"),
        (Some(effective), named) => no(
            format!("the input says {effective:?}, the proposal {:?}", named.unwrap_or_default()),
            "one target in both places",
        ),
        (None, _) => no(
            format!("the input has no string at {:?}, where its target stands", from.pointer),
            "an input that says what it touches, as the tool's targetFrom reads it",
        ),
    }
}

fn target_allowed(case: &Case<'_>, tool: &Tool<'_>) -> Check {
    let allowed = match tool.targets() {
        Ok(allowed) => allowed,
        Err(error) => {
            return no(format!("in the tool's targetsAllowed, {error}"), "a list of usable globs (docs/targets.md)");
        }
    };
    let would_pass = || format!("a target that one of {:?} matches", tool.entry.targets_allowed);
    match case.target.as_deref() {
        Some(text) if case.target_written && allowed.matches(text) => yes("inside targetsAllowed"),
        Some(text) => no(format!("{text:?} is outside what the tool may touch"), would_pass()),
        None => no("what the tool would touch is not known", would_pass()),
    }
}

fn image_pinned(case: &Case<'_>, tool: &Tool<'_>) -> Check {
    let Run::Command(command) = &tool.entry.run;
    let Some(image) = command.image.as_deref() else { return yes("the platform's own") };
    match case.rules.map(|rules| rules.effective.image_tags) {
        _ if command.image_is_pinned() => yes("by digest"),
        Some(ImageTags::Allowed) => yes("tags are allowed"),
        Some(ImageTags::Refused) | None => no(
            format!("{image:?} is not named by digest"),
            "an image as name@sha256:…, or a policy and baseline with constraints.imageTags: Allowed",
        ),
    }
}
