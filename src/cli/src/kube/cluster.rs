//! The way to the cluster: kubeconfig, objects, and m87 itself through the API server's service proxy.

use super::args::Access;
use ::kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use ::kube::client::ConfigExt;
use ::kube::config::{KubeConfigOptions, Kubeconfig};
use ::kube::{Api, Client, Config};
use anyhow::{Context, anyhow, bail};
use http::header::{AUTHORIZATION, HeaderValue};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::rt::TokioExecutor;
use tower::ServiceBuilder;

/// The header with the caller's own token: the API server's proxy drops `Authorization`.
const TOKEN_HEADER: &str = "x-m87-token";

/// A cluster, as somebody, with a namespace.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    operator_namespace: String,
}

impl Cluster {
    /// Reads the kubeconfig. Nothing is asked yet.
    pub(crate) async fn open(access: &Access) -> anyhow::Result<Self> {
        let config = config(access).await?;
        let namespace = access.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let own = access.token.as_deref().map(HeaderValue::from_str).transpose();
        let own = own.map_err(|_| anyhow!("--token: is no bearer token; it holds characters that none has"))?;
        let proxied = proxy_path(&access.operator_namespace);
        // Behind the layer that authenticates, so that a token is known wherever it comes from: a file, an exec plugin.
        let copy_token = move |mut request: http::Request<_>| {
            if http::Request::uri(&request).path().contains(&proxied)
                && let Some(token) = own.clone().or_else(|| bearer(request.headers().get(AUTHORIZATION)))
            {
                request.headers_mut().insert(TOKEN_HEADER, token);
            }
            request
        };
        let connector = config.rustls_https_connector().context("the kubeconfig's certificates cannot be used")?;
        let service = ServiceBuilder::new()
            .layer(config.base_uri_layer())
            .option_layer(config.auth_layer().context("the kubeconfig's credentials cannot be used")?)
            .layer(config.extra_headers_layer().context("the kubeconfig's headers cannot be used")?)
            .map_request(copy_token)
            .map_err(tower::BoxError::from)
            .service(HttpClient::builder(TokioExecutor::new()).build(connector));
        let client = Client::new(service, config.default_namespace.clone());
        Ok(Self { client, namespace, operator_namespace: access.operator_namespace.clone() })
    }

    /// The runs of the namespace.
    pub(crate) fn runs(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &run_kind())
    }

    /// The runs of all namespaces.
    pub(crate) fn all_runs(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &run_kind())
    }

    /// The ConfigMap in which m87 shows its public key.
    pub(crate) async fn shown_key(&self) -> anyhow::Result<String> {
        let api =
            Api::<k8s_openapi::api::core::v1::ConfigMap>::namespaced(self.client.clone(), &self.operator_namespace);
        let place = || format!("ConfigMap m87-ca in namespace {}", self.operator_namespace);
        let shown = api.get("m87-ca").await.map_err(|error| anyhow!("{}: {}", place(), told(&error)))?;
        let pem = shown.data.and_then(|mut data| data.remove("signing.pub.pem"));
        pem.with_context(|| format!("{}: has no signing.pub.pem", place()))
    }

    /// Asks m87 for something of the namespace.
    pub(crate) async fn ask(&self, what: &str) -> anyhow::Result<String> {
        let proxy = proxy_path(&self.operator_namespace);
        let path = format!("{proxy}/v1/namespaces/{}/{what}", self.namespace);
        let request = http::Request::get(&path).body(Vec::new()).with_context(|| format!("{path}: is no path"))?;
        self.client
            .request_text(request)
            .await
            .map_err(|error| anyhow!("m87 in namespace {} does not show it: {}", self.operator_namespace, told(&error)))
    }

    /// Asks m87 for something of a run.
    pub(crate) async fn ask_of_run(&self, run: &str, what: &str) -> anyhow::Result<String> {
        if m87_api::subdomain(run).is_err() {
            bail!("{run:?} is no name of a run; names are lower-case letters, digits, '-' and '.'");
        }
        self.ask(&format!("runs/{run}/{what}")).await
    }
}

fn run_kind() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("m87.dev", "v1alpha1", "GovernedRun"))
}

fn proxy_path(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/services/https:m87:8444/proxy")
}

/// The token of an `Authorization` header, to be sent once more.
fn bearer(authorization: Option<&HeaderValue>) -> Option<HeaderValue> {
    let token = authorization?.to_str().ok()?.strip_prefix("Bearer ")?;
    let mut value = HeaderValue::from_str(token).ok()?;
    value.set_sensitive(true);
    Some(value)
}

async fn config(access: &Access) -> anyhow::Result<Config> {
    let options = KubeConfigOptions { context: access.context.clone(), ..KubeConfigOptions::default() };
    match (&access.kubeconfig, &access.context) {
        (Some(file), _) => {
            let place = || file.display().to_string();
            let kubeconfig = Kubeconfig::read_from(file).with_context(place)?;
            Config::from_custom_kubeconfig(kubeconfig, &options).await.with_context(place)
        }
        (None, Some(context)) => {
            Config::from_kubeconfig(&options).await.with_context(|| format!("kubeconfig, context {context:?}"))
        }
        (None, None) => {
            Config::infer().await.context("no cluster: name a kubeconfig with --kubeconfig, or set KUBECONFIG")
        }
    }
}

/// An error of the API server, or of m87 behind it, in its own words, with what to do where that is known.
pub(crate) fn told(error: &::kube::Error) -> String {
    let ::kube::Error::Api(status) = error else { return chain(error) };
    let message = if status.message.is_empty() { status.reason.clone() } else { status.message.clone() };
    match status.code {
        403 if message.contains("services/proxy") => {
            format!(
                "{message}; ask for a binding of the Role m87-receipts, which lets one reach m87 through the API server"
            )
        }
        404 if message.contains("could not find the requested resource") || message.contains("page not found") => {
            format!("{message}; the resources of m87 are not installed (helm install m87-crds)")
        }
        404 if message.contains("services \"m87\" not found") => {
            format!("{message}; name where m87 is installed with --operator-namespace")
        }
        503 if message.contains("no endpoints available") => {
            format!("{message}; m87 does not run, or is not ready yet")
        }
        _ => message,
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let said = inner.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn the_token_that_authenticates_is_the_one_that_is_sent_once_more() {
        let header = |text: &str| HeaderValue::from_str(text).unwrap();
        let copied = bearer(Some(&header("Bearer abc.def"))).unwrap();
        assert_eq!(copied, header("abc.def"));
        assert!(copied.is_sensitive());
        assert_eq!(bearer(Some(&header("Basic YTpi"))), None);
        assert_eq!(bearer(None), None);
    }
}
