//! `m87 engine` as a server of its own, and `m87 run` as its client.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use common::{Place, policy};
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStderr, Stdio};
use std::time::{Duration, Instant};

/// An engine that is killed with its test.
struct Engine {
    process: Child,
    lines: Lines<BufReader<ChildStderr>>,
    port: u16,
}

impl Engine {
    fn start(place: &Place, arguments: &[&str]) -> Self {
        let mut command = place.command([&["engine", "--data", "engine"], arguments].concat());
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let told = lines.next().unwrap().unwrap();
        let port = told.rsplit(':').next().unwrap().parse().unwrap_or_else(|_| panic!("{told}"));
        Self { process, lines, port }
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Puts a certificate for this machine and its key in place; whoever trusts the certificate finds it as `ca.pem` in that folder.
fn certify(place: &Place, folder: &str) {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
    place.write("shown.pem", made.cert.pem());
    place.write("shown.key", made.signing_key.serialize_pem());
    place.write(&format!("{folder}/ca.pem"), made.cert.pem());
}

#[test]
fn runs_end_by_an_engine_that_shows_a_certificate_and_by_its_successor() {
    let place = Place::new();
    certify(&place, "old");
    let tls = ["--listen", "127.0.0.1:0", "--tls-cert", "shown.pem", "--tls-key", "shown.key"];
    let mut engine = Engine::start(&place, &tls);
    let address = engine.address();
    let run = |ca: &str, out: &str| {
        place.run(&policy(), &["--engine", &address, "--engine-ca-file", &format!("{ca}/ca.pem"), "--out", out])
    };
    let done = run("old", "first");
    assert_eq!((done.code, done.runs().len()), (0, 11), "{done:?}");

    // What is in the files is shown from then on, to new connections, without a restart.
    certify(&place, "new");
    let told = engine.lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("new certificate"))).unwrap();
    assert!(told.unwrap().contains("shown from now on"));
    let done = run("new", "second");
    assert_eq!((done.code, done.runs().len()), (0, 11), "{done:?}");
}

#[test]
fn an_engine_that_shows_another_certificate_gets_no_run() {
    let place = Place::new();
    certify(&place, "foreign");
    certify(&place, "shown");
    let engine =
        Engine::start(&place, &["--listen", "127.0.0.1:0", "--tls-cert", "shown.pem", "--tls-key", "shown.key"]);
    for more in [&["--engine-ca-file", "foreign/ca.pem"][..], &[]] {
        let address = engine.address();
        let files = policy();
        let mut arguments = vec!["run", "-f", files.to_str().unwrap(), "--engine", &address, "--out", "out"];
        arguments.extend(more);
        let mut run = place.command(arguments).stderr(Stdio::piped()).spawn().unwrap();
        let (begun, mut lines) = (Instant::now(), BufReader::new(run.stderr.take().unwrap()).lines());
        let told = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("waiting for the engine")));
        assert!(told.is_some() && begun.elapsed() < Duration::from_secs(30));
        // Long enough for all of them, had it an engine.
        std::thread::sleep(Duration::from_secs(10));
        assert!(run.try_wait().unwrap().is_none(), "it ends without its engine");
        run.kill().unwrap();
        run.wait().unwrap();
    }
    assert_eq!(std::fs::read_dir(place.path("out/receipts")).map_or(0, Iterator::count), 0, "a run ended");
    let done = place.run(&policy(), &["--engine", "127.0.0.1:1", "--engine-ca-file", "no/ca.pem", "--out", "other"]);
    assert!(done.code != 0 && done.err.contains("--engine-ca-file no/ca.pem"), "{done:?}");
}

#[test]
fn plain_text_beyond_this_machine_is_served_when_it_is_asked_for() {
    let place = Place::new();
    let engine = Engine::start(&place, &["--listen", "0.0.0.0:0", "--insecure"]);
    let done = place.run(&policy(), &["--engine", &engine.address()]);
    assert_eq!((done.code, done.runs().len()), (0, 11), "{done:?}");
}
