//! An API server in memory, as far as ConfigMaps are concerned: versions, and no room beyond 1 MiB.

use axum::body::{Body, to_bytes};
use http::{Method, Request, Response, StatusCode};
use kube::Client;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

#[derive(Default)]
struct State {
    version: u64,
    objects: BTreeMap<String, Value>,
    writes: usize,
}

/// The ConfigMaps of one namespace.
#[derive(Clone, Default)]
pub(crate) struct ConfigMaps(Arc<Mutex<State>>);

impl ConfigMaps {
    pub(crate) fn client(&self) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let api = api.clone();
            async move { Ok::<_, Infallible>(api.answer(request).await) }
        });
        Client::new(service, "m87")
    }

    /// What an object holds; empty if there is none.
    pub(crate) fn data(&self, name: &str) -> BTreeMap<String, String> {
        let state = self.0.lock().unwrap();
        let data = state.objects.get(name).and_then(|object| object.get("data")).cloned().unwrap_or_default();
        serde_json::from_value(data).unwrap_or_default()
    }

    /// How many writes were taken, or tried.
    pub(crate) fn writes(&self) -> usize {
        self.0.lock().unwrap().writes
    }

    async fn answer(&self, request: Request<kube::client::Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let body = to_bytes(Body::new(body), usize::MAX).await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let path = parts.uri.path().to_owned();
        let name = path.rsplit('/').next().unwrap_or_default();
        let mut state = self.0.lock().unwrap();
        state.writes += usize::from(parts.method != Method::GET);
        let is_known = state.objects.get(name).cloned();
        match (parts.method, is_known) {
            (Method::POST, _) => {
                let name = body["metadata"]["name"].as_str().unwrap().to_owned();
                if state.objects.contains_key(&name) { refusal(409) } else { state.store(&name, body) }
            }
            (_, None) => refusal(404),
            (Method::GET, Some(object)) => Response::new(Body::from(object.to_string())),
            (_, Some(object)) if stale(&body, &object) => refusal(409),
            (Method::PUT, Some(_)) => state.store(name, body),
            (Method::PATCH, Some(mut object)) => {
                merge(&mut object, &body);
                state.store(name, object)
            }
            (_, Some(_)) => refusal(405),
        }
    }
}

/// Whether a write names another version than the object has.
fn stale(body: &Value, object: &Value) -> bool {
    let version = &body["metadata"]["resourceVersion"];
    !version.is_null() && *version != object["metadata"]["resourceVersion"]
}

fn merge(object: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *object = patch.clone();
        return;
    };
    for (name, value) in fields {
        merge(&mut object[name], value);
    }
}

impl State {
    fn store(&mut self, name: &str, mut object: Value) -> Response<Body> {
        let values = object["data"].as_object().into_iter().flatten();
        if values.map(|(_, value)| value.as_str().unwrap().len()).sum::<usize>() > 1 << 20 {
            return refusal(422);
        }
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.objects.insert(name.to_owned(), object.clone());
        Response::new(Body::from(object.to_string()))
    }
}

fn refusal(code: u16) -> Response<Body> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("as it would: {code}"), "reason": "", "code": code});
    let mut response = Response::new(Body::from(status.to_string()));
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response
}
