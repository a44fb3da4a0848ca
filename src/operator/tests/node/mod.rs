//! A node, a tenant's namespace on it, and an authority played by this process.

mod fake;

pub(crate) use fake::Fake;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::{Client, Config};
use m87_authority::{AttemptKind, AttemptOrder, Credentials};
use m87_core::contract::{ValidationOrder, WorkOrder};
use m87_core::dossier::Named;
use m87_core::json::{sha256_hex, to_canonical};
use m87_core::tool::{Command, CommandLimits, Run, Validation};
use m87_operator::executor::{PodExecutor, PodSettings};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const TENANT: &str = "tenant";
const LIMITS: CommandLimits =
    CommandLimits { seconds: 60, cpu_seconds: 20, memory_bytes: 512 << 20, output_bytes: 1 << 20, processes: 16 };

pub(crate) struct Node {
    pub(crate) executor: PodExecutor,
    pub(crate) fake: Fake,
    pub(crate) pods: Api<Pod>,
    pub(crate) settings: PodSettings,
    pub(crate) ca: String,
    /// An image that is there, and is not the tool's.
    pub(crate) other_image: String,
    namespaces: Api<Namespace>,
    next: AtomicU32,
    containerd: String,
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run tests/pods"))
}

/// Waits until there is an answer.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, ask: impl Fn() -> F) -> T {
    let deadline = Instant::now() + Duration::from_secs(90);
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

impl Node {
    pub(crate) async fn open() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::try_from(Config::infer().await.unwrap()).unwrap();
        let host = variable("M87_TEST_HOST");
        let (fake, address, ca) = Fake::serve(client.clone(), &host).await;
        let mut settings = PodSettings::new(variable("M87_TEST_IMAGE"), Some(variable("M87_TEST_TOOL_IMAGE")), address);
        settings.report_grace = Duration::from_secs(20);
        let pem = ca.clone();
        let executor = PodExecutor::new(client.clone(), settings.clone(), Arc::new(move || pem.clone()));
        fake.watch(executor.clone());
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let tenant = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TENANT, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
        namespaces.patch(TENANT, &PatchParams::apply("test").force(), &Patch::Apply(tenant)).await.unwrap();
        let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> = Api::namespaced(client.clone(), TENANT);
        eventually("the namespace's ServiceAccount", || async { accounts.get_opt("default").await.unwrap() }).await;
        Self {
            executor,
            fake,
            pods: Api::namespaced(client, TENANT),
            settings,
            ca,
            other_image: variable("M87_TEST_IMAGE"),
            namespaces,
            next: AtomicU32::new(1),
            containerd: format!("{}/containerd.sock", variable("M87_CLUSTER_RUN")),
        }
    }

    pub(crate) async fn close(&self) {
        self.namespaces.delete(TENANT, &DeleteParams::default()).await.unwrap();
    }

    fn order(&self, kind: AttemptKind) -> AttemptOrder {
        let run = format!("{}-{}", std::process::id(), self.next.fetch_add(1, Ordering::Relaxed));
        AttemptOrder {
            namespace: Named { name: TENANT.to_owned(), uid: "n".to_owned() },
            run_name: "run".to_owned(),
            run_uid: run,
            contract_id: "contract-1".to_owned(),
            attempt: 1,
            kind,
            credentials: Credentials { address_file: "/".into(), ca_pem: String::new(), token: "t".to_owned() },
            image: None,
            limits: LIMITS,
        }
    }

    /// An attempt to run a shell script.
    pub(crate) fn tool(&self, script: &str) -> AttemptOrder {
        self.limited(script, LIMITS.seconds)
    }

    /// The same, for so many seconds.
    pub(crate) fn limited(&self, script: &str, seconds: i64) -> AttemptOrder {
        let limits = CommandLimits { seconds, ..LIMITS };
        let order = AttemptOrder { limits, ..self.order(AttemptKind::Tool) };
        let work = WorkOrder {
            kind: "WorkOrder".to_owned(),
            spec_version: "1".to_owned(),
            contract_id: order.contract_id.clone(),
            plan_hash: "0".repeat(64),
            run: Run::Command(Command {
                argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
                image: None,
                artifact: "result".to_owned(),
                limits,
            }),
            input: json!({"question": 7}),
            injected_clock: false,
        };
        self.fake.expect(&order.run_uid, to_canonical(&work).unwrap(), Vec::new());
        order
    }

    /// An attempt to check these bytes, of which others may have been declared.
    pub(crate) fn check(&self, script: &str, stored: &[u8], declared: &[u8]) -> AttemptOrder {
        let order = self.order(AttemptKind::Validation);
        let check = ValidationOrder {
            kind: "ValidationOrder".to_owned(),
            spec_version: "1".to_owned(),
            validation: Validation {
                argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
                limits: CommandLimits { seconds: 2, ..LIMITS },
            },
            input: json!({"question": 7}),
            sha256: sha256_hex(declared),
        };
        self.fake.expect(&order.run_uid, to_canonical(&check).unwrap(), stored.to_vec());
        order
    }

    /// Kills the first process of a container, as the node's out-of-memory killer would.
    pub(crate) async fn kill(&self, order: &AttemptOrder, container: &str) {
        let pod = self.pods.get(&m87_operator::executor::pod::name(&order.name()).unwrap()).await.unwrap();
        let status = pod.status.unwrap();
        let mut all = status.container_statuses.into_iter().chain(status.init_container_statuses).flatten();
        let id = all.find(|status| status.name == container).unwrap().container_id.unwrap();
        let id = id.strip_prefix("containerd://").unwrap().to_owned();
        let killed = tokio::process::Command::new("ctr")
            .args(["-a", &self.containerd, "-n", "k8s.io", "tasks", "kill", "--signal", "SIGKILL", &id])
            .status();
        assert!(killed.await.unwrap().success());
    }
}
