//! The command line.

use clap::{Args, Parser, Subcommand, ValueEnum};
use m87_core::lane::Lane;
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
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run every GovernedRun of some files, to its terminal and receipt.
    Run(RunArguments),
    /// Show what would be planned and decided. Nothing is opened, run or written.
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
    /// Serve the embedded engine to Zeebe clients.
    Engine(EngineArguments),
    /// Do the jobs of one lane.
    Worker(WorkerArguments),
    /// What belongs to an out folder's store.
    Store(StoreArguments),
    /// Print a completion script.
    Completions {
        /// For which shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page.
    Man,
    /// One attempt to run a tool or to validate; started by the authority's executor.
    #[command(hide = true)]
    Exec(ExecArguments),
    /// Run a tool's command; started by `exec`.
    #[command(hide = true)]
    Shim(ShimArguments),
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
#[group(required = true, multiple = true)]
pub(crate) struct ExplainArguments {
    /// A run of the out folder, as NAME or NAMESPACE/NAME.
    #[arg(value_name = "RUN", conflicts_with = "files")]
    pub(crate) run: Option<String>,
    /// Objects to judge as they stand, without running them; may be repeated.
    #[arg(short = 'f', long = "file", value_name = "PATH")]
    pub(crate) files: Vec<PathBuf>,
    /// The out folder of the run.
    #[arg(long, value_name = "DIR", default_value = "m87-out")]
    pub(crate) out: PathBuf,
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
        /// The BPMN 2.0 file; without it, the process that m87 ships.
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
        /// Files of bundles, logs and checkpoints, or folders of them.
        #[arg(required = true)]
        bundles: Vec<PathBuf>,
        /// The public or private key of the signer, PEM. Without it nobody knows whose receipt it is (exit code 3).
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
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
pub(crate) struct WorkerArguments {
    /// Which lane.
    #[arg(long, value_parser = lane)]
    pub(crate) lane: Lane,
    /// The Zeebe gateway, as host:port.
    #[arg(long, value_name = "ADDR")]
    pub(crate) engine: String,
    /// The lane's credentials, as `m87 run --lanes external` writes them.
    #[arg(long, value_name = "FILE")]
    pub(crate) credentials: PathBuf,
    #[command(flatten)]
    pub(crate) jobs: Jobs,
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
#[group(id = "task", required = true, args = ["contract", "validation"])]
pub(crate) struct ExecArguments {
    /// The attempt's way to the authority.
    #[arg(long)]
    pub(crate) credentials: PathBuf,
    /// The attempt's folder.
    #[arg(long)]
    pub(crate) work: PathBuf,
    /// Seconds to go on reporting after the limit.
    #[arg(long)]
    pub(crate) report_grace: u64,
    /// Run the tool under this contract.
    #[arg(long)]
    pub(crate) contract: Option<String>,
    /// Validate the run's artifact.
    #[arg(long)]
    pub(crate) validation: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ShimArguments {
    /// Which of the shim's two processes this is.
    #[arg(long, value_enum, default_value = "watch")]
    pub(crate) stage: ShimStage,
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

fn lane(text: &str) -> Result<Lane, String> {
    let all = Lane::ALL.map(Lane::name).join(", ");
    Lane::parse(text).ok_or_else(|| format!("{text:?} is not a lane; write one of {all}"))
}
