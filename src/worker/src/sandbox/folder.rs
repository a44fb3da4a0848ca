//! A folder that a tool writes into: made private, measured without being led astray, read without following links.

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use std::ffi::CString;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// More entries than this are not counted; who makes them is over any limit.
const MAX_ENTRIES: usize = 100_000;

/// Makes a folder that only its owner can enter; an error if anything of that name is there.
pub fn make_private(path: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().mode(0o700).create(path)
}

/// Writes a new file that nobody can write to again (its owner may read it).
pub fn write_read_only(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    create_read_only(path)?.write_all(bytes)
}

/// A new file that can be written to through this handle only.
pub fn create_read_only(path: &Path) -> std::io::Result<File> {
    File::options().write(true).create_new(true).mode(0o400).open(path)
}

/// A handle on the folder itself, which stays on it whatever is put in its place.
pub fn open(path: &Path) -> std::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Why there is no file to read under a name.
#[derive(Debug, thiserror::Error)]
pub enum NoFile {
    /// Nothing has that name.
    #[error("nothing is there")]
    Absent,
    /// Something else than a regular file with one name has it.
    #[error("it is not a regular file with one name")]
    NotRegular,
    /// It is not the name of an entry of a folder.
    #[error("it is not a plain file name")]
    NotAName,
    /// It cannot be opened.
    #[error("{0}")]
    Io(#[from] rustix::io::Errno),
}

/// Opens the regular file of that name in the folder. Links are not followed, a second name (a hard link, whose other
/// end could be anybody's file) is refused, and nothing blocks: a FIFO or device is looked at, never opened.
pub fn open_regular(folder: &impl AsFd, name: &str) -> Result<File, NoFile> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
        return Err(NoFile::NotAName);
    }
    let regular =
        |stat: &rustix::fs::Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_nlink == 1;
    match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if regular(&stat) => {}
        Ok(_) => return Err(NoFile::NotRegular),
        Err(rustix::io::Errno::NOENT) => return Err(NoFile::Absent),
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, name, flags, Mode::empty())?;
    // Looked at again, now that it cannot be exchanged.
    if !regular(&rustix::fs::fstat(&file)?) {
        return Err(NoFile::NotRegular);
    }
    Ok(File::from(file))
}

/// Bytes in all regular files below the folder; `None` if they cannot be counted (too many entries, too deep, closed
/// against us), which no limit allows.
pub fn bytes_below(folder: &Path) -> Option<u64> {
    let mut total = 0_u64;
    let mut entries = 0_usize;
    let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let listing = match std::fs::read_dir(&folder) {
            Ok(listing) => listing,
            Err(error) if vanished(&error) => continue,
            Err(_) => return None,
        };
        for entry in listing {
            entries += 1;
            if entries > MAX_ENTRIES {
                return None;
            }
            let entry = entry.ok()?;
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => folders.push(entry.path()),
                Ok(meta) if meta.is_file() => total = total.saturating_add(meta.len()),
                Ok(_) => {}
                Err(error) if vanished(&error) => {}
                Err(_) => return None,
            }
        }
    }
    Some(total)
}

/// Removes the folder and all that is in it, however deep, and whatever its owner may do with it. Nobody may be at work
/// in it any more. No error if it is not there.
///
/// What is nested is moved up before it is looked into: so neither the length of a path nor the number of open files
/// is a bound.
pub fn remove(path: &Path) -> std::io::Result<()> {
    let root = match open(path) {
        Ok(root) => root,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    rustix::fs::chmodat(rustix::fs::CWD, path, Mode::RWXU, AtFlags::empty())?;
    let mut moved = 0_u64;
    let mut waiting = empty(&root, &root, &mut moved)?;
    while let Some(name) = waiting.pop() {
        rustix::fs::chmodat(&root, &*name, Mode::RWXU, AtFlags::empty())?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(&root, &*name, flags, Mode::empty())?;
        waiting.extend(empty(&folder, &root, &mut moved)?);
        rustix::fs::unlinkat(&root, &*name, AtFlags::REMOVEDIR)?;
    }
    std::fs::remove_dir(path)
}

/// Unlinks everything in the folder but its folders, which are moved into the root; answers with their names there.
fn empty(folder: &OwnedFd, root: &OwnedFd, moved: &mut u64) -> std::io::Result<Vec<CString>> {
    let readable =
        rustix::fs::openat(folder, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let names: Vec<CString> = rustix::fs::Dir::new(readable)?
        .map(|entry| entry.map(|entry| entry.file_name().to_owned()))
        .collect::<Result<_, _>>()?;
    let mut folders = Vec::new();
    for name in names.iter().filter(|name| !matches!(name.to_bytes(), b"." | b"..")) {
        let stat = rustix::fs::statat(folder, &**name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            rustix::fs::unlinkat(folder, &**name, AtFlags::empty())?;
            continue;
        }
        // To be moved, a folder must be writable: its entry ".." changes.
        rustix::fs::chmodat(folder, &**name, Mode::RWXU, AtFlags::empty())?;
        let free = loop {
            *moved += 1;
            let free = CString::new(format!("moved-{moved}"))?;
            match rustix::fs::renameat_with(folder, &**name, root, &*free, RenameFlags::NOREPLACE) {
                Ok(()) => break free,
                Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        };
        folders.push(free);
    }
    Ok(folders)
}

/// It was there a moment ago: the tool is at work.
fn vanished(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests;
