//! The arguments of `m87 operator`. Each may also be a variable, or a key of the file.

use clap::{Args, ValueEnum};
use m87_operator::config::{Lanes, Settings};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Reconcile the custom resources of a cluster.
#[derive(Debug, Args)]
pub(crate) struct OperatorArguments {
    /// A YAML file of settings, with the names of these flags in camelCase. A flag counts before a variable, and a variable before
    /// the file.
    #[arg(long, value_name = "FILE", env = "M87_CONFIG")]
    config: Option<PathBuf>,
    /// The operator's own namespace [default: m87-system].
    #[arg(long, value_name = "NAME", env = "M87_NAMESPACE")]
    namespace: Option<String>,
    /// The name of the pod that this runs in [default: m87-0].
    #[arg(long, value_name = "NAME", env = "M87_POD_NAME")]
    pod_name: Option<String>,
    /// The uid of that pod, by which another pod of the same name is another one.
    #[arg(long, value_name = "UID", env = "M87_POD_UID")]
    pod_uid: Option<String>,
    /// Where the store, the artifacts and the engine's journal are kept [default: /data].
    #[arg(long, value_name = "DIR", env = "M87_DATA")]
    data: Option<PathBuf>,
    /// Where to serve the authority (gRPC, TLS) [default: [::]:8443].
    #[arg(long, value_name = "ADDR", env = "M87_AUTHORITY_LISTEN")]
    authority_listen: Option<SocketAddr>,
    /// Where to serve the embedded engine (gRPC, TLS) [default: [::]:26500].
    #[arg(long, value_name = "ADDR", env = "M87_GATEWAY_LISTEN")]
    gateway_listen: Option<SocketAddr>,
    /// Where to serve receipts to `kubectl m87` (HTTP, TLS) [default: [::]:8444].
    #[arg(long, value_name = "ADDR", env = "M87_RECEIPTS_LISTEN")]
    receipts_listen: Option<SocketAddr>,
    /// Where to serve /livez, /readyz and /metrics [default: [::]:8080].
    #[arg(long, value_name = "ADDR", env = "M87_HTTP_LISTEN")]
    http_listen: Option<SocketAddr>,
    /// Who does the lanes' jobs [default: deployments].
    #[arg(long, value_enum, env = "M87_LANES")]
    lanes: Option<LanesWhere>,
    /// The fewest pods of a lane [default: 1].
    #[arg(long, value_name = "N", env = "M87_LANES_MIN")]
    lanes_min: Option<u32>,
    /// The most pods of a lane [default: 4].
    #[arg(long, value_name = "N", env = "M87_LANES_MAX")]
    lanes_max: Option<u32>,
    /// Processor time that is set aside for a pod of a lane [default: 10m].
    #[arg(long, value_name = "QUANTITY", env = "M87_LANE_CPU_REQUEST")]
    lane_cpu_request: Option<String>,
    /// Memory that is set aside for a pod of a lane [default: 32Mi].
    #[arg(long, value_name = "QUANTITY", env = "M87_LANE_MEMORY_REQUEST")]
    lane_memory_request: Option<String>,
    /// Memory that a pod of a lane does not exceed [default: 128Mi].
    #[arg(long, value_name = "QUANTITY", env = "M87_LANE_MEMORY_LIMIT")]
    lane_memory_limit: Option<String>,
    /// The image of this program, for lanes and for what is put into tool pods.
    #[arg(long, value_name = "IMAGE", env = "M87_IMAGE")]
    image: Option<String>,
    /// When images are pulled; left to the cluster if absent.
    #[arg(long, value_name = "POLICY", env = "M87_IMAGE_PULL_POLICY")]
    image_pull_policy: Option<String>,
    /// Secrets of the operator's namespace by which images are pulled.
    #[arg(long, value_name = "NAMES", env = "M87_IMAGE_PULL_SECRETS", value_delimiter = ',')]
    image_pull_secrets: Option<Vec<String>>,
    /// The image of tools that name none, by digest.
    #[arg(long, value_name = "IMAGE", env = "M87_TOOL_IMAGE")]
    tool_image: Option<String>,
    /// How many runs of one namespace may be open at one time; more wait [default: 256].
    #[arg(long, value_name = "N", env = "M87_MAX_OPEN_RUNS")]
    max_open_runs: Option<usize>,
    /// How long a job stays with a worker without a sign of life [default: 30].
    #[arg(long, value_name = "SECONDS", env = "M87_JOB_TIMEOUT")]
    job_timeout: Option<u64>,
    /// How long a tool's pod may take to start before its contract is taken back [default: 120].
    #[arg(long, value_name = "SECONDS", env = "M87_START_SECONDS")]
    start_seconds: Option<u64>,
    /// Use the Zeebe gateway at this host:port instead of the embedded engine.
    #[arg(long, value_name = "ADDR", env = "M87_ZEEBE_ADDRESS")]
    zeebe_address: Option<String>,
    /// What process ids and job types begin with in a shared Zeebe.
    #[arg(long, value_name = "PREFIX", env = "M87_ZEEBE_PREFIX")]
    zeebe_prefix: Option<String>,
    /// The Secret by which that Zeebe is reached, mounted at /m87/zeebe: ca.pem, token.
    #[arg(long, value_name = "NAME", env = "M87_ZEEBE_SECRET")]
    zeebe_secret: Option<String>,
}

/// Who does the lanes' jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LanesWhere {
    /// Deployments in the operator's namespace, each under an identity without rights.
    Deployments,
    /// This process: for one machine, where no pods run beside the operator.
    Embedded,
}

impl OperatorArguments {
    /// The file to read below these.
    pub(super) const fn config(&self) -> Option<&PathBuf> {
        self.config.as_ref()
    }

    /// What flags and variables say.
    pub(super) fn settings(self) -> Settings {
        Settings {
            namespace: self.namespace,
            pod_name: self.pod_name,
            pod_uid: self.pod_uid,
            data: self.data,
            authority_listen: self.authority_listen,
            gateway_listen: self.gateway_listen,
            receipts_listen: self.receipts_listen,
            http_listen: self.http_listen,
            lanes: self.lanes.map(|lanes| match lanes {
                LanesWhere::Deployments => Lanes::Deployments,
                LanesWhere::Embedded => Lanes::Embedded,
            }),
            lanes_min: self.lanes_min,
            lanes_max: self.lanes_max,
            lane_cpu_request: self.lane_cpu_request,
            lane_memory_request: self.lane_memory_request,
            lane_memory_limit: self.lane_memory_limit,
            image: self.image,
            image_pull_policy: self.image_pull_policy,
            image_pull_secrets: self.image_pull_secrets,
            tool_image: self.tool_image,
            max_open_runs: self.max_open_runs,
            job_timeout: self.job_timeout,
            start_seconds: self.start_seconds,
            zeebe_address: self.zeebe_address,
            zeebe_prefix: self.zeebe_prefix,
            zeebe_secret: self.zeebe_secret,
        }
    }
}
