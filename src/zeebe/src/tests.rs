#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use serde_json::{Map, json};
use tonic::{Code, Request, Response, Status, metadata::MetadataMap, transport::Server};

use crate::{
    Activation, Client, Definition, DefinitionKey, Error, InstanceKey, JobKey, Prefix, Tls, Token, absent_is_done,
    connect, exists_is_done, local,
    proto::{
        self,
        gateway_server::{Gateway, GatewayServer},
    },
};

/// Remembers what it was sent.
#[derive(Clone, Default)]
struct Echo {
    metadata: Arc<Mutex<Vec<MetadataMap>>>,
    created: Arc<Mutex<Vec<proto::CreateProcessInstanceRequest>>>,
    activated: Arc<Mutex<Vec<proto::ActivateJobsRequest>>>,
}

type Stream<T> = tonic::codegen::BoxStream<T>;

#[tonic::async_trait]
impl Gateway for Echo {
    async fn topology(
        &self,
        request: Request<proto::TopologyRequest>,
    ) -> Result<Response<proto::TopologyResponse>, Status> {
        self.metadata.lock().unwrap().push(request.metadata().clone());
        Ok(Response::new(proto::TopologyResponse { cluster_id: "an engine".into(), ..Default::default() }))
    }

    async fn create_process_instance(
        &self,
        request: Request<proto::CreateProcessInstanceRequest>,
    ) -> Result<Response<proto::CreateProcessInstanceResponse>, Status> {
        self.created.lock().unwrap().push(request.into_inner());
        Ok(Response::new(proto::CreateProcessInstanceResponse {
            process_instance_key: i64::MAX,
            process_definition_key: 7,
            version: 2,
            ..Default::default()
        }))
    }

    /// Two jobs, then a cut.
    async fn activate_jobs(
        &self,
        request: Request<proto::ActivateJobsRequest>,
    ) -> Result<Response<Stream<proto::ActivateJobsResponse>>, Status> {
        let ask = request.into_inner();
        let job = |key| proto::ActivatedJob {
            key,
            r#type: ask.r#type.clone(),
            bpmn_process_id: "blue-loop".into(),
            variables: r#"{"run":"1.2"}"#.into(),
            ..Default::default()
        };
        let answer = if ask.r#type.ends_with("nothing") {
            vec![Err(Status::unavailable("cut"))]
        } else {
            vec![Ok(proto::ActivateJobsResponse { jobs: vec![job(1), job(2)] }), Err(Status::unavailable("cut"))]
        };
        self.activated.lock().unwrap().push(ask);
        Ok(Response::new(Box::pin(tokio_stream::iter(answer))))
    }

    /// Never answers.
    async fn complete_job(
        &self,
        _: Request<proto::CompleteJobRequest>,
    ) -> Result<Response<proto::CompleteJobResponse>, Status> {
        std::future::pending().await
    }
}

fn serve() -> (Echo, Client) {
    let echo = Echo::default();
    let (channel, incoming) = local::pair();
    tokio::spawn(Server::builder().add_service(GatewayServer::new(echo.clone())).serve_with_incoming(incoming));
    (echo, Client::new(channel))
}

fn ask(job_type: &str) -> Activation {
    Activation { job_type: job_type.into(), worker: "w".into(), timeout: Duration::from_secs(30), variables: None }
}

#[test]
fn only_a_definite_no_is_a_refusal() {
    use Code::*;
    for code in [
        InvalidArgument,
        AlreadyExists,
        PermissionDenied,
        FailedPrecondition,
        OutOfRange,
        Unimplemented,
        Unauthenticated,
    ] {
        let error = Error::from(Status::new(code, "no"));
        assert_eq!(error, Error::Refused { status: code, message: "no".into() });
    }
    for code in [Cancelled, Unknown, DeadlineExceeded, ResourceExhausted, Aborted, Internal, Unavailable, DataLoss] {
        assert!(Error::from(Status::new(code, "?")).is_unavailable(), "{code:?}");
    }
    assert_eq!(Error::from(Status::not_found("gone")), Error::NotFound("gone".into()));
}

#[test]
fn not_found_and_already_exists_on_a_repeated_call_are_success() {
    assert_eq!(absent_is_done(Err(Error::NotFound("ended".into()))), Ok(()));
    let exists = || Error::from(Status::already_exists("there"));
    assert_eq!(exists_is_done(Err(exists())), Ok(()));
    assert_eq!(absent_is_done(Err(exists())), Err(exists()));
    let away = Error::from(Status::unavailable("away"));
    assert_eq!(absent_is_done(Err(away.clone())), Err(away.clone()));
    assert_eq!(exists_is_done(Err(away.clone())), Err(away));
}

#[tokio::test]
async fn each_call_carries_its_deadline_and_the_token_of_the_moment() {
    let (echo, client) = serve();
    client.topology().await.unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let client = client.with_token(Arc::new(Token::File(file.path().into()))).with_deadline(Duration::from_secs(3));
    for token in ["first\n", "second"] {
        std::fs::write(file.path(), token).unwrap();
        client.topology().await.unwrap();
    }
    let seen = echo.metadata.lock().unwrap();
    let tokens: Vec<_> = seen.iter().map(|m| m.get("authorization").map(|v| v.to_str().unwrap())).collect();
    assert_eq!(tokens, [None, Some("Bearer first"), Some("Bearer second")]);
    assert!(seen.iter().all(|metadata| metadata.contains_key("grpc-timeout")));
}

#[tokio::test]
async fn a_token_that_cannot_be_read_is_not_a_no() {
    let (_, client) = serve();
    let client = client.with_token(Arc::new(Token::File("/nowhere/token".into())));
    let error = client.topology().await.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("/nowhere/token"), "{error}");
}

#[test]
fn a_token_is_not_printed() {
    let fixed = Token::Fixed("s3cret".into());
    assert!(!format!("{fixed:?}").contains("s3cret"));
    let (channel, _incoming) = tokio::runtime::Runtime::new().unwrap().block_on(async { local::pair() });
    let client = Client::new(channel).with_token(Arc::new(fixed));
    assert!(!format!("{client:?}").contains("s3cret"));
}

#[tokio::test]
async fn the_prefix_is_on_the_wire_and_nowhere_else() {
    let (echo, client) = serve();
    let client = client.with_prefix(Prefix::parse("blue-").unwrap());
    let instance = client.create_instance(&Definition::Latest("loop".into()), &Map::new()).await.unwrap();
    assert_eq!(instance.key, InstanceKey(i64::MAX), "keys keep their 64 bits");
    client.create_instance(&Definition::Key(DefinitionKey(7)), &Map::new()).await.unwrap();
    let jobs = client.activate_jobs(&ask("propose"), 5, Duration::ZERO).await.unwrap();
    assert_eq!((jobs[0].job_type.as_str(), jobs[0].process_id.as_str()), ("propose", "loop"));
    let created = echo.created.lock().unwrap();
    let sent: Vec<_> =
        created.iter().map(|c| (c.process_definition_key, c.bpmn_process_id.as_str(), c.version)).collect();
    assert_eq!(sent, [(0, "blue-loop", -1), (7, "", -1)]);
    assert_eq!(echo.activated.lock().unwrap()[0].r#type, "blue-propose");
}

#[tokio::test]
async fn jobs_that_came_before_a_cut_are_kept_and_a_cut_without_jobs_is_unavailable() {
    let (echo, client) = serve();
    let jobs = client.activate_jobs(&ask("work"), 5, Duration::from_secs(1)).await.unwrap();
    assert_eq!(jobs.iter().map(|job| job.key).collect::<Vec<_>>(), [JobKey(1), JobKey(2)]);
    assert_eq!(serde_json::Value::from(jobs[0].variables().unwrap()), json!({ "run": "1.2" }));
    let error = client.activate_jobs(&ask("nothing"), 5, Duration::ZERO).await.unwrap_err();
    assert!(error.is_unavailable());
    let asked: Vec<_> = echo.activated.lock().unwrap().iter().map(|ask| ask.request_timeout).collect();
    assert_eq!(asked, [1000, -1], "no wait is said as less than nothing: nothing is the gateway's own");
}

#[tokio::test]
async fn no_call_hangs() {
    let (_, client) = serve();
    let client = client.with_deadline(Duration::from_millis(200));
    let started = Instant::now();
    let error = client.complete_job(JobKey(1), &Map::new()).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert!(started.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn an_address_that_cannot_be_used_is_refused_with_what_to_write() {
    for address in ["", "localhost", "http://localhost:26500", "a b:1", "host:notaport"] {
        let error = connect(address, Tls::Plain).unwrap_err().to_string();
        assert!(error.contains("127.0.0.1:26500"), "{address:?}: {error}");
    }
    for pem in ["", "not a certificate"] {
        let tls = Tls::Ca { pem: pem.into(), name: None };
        let error = connect("localhost:26500", tls).unwrap_err().to_string();
        assert!(error.contains("no PEM certificate"), "{error}");
    }
}

#[tokio::test]
async fn tls_reaches_the_server_of_the_named_ca_and_no_other() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let other = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let identity = tonic::transport::Identity::from_pem(made.cert.pem(), made.signing_key.serialize_pem());
    let server = Server::builder()
        .tls_config(tonic::transport::ServerTlsConfig::new().identity(identity))
        .unwrap()
        .add_service(GatewayServer::new(Echo::default()))
        .serve_with_incoming(tokio_stream::wrappers::TcpListenerStream::new(listener));
    let server = tokio::spawn(server);
    let client = |pem: String, name: Option<&str>| {
        let tls = Tls::Ca { pem: pem.into_bytes(), name: name.map(str::to_owned) };
        Client::new(connect(&format!("127.0.0.1:{port}"), tls).unwrap())
    };
    client(made.cert.pem(), Some("localhost")).topology().await.unwrap();
    for (pem, name) in
        [(other.cert.pem(), Some("localhost")), (made.cert.pem(), Some("elsewhere")), (made.cert.pem(), None)]
    {
        let error = client(pem, name).topology().await.unwrap_err();
        assert!(error.is_unavailable(), "{error}");
    }
    let plain = Client::new(connect(&format!("127.0.0.1:{port}"), Tls::Plain).unwrap());
    assert!(plain.topology().await.is_err());
    server.abort();
}
