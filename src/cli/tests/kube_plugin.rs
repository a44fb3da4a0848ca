//! `kubectl m87` against a real API server with m87's definitions, with the receipts server behind its service proxy:
//! tests/kube/api-server runs it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use async_trait::async_trait;
use common::Place;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Endpoints, Namespace, Pod, Service, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, Role, RoleBinding};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use m87_authority::artifacts::Artifacts;
use m87_authority::clock::SystemClock;
use m87_authority::driver::{Driver, DriverOptions, Opened, ProcessEngine, RunRequest};
use m87_authority::entropy::SystemEntropy;
use m87_authority::mark::FileMark;
use m87_authority::row::Definition;
use m87_authority::store::{FileSystem, Headroom, SqliteStore};
use m87_authority::tls::ServerIdentity;
use m87_authority::world::{CheckpointFiles, EachStart, NoStatus, References, ReferencesUnavailable};
use m87_authority::{AttemptName, AttemptOrder, Authority, Executor, ExecutorError, Handle, Options, World};
use m87_core::actor::{Actor, Attestation};
use m87_core::dossier::{ClockSource, Dossier, Named, Pinned, Trust};
use m87_core::evidence::ValidationReport;
use m87_core::policy::PolicySpec;
use m87_core::sign::SigningKey;
use m87_core::tool::ManifestSpec;
use m87_operator::receipts::{ApiServer, Receipts, router, serve, server_config};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt::Debug;
use std::net::UdpSocket;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// There is no policy, so every run is refused, and nothing else is ever asked.
struct Nothing;

#[async_trait]
impl Executor for Nothing {
    async fn start(&self, _: &AttemptOrder) -> Result<Handle, ExecutorError> {
        panic!("nothing is executed here")
    }
    async fn alive(&self, _: &Handle) -> Result<bool, ExecutorError> {
        Ok(false)
    }
    async fn as_made(&self, _: &Handle) -> Result<Result<(), String>, ExecutorError> {
        Ok(Ok(()))
    }
    async fn verdict(&self, _: &Handle) -> Result<Option<ValidationReport>, ExecutorError> {
        Ok(None)
    }
    async fn discard(&self, _: &Handle) -> Result<(), ExecutorError> {
        Ok(())
    }

    async fn discard_unheard(&self, _: &AttemptName) -> Result<(), ExecutorError> {
        Ok(())
    }
}

#[async_trait]
impl References for Nothing {
    async fn policy(&self, _: &Named, _: &str) -> Result<Option<Pinned<PolicySpec>>, ReferencesUnavailable> {
        Ok(None)
    }
    async fn baseline(&self) -> Result<Option<Pinned<PolicySpec>>, ReferencesUnavailable> {
        Ok(None)
    }
    async fn manifest(&self, _: &Named, _: &str) -> Result<Option<Pinned<ManifestSpec>>, ReferencesUnavailable> {
        Ok(None)
    }
    async fn suspended(&self, _: &Dossier) -> Result<bool, ReferencesUnavailable> {
        Ok(false)
    }
    async fn bound(&self, _: &Named) -> Result<bool, ReferencesUnavailable> {
        Ok(true)
    }
}

#[async_trait]
impl ProcessEngine for Nothing {
    async fn id(&self) -> Result<String, m87_zeebe::Error> {
        Ok("engine".to_owned())
    }
    async fn deploy(&self, _: &str, _: &[u8]) -> Result<Definition, m87_zeebe::Error> {
        Ok(Definition { key: 1, version: 1 })
    }
    async fn start(&self, _: Definition, _: &str) -> Result<i64, m87_zeebe::Error> {
        Ok(1)
    }
    async fn cancel(&self, _: i64) -> Result<(), m87_zeebe::Error> {
        Ok(())
    }
}

async fn authority(folder: &Path) -> Arc<Authority> {
    let headroom = Headroom { bytes: 1 << 20, reserve_bytes: 1 << 16 };
    let store = SqliteStore::open(&folder.join("store"), "store", &headroom).await.unwrap();
    let world = World {
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
        references: Arc::new(Nothing),
        executor: Arc::new(Nothing),
        mark: Arc::new(FileMark(folder.to_owned())),
        status: Arc::new(NoStatus),
        disk: Arc::new(FileSystem(folder.to_owned())),
        checkpoints: Arc::new(CheckpointFiles(folder.join("checkpoints"))),
    };
    // One entry a page, so that the plugin follows pages through the proxy.
    let options = Options { headroom, log_page: 1, ..Options::new(String::new(), folder.join("address")) };
    let artifacts = Artifacts::in_folder(&folder.join("artifacts")).unwrap();
    let key = SigningKey::from_seed(&[7; 32]);
    Arc::new(Authority::open(Arc::new(store), artifacts, world, key, options, &EachStart).await.unwrap())
}

async fn apply<K>(api: Api<K>, object: Value) -> K
where
    K: Clone + Debug + DeserializeOwned,
{
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    api.patch(&name, &PatchParams::apply("test").force(), &Patch::Apply(object)).await.unwrap()
}

fn runs(client: &Client, namespace: &str) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("m87.dev", "v1alpha1", "GovernedRun"));
    Api::namespaced_with(client.clone(), namespace, &kind)
}

/// The cluster's address for this machine: its proxy does not forward to loopback.
fn own_address() -> String {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect("192.0.2.1:9").unwrap();
    socket.local_addr().unwrap().ip().to_string()
}

/// Service `m87` in its namespace, behind which this process serves. The API server forwards to the addresses of pods only, so there
/// is one that no node runs.
async fn expose(client: &Client, port: u16) {
    let system = "m87-system";
    apply(
        Api::<Namespace>::all(client.clone()),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": system}}),
    )
    .await;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "m87"},
        "spec": {"ports": [{"name": "receipts", "port": 8444, "targetPort": port}]},
    });
    apply(Api::<Service>::namespaced(client.clone(), system), service).await;
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), system);
    while accounts.get_opt("default").await.unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "m87-0"},
        "spec": {"schedulingGates": [{"name": "m87.dev/test"}], "containers": [{"name": "m87", "image": "none"}]},
    });
    let pods = Api::<Pod>::namespaced(client.clone(), system);
    apply(pods.clone(), pod).await;
    let status = json!({"status": {"podIP": own_address(), "podIPs": [{"ip": own_address()}]}});
    pods.patch_status("m87-0", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    let target = json!({"kind": "Pod", "namespace": system, "name": "m87-0"});
    let endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "m87"},
        "subsets": [{"addresses": [{"ip": own_address(), "targetRef": target}],
                     "ports": [{"name": "receipts", "port": port, "protocol": "TCP"}]}],
    });
    apply(Api::<Endpoints>::namespaced(client.clone(), system), endpoints).await;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "m87-receipts"},
        "rules": [{"apiGroups": [""], "resources": ["services/proxy"],
                   "resourceNames": ["https:m87:8444"], "verbs": ["get"]}],
    });
    apply(Api::<Role>::namespaced(client.clone(), system), role).await;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "m87-receipts-test"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "m87-receipts"},
        "subjects": [{"kind": "Group", "name": "system:serviceaccounts", "apiGroup": "rbac.authorization.k8s.io"},
                     {"kind": "User", "name": "system:anonymous", "apiGroup": "rbac.authorization.k8s.io"}],
    });
    apply(Api::<RoleBinding>::namespaced(client.clone(), system), binding).await;
}

/// A ServiceAccount's own token; with the right to see runs of its namespace, or without.
async fn user(client: &Client, namespace: &str, name: &str, may: bool) -> String {
    let api = Api::<ServiceAccount>::namespaced(client.clone(), namespace);
    apply(api.clone(), json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})).await;
    if may {
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "m87-test-viewer"},
            "rules": [{"apiGroups": ["m87.dev"], "resources": ["governedruns"], "verbs": ["get", "list"]}],
        });
        apply(Api::<ClusterRole>::all(client.clone()), role).await;
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "m87-test-viewer"},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        });
        apply(Api::<RoleBinding>::namespaced(client.clone(), namespace), binding).await;
    }
    let asked = api.create_token_request(name, &PostParams::default(), &TokenRequest::default()).await.unwrap();
    asked.status.unwrap().token.unwrap()
}

/// A kubeconfig with those credentials alone, beside the cluster's own.
fn kubeconfig_of(place: &Place, name: &str, credentials: Value) -> String {
    let own: Value = serde_yaml::from_slice(&std::fs::read(std::env::var_os("KUBECONFIG").unwrap()).unwrap()).unwrap();
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": own["clusters"],
        "contexts": [{"name": "c", "context": {"cluster": own["clusters"][0]["name"], "user": "u"}}],
        "users": [{"name": "u", "user": credentials}],
    });
    place.write(name, config.to_string()).display().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs a cluster: its KUBECONFIG"]
async fn receipts_leave_the_cluster_by_the_callers_own_rights_and_verify_outside() {
    let place = Place::new();
    let client = Client::try_default().await.unwrap();
    let namespace = format!("plugin-{}", std::process::id());
    let made = apply(
        Api::<Namespace>::all(client.clone()),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
    )
    .await;

    // A run that is refused, and m87 as far as it shows receipts.
    let proposal =
        json!({"tool": "t", "actionType": "act", "target": "x/a", "risk": "low", "reasoningTrace": "a test"});
    let object = json!({
        "apiVersion": "m87.dev/v1alpha1", "kind": "GovernedRun", "metadata": {"name": "refund-7"},
        "spec": {"policyRef": {"name": "p"}, "manifestRef": {"name": "m"}, "proposal": proposal},
    });
    let run = apply(runs(&client, &namespace), object).await;
    let authority = authority(&place.path("m87")).await;
    let options = DriverOptions {
        cluster_uid: "cluster".to_owned(),
        trust: Trust::Cluster,
        clock: ClockSource::System,
        reference_wait: Duration::ZERO,
    };
    let stop = CancellationToken::new();
    let driver = Driver::new(authority.clone(), Arc::new(Nothing), options, stop.clone());
    let request = RunRequest {
        namespace: Named { name: namespace.clone(), uid: made.uid().unwrap() },
        name: "refund-7".to_owned(),
        uid: run.uid(),
        idempotency_key: None,
        actor: Actor {
            username: "ann".to_owned(),
            uid: String::new(),
            credential_id: None,
            attestation: Attestation::Unattested,
        },
        proposal: serde_json::from_value(proposal).unwrap(),
        policy: "p".to_owned(),
        manifest: "m".to_owned(),
        deadline_seconds: 60,
    };
    let Opened::Run(uid) = driver.open(&request).await.unwrap() else { panic!("done before") };
    let sealed = driver.finished(&uid).await.unwrap();
    let status = json!({"status": {"observedGeneration": 1, "terminal": "HALT", "reason": "PolicyMissing",
                                   "receipt": {"hash": sealed.receipt_hash, "logIndex": 1}}});
    let api = runs(&client, &namespace);
    api.patch_status("refund-7", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();

    let identity = ServerIdentity::open(&place.path("tls.json")).unwrap();
    let config = server_config(&identity.certificate_pem, &identity.key_pem).unwrap();
    let (_keep, tls) = watch::channel(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    expose(&client, port).await;
    let pem = authority.verifying_key().to_pem().unwrap();
    let shown = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m87-ca"},
                       "data": {"signing.pub.pem": pem}});
    apply(Api::<ConfigMap>::namespaced(client.clone(), "m87-system"), shown).await;
    let receipts =
        Receipts { authority, cluster: Arc::new(ApiServer::new(client.clone())), cluster_uid: "cluster".to_owned() };
    let serving = tokio::spawn(serve(listener, tls, router(Arc::new(receipts)), stop.clone()));

    // People: one who may see runs, one who may not, one whom the API server lets through without a token, and the administrator.
    let viewer = user(&client, &namespace, "viewer", true).await;
    let stranger = user(&client, &namespace, "stranger", false).await;
    let viewers = kubeconfig_of(&place, "viewer.json", json!({"token": viewer}));
    let strangers = kubeconfig_of(&place, "stranger.json", json!({"token": stranger}));
    let tokenless = kubeconfig_of(&place, "tokenless.json", json!({}));
    place.write("key.pem", pem);
    let plugin = |kubeconfig: Option<&str>, arguments: &[&str]| {
        let mut all = vec!["kube"];
        all.extend(arguments);
        all.extend(["-n", &namespace]);
        all.extend(kubeconfig.into_iter().flat_map(|file| ["--kubeconfig", file]));
        place.m87(all)
    };
    let ask = |arguments: &[&str]| plugin(Some(&viewers), arguments);
    // The proxy learns of the endpoints a moment later.
    for _ in 0..100 {
        if ask(&["receipt", "export", "refund-7"]).code == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    let done = ask(&["status"]);
    assert!(done.code == 0 && done.out.contains("refund-7") && done.out.contains("PolicyMissing"), "{done:?}");
    let done = ask(&["status", "refund-7"]);
    assert!(done.code == 0 && done.out.contains("kubectl m87 explain refund-7"), "{done:?}");
    let done = ask(&["status", "-o", "json"]);
    assert_eq!(serde_json::from_str::<Value>(&done.out).unwrap()["runs"][0]["status"]["terminal"], "HALT");
    let done = ask(&["explain", "refund-7"]);
    assert!(done.code == 0 && done.out.contains("[PolicyMissing]"), "{done:?}");

    let done = ask(&["receipt", "export", "refund-7", "-o", "bundle.json"]);
    assert_eq!(done.code, 0, "{done:?}");
    let done = place.m87(["receipt", "verify", "bundle.json", "--key", "key.pem"]);
    assert!(done.code == 0 && done.out.contains(&sealed.receipt_hash), "{done:?}");
    let done = ask(&["receipt", "export", "--all", "-o", "all"]);
    assert!(done.code == 0 && done.out.contains("wrote 1 receipt and"), "{done:?}");
    let done = place.m87(["receipt", "verify", "all", "--key", "key.pem"]);
    assert!(done.code == 0 && done.out.contains("no receipt is missing"), "{done:?}");

    assert_eq!(ask(&["receipt", "verify", "refund-7", "--key", "key.pem"]).code, 0);
    assert_eq!(ask(&["receipt", "verify", &uid, "--key", "key.pem"]).code, 0);
    assert_eq!(ask(&["receipt", "verify", "refund-7"]).code, 3);
    let done = plugin(None, &["receipt", "verify", "refund-7", "--trust-cluster-key", "--token", &viewer]);
    assert!(done.code == 0 && done.err.contains("the key is the one that the cluster shows"), "{done:?}");
    let done = ask(&["logs", "refund-7"]);
    assert!(done.code == 0 && done.err.contains("nothing is recorded"), "{done:?}");

    let done = plugin(Some(&strangers), &["receipt", "export", "refund-7"]);
    assert!(done.code == 1 && done.err.contains("may not get governedruns"), "{done:?}");
    let done = plugin(Some(&tokenless), &["receipt", "export", "refund-7"]);
    assert!(done.code == 1 && done.err.contains("no token in the header"), "{done:?}");
    let done = plugin(None, &["receipt", "export", "refund-7", "--token", "nonsense"]);
    assert!(done.code == 1 && done.err.contains("not one that the API server knows"), "{done:?}");
    let done = ask(&["explain", "nobody"]);
    assert!(done.code == 1 && done.err.contains("no GovernedRun \"nobody\""), "{done:?}");
    let done = plugin(None, &["explain", "refund-7", "--operator-namespace", "kube-public"]);
    assert!(done.code == 1 && done.err.contains("--operator-namespace"), "{done:?}");

    // What a tenant applies is what the API server takes.
    let printed = place.m87(["tenant", &namespace]);
    assert_eq!(printed.code, 0);
    let documents: Vec<Value> = serde_yaml::Deserializer::from_str(&printed.out)
        .map(|document| serde::Deserialize::deserialize(document).unwrap())
        .collect();
    apply(Api::<RoleBinding>::namespaced(client.clone(), &namespace), documents[0].clone()).await;
    let policies = Api::<k8s_openapi::api::networking::v1::NetworkPolicy>::namespaced(client.clone(), &namespace);
    apply(policies, documents[1].clone()).await;

    // Nothing that a client does with the socket stops it from serving.
    let address = format!("{}:{port}", own_address());
    let _silent = tokio::net::TcpStream::connect(&address).await.unwrap();
    assert_eq!(ask(&["receipt", "export", "refund-7"]).code, 0);
    stop.cancel();
    tokio::time::timeout(Duration::from_secs(15), serving).await.unwrap().unwrap();
    Api::<Namespace>::all(client.clone()).delete(&namespace, &Default::default()).await.unwrap();
    Api::<Namespace>::all(client).delete("m87-system", &Default::default()).await.unwrap();
}
