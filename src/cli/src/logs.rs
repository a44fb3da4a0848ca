//! Logs for those who look for a fault: to the standard error. On a cluster they are on, and in JSON; elsewhere only when asked for.

use crate::say::tell;
use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// How a line of the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// For programs: one JSON object a line.
    Json,
}

/// What is logged where nobody says how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Usual {
    /// Nothing: the command prints what there is to say.
    Nothing,
    /// What a person who runs a service wants to know.
    Service,
}

const SERVICE: &str =
    "warn,m87=info,m87_authority=info,m87_engine=info,m87_operator=info,m87_worker=info,m87_zeebe=info";

/// Starts logging: `M87_LOG` (as in `info,m87_engine=debug`), else as often as `-v` was written, else as is usual.
pub(crate) fn start(verbose: u8, usual: Usual, format: Option<Format>) {
    let by_count = match (verbose, usual) {
        (0, Usual::Nothing) => "off",
        (0, Usual::Service) | (1, _) => SERVICE,
        (2, _) => {
            "info,m87=debug,m87_authority=debug,m87_engine=debug,m87_operator=debug,m87_worker=debug,m87_zeebe=debug"
        }
        (_, _) => "trace",
    };
    let filter = match std::env::var("M87_LOG") {
        Ok(text) => EnvFilter::try_new(&text).unwrap_or_else(|error| {
            tell!("warning: M87_LOG={text:?} is not understood ({error}); write for example info,m87_engine=debug");
            EnvFilter::new(by_count)
        }),
        Err(_) => EnvFilter::new(by_count),
    };
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let format = format.unwrap_or(match usual {
        Usual::Nothing => Format::Text,
        Usual::Service => Format::Json,
    });
    // A second subscriber can only be set by a test harness; then its own is as good.
    let _ = match format {
        Format::Text => lines.try_init(),
        // The fields of the innermost span (run, tenant, trace) beside those of the line itself.
        Format::Json => lines.json().flatten_event(true).with_current_span(true).with_span_list(false).try_init(),
    };
}
