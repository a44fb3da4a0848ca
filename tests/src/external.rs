//! The same in processes of their own: the engine, the four lanes, and `m87 run --lanes external`.

use crate::Scene;
use crate::scene::JOB_TIMEOUT;
use std::net::TcpListener;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

pub const LANES: [&str; 4] = ["proposer", "governance", "runner", "memory"];

/// What runs beside a scene. Everything ends with it.
pub struct External<'a> {
    scene: &'a Scene,
    port: u16,
    engine: Child,
    lanes: Vec<(&'static str, Child)>,
    run: Option<Child>,
}

impl<'a> External<'a> {
    /// Starts the engine alone.
    pub fn engine(scene: &'a Scene) -> Self {
        let port = free_port();
        Self { scene, port, engine: engine(scene, port), lanes: Vec::new(), run: None }
    }

    /// Starts the engine, then the run, then the lanes as soon as their credentials are written.
    pub fn start(scene: &'a Scene) -> Self {
        let mut external = Self::engine(scene);
        external.begin();
        external
    }

    /// Starts the run and the lanes.
    pub fn begin(&mut self) {
        let address = self.address();
        let more = ["--engine", &address, "--authority-listen", "127.0.0.1:0", "--lanes", "external"];
        self.run = Some(self.scene.start(&more));
        self.lanes = LANES.into_iter().map(|name| (name, lane(self.scene, self.port, name))).collect();
    }

    /// `host:port` of the engine, an open gateway like a plain Zeebe.
    pub fn address(&self) -> String {
        address(self.port)
    }

    pub fn restart_engine(&mut self) {
        end(&mut self.engine);
        self.engine = engine(self.scene, self.port);
    }

    pub fn restart_lane(&mut self, name: &str) {
        let (name, child) = self.lanes.iter_mut().find(|(known, _)| *known == name).unwrap();
        end(child);
        *child = lane(self.scene, self.port, name);
    }

    /// Kills the lane and does not start it again.
    pub fn stop_lane(&mut self, name: &str) {
        end(&mut self.lanes.iter_mut().find(|(known, _)| *known == name).unwrap().1);
    }

    /// Waits for the run's end; fails the test if it does not come.
    pub fn finish(&mut self, limit: Duration) -> i32 {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.run.as_mut().unwrap().try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(begun.elapsed() < limit, "m87 run hangs: not ended after {limit:?}\n{}", self.scene.logs());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for External<'_> {
    fn drop(&mut self) {
        self.run.iter_mut().for_each(end);
        end(&mut self.engine);
        for (_, child) in &mut self.lanes {
            end(child);
        }
    }
}

fn address(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

/// A port that nobody listens on now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn spawn(scene: &Scene, name: &str, arguments: &[&str]) -> Child {
    let log = || {
        std::fs::File::options()
            .create(true)
            .append(true)
            .open(scene.path(&format!("{name}.log")))
            .map(Stdio::from)
            .unwrap()
    };
    scene.command(arguments).stdout(log()).stderr(log()).spawn().unwrap()
}

fn engine(scene: &Scene, port: u16) -> Child {
    let data = scene.path("engine");
    let child =
        spawn(scene, "engine", &["engine", "--listen", &format!("127.0.0.1:{port}"), "--data", data.to_str().unwrap()]);
    let begun = Instant::now();
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(20), "the engine does not listen\n{}", scene.logs());
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

fn lane(scene: &Scene, port: u16, name: &'static str) -> Child {
    let credentials = scene.out().join("keys/lanes").join(format!("{name}.json"));
    let begun = Instant::now();
    while !credentials.exists() {
        assert!(begun.elapsed() < Duration::from_secs(20), "no credentials for lane {name}\n{}", scene.logs());
        std::thread::sleep(Duration::from_millis(10));
    }
    let address = address(port);
    let arguments = ["worker", "--lane", name, "--engine", &address, "--credentials", credentials.to_str().unwrap()];
    spawn(scene, name, &[&arguments[..], &["--job-timeout", JOB_TIMEOUT]].concat())
}
