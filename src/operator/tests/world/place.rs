//! A namespace of its own for each test, removed at the end.

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, PostParams};
use kube::{Api, Client, Config};
use m87_api::Spec;
use m87_core::dossier::Named;
use m87_operator::objects::{resource, within};
use serde_json::{Value, json};
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

static NAMESPACES: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Place {
    pub(crate) client: Client,
    pub(crate) namespace: String,
}

impl Place {
    pub(crate) async fn make() -> Self {
        // Another test of this process may have said so already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::try_default().await.expect("a cluster: run this under tests/cluster/cluster exec");
        let number = NAMESPACES.fetch_add(1, Ordering::Relaxed);
        let place = Self { client, namespace: format!("world-{}-{number}", std::process::id()) };
        place.make_namespace().await;
        place
    }

    pub(crate) fn namespaces(&self) -> Api<Namespace> {
        Api::all(self.client.clone())
    }

    async fn make_namespace(&self) {
        let object = serde_json::from_value(json!({"metadata": {"name": self.namespace}})).unwrap();
        self.namespaces().create(&PostParams::default(), &object).await.unwrap();
    }

    /// The namespace, with its uid.
    pub(crate) async fn named(&self) -> Named {
        let namespace = self.namespaces().get(&self.namespace).await.unwrap();
        Named { name: self.namespace.clone(), uid: namespace.metadata.uid.unwrap() }
    }

    pub(crate) async fn object<S: Spec>(&self, name: &str, spec: Value) -> DynamicObject {
        let mut object = DynamicObject::new(name, &resource::<S>());
        object.data = json!({ "spec": spec });
        self.objects::<S>().create(&PostParams::default(), &object).await.unwrap()
    }

    pub(crate) fn objects<S: Spec>(&self) -> Api<DynamicObject> {
        within::<S>(self.client.clone(), &self.namespace)
    }

    /// A client that may do nothing but what everybody may.
    pub(crate) async fn stranger(&self) -> Client {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &self.namespace);
        let account = serde_json::from_value(json!({"metadata": {"name": "stranger"}})).unwrap();
        accounts.create(&PostParams::default(), &account).await.unwrap();
        let request = TokenRequest {
            spec: Some(TokenRequestSpec { expiration_seconds: Some(600), ..TokenRequestSpec::default() }),
            ..TokenRequest::default()
        };
        let answer = accounts.create_token_request("stranger", &PostParams::default(), &request).await.unwrap();
        let mut config = Config::infer().await.unwrap();
        config.auth_info = serde_json::from_value(json!({"token": answer.status.unwrap().token.unwrap()})).unwrap();
        Client::try_from(config).unwrap()
    }

    pub(crate) async fn remove(self) {
        self.namespaces().delete(&self.namespace, &DeleteParams::background()).await.unwrap();
    }
}

/// A definition of the kind that lets every object through.
pub(crate) async fn define<S: Spec>(client: &Client) {
    let kind = resource::<S>();
    let name = format!("{}.{}", kind.plural, kind.group);
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": {"kind": kind.kind, "plural": kind.plural},
            "versions": [{"name": kind.version, "served": true, "storage": true, "schema": {"openAPIV3Schema": open}}],
        },
    }))
    .unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let made = definitions.create(&PostParams::default(), &definition).await;
    assert!(made.is_ok() || matches!(&made, Err(kube::Error::Api(status)) if status.code == 409), "{made:?}");
    until("the definition is served", || async {
        within::<S>(client.clone(), "default").list(&Default::default()).await.ok()
    })
    .await;
}

/// Asks until there is an answer.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut ask: impl FnMut() -> F) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "never: {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
