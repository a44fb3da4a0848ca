//! A folder with a policy, a manifest and runs; the binary run over it; and what came of it.

use crate::processes;
use base64::Engine as _;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The built binary, beside the tests in the target folder.
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("M87_BINARY") {
        return path.into();
    }
    let path = std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().join("m87");
    assert!(path.exists(), "{} is not built; run cargo build first", path.display());
    path
}

/// Seconds after which a job is taken from a worker that was killed: few, so that a test sees it go on.
pub(crate) const JOB_TIMEOUT: &str = "3";

/// What one receipt says, read from its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub run: String,
    pub uid: String,
    pub terminal: String,
    pub reason: Option<String>,
    pub effect: String,
}

/// One test's own folder. What is started in it ends with it.
pub struct Scene {
    folder: tempfile::TempDir,
}

impl Default for Scene {
    fn default() -> Self {
        Self::new()
    }
}

impl Scene {
    /// A folder with a policy that lets the test's own user run everything in the manifest.
    pub fn new() -> Self {
        let scene = Self { folder: tempfile::Builder::new().prefix("m87-scene-").tempdir().unwrap() };
        std::fs::create_dir(scene.path("files")).unwrap();
        scene.write("policy.yaml", POLICY);
        scene
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn files(&self) -> PathBuf {
        self.path("files")
    }

    pub fn out(&self) -> PathBuf {
        self.path("out")
    }

    /// Puts a file beside the policy.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.files().join(name), text).unwrap();
    }

    /// A manifest with one tool, `append`: it appends the run's name to the file of effects, waits, and leaves an artifact.
    pub fn appending(&self, seconds: &str) -> &Self {
        let script = format!(
            r#"name=$(sed 's/.*"name":"\([^"]*\)".*/\1/' "$M87_INPUT"); echo "$name" >> {effects}; sleep {seconds}; echo "$name" > "$M87_OUTPUT/artifact"; echo '{{"steps":1}}' > "$M87_USAGE""#,
            effects = self.path("effects").display()
        );
        self.manifest(&script)
    }

    /// A manifest with one tool, `append`, that runs this script by `sh -c`.
    pub fn manifest(&self, script: &str) -> &Self {
        let argv = serde_json::json!(["sh", "-c", script]);
        self.write("tools.yaml", &MANIFEST.replace("ARGV", &argv.to_string()));
        self
    }

    /// A manifest with many tools, each as [`tool`] writes it.
    pub fn tools(&self, tools: &[String]) -> &Self {
        let (head, _) = MANIFEST.split_once("  - name").unwrap();
        self.write("tools.yaml", &(head.to_owned() + &tools.concat()));
        self
    }

    /// Runs named `run-1` … that all ask for the tool.
    pub fn runs(&self, count: usize) -> &Self {
        let text: Vec<String> = (1..=count).map(|n| run(&format!("run-{n}"))).collect();
        self.write("runs.yaml", &text.join("---\n"));
        self
    }

    /// The binary with these arguments.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    /// `m87 run` over the scene's files, started and not waited for; its output goes to files.
    pub fn start(&self, more: &[&str]) -> Child {
        let log = |name: &str| {
            std::fs::File::options().create(true).append(true).open(self.path(name)).map(Stdio::from).unwrap()
        };
        let mut command = self.command(&["run", "-f", self.files().to_str().unwrap()]);
        command.args(["--out", self.out().to_str().unwrap(), "--job-timeout", JOB_TIMEOUT]).args(more);
        command.stdout(log("stdout")).stderr(log("stderr")).spawn().unwrap()
    }

    /// `m87 run` over the scene's files, to its end. Fails the test if that takes longer than `limit`.
    pub fn finish(&self, more: &[&str], limit: Duration) -> i32 {
        let mut child = self.start(more);
        let begun = Instant::now();
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            if begun.elapsed() > limit {
                let _ = child.kill();
                panic!("m87 run hangs: not ended after {limit:?}\n{}", self.logs());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The binary with these arguments, to its end.
    pub fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What `m87 run` printed so far.
    pub fn logs(&self) -> String {
        ["stdout", "stderr"].map(|name| std::fs::read_to_string(self.path(name)).unwrap_or_default()).concat()
    }

    /// How often each run's effect happened.
    pub fn effects(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for line in std::fs::read_to_string(self.path("effects")).unwrap_or_default().lines() {
            *counts.entry(line.to_owned()).or_default() += 1;
        }
        counts
    }

    /// The run's receipt, as its bundle's envelope has it.
    pub fn receipt(&self, run: &str) -> Value {
        predicate(&self.out().join("receipts/default").join(format!("{run}.json")))
    }

    /// What every receipt says.
    pub fn outcomes(&self) -> Vec<Outcome> {
        self.bundles().iter().map(|path| outcome(path)).collect()
    }

    /// The bundles' files, sorted.
    pub fn bundles(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        collect(&self.out().join("receipts"), &mut found);
        found.sort();
        found
    }

    /// The invariants that hold after every fault: each run ended once, its effect happened at most once, COMPLETE is
    /// never without it, HALT and REJECT_MANIFEST never with it, and every receipt can be recomputed.
    pub fn assert_invariants(&self, runs: usize) {
        let (outcomes, effects) = (self.outcomes(), self.effects());
        let context = || format!("outcomes {outcomes:#?}\neffects {effects:#?}\n{}", self.logs());
        let names: std::collections::BTreeSet<_> = outcomes.iter().map(|outcome| &outcome.run).collect();
        assert_eq!((names.len(), outcomes.len()), (runs, runs), "one terminal for each run: {}", context());
        for outcome in &outcomes {
            let happened = effects.get(&outcome.run).copied().unwrap_or(0);
            assert!(happened <= 1, "the effect of {} happened {happened} times: {}", outcome.run, context());
            match outcome.terminal.as_str() {
                "COMPLETE" => assert_eq!(happened, 1, "{} is COMPLETE without effect: {}", outcome.run, context()),
                "HALT" | "REJECT_MANIFEST" => {
                    assert_eq!(happened, 0, "{} is {} with effect: {}", outcome.run, outcome.terminal, context());
                }
                "FAILED" | "REJECT_VERIFY" => {}
                other => panic!("{other} is no terminal: {}", context()),
            }
        }
        self.assert_receipts_verify();
    }

    /// Every receipt passes the offline verification with the scene's own key.
    pub fn assert_receipts_verify(&self) {
        let key = self.public_key();
        for bundle in self.bundles() {
            let output = self.output(&["receipt", "verify", bundle.to_str().unwrap(), "--key", &key]);
            let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: {text}", bundle.display());
        }
    }

    /// Where the key to verify with stands.
    pub fn public_key(&self) -> String {
        self.out().join("keys/signing.pub.pem").to_str().unwrap().to_owned()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for process in processes::of_scene(self.folder.path()) {
            processes::kill(process.pid);
        }
    }
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => collect(&path, found),
            false => found.push(path),
        }
    }
}

fn predicate(bundle: &Path) -> Value {
    let bundle: Value = serde_json::from_slice(&std::fs::read(bundle).unwrap()).unwrap();
    let payload = bundle["envelope"]["payload"].as_str().expect("a bundle has an envelope with a payload");
    let payload = base64::engine::general_purpose::STANDARD.decode(payload).unwrap();
    let statement: Value = serde_json::from_slice(&payload).unwrap();
    statement["predicate"].clone()
}

fn outcome(bundle: &Path) -> Outcome {
    let predicate = predicate(bundle);
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Outcome {
        run: text(&predicate["run"]["name"]).unwrap(),
        uid: text(&predicate["run"]["uid"]).unwrap(),
        terminal: text(&predicate["terminal"]).unwrap(),
        reason: text(&predicate["reason"]),
        effect: text(&predicate["effect"]).unwrap(),
    }
}

/// A run of that name that asks for the tool.
pub fn run(name: &str) -> String {
    RUN.replace("NAME", name)
}

/// A run of that name that asks for the tool of that name.
pub fn run_of(name: &str, tool: &str) -> String {
    run(name).replace("tool: append", &format!("tool: {tool}"))
}

/// A manifest's entry for a tool that runs this script by `sh -c` under limits such as `seconds: 2`; the others stay.
pub fn tool(name: &str, script: &str, limits: &[&str]) -> String {
    let argv = serde_json::json!(["sh", "-c", script]).to_string();
    let (_, entry) = MANIFEST.split_once("  tools:\n").unwrap();
    let (run, validation) = entry.split_once("    validation:").unwrap();
    let mut run = run.replace("name: append", &format!("name: {name}")).replace("ARGV", &argv);
    for limit in limits {
        let (field, _) = limit.split_once(": ").unwrap();
        let (before, after) = run.split_once(&format!("{field}: ")).unwrap();
        let end = after.find([',', '}']).unwrap();
        run = format!("{before}{limit}{}", &after[end..]);
    }
    format!("{run}    validation:{validation}")
}

const POLICY: &str = r#"apiVersion: m87.dev/v1alpha1
kind: GovernancePolicy
metadata: {name: policy}
spec:
  constraints:
    risksAllowed: [low, medium]
    targetsForbidden: ["things/forbidden/**"]
    actorsAllowed: ["**"]
  autonomyBudget:
    steps: {limit: 20}
    toolCalls: {limit: 1}
    seconds: {limit: 60}
    artifactBytes: {limit: 1048576}
    reported: [steps]
  approvals:
    autoApprove: {riskAtMost: medium, nonHumans: []}
"#;

const MANIFEST: &str = r#"apiVersion: m87.dev/v1alpha1
kind: ToolManifest
metadata: {name: tools}
spec:
  tools:
  - name: append
    version: 1.0.0
    provides: [things.append]
    actionType: append
    targetsAllowed: ["things/**"]
    targetFrom: {pointer: /name, prefix: things/}
    riskClass: low
    reversibility: Reversible
    enabled: true
    effects: [{kind: file, operation: create, targetType: line}]
    inputSchema: {type: object, required: [name], properties: {name: {type: string}}, additionalProperties: false}
    run:
      command:
        argv: ARGV
        artifact: artifact
        limits: {seconds: 30, cpuSeconds: 30, memoryBytes: 1073741824, outputBytes: 10485760, processes: 64}
    validation:
      argv: [sh, -c, 'grep -q . "$M87_ARTIFACT"']
      limits: {seconds: 10, cpuSeconds: 10, memoryBytes: 1073741824, outputBytes: 1048576, processes: 16}
"#;

const RUN: &str = r#"apiVersion: m87.dev/v1alpha1
kind: GovernedRun
metadata: {name: NAME}
spec:
  policyRef: {name: policy}
  manifestRef: {name: tools}
  proposal:
    tool: append
    actionType: append
    target: things/NAME
    risk: low
    reasoningTrace: The line must be there.
    input: {name: NAME}
"#;
