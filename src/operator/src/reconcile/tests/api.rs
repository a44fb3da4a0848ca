//! An API server in memory, with versions, lists, watches and faults, as far as the reconcilers ask of one.

use axum::body::{Body, to_bytes};
use bytes::Bytes;
use futures::StreamExt;
use http::{Method, Request, Response, StatusCode};
use kube::Client;
use m87_api::{API_VERSION, GovernedRunSpec, Spec};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::watch;

/// What a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    List,
    Watch,
    Get,
    PatchStatus,
    Delete,
    Event,
}

/// What goes wrong with the next request of a sort.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is answered by this code, and nothing is done.
    Answer(u16),
    /// It is done, and never answered.
    Silence,
}

type Place = (String, String, String);

#[derive(Default)]
struct State {
    version: u64,
    uids: u64,
    objects: BTreeMap<Place, Value>,
    history: Vec<(u64, String, &'static str, Value)>,
    /// Watches from before this version are told that they are too old.
    forgotten: u64,
    faults: VecDeque<(Verb, Fault)>,
    requests: Vec<Verb>,
    /// What was sent with each write.
    sent: Vec<(Verb, Value)>,
}

#[derive(Clone)]
pub(super) struct FakeApi {
    state: Arc<Mutex<State>>,
    version: Arc<watch::Sender<u64>>,
    /// Ends every watch that is open.
    cut: Arc<watch::Sender<u64>>,
}

impl FakeApi {
    pub(super) fn new() -> Self {
        Self { state: Arc::default(), version: Arc::new(watch::Sender::new(0)), cut: Arc::new(watch::Sender::new(0)) }
    }

    pub(super) fn client(&self) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let api = api.clone();
            async move { Ok::<_, Infallible>(api.answer(request).await) }
        });
        Client::new(service, "default")
    }

    /// Creates an object, or changes its spec and notes; answers its uid.
    pub(super) fn apply(&self, kind: &str, plural: &str, name: &str, spec: Value, annotations: Value) -> String {
        self.apply_in("ns", kind, plural, name, spec, annotations)
    }

    pub(super) fn apply_in(
        &self,
        namespace: &str,
        kind: &str,
        plural: &str,
        name: &str,
        spec: Value,
        annotations: Value,
    ) -> String {
        let place = (plural.to_owned(), namespace.to_owned(), name.to_owned());
        let mut state = self.state();
        let before = state.objects.get(&place).cloned();
        state.uids += 1;
        let fresh = format!("00000000-0000-4000-8000-{:012}", state.uids);
        let text = |pointer: &str| before.as_ref().and_then(|it| it.pointer(pointer)).cloned();
        let uid = text("/metadata/uid").unwrap_or_else(|| json!(fresh));
        let generation = text("/metadata/generation").and_then(|it| it.as_i64()).unwrap_or(0) + 1;
        let mut object = json!({
            "apiVersion": API_VERSION, "kind": kind,
            "metadata": {"name": name, "namespace": namespace, "uid": uid, "generation": generation,
                "creationTimestamp": "2026-01-31T12:00:00Z", "annotations": annotations},
            "spec": spec,
        });
        if let Some(status) = text("/status") {
            object["status"] = status;
        }
        let what = if before.is_some() { "MODIFIED" } else { "ADDED" };
        self.put(&mut state, place, object, what);
        uid.as_str().unwrap().to_owned()
    }

    /// Writes a status as somebody who should not.
    pub(super) fn forge(&self, name: &str, status: Value) {
        let place = (GovernedRunSpec::PLURAL.to_owned(), "ns".to_owned(), name.to_owned());
        let mut state = self.state();
        let mut object = state.objects[&place].clone();
        object["status"] = status;
        self.put(&mut state, place, object, "MODIFIED");
    }

    pub(super) fn remove(&self, plural: &str, name: &str) {
        self.remove_in("ns", plural, name);
    }

    pub(super) fn remove_in(&self, namespace: &str, plural: &str, name: &str) {
        let place = (plural.to_owned(), namespace.to_owned(), name.to_owned());
        let mut state = self.state();
        if let Some(object) = state.objects.remove(&place) {
            self.record(&mut state, &place.0, object, "DELETED");
        }
    }

    pub(super) fn status(&self, plural: &str, name: &str) -> Value {
        let place = (plural.to_owned(), "ns".to_owned(), name.to_owned());
        self.state().objects.get(&place).and_then(|object| object.get("status")).cloned().unwrap_or_default()
    }

    pub(super) fn exists(&self, plural: &str, name: &str) -> bool {
        self.state().objects.contains_key(&(plural.to_owned(), "ns".to_owned(), name.to_owned()))
    }

    pub(super) fn next(&self, verb: Verb, fault: Fault) {
        self.state().faults.push_back((verb, fault));
    }

    /// Nobody remembers what happened before now, and every watch ends.
    pub(super) fn forget_history(&self) {
        let mut state = self.state();
        state.forgotten = state.version;
        state.history.clear();
        drop(state);
        self.cut.send_modify(|cut| *cut += 1);
    }

    pub(super) fn count(&self, verb: Verb) -> usize {
        self.state().requests.iter().filter(|request| **request == verb).count()
    }

    /// What was sent with each request of a sort that writes.
    pub(super) fn sent(&self, verb: Verb) -> Vec<Value> {
        self.state().sent.iter().filter(|(of, _)| *of == verb).map(|(_, body)| body.clone()).collect()
    }

    pub(super) fn writes(&self) -> usize {
        self.count(Verb::PatchStatus) + self.count(Verb::Delete) + self.count(Verb::Event)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn put(&self, state: &mut State, place: Place, mut object: Value, what: &'static str) {
        object["metadata"]["resourceVersion"] = json!((state.version + 1).to_string());
        state.objects.insert(place.clone(), object.clone());
        self.record(state, &place.0, object, what);
    }

    fn record(&self, state: &mut State, plural: &str, mut object: Value, what: &'static str) {
        state.version += 1;
        object["metadata"]["resourceVersion"] = json!(state.version.to_string());
        state.history.push((state.version, plural.to_owned(), what, object));
        self.version.send_replace(state.version);
    }

    async fn answer(&self, request: Request<kube::client::Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let body = to_bytes(Body::new(body), usize::MAX).await.unwrap();
        let path: Vec<String> = parts.uri.path().trim_matches('/').split('/').map(str::to_owned).collect();
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let query = parts.uri.query().unwrap_or_default().to_owned();
        let verb = match (&parts.method, path.as_slice()) {
            (_, [.., "events"] | [.., "events", _]) => Verb::Event,
            (&Method::PATCH, _) => Verb::PatchStatus,
            (&Method::DELETE, _) => Verb::Delete,
            (_, ["apis", _, _, _]) if query.contains("watch=true") => Verb::Watch,
            (_, ["apis", _, _, _]) => Verb::List,
            _ => Verb::Get,
        };
        let fault = {
            let mut state = self.state();
            state.requests.push(verb);
            if matches!(verb, Verb::PatchStatus | Verb::Event) {
                state.sent.push((verb, serde_json::from_slice(&body).unwrap()));
            }
            let at = state.faults.iter().position(|(of, _)| *of == verb);
            at.and_then(|at| state.faults.remove(at)).map(|(_, fault)| fault)
        };
        match fault {
            Some(Fault::Answer(code)) => return refusal(code),
            Some(Fault::Silence) if verb == Verb::Watch => {
                return Response::new(Body::from_stream(futures::stream::pending::<Result<Bytes, Infallible>>()));
            }
            Some(Fault::Silence) => {
                self.serve(verb, &path, &query, &body);
                return std::future::pending().await;
            }
            None => {}
        }
        self.serve(verb, &path, &query, &body)
    }

    fn serve(&self, verb: Verb, path: &[&str], query: &str, body: &[u8]) -> Response<Body> {
        let mut state = self.state();
        match (verb, path) {
            (Verb::Event, _) => answer(serde_json::from_slice(body).unwrap()),
            (Verb::List, [.., plural]) => {
                let items: Vec<_> =
                    state.objects.iter().filter(|(place, _)| place.0 == *plural).map(|(_, object)| object).collect();
                answer(json!({"apiVersion": API_VERSION, "kind": "List",
                    "metadata": {"resourceVersion": state.version.to_string()}, "items": items}))
            }
            (Verb::Watch, [.., plural]) => {
                let from = query.split('&').find_map(|part| part.strip_prefix("resourceVersion=")).unwrap();
                let from: u64 = from.parse().unwrap();
                if from < state.forgotten {
                    return refusal(410);
                }
                drop(state);
                self.watch((*plural).to_owned(), from)
            }
            (Verb::Get, ["api", "v1", "namespaces", name]) => {
                answer(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": "uid-of-ns"}}))
            }
            (_, [_, _, _, _, namespace, plural, name, ..]) => {
                let place = ((*plural).to_owned(), (*namespace).to_owned(), (*name).to_owned());
                let Some(mut object) = state.objects.get(&place).cloned() else { return refusal(404) };
                match verb {
                    Verb::PatchStatus => {
                        let operations: Value = serde_json::from_slice(body).unwrap();
                        if operations[0]["value"] != object["metadata"]["uid"] {
                            return refusal(422);
                        }
                        object["status"] = operations[1]["value"].clone();
                        self.put(&mut state, place.clone(), object, "MODIFIED");
                        answer(state.objects[&place].clone())
                    }
                    Verb::Delete => {
                        state.objects.remove(&place);
                        self.record(&mut state, plural, object.clone(), "DELETED");
                        answer(object)
                    }
                    Verb::Get | Verb::List | Verb::Watch | Verb::Event => answer(object),
                }
            }
            _ => refusal(404),
        }
    }

    /// Every change from there on. It ends after a minute, as the server was asked for.
    fn watch(&self, plural: String, from: u64) -> Response<Body> {
        let api = self.clone();
        let (version, cut) = (self.version.subscribe(), self.cut.subscribe());
        let over = Box::pin(tokio::time::sleep(std::time::Duration::from_secs(60)));
        let events =
            futures::stream::unfold((from, version, cut, over), move |(from, mut version, mut cut, mut over)| {
                let (api, plural) = (api.clone(), plural.clone());
                async move {
                    loop {
                        version.borrow_and_update();
                        let next = {
                            let state = api.state();
                            let is_next = |it: &&(u64, String, &str, Value)| it.0 > from && it.1 == plural;
                            state.history.iter().find(is_next).cloned()
                        };
                        if let Some((at, _, what, object)) = next {
                            let line = format!("{}\n", json!({"type": what, "object": object}));
                            return Some((Ok::<_, Infallible>(Bytes::from(line)), (at, version, cut, over)));
                        }
                        tokio::select! {
                            _ = version.changed() => {}
                            _ = cut.changed() => return None,
                            () = &mut over => return None,
                        }
                    }
                }
            });
        Response::new(Body::from_stream(events.boxed()))
    }
}

fn answer(value: Value) -> Response<Body> {
    Response::new(Body::from(value.to_string()))
}

fn refusal(code: u16) -> Response<Body> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("as the test wants: {code}"), "reason": "", "code": code});
    let mut response = answer(status);
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response
}
