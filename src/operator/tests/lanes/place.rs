//! A namespace of its own for each test, with the lanes' ServiceAccounts, removed at the end.

use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use m87_core::lane::Lane;
use m87_operator::lanes::service_account;
use serde_json::json;
use std::time::{Duration, Instant};

pub(crate) struct Place {
    pub(crate) client: Client,
    pub(crate) namespace: String,
}

impl Place {
    pub(crate) async fn make(purpose: &str) -> Self {
        let client = Client::try_default().await.expect("a cluster: run this under tests/cluster/cluster exec");
        let namespace = format!("lanes-{purpose}-{}", std::process::id());
        let object = serde_json::from_value(json!({
            "metadata": {
                "name": namespace,
                "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
            },
        }));
        let all: Api<Namespace> = Api::all(client.clone());
        all.create(&PostParams::default(), &object.unwrap()).await.unwrap();
        let place = Self { client, namespace };
        for lane in Lane::ALL {
            place.account(&service_account(lane)).await;
        }
        place
    }

    pub(crate) async fn account(&self, name: &str) {
        let object: ServiceAccount = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        self.accounts().create(&PostParams::default(), &object).await.unwrap();
    }

    pub(crate) fn accounts(&self) -> Api<ServiceAccount> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) async fn token(&self, account: &str, audience: &str, bound: Option<BoundObjectReference>) -> String {
        let spec = TokenRequestSpec {
            audiences: Some(vec![audience.to_owned()]),
            bound_object_ref: bound,
            expiration_seconds: Some(600),
        };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let answer = self.accounts().create_token_request(account, &PostParams::default(), &request).await.unwrap();
        answer.status.unwrap().token.unwrap()
    }

    pub(crate) async fn remove(self) {
        let all: Api<Namespace> = Api::all(self.client);
        all.delete(&self.namespace, &DeleteParams::background()).await.unwrap();
    }
}

/// Asks until there is an answer.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut ask: impl FnMut() -> F) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "never: {what}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
