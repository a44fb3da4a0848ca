//! The check of an artifact in a pod: order and artifact were fetched by another container, which had the token and has
//! ended. There is nobody to talk to: the verdict is the exit code, and a short report in the file that Kubernetes shows
//! as the container's last words.

use super::link::{Go, Task};
use super::workplace::Workplace;
use super::{ShimError, prepare, watch};
use m87_core::contract::ValidationOrder;
use m87_core::evidence::{Ended, ValidationReport};
use m87_core::json::read_document;
use std::path::{Path, PathBuf};

/// The order's file in the folder of what was fetched.
pub const ORDER: &str = "order.json";
/// The artifact's file there.
pub const ARTIFACT: &str = "artifact";

/// Kubernetes shows no more than this of a container's last words.
const SHOWN: usize = 4096;
/// The exit code of a check that was killed at a limit, as `timeout` has it.
const LIMIT: u8 = 124;
/// The exit code of a check that could not be started.
const NOT_STARTED: u8 = 125;

/// What `m87 shim --check` is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckArgs {
    /// The folder of what was fetched; nothing is written there.
    pub fetched: PathBuf,
    /// The folder to work in; it exists.
    pub work: PathBuf,
    /// Where the report goes.
    pub report: PathBuf,
}

/// Runs the check. Returns the exit code that this process has to have: 0 only if the check passed.
pub fn main_check(args: &CheckArgs) -> Result<u8, ShimError> {
    prepare()?;
    let report = match order(&args.fetched) {
        Ok(order) => run(args, order)?,
        Err(why) => ValidationReport { ended: Ended::NotStarted(why), output: String::new() },
    };
    write_report(&args.report, &report)?;
    Ok(exit_code(&report.ended))
}

/// Writes a report where Kubernetes looks for a container's last words, in place of whatever a command has left there.
pub fn write_report(path: &Path, report: &ValidationReport) -> Result<(), ShimError> {
    let file = |source| ShimError::File { path: path.to_owned(), source };
    std::fs::write(path, brief(report).map_err(file)?).map_err(file)
}

fn order(fetched: &Path) -> Result<ValidationOrder, String> {
    let path = fetched.join(ORDER);
    let text = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    read_document(&text).map_err(|error| format!("the validation order {error}"))
}

fn run(args: &CheckArgs, order: ValidationOrder) -> Result<ValidationReport, ShimError> {
    let at = |source| ShimError::File { path: args.work.clone(), source };
    let place = Workplace::make(&args.work).map_err(at)?;
    let task = Task::Check { artifact: args.fetched.join(ARTIFACT) };
    let go = Go { argv: order.validation.argv, input: order.input, task, limits: order.validation.limits };
    let over = watch::run(&go, &place, None)?.map(|over| over.done);
    Ok(over.map_or_else(
        || ValidationReport { ended: Ended::NotStarted("nobody watched".to_owned()), output: String::new() },
        |done| ValidationReport { ended: done.ended, output: done.output },
    ))
}

/// The report as JSON, with as much of the output's end as there is room for.
fn brief(report: &ValidationReport) -> std::io::Result<String> {
    let mut report = report.clone();
    loop {
        let text = serde_json::to_string(&report)?;
        if text.len() <= SHOWN {
            return Ok(text);
        }
        let text = match &mut report.ended {
            Ended::NotStarted(why) if report.output.is_empty() => why,
            Ended::NotStarted(_) | Ended::Exited(_) | Ended::Signalled(_) | Ended::Limit(_) => &mut report.output,
        };
        // Half of it, at least one character: it comes to an end.
        let keep = text.chars().count() / 2;
        *text = text.chars().rev().take(keep).collect::<Vec<_>>().into_iter().rev().collect();
    }
}

/// Never 0 but for a check that passed.
fn exit_code(ended: &Ended) -> u8 {
    match ended {
        Ended::Exited(code) => u8::try_from(*code).unwrap_or(1),
        Ended::Signalled(signal) => u8::try_from(signal.saturating_add(128)).unwrap_or(1).max(1),
        Ended::Limit(_) => LIMIT,
        Ended::NotStarted(_) => NOT_STARTED,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use m87_core::evidence::LimitKind;

    #[test]
    fn only_a_check_that_passed_exits_with_zero() {
        assert_eq!(exit_code(&Ended::Exited(0)), 0);
        for ended in [
            Ended::Exited(1),
            Ended::Exited(256),
            Ended::Exited(-1),
            Ended::Signalled(9),
            Ended::Signalled(-128),
            Ended::Limit(LimitKind::Seconds),
            Ended::NotStarted(String::new()),
        ] {
            assert_ne!(exit_code(&ended), 0, "{ended:?}");
        }
    }

    #[test]
    fn a_report_fits_into_what_kubernetes_shows_and_keeps_the_end() {
        let long = "\u{1}\"é".repeat(2000) + "the end";
        for ended in [Ended::Exited(3), Ended::NotStarted(long.clone())] {
            let text = brief(&ValidationReport { ended, output: long.clone() }).unwrap();
            assert!(text.len() <= SHOWN, "{}", text.len());
            let read: ValidationReport = serde_json::from_str(&text).unwrap();
            assert!(read.output.is_empty() || read.output.ends_with("the end"));
        }
    }
}
