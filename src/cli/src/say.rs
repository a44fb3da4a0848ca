//! Printing that bears a reader who has gone (`m87 … | head`): what nobody reads is not worth a panic.

/// A line on the standard output.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stdout().lock(), $($text)*);
    }};
}

/// Text on the standard output, as it is.
macro_rules! put {
    ($text:expr) => {{
        use std::io::Write;
        let mut out = std::io::stdout().lock();
        let _ = out.write_all($text.as_ref()).and_then(|()| out.flush());
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
