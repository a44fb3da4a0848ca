//! The store, taken back to an older copy and starved of room.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
// The harness captures what is printed; a skip must be seen.
#![allow(clippy::explicit_write)]

use m87_tests::Scene;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(90);

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
}

#[test]
fn effect_at_most_once_when_an_older_store_is_restored() {
    let scene = Scene::new();
    scene.appending("0").runs(1);
    assert_eq!(scene.finish(&[], LIMIT), 0, "{}", scene.logs());
    copy(&scene.out().join("store"), &scene.path("backup"));
    scene.runs(2);
    assert_eq!(scene.finish(&[], LIMIT), 0, "{}", scene.logs());
    std::fs::remove_dir_all(scene.out().join("store")).unwrap();
    copy(&scene.path("backup"), &scene.out().join("store"));
    // run-2 is unknown to the restored store; only the mark outside it knows that something was dispatched.
    let code = scene.finish(&[], LIMIT);
    assert_eq!(code, 1, "{}", scene.logs());
    assert_eq!(scene.effects().get("run-2"), Some(&1), "{}", scene.logs());
    let logs = scene.logs();
    assert!(logs.contains("m87 store accept"), "it says what to do: {logs}");
    // Accepted by name, and then new runs go ahead again.
    let accepted = scene.output(&["store", "accept", "--out", scene.out().to_str().unwrap()]);
    assert!(accepted.status.success(), "{}", String::from_utf8_lossy(&accepted.stderr));
    scene.write("runs.yaml", &m87_tests::scene::run("run-3"));
    assert_eq!(scene.finish(&[], LIMIT), 0, "{}", scene.logs());
    assert_eq!(scene.effects().get("run-3"), Some(&1));
    // The receipt of the history that was left is still true by itself, and is not in the log that there is now.
    let [receipts, log] = ["receipts", "log"].map(|name| scene.out().join(name).to_str().unwrap().to_owned());
    let verified = scene.output(&["receipt", "verify", &receipts, &log, "--key", &scene.public_key()]);
    let text = String::from_utf8_lossy(&verified.stdout);
    let failed: Vec<_> = text.lines().filter(|line| line.starts_with("FAILED")).collect();
    assert!(!verified.status.success() && failed.len() == 1 && failed[0].contains("run-2.json"), "{text}");
}

#[test]
fn a_signing_key_is_never_silently_replaced() {
    let scene = Scene::new();
    scene.appending("0").runs(1);
    assert_eq!(scene.finish(&[], LIMIT), 0, "{}", scene.logs());
    let (key, aside) = (scene.out().join("keys/signing.pem"), scene.path("signing.pem"));
    std::fs::rename(&key, &aside).unwrap();
    assert_eq!(scene.finish(&[], LIMIT), 1, "{}", scene.logs());
    assert!(scene.logs().contains("the signing key is gone"), "{}", scene.logs());
    std::fs::rename(&aside, &key).unwrap();
    let (other, elsewhere, files) = (scene.path("other.pem"), scene.path("elsewhere"), scene.files());
    let [other_key, elsewhere, files] = [&other, &elsewhere, &files].map(|path| path.to_str().unwrap());
    assert!(scene.output(&["run", "-f", files, "--out", elsewhere, "--key", other_key]).status.success());
    assert_eq!(scene.finish(&["--key", other.to_str().unwrap()], LIMIT), 1, "{}", scene.logs());
    assert!(scene.logs().contains("another key signs in this folder"), "{}", scene.logs());
    assert_eq!(scene.finish(&[], LIMIT), 0, "{}", scene.logs());
    assert_eq!(scene.outcomes()[0].terminal, "COMPLETE");
    scene.assert_receipts_verify();
}

#[test]
fn effect_at_most_once_when_the_store_is_lost() {
    let scene = Scene::new();
    scene.appending("0").runs(1);
    assert_eq!(scene.finish(&[], LIMIT), 0, "{}", scene.logs());
    let (store, aside) = (scene.out().join("store"), scene.path("aside"));
    std::fs::rename(&store, &aside).unwrap();
    for empty in [false, true] {
        if empty {
            std::fs::create_dir(&store).unwrap();
            std::fs::write(store.join("authority.db"), "").unwrap();
        }
        assert_eq!(scene.finish(&[], LIMIT), 1, "{}", scene.logs());
        assert!(scene.logs().contains("the store is gone"), "it says why: {}", scene.logs());
    }
    assert_eq!(scene.effects().get("run-1"), Some(&1), "{}", scene.logs());
    // Put back, it knows what was done.
    std::fs::remove_dir_all(&store).unwrap();
    std::fs::rename(&aside, &store).unwrap();
    assert_eq!(scene.finish(&[], LIMIT), 0, "{}", scene.logs());
    scene.assert_invariants(1);
}

/// A file system of 256 MiB on the scene's out folder; unmounted with it. `None`, and said so, where mounting is not allowed.
struct SmallDisk<'a>(&'a Scene);

impl<'a> SmallDisk<'a> {
    fn mount(test: &str, scene: &'a Scene) -> Option<Self> {
        std::fs::create_dir_all(scene.out()).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=256m,mode=700", "tmpfs", scene.out().to_str().unwrap()])
            .status()
            .is_ok_and(|status| status.success());
        if !mounted {
            // Not by a macro, whose output a passing test keeps to itself.
            writeln!(std::io::stderr(), "\n-- skipped: {test}: a small file system cannot be mounted here").unwrap();
        }
        mounted.then_some(Self(scene))
    }

    /// Leaves this many bytes free.
    fn fill(&self, leave: u64) {
        let filling = self.0.out().join("filling");
        let mut file = std::fs::File::create(filling).unwrap();
        let block = vec![1_u8; 64 * 1024];
        while free(&self.0.out()) > leave && file.write_all(&block).is_ok() {}
    }

    fn clear(&self) {
        std::fs::remove_file(self.0.out().join("filling")).unwrap();
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.out()).status();
    }
}

fn free(path: &Path) -> u64 {
    let status = rustix::fs::statvfs(path).unwrap();
    status.f_bavail * status.f_frsize
}

#[test]
fn a_full_disk_stops_dispatch_and_loses_nothing() {
    let scene = Scene::new();
    scene.appending("0").runs(2);
    let Some(disk) = SmallDisk::mount("a_full_disk_stops_dispatch_and_loses_nothing", &scene) else { return };
    scene.write("runs.yaml", &m87_tests::scene::run("run-0"));
    assert_eq!(scene.finish(&[], LIMIT), 0, "with room it works: {}", scene.logs());
    scene.runs(2);
    // Some room, but not the reserved headroom: nothing new is dispatched, and the refusals have their receipts.
    disk.fill(16 * 1024 * 1024);
    assert_eq!(scene.finish(&[], LIMIT), 1, "{}", scene.logs());
    assert_eq!(scene.effects().get("run-1"), None, "{}", scene.logs());
    for outcome in scene.outcomes().iter().filter(|outcome| outcome.run != "run-0") {
        assert_eq!((outcome.terminal.as_str(), outcome.reason.as_deref()), ("FAILED", Some("ContractRefused")));
    }
    disk.clear();
    scene.write("runs.yaml", &m87_tests::scene::run("run-9"));
    assert_eq!(scene.finish(&[], LIMIT), 0, "with room again it works: {}", scene.logs());
    scene.assert_receipts_verify();
}

#[test]
fn what_runs_is_sealed_when_the_disk_fills_up_under_it() {
    let scene = Scene::new();
    let full = scene.path("full");
    scene.appending(&format!("0; while [ ! -e {} ]; do sleep 0.1; done", full.display())).runs(1);
    let Some(disk) = SmallDisk::mount("what_runs_is_sealed_when_the_disk_fills_up_under_it", &scene) else { return };
    let mut child = scene.start(&[]);
    let begun = Instant::now();
    while scene.effects().is_empty() {
        assert!(begun.elapsed() < LIMIT, "no effect\n{}", scene.logs());
        std::thread::sleep(Duration::from_millis(10));
    }
    let reserve = scene.out().join("store/reserve");
    assert!(reserve.exists(), "no room was kept to seal in");
    disk.fill(0);
    std::fs::write(&full, "").unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < LIMIT, "it hangs\n{}", scene.logs());
        std::thread::sleep(Duration::from_millis(50));
    }
    // It ended, with its receipt, on a disk on which nobody made room but m87 itself.
    assert!(scene.out().join("filling").exists());
    assert!(!reserve.exists(), "sealed without the reserve: the disk was not full\n{}", scene.logs());
    scene.assert_invariants(1);
    // The tool found no room for its artifact; its line among the effects was there before, elsewhere.
    let outcome = &scene.outcomes()[0];
    assert_eq!(
        (outcome.terminal.as_str(), outcome.reason.as_deref(), outcome.effect.as_str()),
        ("FAILED", Some("ToolFailed"), "dispatched"),
        "{}",
        scene.logs()
    );
    // With room again the next run works, and room is kept again.
    disk.clear();
    scene.write("runs.yaml", &m87_tests::scene::run("run-2"));
    assert_eq!(scene.finish(&[], LIMIT), 0, "{}", scene.logs());
    assert!(reserve.exists(), "no room is kept any more");
    scene.assert_invariants(2);
}
