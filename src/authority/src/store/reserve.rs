//! Room to finish. New dispatches are refused below a headroom, and a file full of zeros is kept that is given back to
//! the disk when sealing would not fit any more.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// How much room there is.
pub trait Disk: Send + Sync {
    /// Bytes that can still be written under the data folder.
    fn free_bytes(&self) -> io::Result<u64>;
}

/// The file system that a folder is on.
#[derive(Debug, Clone)]
pub struct FileSystem(pub PathBuf);

impl Disk for FileSystem {
    fn free_bytes(&self) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(&self.0)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

/// How much room must be left, and the reserve that is given up when there is none.
#[derive(Debug, Clone)]
pub struct Headroom {
    /// Below so many free bytes, no contract is issued and none is redeemed.
    pub bytes: u64,
    /// The size of the reserve file.
    pub reserve_bytes: u64,
}

impl Default for Headroom {
    fn default() -> Self {
        Self { bytes: 64 << 20, reserve_bytes: 8 << 20 }
    }
}

/// The reserve file: allocated while there is room, removed when there is none.
#[derive(Debug)]
pub(crate) struct Reserve {
    folder: FileSystem,
    headroom: Headroom,
    /// It was given back to the disk, and nobody has looked for room since.
    released: AtomicBool,
}

impl Reserve {
    /// Allocates the reserve if it is not there. Without room for it the store still works.
    pub(crate) fn keep(folder: &Path, headroom: &Headroom) -> Self {
        let (folder, headroom) = (FileSystem(folder.to_owned()), headroom.clone());
        let reserve = Self { folder, headroom, released: AtomicBool::new(false) };
        reserve.refill();
        reserve
    }

    /// Allocates it again, if there is room.
    pub(crate) fn refill(&self) {
        self.released.store(false, Ordering::Relaxed);
        let (path, bytes) = (self.path(), self.headroom.reserve_bytes);
        let is_there = std::fs::metadata(&path).is_ok_and(|metadata| metadata.len() >= bytes);
        if is_there || bytes == 0 {
            return;
        }
        if let Err(error) = allocate(&path, bytes) {
            tracing::warn!(path = %path.display(), %error, "no room for the reserve that sealing falls back on");
            let _ = std::fs::remove_file(&path);
        }
    }

    /// Allocates it again if it was given back and there is so much room again that contracts are issued.
    pub(crate) fn refill_when_released(&self) {
        let Headroom { bytes, reserve_bytes } = self.headroom;
        let is_room = || self.folder.free_bytes().is_ok_and(|free| free > bytes.saturating_add(reserve_bytes));
        if self.released.load(Ordering::Relaxed) && is_room() {
            self.refill();
        }
    }

    /// Gives the reserve back to the disk; true if there was one.
    pub(crate) fn release(&self) -> bool {
        let was_there = std::fs::remove_file(self.path()).is_ok();
        self.released.fetch_or(was_there, Ordering::Relaxed);
        was_there
    }

    fn path(&self) -> PathBuf {
        self.folder.0.join("reserve")
    }
}

fn allocate(path: &Path, bytes: u64) -> io::Result<()> {
    let file: File = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes)?;
    file.sync_all()
}
