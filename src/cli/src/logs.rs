//! Logs for those who look for a fault: to the standard error, and only when asked for.

use crate::say::tell;
use tracing_subscriber::EnvFilter;

/// Starts logging: `M87_LOG` (as in `info,m87_engine=debug`), else as often as `-v` was written, else not at all.
pub(crate) fn start(verbose: u8) {
    let by_count = match verbose {
        0 => "off",
        1 => "warn,m87=info,m87_authority=info,m87_engine=info,m87_worker=info,m87_zeebe=info",
        2 => "info,m87=debug,m87_authority=debug,m87_engine=debug,m87_worker=debug,m87_zeebe=debug",
        _ => "trace",
    };
    let filter = match std::env::var("M87_LOG") {
        Ok(text) => EnvFilter::try_new(&text).unwrap_or_else(|error| {
            tell!("warning: M87_LOG={text:?} is not understood ({error}); write for example info,m87_engine=debug");
            EnvFilter::new(by_count)
        }),
        Err(_) => EnvFilter::new(by_count),
    };
    // A second subscriber can only be set by a test harness; then its own is as good.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init();
}
