//! Who asks, and what of the cluster an answer depends on. The API server knows both; it is asked anew each time.

use super::answer::{NO_TOKEN, UNKNOWN_TOKEN};
use super::{Receipts, Refused, TOKEN_HEADER};
use async_trait::async_trait;
use axum::http::HeaderMap;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, PostParams};
use kube::{Api, Client};
use m87_core::dossier::Named;
use serde_json::Value;
use std::collections::BTreeMap;

/// No token that an API server issues is longer, in bytes.
const MAX_TOKEN: usize = 16 << 10;

/// A user as the API server knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub username: String,
    /// The uid; empty if there is none.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// Whatever else the authenticator says; a webhook authorizer may need it.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// What a GovernedRun says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct RunObject {
    /// Its uid.
    pub uid: String,
    /// The effect's identity: its key, or its name.
    pub idempotency_key: String,
    /// `spec.proposal`, as it stands.
    pub proposal: Value,
}

/// The API server did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the API server cannot be asked {0}")]
pub struct Unreachable(pub String);

/// What the API server knows and this server asks.
#[async_trait]
pub trait Cluster: Send + Sync {
    /// Whose token that is; `None` if it is nobody's.
    async fn who(&self, token: &str) -> Result<Option<User>, Unreachable>;

    /// Whether the user may `get governedruns` in the namespace: all of them, or the one of that name.
    async fn may_get_runs(&self, user: &User, namespace: &str, name: Option<&str>) -> Result<bool, Unreachable>;

    /// The uid of a namespace; `None` if there is none.
    async fn namespace(&self, name: &str) -> Result<Option<String>, Unreachable>;

    /// The run of that name as it stands; `None` if there is none.
    async fn run(&self, namespace: &str, name: &str) -> Result<Option<RunObject>, Unreachable>;
}

/// What a request is about, and so what the caller must be allowed to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope<'a> {
    /// Everything of the namespace.
    Namespace,
    /// The run of that name.
    Run(&'a str),
}

impl<'a> Scope<'a> {
    /// A uid says nothing of the name, by which rights are given: whoever asks by it must be allowed to see every run.
    pub(super) fn of_run(run: &'a str) -> Self {
        if is_uid(run) { Self::Namespace } else { Self::Run(run) }
    }
}

/// Whether this is written like the uid of an object.
pub(super) fn is_uid(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    lengths == [8, 4, 4, 4, 12] && parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

impl Receipts {
    /// Lets a caller in, and says which tenant the namespace is now.
    pub(super) async fn admit(&self, headers: &HeaderMap, namespace: &str, of: Scope<'_>) -> Result<Named, Refused> {
        m87_api::label(namespace)
            .map_err(|problem| Refused::Malformed(format!("namespace {namespace:?} {problem}")))?;
        let name = match of {
            Scope::Namespace => None,
            Scope::Run(name) => {
                m87_api::subdomain(name).map_err(|problem| Refused::Malformed(format!("run {name:?} {problem}")))?;
                Some(name)
            }
        };
        let token = headers.get(TOKEN_HEADER).ok_or(Refused::Unknown(NO_TOKEN))?;
        let token = token.to_str().ok().filter(|token| !token.is_empty() && token.len() <= MAX_TOKEN);
        let token = token.ok_or(Refused::Unknown(UNKNOWN_TOKEN))?;
        let user = self.cluster.who(token).await.map_err(Refused::unavailable)?;
        let user = user.ok_or(Refused::Unknown(UNKNOWN_TOKEN))?;
        if !self.cluster.may_get_runs(&user, namespace, name).await.map_err(Refused::unavailable)? {
            return Err(Refused::MayNot { user: user.username, namespace: namespace.to_owned() });
        }
        let uid = self.cluster.namespace(namespace).await.map_err(Refused::unavailable)?;
        let uid = uid.ok_or_else(|| Refused::NotFound(format!("there is no namespace {namespace:?}")))?;
        Ok(Named { name: namespace.to_owned(), uid })
    }
}

/// The API server itself.
pub struct ApiServer {
    client: Client,
}

impl ApiServer {
    /// Asks with the operator's own rights: create tokenreviews and subjectaccessreviews, get namespaces and governedruns.
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

#[async_trait]
impl Cluster for ApiServer {
    async fn who(&self, token: &str) -> Result<Option<User>, Unreachable> {
        // No audience is named: the token is the one for the API server itself.
        let spec = TokenReviewSpec { token: token.to_owned(), audiences: None };
        let review = TokenReview { spec, ..TokenReview::default() };
        let asked = Api::<TokenReview>::all(self.client.clone()).create(&PostParams::default(), &review).await;
        let status = asked.map_err(|error| failed("whose token it is", &error))?.status.unwrap_or_default();
        if status.authenticated != Some(true) {
            return Ok(None);
        }
        Ok(status.user.map(|user| User {
            username: user.username.unwrap_or_default(),
            uid: user.uid.unwrap_or_default(),
            groups: user.groups.unwrap_or_default(),
            extra: user.extra.unwrap_or_default(),
        }))
    }

    async fn may_get_runs(&self, user: &User, namespace: &str, name: Option<&str>) -> Result<bool, Unreachable> {
        let attributes = ResourceAttributes {
            group: Some("m87.dev".to_owned()),
            resource: Some("governedruns".to_owned()),
            verb: Some("get".to_owned()),
            namespace: Some(namespace.to_owned()),
            name: name.map(str::to_owned),
            ..ResourceAttributes::default()
        };
        let spec = SubjectAccessReviewSpec {
            user: Some(user.username.clone()),
            uid: Some(user.uid.clone()).filter(|uid| !uid.is_empty()),
            groups: Some(user.groups.clone()),
            extra: Some(user.extra.clone()),
            resource_attributes: Some(attributes),
            non_resource_attributes: None,
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let api = Api::<SubjectAccessReview>::all(self.client.clone());
        let asked = api.create(&PostParams::default(), &review).await;
        let answer = asked.map_err(|error| failed("what the caller may see", &error))?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }

    async fn namespace(&self, name: &str) -> Result<Option<String>, Unreachable> {
        let asked = Api::<Namespace>::all(self.client.clone()).get_opt(name).await;
        let found = asked.map_err(|error| failed("which namespace it is", &error))?;
        Ok(found.and_then(|namespace| namespace.metadata.uid))
    }

    async fn run(&self, namespace: &str, name: &str) -> Result<Option<RunObject>, Unreachable> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("m87.dev", "v1alpha1", "GovernedRun"));
        let api = Api::<DynamicObject>::namespaced_with(self.client.clone(), namespace, &kind);
        let found = api.get_opt(name).await.map_err(|error| failed("which run it is", &error))?;
        let Some(object) = found else { return Ok(None) };
        let spec = object.data.get("spec").cloned().unwrap_or_default();
        let key = spec.get("idempotencyKey").and_then(Value::as_str).unwrap_or(name).to_owned();
        let proposal = spec.get("proposal").cloned().unwrap_or_default();
        Ok(object.metadata.uid.map(|uid| RunObject { uid, idempotency_key: key, proposal }))
    }
}

fn failed(what: &str, error: &kube::Error) -> Unreachable {
    Unreachable(format!("{what}: {error}"))
}
