//! Printing that bears a reader who has gone (`m87 … | head`): what nobody reads is not worth a panic. Anything else that
//! keeps a result from being written (a full disk) is remembered, and is no success.

use crate::exit::Exit;
use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;

/// The first thing that kept the standard output from being written.
static LOST: OnceLock<String> = OnceLock::new();

/// A line on the standard output.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write;
        $crate::say::written(writeln!(std::io::stdout().lock(), $($text)*));
    }};
}

/// Text on the standard output, as it is.
macro_rules! put {
    ($text:expr) => {{
        use std::io::Write;
        let mut out = std::io::stdout().lock();
        $crate::say::written(out.write_all($text.as_ref()).and_then(|()| out.flush()));
    }};
}

/// A line on the standard error.
macro_rules! tell {
    ($($text:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stderr().lock(), $($text)*);
    }};
}

pub(crate) use {put, say, tell};

/// Remembers why a result could not be written, unless its reader has gone.
pub(crate) fn written(outcome: io::Result<()>) {
    match outcome {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
        Err(error) => {
            let _ = LOST.set(error.to_string());
        }
    }
}

/// How a command ended, given that its result may not have been written.
pub(crate) fn ended(exit: Exit) -> Exit {
    written(io::stdout().lock().flush());
    match (LOST.get(), exit) {
        (None, exit) => exit,
        (Some(why), Exit::AsAsked | Exit::Untrusted) => {
            tell!("error: the result could not be written to the standard output: {why}");
            Exit::Otherwise
        }
        (Some(_), Exit::Otherwise | Exit::Invalid | Exit::Verdict(_)) => exit,
    }
}

/// `1 run`, `2 runs`: a count with its word.
pub(crate) fn counted(count: usize, one: &str) -> String {
    match (count, one.strip_suffix('y')) {
        (1, _) => format!("1 {one}"),
        (_, Some(stem)) => format!("{count} {stem}ies"),
        (_, None) => format!("{count} {one}s"),
    }
}
