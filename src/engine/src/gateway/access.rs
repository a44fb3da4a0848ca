//! Who may do what. Jobs are bound to lanes by their type; everything that moves a process otherwise is the operator's.

use m87_core::lane::{JobType, Lane};
use tonic::Status;

use super::callers::Caller;

/// What a call is about to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action<'a> {
    /// Take, do or report on jobs of a type.
    Job(&'a str),
    /// Give a job retries, so that an incident can be resolved.
    Retries(&'a str),
    /// Ask who answers.
    Look,
    /// What moves processes from outside: deploy, create, cancel, resolve, set variables.
    Steer(&'static str),
}

/// # Errors
/// PERMISSION_DENIED, with who may instead.
pub(super) fn check(caller: Caller, action: Action<'_>) -> Result<(), Status> {
    let allowed = match (caller, action) {
        (Caller::Anonymous, _) | (Caller::Operator, Action::Retries(_) | Action::Steer(_)) | (_, Action::Look) => true,
        (Caller::Operator, Action::Job(job_type)) => owner(job_type) == Some(Owner::Operator),
        (Caller::Lane(lane), Action::Job(job_type) | Action::Retries(job_type)) => {
            owner(job_type) == Some(Owner::Lane(lane))
        }
        (Caller::Lane(_), Action::Steer(_)) => false,
    };
    if allowed {
        return Ok(());
    }
    let refusal = refusal(caller, action);
    tracing::warn!(?caller, "{refusal}");
    Err(Status::permission_denied(refusal))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Operator,
    Lane(Lane),
}

/// Nobody's, if the type is none of the process's.
fn owner(job_type: &str) -> Option<Owner> {
    JobType::parse(job_type).map(|known| known.lane().map_or(Owner::Operator, Owner::Lane))
}

fn refusal(caller: Caller, action: Action<'_>) -> String {
    let who = match caller {
        Caller::Operator => "the operator".to_owned(),
        Caller::Lane(lane) => format!("the {} lane", lane.name()),
        Caller::Anonymous => "an anonymous caller".to_owned(),
    };
    match action {
        Action::Job(job_type) | Action::Retries(job_type) => {
            let whose = match owner(job_type) {
                Some(Owner::Operator) => "they are the operator's".to_owned(),
                Some(Owner::Lane(lane)) => format!("they are the {} lane's", lane.name()),
                None => "they are no lane's".to_owned(),
            };
            format!("{who} may not touch jobs of type '{job_type}': {whose}")
        }
        Action::Steer(what) => format!("{who} may not {what}: only the operator may"),
        Action::Look => format!("{who} may not look"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn each_job_type_has_exactly_one_caller_that_may_touch_it() {
        let callers = Lane::ALL.map(Caller::Lane).into_iter().chain([Caller::Operator]);
        let callers: Vec<_> = callers.collect();
        for job in JobType::ALL {
            let allowed: Vec<_> =
                callers.iter().filter(|caller| check(**caller, Action::Job(job.name())).is_ok()).collect();
            let owner = job.lane().map_or(Caller::Operator, Caller::Lane);
            assert_eq!(allowed, [&owner], "{job:?}");
        }
    }

    #[test]
    fn a_type_that_is_no_lanes_is_for_nobody_but_the_anonymous() {
        for caller in Lane::ALL.map(Caller::Lane).into_iter().chain([Caller::Operator]) {
            for job_type in ["payment", "", "Propose", "propose ", "claim-run2"] {
                assert!(check(caller, Action::Job(job_type)).is_err(), "{caller:?} {job_type}");
            }
        }
        assert!(check(Caller::Anonymous, Action::Job("payment")).is_ok());
    }

    #[test]
    fn only_the_operator_steers_and_the_refusal_says_so() {
        for lane in Lane::ALL {
            let refusal = check(Caller::Lane(lane), Action::Steer("set variables")).unwrap_err();
            assert_eq!(refusal.code(), tonic::Code::PermissionDenied);
            let expected = format!("the {} lane may not set variables: only the operator may", lane.name());
            assert_eq!(refusal.message(), expected);
            assert!(check(Caller::Lane(lane), Action::Look).is_ok());
        }
        assert!(check(Caller::Operator, Action::Steer("set variables")).is_ok());
        assert!(check(Caller::Operator, Action::Retries("execute")).is_ok());
    }
}
