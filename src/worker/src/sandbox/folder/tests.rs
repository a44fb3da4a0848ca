#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
use super::*;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};

fn folder() -> (tempfile::TempDir, OwnedFd) {
    let folder = tempfile::tempdir().unwrap();
    let handle = open(folder.path()).unwrap();
    (folder, handle)
}

#[test]
fn a_regular_file_is_read() {
    let (folder, handle) = folder();
    std::fs::write(folder.path().join("a"), "text").unwrap();
    let mut text = String::new();
    open_regular(&handle, "a").unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "text");
}

#[test]
fn nothing_but_a_regular_file_with_one_name_is_opened() {
    let (folder, handle) = folder();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("file"), "text").unwrap();
    symlink("file", path("symlink")).unwrap();
    symlink("nowhere", path("dangling")).unwrap();
    symlink("/dev/zero", path("to-device")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, path("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    std::fs::create_dir(path("folder")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
    for name in ["symlink", "dangling", "to-device", "fifo", "folder", "socket"] {
        assert!(matches!(open_regular(&handle, name), Err(NoFile::NotRegular)), "{name}");
    }
    std::fs::hard_link(path("file"), path("second-name")).unwrap();
    for name in ["file", "second-name"] {
        assert!(matches!(open_regular(&handle, name), Err(NoFile::NotRegular)), "{name}");
    }
    assert!(matches!(open_regular(&handle, "absent"), Err(NoFile::Absent)));
}

#[test]
fn a_name_that_leads_elsewhere_is_no_name() {
    let (folder, handle) = folder();
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    std::fs::write(folder.path().join("sub/file"), "text").unwrap();
    for name in ["", ".", "..", "/etc/passwd", "sub/file", "../x", "a\0b"] {
        assert!(matches!(open_regular(&handle, name), Err(NoFile::NotAName)), "{name:?}");
    }
}

#[test]
fn the_handle_stays_on_the_folder_that_was_opened() {
    let outer = tempfile::tempdir().unwrap();
    let out = outer.path().join("out");
    make_private(&out).unwrap();
    let handle = open(&out).unwrap();
    std::fs::rename(&out, outer.path().join("gone")).unwrap();
    symlink("/etc", &out).unwrap();
    assert!(matches!(open_regular(&handle, "passwd"), Err(NoFile::Absent)));
    assert!(open(&out).is_err());
}

#[test]
fn written_bytes_are_counted_in_all_folders_and_links_are_not_followed() {
    let (folder, _) = folder();
    std::fs::create_dir_all(folder.path().join("a/b")).unwrap();
    std::fs::write(folder.path().join("one"), [0; 10]).unwrap();
    std::fs::write(folder.path().join("a/b/two"), [0; 7]).unwrap();
    symlink("/", folder.path().join("root")).unwrap();
    assert_eq!(bytes_below(folder.path()), Some(17));
}

#[test]
fn what_cannot_be_counted_has_no_count() {
    let (folder, _) = folder();
    let mut deep = folder.path().to_owned();
    // Deeper than any path can say: made step by step from inside, as a tool would.
    let mut handle = open(folder.path()).unwrap();
    for _ in 0..30 {
        let name = "d".repeat(200);
        rustix::fs::mkdirat(&handle, &*name, Mode::RWXU).unwrap();
        handle = rustix::fs::openat(&handle, &*name, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        deep.push(name);
    }
    assert!(deep.as_os_str().len() > 4096);
    assert_eq!(bytes_below(folder.path()), None);
}

#[test]
fn private_folders_and_read_only_files_are_so_and_replace_nothing() {
    let outer = tempfile::tempdir().unwrap();
    let path = outer.path().join("p");
    make_private(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(make_private(&path).is_err());
    let file = path.join("input.json");
    write_read_only(&file, b"{}").unwrap();
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o400);
    assert!(write_read_only(&file, b"other").is_err());
    assert_eq!(std::fs::read(&file).unwrap(), b"{}");
}

#[test]
fn a_folder_is_removed_whatever_was_made_of_it() {
    let outer = tempfile::tempdir().unwrap();
    let path = outer.path().join("work");
    make_private(&path).unwrap();
    let mut handle = open(&path).unwrap();
    // More levels than there may be open files, and longer than any path.
    for level in 0..1200 {
        let name = if level % 3 == 0 { "moved-1" } else { "d" };
        rustix::fs::mkdirat(&handle, name, Mode::RWXU).unwrap();
        let below = rustix::fs::openat(&handle, name, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        rustix::fs::mkdirat(&below, "closed", Mode::empty()).unwrap();
        rustix::fs::mknodat(&below, "fifo", FileType::Fifo, Mode::empty(), 0).unwrap();
        rustix::fs::symlinkat("/etc", &below, "link").unwrap();
        handle = below;
    }
    drop(handle);
    remove(&path).unwrap();
    assert!(!path.exists() && Path::new("/etc/passwd").exists());
    remove(&path).unwrap();
    symlink("/etc", &path).unwrap();
    assert!(remove(&path).is_err(), "a link is not a folder");
}
