//! The command line of `kubectl m87`, which is also `m87 kube`.

use crate::args::Output;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Governed runs on a cluster: how they ended, why, and their receipts.
///
/// Exit codes: 0 as asked; 1 it could not be done, or a check failed; 2 the command line is wrong; 3 (receipt verify) everything
/// holds, but without a key nobody knows who signed.
#[derive(Debug, Parser)]
#[command(name = "kubectl-m87", bin_name = "kubectl m87", version, propagate_version = true)]
pub(crate) struct Plugin {
    /// Log to the standard error; repeat for more.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    #[command(subcommand)]
    pub(crate) command: KubeCommand,
}

#[derive(Debug, Args)]
pub(crate) struct KubeArguments {
    #[command(subcommand)]
    pub(crate) command: KubeCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KubeCommand {
    /// Show how runs stand; with a name, one run with its gates and conditions and what can be done.
    Status(StatusArguments),
    /// Show why a run ended, clause by clause; of one that goes on, what the gates before the contract say.
    Explain(OfRun),
    /// Take receipts out of the cluster, and verify them.
    Receipt(ReceiptOnCluster),
    /// Show what a run's tool says; once its pod is gone, what the receipt has of it.
    Logs(LogsArguments),
    /// Print what a namespace's administrator applies so that tools may run there. No cluster is asked.
    Tenant(TenantArguments),
}

/// Which cluster, as whom, and where on it.
#[derive(Debug, Clone, Args)]
pub(crate) struct Access {
    /// The kubeconfig; default: $KUBECONFIG, ~/.kube/config, or the ServiceAccount of the pod.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// The namespace; default: the context's own.
    #[arg(short, long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// The bearer token by which m87 knows the caller, where the kubeconfig has none (client certificates).
    #[arg(long, value_name = "TOKEN", env = "M87_KUBE_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// Where m87 is installed.
    #[arg(long, value_name = "NAME", default_value = "m87-system")]
    pub(crate) operator_namespace: String,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArguments {
    /// The run; without it, all of the namespace.
    pub(crate) run: Option<String>,
    /// Those of all namespaces.
    #[arg(short = 'A', long, conflicts_with = "run")]
    pub(crate) all_namespaces: bool,
    /// How to print.
    #[arg(short, long, value_enum, default_value = "table")]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) access: Access,
}

#[derive(Debug, Args)]
pub(crate) struct OfRun {
    /// The run, by name; by uid also if its object was deleted.
    pub(crate) run: String,
    /// How to print.
    #[arg(short, long, value_enum, default_value = "table")]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) access: Access,
}

#[derive(Debug, Args)]
pub(crate) struct LogsArguments {
    /// The run, by name.
    pub(crate) run: String,
    #[command(flatten)]
    pub(crate) access: Access,
}

#[derive(Debug, Args)]
pub(crate) struct ReceiptOnCluster {
    #[command(subcommand)]
    pub(crate) command: ReceiptOnClusterCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ReceiptOnClusterCommand {
    /// Write the receipt bundle of a run, or of every run with the log of the namespace.
    Export(ExportArguments),
    /// Fetch the receipt bundle of a run and verify it here: decide again, and check hashes, signature and inclusion.
    Verify(VerifyArguments),
}

#[derive(Debug, Args)]
#[group(id = "what", required = true, multiple = false, args = ["run", "all"])]
pub(crate) struct ExportArguments {
    /// The run, by name; by uid also if its object was deleted.
    pub(crate) run: Option<String>,
    /// Every run of the namespace that has a receipt, and the log: what `m87 receipt verify FOLDER` takes.
    #[arg(long, requires = "output")]
    pub(crate) all: bool,
    /// The file to write (default: the standard output); with --all, the folder.
    #[arg(short, long, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) access: Access,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArguments {
    /// The run, by name; by uid also if its object was deleted.
    pub(crate) run: String,
    /// The public key of the signer, PEM, from somebody you trust. Without it nobody knows whose receipt it is (exit code 3).
    #[arg(long, value_name = "FILE", conflicts_with = "trust_cluster_key")]
    pub(crate) key: Option<PathBuf>,
    /// Trust the key that the cluster itself shows (ConfigMap m87-ca): proves nothing against whoever can write there.
    #[arg(long)]
    pub(crate) trust_cluster_key: bool,
    /// How to print.
    #[arg(short, long, value_enum, default_value = "table")]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) access: Access,
}

#[derive(Debug, Args)]
pub(crate) struct TenantArguments {
    /// The namespace in which tools are to run.
    pub(crate) namespace: String,
    /// Where m87 is installed.
    #[arg(long, value_name = "NAME", default_value = "m87-system")]
    pub(crate) operator_namespace: String,
}
