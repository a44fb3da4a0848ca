//! How far runs have come, on the standard error: a bar on a terminal, a line for each end elsewhere.

use crate::say::tell;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use m87_authority::row::Run;
use m87_authority::world::StatusSink;
use std::io::IsTerminal;

/// Shows the changes that the authority tells of.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// For so many runs.
    pub(crate) fn new(runs: usize) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(runs as u64), ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{spinner} {pos}/{len} runs, {elapsed}  {msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(std::time::Duration::from_millis(120));
            bar
        });
        Self { bar }
    }

    /// One run more is over.
    pub(crate) fn finished(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.inc(1),
            None => tell!("{line}"),
        }
    }

    /// Nothing more comes.
    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl StatusSink for Progress {
    fn changed(&self, run: &Run) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{}: {}", run.dossier.run.name, run.row.state.name()));
        }
    }
}
