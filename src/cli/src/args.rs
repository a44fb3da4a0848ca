//! The command line.

use crate::kube::args::{KubeArguments, TenantArguments};
use crate::local::ground::Times;
use crate::logs::Format;
use crate::operator::OperatorArguments;
use crate::worker::WorkerArguments;
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use m87_core::time::Timestamp;
use m87_zeebe::WorkerOptions;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Lets only a governed proposal become an action, and leaves a receipt that anyone can recompute.
///
/// Exit codes: 0 as asked; 1 a run ended otherwise than expected, a check failed, or it could not be done; 2 the input is
/// invalid and nothing was run; 3 (receipt verify) everything holds, but without --key nobody knows who signed.
#[derive(Debug, Parser)]
#[command(name = "m87", version, propagate_version = true)]
pub(crate) struct Arguments {
    /// Log to the standard error; repeat for more. The variable M87_LOG says it in detail.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// How the log is written [default: json for the operator, else text].
    #[arg(long, global = true, value_enum, env = "M87_LOG_FORMAT")]
    pub(crate) log_format: Option<Format>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run every GovernedRun of some files, to its terminal and receipt.
    Run(RunArguments),
    /// Show what would be planned and decided. Nothing is opened, run or written. Exit code 1 if some run would end otherwise
    /// than it should: COMPLETE, or as its annotation m87.dev/expect-terminal says.
    Plan(PlanArguments),
    /// Show why a run ended, or would be refused, clause by clause.
    Explain(ExplainArguments),
    /// Print the hash that receipts use of a JSON or YAML document.
    Hash(HashArguments),
    /// Check processes.
    Bpmn(BpmnArguments),
    /// List, show and verify receipts.
    Receipt(ReceiptArguments),
    /// Write the files that are generated from the code, or check that they are current.
    Gen(GenArguments),
    /// Reconcile the custom resources of a cluster.
    Operator(Box<OperatorArguments>),
    /// Serve the embedded engine to Zeebe clients.
    Engine(EngineArguments),
    /// Do the jobs of one lane.
    Worker(WorkerArguments),
    /// What belongs to an out folder's store.
    Store(StoreArguments),
    /// Ask of runs on a cluster; the same as `kubectl m87`.
    Kube(KubeArguments),
    /// Print what a namespace's administrator applies so that tools may run there. No cluster is asked.
    Tenant(TenantArguments),
    /// Print a completion script.
    Completions {
        /// For which shell.
        shell: clap_complete::Shell,
    },
    /// Print a manual page.
    Man(ManArguments),
    /// One attempt to run a tool or to validate; started by the authority's executor.
    #[command(hide = true)]
    Exec(ExecArguments),
    /// Run a tool's command; started by `exec`.
    #[command(hide = true)]
    Shim(ShimArguments),
    /// Ask a /readyz until it is ready; for `helm test`.
    #[command(hide = true)]
    Ready(ReadyArguments),
    /// Copy this program, for containers of other images.
    #[command(hide = true)]
    InstallSelf {
        /// Where to; an absolute path.
        path: PathBuf,
    },
}

/// Which objects.
#[derive(Debug, Args)]
pub(crate) struct Files {
    /// A file, or a folder of *.yaml, *.yml and *.json; may be repeated.
    #[arg(short = 'f', long = "file", value_name = "PATH", required = true)]
    pub(crate) files: Vec<PathBuf>,
}

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people.
    Table,
    /// For programs: one JSON document.
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(crate) files: Files,
    /// Where everything of these runs is kept. Running again over the same folder repeats no action.
    #[arg(long, value_name = "DIR", default_value = "m87-out")]
    pub(crate) out: PathBuf,
    /// How to print the result.
    #[arg(short, long, value_enum, default_value = "table")]
    pub(crate) output: Output,
    /// Freeze the recorded time at this RFC 3339 instant, so that receipts can be made again byte for byte.
    #[arg(long, value_name = "INSTANT", value_parser = instant)]
    pub(crate) clock: Option<Timestamp>,
    /// The signing key, PKCS#8 PEM; made if absent. Default: keys/signing.pem in the out folder.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// The user who proposes; default: who runs this command.
    #[arg(long = "as", value_name = "USER")]
    pub(crate) user: Option<String>,
    /// Use the Zeebe gateway at this host:port instead of the embedded engine.
    #[arg(long, value_name = "ADDR")]
    pub(crate) engine: Option<String>,
    /// The certificate authority of that gateway, PEM, read anew at each connection. Without it, the gateway is spoken to in plain text.
    #[arg(long, value_name = "FILE", requires = "engine")]
    pub(crate) engine_ca_file: Option<PathBuf>,
    /// Serve the authority here, for lanes in processes of their own.
    #[arg(long, value_name = "ADDR")]
    pub(crate) authority_listen: Option<SocketAddr>,
    /// Who does the lanes' jobs.
    #[arg(
        long,
        value_enum,
        default_value = "embedded",
        requires_if("external", "engine"),
        requires_if("external", "authority_listen")
    )]
    pub(crate) lanes: Lanes,
    #[command(flatten)]
    pub(crate) jobs: Jobs,
    #[command(flatten)]
    pub(crate) attempts: Attempts,
}

impl RunArguments {
    /// How long who is waited for.
    pub(crate) const fn times(&self) -> Times {
        Times {
            lease: self.jobs.timeout(),
            start_limit: Duration::from_secs(self.attempts.start_limit),
            report_margin: Duration::from_secs(self.attempts.report_margin),
            report_grace: Duration::from_secs(self.attempts.report_grace),
        }
    }
}

/// How long the processes of tools are waited for.
#[derive(Debug, Args)]
pub(crate) struct Attempts {
    /// How long a tool's process may take to start; then its contract is void.
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) start_limit: u64,
    /// How long after a tool's own limit its report is waited for; then the outcome is unknown.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) report_margin: u64,
    /// How long after a tool's own limit its process tries to report.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) report_grace: u64,
}

/// How a worker holds its jobs.
#[derive(Debug, Args)]
pub(crate) struct Jobs {
    /// How long a job stays with its worker without a sign of life; then another worker gets it.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) job_timeout: u64,
}

impl Jobs {
    /// How long a job stays with its worker.
    pub(crate) const fn timeout(&self) -> Duration {
        Duration::from_secs(self.job_timeout)
    }

    /// A worker's options under that name.
    pub(crate) fn options(&self, worker: &str) -> WorkerOptions {
        WorkerOptions { timeout: self.timeout(), ..WorkerOptions::new(worker) }
    }
}

/// Who does the lanes' jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Lanes {
    /// This process, under four identities.
    Embedded,
    /// `m87 worker` processes, with the credentials that are written into the out folder.
    External,
}

#[derive(Debug, Args)]
pub(crate) struct PlanArguments {
    #[command(flatten)]
    pub(crate) files: Files,
    /// How to print the result.
    #[arg(short, long, value_enum, default_value = "table")]
    pub(crate) output: Output,
    /// The user who proposes; default: who runs this command.
    #[arg(long = "as", value_name = "USER")]
    pub(crate) user: Option<String>,
}

#[derive(Debug, Args)]
#[group(skip)]
#[command(group(ArgGroup::new("what").required(true).args(["run", "files"])))]
pub(crate) struct ExplainArguments {
    /// A run of the out folder, as NAME or NAMESPACE/NAME.
    #[arg(value_name = "RUN")]
    pub(crate) run: Option<String>,
    /// Objects to judge as they stand, without running them; may be repeated.
    #[arg(short = 'f', long = "file", value_name = "PATH")]
    pub(crate) files: Vec<PathBuf>,
    /// The out folder of the run.
    #[arg(long, value_name = "DIR", default_value = "m87-out")]
    pub(crate) out: PathBuf,
    /// How to print.
    #[arg(short, long, value_enum, default_value = "table")]
    pub(crate) output: Output,
    /// The user who proposes; default: who runs this command.
    #[arg(long = "as", value_name = "USER")]
    pub(crate) user: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct HashArguments {
    /// The document; `-` for the standard input. Read as JSON if it is called *.json, else as YAML.
    pub(crate) file: PathBuf,
    /// Print the canonical text instead of its hash.
    #[arg(long)]
    pub(crate) canonical: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BpmnArguments {
    #[command(subcommand)]
    pub(crate) command: BpmnCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BpmnCommand {
    /// Read, validate, lint and prove a process.
    Check {
        /// A BPMN 2.0 file, or a *.yaml or *.json with GovernancePolicies; without it, the process that m87 ships.
        file: Option<PathBuf>,
        /// Draw it here, with the counterexample's path if it is refused.
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ReceiptArguments {
    #[command(subcommand)]
    pub(crate) command: ReceiptCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ReceiptCommand {
    /// List the receipts of an out folder.
    List {
        /// The out folder.
        #[arg(long, value_name = "DIR", default_value = "m87-out")]
        out: PathBuf,
        /// How to print.
        #[arg(short, long, value_enum, default_value = "table")]
        output: Output,
    },
    /// Show one receipt.
    Show {
        /// The run, as NAME or NAMESPACE/NAME.
        run: String,
        /// The out folder.
        #[arg(long, value_name = "DIR", default_value = "m87-out")]
        out: PathBuf,
        /// How to print.
        #[arg(short, long, value_enum, default_value = "table")]
        output: Output,
    },
    /// Verify bundles offline: decide again, and check hashes, signature and inclusion in the log. With the log, that no receipt is
    /// missing; with a checkpoint that was kept, that the log still begins with what it has.
    Verify {
        /// Files of bundles, logs and checkpoints, folders of them, or a whole out folder.
        #[arg(required = true)]
        bundles: Vec<PathBuf>,
        /// The public or private key of the signer, PEM. Without it nobody knows whose receipt it is (exit code 3).
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
        /// How to print.
        #[arg(short, long, value_enum, default_value = "table")]
        output: Output,
    },
}

#[derive(Debug, Args)]
pub(crate) struct GenArguments {
    /// Write nothing; exit 1 if a file is not current.
    #[arg(long)]
    pub(crate) check: bool,
    /// The root of the source tree.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) root: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ManArguments {
    /// The command whose page it is, for example `receipt verify`; without it, the first page.
    #[arg(value_name = "COMMAND", conflicts_with = "dir")]
    pub(crate) command: Vec<String>,
    /// Write the pages of all commands into this folder instead: m87.1, m87-run.1 …
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct EngineArguments {
    /// Where to listen.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:26500")]
    pub(crate) listen: SocketAddr,
    /// Where the journal is kept.
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// Certificate chain, PEM; with --tls-key.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of the certificate, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Serve plain text even though others than this machine can connect.
    #[arg(long)]
    pub(crate) insecure: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StoreArguments {
    #[command(subcommand)]
    pub(crate) command: StoreCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Accept a store that is older than its high-water mark, for example one that was restored from a backup.
    Accept {
        /// The out folder.
        #[arg(long, value_name = "DIR", default_value = "m87-out")]
        out: PathBuf,
        /// The signing key, if it is not in the out folder; the high-water mark is beside it.
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
#[group(id = "task", required = true, args = ["contract", "validation", "fetch"])]
pub(crate) struct ExecArguments {
    /// The attempt's way to the authority, as a file; on one machine.
    #[arg(long, requires = "work", conflicts_with_all = ["listen", "authority"])]
    pub(crate) credentials: Option<PathBuf>,
    /// The attempt's folder; on one machine.
    #[arg(long, requires = "credentials")]
    pub(crate) work: Option<PathBuf>,
    /// Seconds to go on reporting after the limit.
    #[arg(long, default_value_t = 60)]
    pub(crate) report_grace: u64,
    /// Where the shim in the tool's container connects; in a pod.
    #[arg(long, requires_all = ["peer", "authority", "contract"])]
    pub(crate) listen: Option<PathBuf>,
    /// The user of the tool's container.
    #[arg(long, requires = "listen")]
    pub(crate) peer: Option<u32>,
    /// Seconds that the tool's container may take to start.
    #[arg(long, default_value_t = 120)]
    pub(crate) start_limit: u64,
    /// The authority, as host:port; in a pod.
    #[arg(long, requires_all = ["token_file", "ca"])]
    pub(crate) authority: Option<String>,
    /// The file with the token; in a pod.
    #[arg(long)]
    pub(crate) token_file: Option<PathBuf>,
    /// The certificate authority to believe, PEM; in a pod.
    #[arg(long, env = "M87_AUTHORITY_CA", hide_env_values = true)]
    pub(crate) ca: Option<String>,
    /// Run the tool under this contract.
    #[arg(long)]
    pub(crate) contract: Option<String>,
    /// Validate the run's artifact.
    #[arg(long, requires = "credentials")]
    pub(crate) validation: bool,
    /// Fetch the run's artifact into this folder, for a check by another container.
    #[arg(long, value_name = "DIR", requires_all = ["authority", "report"])]
    pub(crate) fetch: Option<PathBuf>,
    /// Where to say why there is nothing to check.
    #[arg(long, requires = "fetch")]
    pub(crate) report: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ShimArguments {
    /// Which of the shim's two processes this is.
    #[arg(long, value_enum, default_value = "watch")]
    pub(crate) stage: ShimStage,
    /// The folder to work in.
    #[arg(long, required_if_eq("stage", "watch"))]
    pub(crate) work: Option<PathBuf>,
    /// Where `exec` listens; without it, standard input is the socket.
    #[arg(long, value_name = "SOCKET", conflicts_with = "check")]
    pub(crate) connect: Option<PathBuf>,
    /// Check the artifact that was fetched into this folder.
    #[arg(long, value_name = "DIR", requires = "report")]
    pub(crate) check: Option<PathBuf>,
    /// Where the report of the check goes.
    #[arg(long, requires = "check")]
    pub(crate) report: Option<PathBuf>,
}

/// Which of the shim's two processes this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShimStage {
    /// The one that watches.
    Watch,
    /// The one that becomes the tool.
    Tool,
}

fn instant(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse(text).map_err(|error| error.to_string())
}

#[derive(Debug, Args)]
pub(crate) struct ReadyArguments {
    /// Whom to ask: http://HOST[:PORT]/PATH.
    pub(crate) url: String,
    /// How many seconds to wait for it.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) timeout: u64,
}
