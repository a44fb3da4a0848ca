//! What a command prints, passed on as it comes to where this process prints: in a pod that is the log of the command's container, for
//! who looks while it runs. Nothing depends on it, and the command waits for it for
//! an instant in all: what is recorded is kept elsewhere.

use rustix::event::{PollFd, PollFlags, Timespec};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// A pipe that says it has room takes so much without waiting.
const PART: usize = 4096;
/// How long a log that does not keep up is waited for, in all; after that, no more.
const PATIENCE: Duration = Duration::from_millis(20);
/// So much is passed on, in bytes as a node's log keeps them: whoever prints without end fills no disk there.
const MOST: usize = 4 << 20;
/// What a node's log adds to a line, at most.
const OF_A_LINE: usize = 64;

/// A log that may not be read, or not fast enough.
pub(super) struct Log<F> {
    to: F,
    patience: Duration,
    room: usize,
}

impl<F: AsFd> Log<F> {
    pub(super) const fn new(to: F) -> Self {
        Self { to, patience: PATIENCE, room: MOST }
    }

    /// Passes on what was printed next, as far as the log takes it.
    pub(super) fn pass_on(&mut self, printed: &[u8]) {
        for part in printed.chunks(PART) {
            let lines = part.iter().filter(|byte| **byte == b'\n').count();
            self.room = self.room.saturating_sub(part.len() + OF_A_LINE * lines);
            if self.room == 0 || !self.takes_more() || rustix::io::write(&self.to, part).is_err() {
                return;
            }
        }
    }

    /// Waits for it while there is patience left.
    fn takes_more(&mut self) -> bool {
        let (asked, Ok(wait)) = (Instant::now(), Timespec::try_from(self.patience)) else { return false };
        let mut watched = [PollFd::new(&self.to, PollFlags::OUT)];
        let takes = matches!(rustix::event::poll(&mut watched, Some(&wait)), Ok(ready) if ready > 0);
        self.patience = self.patience.saturating_sub(asked.elapsed());
        takes
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use std::io::Read;

    #[test]
    fn what_is_printed_comes_through_whole_to_who_reads() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let reads = std::thread::spawn(move || {
            let mut text = Vec::new();
            reader.read_to_end(&mut text).unwrap();
            text
        });
        let printed: Vec<u8> = (0..40_000_u32).flat_map(|at| format!("{at}\n").into_bytes()).collect();
        let mut log = Log { to: writer, patience: Duration::from_secs(60), room: MOST };
        printed.chunks(10_000).for_each(|part| log.pass_on(part));
        drop(log);
        assert!(reads.join().unwrap() == printed);
    }

    #[test]
    fn a_log_that_nobody_reads_holds_nobody_up() {
        let (reader, writer) = std::io::pipe().unwrap();
        let (mut log, started) = (Log::new(writer), Instant::now());
        for _ in 0..1_000 {
            log.pass_on(&[b'x'; 64 * 1024]);
        }
        assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
        drop(reader);
        log.pass_on(b"nobody is there any more");
    }

    #[test]
    fn a_log_that_is_read_slowly_holds_nobody_up_again_and_again() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let (mut log, started) = (Log::new(writer), Instant::now());
        let reads = std::thread::spawn(move || {
            let mut some = [0; PART];
            while reader.read(&mut some).is_ok_and(|count| count > 0) {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        for _ in 0..500 {
            log.pass_on(&[b'x'; PART]);
        }
        // Waited for each time, that were five seconds.
        assert!(log.patience < PATIENCE && started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
        drop(log);
        reads.join().unwrap();
    }

    #[test]
    fn who_prints_without_end_fills_no_disk() {
        let file = tempfile::tempfile().unwrap();
        let mut log = Log::new(file.try_clone().unwrap());
        for _ in 0..100 {
            log.pass_on(&[b'\n'; 64 * 1024]);
        }
        let length = file.metadata().unwrap().len();
        assert!(length > 0 && length * (1 + OF_A_LINE as u64) <= MOST as u64, "{length}");
    }
}
