//! SIGINT and SIGTERM: the first asks to stop in good order, the second stops at once.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Cancels `stop` at the first signal; at the second the process ends as if it had been killed, which it must bear anyway.
pub(crate) fn stop_on_signal(stop: &CancellationToken) -> std::io::Result<()> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let stop = stop.clone();
    tokio::spawn(async move {
        loop {
            let code = tokio::select! {
                _ = interrupt.recv() => 130,
                _ = terminate.recv() => 143,
            };
            if stop.is_cancelled() {
                std::process::exit(code);
            }
            stop.cancel();
        }
    });
    Ok(())
}
