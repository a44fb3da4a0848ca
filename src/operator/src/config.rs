//! What an operator is told. Every setting has a name that is the same as a flag, as a variable (`M87_` before it) and as a key of
//! the file; a flag counts before a variable, and a variable before the file.

use crate::lanes::{Bounds, Resources};
use m87_core::strict;
use serde::Deserialize;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Everything, with what it is if nobody says otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The operator's own namespace.
    pub namespace: String,
    /// The name of the pod that this process runs in.
    pub pod_name: String,
    /// That pod's uid. `None` outside of a pod, where nothing says that no other process of this name runs.
    pub pod_uid: Option<String>,
    /// Where the store, the artifacts and the engine's journal are.
    pub data: PathBuf,
    /// The authority's own address (gRPC, TLS).
    pub authority_listen: SocketAddr,
    /// The engine's gateway (gRPC, TLS).
    pub gateway_listen: SocketAddr,
    /// Receipts for `kubectl m87` (HTTP, TLS).
    pub receipts_listen: SocketAddr,
    /// `/livez`, `/readyz`, `/metrics` (HTTP).
    pub http_listen: SocketAddr,
    /// Who does the lanes' jobs.
    pub lanes: Lanes,
    /// How many pods a lane has.
    pub lane_replicas: Bounds,
    /// What a pod of a lane may use.
    pub lane_resources: Resources,
    /// The operator's own image, for lanes and for what is put into tool pods.
    pub image: Option<String>,
    /// When images are pulled; `None` leaves it to the cluster.
    pub image_pull_policy: Option<String>,
    /// Secrets by which images are pulled.
    pub image_pull_secrets: Vec<String>,
    /// The image of tools that name none.
    pub tool_image: Option<String>,
    /// How many runs of one namespace may be open at one time.
    pub max_open_runs: usize,
    /// How long a job stays with a worker without a sign of life.
    pub job_timeout: Duration,
    /// How long a tool's pod may take to start, from the contract on.
    pub start_limit: Duration,
    /// A real Zeebe that is used instead of the embedded engine: host:port.
    pub zeebe_address: Option<String>,
    /// What process ids and job types begin with there.
    pub zeebe_prefix: Option<String>,
    /// The Secret that is mounted for it, in this pod and in the lanes'.
    pub zeebe_secret: Option<String>,
}

/// Who does the lanes' jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Lanes {
    /// Deployments in the operator's namespace, each under an identity without rights.
    Deployments,
    /// This process. For one machine on which no pods run beside the operator, and for looking around.
    Embedded,
}

/// The file, and what flags and variables say over it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Settings {
    /// See [`Config::namespace`].
    pub namespace: Option<String>,
    /// See [`Config::pod_name`].
    pub pod_name: Option<String>,
    /// See [`Config::pod_uid`].
    pub pod_uid: Option<String>,
    /// See [`Config::data`].
    pub data: Option<PathBuf>,
    /// See [`Config::authority_listen`].
    pub authority_listen: Option<SocketAddr>,
    /// See [`Config::gateway_listen`].
    pub gateway_listen: Option<SocketAddr>,
    /// See [`Config::receipts_listen`].
    pub receipts_listen: Option<SocketAddr>,
    /// See [`Config::http_listen`].
    pub http_listen: Option<SocketAddr>,
    /// See [`Config::lanes`].
    pub lanes: Option<Lanes>,
    /// See [`Config::lane_replicas`].
    pub lanes_min: Option<u32>,
    /// See [`Config::lane_replicas`].
    pub lanes_max: Option<u32>,
    /// See [`Config::lane_resources`].
    pub lane_cpu_request: Option<String>,
    /// See [`Config::lane_resources`].
    pub lane_memory_request: Option<String>,
    /// See [`Config::lane_resources`].
    pub lane_memory_limit: Option<String>,
    /// See [`Config::image`].
    pub image: Option<String>,
    /// See [`Config::image_pull_policy`].
    pub image_pull_policy: Option<String>,
    /// See [`Config::image_pull_secrets`].
    pub image_pull_secrets: Option<Vec<String>>,
    /// See [`Config::tool_image`].
    pub tool_image: Option<String>,
    /// See [`Config::max_open_runs`].
    pub max_open_runs: Option<usize>,
    /// See [`Config::job_timeout`], in seconds.
    pub job_timeout: Option<u64>,
    /// See [`Config::start_limit`], in seconds.
    pub start_seconds: Option<u64>,
    /// See [`Config::zeebe_address`].
    pub zeebe_address: Option<String>,
    /// See [`Config::zeebe_prefix`].
    pub zeebe_prefix: Option<String>,
    /// See [`Config::zeebe_secret`].
    pub zeebe_secret: Option<String>,
}

/// The file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {message}")]
pub struct ConfigError {
    /// The file.
    pub path: String,
    /// What is wrong, and where.
    pub message: String,
}

impl Settings {
    /// Reads a file of settings: one YAML document. What is not a setting is refused by its name.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let error = |message: String| ConfigError { path: path.display().to_string(), message };
        let bytes = std::fs::read(path).map_err(|cause| error(cause.to_string()))?;
        let mut documents = strict::yaml(&bytes).map_err(|cause| error(cause.to_string()))?;
        match (documents.pop(), documents.is_empty()) {
            (None, _) => Ok(Self::default()),
            (Some(document), true) => serde_json::from_value(document).map_err(|cause| error(cause.to_string())),
            (Some(_), false) => Err(error("more than one document; write all settings into one".to_owned())),
        }
    }

    /// These settings, and those of `below` where these say nothing.
    #[must_use]
    pub fn over(self, below: Self) -> Self {
        Self {
            namespace: self.namespace.or(below.namespace),
            pod_name: self.pod_name.or(below.pod_name),
            pod_uid: self.pod_uid.or(below.pod_uid),
            data: self.data.or(below.data),
            authority_listen: self.authority_listen.or(below.authority_listen),
            gateway_listen: self.gateway_listen.or(below.gateway_listen),
            receipts_listen: self.receipts_listen.or(below.receipts_listen),
            http_listen: self.http_listen.or(below.http_listen),
            lanes: self.lanes.or(below.lanes),
            lanes_min: self.lanes_min.or(below.lanes_min),
            lanes_max: self.lanes_max.or(below.lanes_max),
            lane_cpu_request: self.lane_cpu_request.or(below.lane_cpu_request),
            lane_memory_request: self.lane_memory_request.or(below.lane_memory_request),
            lane_memory_limit: self.lane_memory_limit.or(below.lane_memory_limit),
            image: self.image.or(below.image),
            image_pull_policy: self.image_pull_policy.or(below.image_pull_policy),
            image_pull_secrets: self.image_pull_secrets.or(below.image_pull_secrets),
            tool_image: self.tool_image.or(below.tool_image),
            max_open_runs: self.max_open_runs.or(below.max_open_runs),
            job_timeout: self.job_timeout.or(below.job_timeout),
            start_seconds: self.start_seconds.or(below.start_seconds),
            zeebe_address: self.zeebe_address.or(below.zeebe_address),
            zeebe_prefix: self.zeebe_prefix.or(below.zeebe_prefix),
            zeebe_secret: self.zeebe_secret.or(below.zeebe_secret),
        }
    }

    /// What is so where nobody says otherwise.
    pub fn resolve(self) -> Config {
        let usual = Resources::default();
        let everywhere = |port| SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
        let namespace = self.namespace.unwrap_or_else(|| "m87-system".to_owned());
        let least = self.lanes_min.unwrap_or(1);
        Config {
            namespace,
            pod_name: self.pod_name.unwrap_or_else(|| "m87-0".to_owned()),
            pod_uid: self.pod_uid.filter(|uid| !uid.is_empty()),
            data: self.data.unwrap_or_else(|| PathBuf::from("/data")),
            authority_listen: self.authority_listen.unwrap_or_else(|| everywhere(8443)),
            gateway_listen: self.gateway_listen.unwrap_or_else(|| everywhere(26500)),
            receipts_listen: self.receipts_listen.unwrap_or_else(|| everywhere(8444)),
            http_listen: self.http_listen.unwrap_or_else(|| everywhere(8080)),
            lanes: self.lanes.unwrap_or(Lanes::Deployments),
            lane_replicas: Bounds { min: least, max: self.lanes_max.unwrap_or_else(|| least.max(4)) },
            lane_resources: Resources {
                cpu_request: self.lane_cpu_request.unwrap_or(usual.cpu_request),
                memory_request: self.lane_memory_request.unwrap_or(usual.memory_request),
                memory_limit: self.lane_memory_limit.unwrap_or(usual.memory_limit),
            },
            image: self.image,
            image_pull_policy: self.image_pull_policy,
            image_pull_secrets: self.image_pull_secrets.unwrap_or_default(),
            tool_image: self.tool_image,
            max_open_runs: self.max_open_runs.unwrap_or(256).max(1),
            job_timeout: Duration::from_secs(self.job_timeout.unwrap_or(30).max(1)),
            start_limit: Duration::from_secs(self.start_seconds.unwrap_or(120).max(1)),
            zeebe_address: self.zeebe_address,
            zeebe_prefix: self.zeebe_prefix,
            zeebe_secret: self.zeebe_secret,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    fn file(text: &str) -> Result<Settings, ConfigError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m87.yaml");
        std::fs::write(&path, text).unwrap();
        Settings::read(&path)
    }

    #[test]
    fn what_is_said_above_counts_and_the_rest_is_usual() {
        let below = file("namespace: below\nmaxOpenRuns: 7\nlanes: embedded\n").unwrap();
        let above = Settings { namespace: Some("above".to_owned()), ..Settings::default() };
        let config = above.over(below).resolve();
        assert_eq!((config.namespace.as_str(), config.max_open_runs, config.lanes), ("above", 7, Lanes::Embedded));
        assert_eq!(config.data, PathBuf::from("/data"));
        assert_eq!(Settings::default().resolve().lanes, Lanes::Deployments);
    }

    #[test]
    fn a_file_that_is_not_understood_is_refused_with_the_place() {
        for (text, part) in [
            ("maxOpenRun: 7\n", "maxOpenRun"),
            ("namespace: a\nnamespace: b\n", "namespace"),
            ("lanes: pods\n", "pods"),
            ("maxOpenRuns: -1\n", "-1"),
            ("a: 1\n---\nb: 2\n", "one document"),
        ] {
            let error = file(text).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("m87.yaml"), "{text}: {error}");
        }
        assert_eq!(file("").unwrap(), Settings::default());
    }
}
