//! The explanation of a verdict: its trace in words, and nothing else. It looks at no dossier, so it cannot tell another story.

use crate::decide::Verdict;
use crate::gates::{Clause, Gate};
use std::fmt::Write;

/// The trace in words, and how the run ends.
pub fn explain(verdict: &Verdict) -> String {
    let mut out = clauses(&verdict.trace);
    let _ = match verdict.trace.iter().find(|clause| !clause.passed) {
        Some(_) => writeln!(out, "{} {}", verdict.terminal.name(), verdict.reason.map_or("", |reason| reason.name())),
        None => writeln!(out, "{}", verdict.terminal.name()),
    };
    out
}

/// Clauses, one line each, under their gates; what refused says what would have passed.
///
/// Texts of users are quoted by the clauses and hold no line breaks or control characters here.
pub fn clauses(clauses: &[Clause]) -> String {
    let mut out = String::new();
    let mut under: Option<Gate> = None;
    for clause in clauses {
        if under != Some(clause.gate) {
            under = Some(clause.gate);
            let _ = match clause.gate.gateway() {
                Some(gateway) => writeln!(out, "{} ({gateway})", clause.gate.name()),
                None => writeln!(out, "{}", clause.gate.name()),
            };
        }
        let detail = printable(&clause.detail);
        let _ = if clause.passed {
            writeln!(out, "  yes  {}: {detail}", clause.name)
        } else {
            writeln!(
                out,
                "  NO   {}: {detail} [{}]\n       would pass: {}",
                clause.name,
                clause.reason.name(),
                printable(&clause.would_pass)
            )
        };
    }
    out
}

fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::decide::decide;
    use crate::evidence::Evidence;
    use crate::fixtures::{dossier, evidence};

    #[test]
    fn the_explanation_is_the_trace_in_words() {
        let mut dossier = dossier();
        dossier.proposal.risk = Some("high".to_owned());
        let verdict = decide(&dossier, &Evidence { proposed: None, ..Evidence::default() });
        insta::assert_snapshot!(explain(&verdict));
    }

    #[test]
    fn a_complete_run_is_explained_by_all_that_passed() {
        insta::assert_snapshot!(explain(&decide(&dossier(), &evidence())));
    }
}
