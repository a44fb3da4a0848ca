//! The gateway of a live engine under frames that no client would send. It answers each with a status, and goes on.

use crate::fuzz;
use crate::mutate::{Random, mutated};
use m87_engine::gateway::{Open, Protection};
use m87_engine::{Engine, EngineOptions};
use m87_zeebe::proto::{self, gateway_client::GatewayClient};
use prost::Message;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

/// Bytes as they are.
#[derive(Default, Clone, Copy)]
struct Bytes;

impl Codec for Bytes {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        bytes::BufMut::put_slice(out, &item);
        Ok(())
    }
}

impl Decoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let length = bytes::Buf::remaining(from);
        Ok(Some(bytes::Buf::copy_to_bytes(from, length).to_vec()))
    }
}

/// A method, and a message that it takes.
fn calls(key: i64) -> Vec<(&'static str, Vec<u8>)> {
    let variables = r#"{"run":"x","constraints_ok":true}"#.to_owned();
    let resource = proto::Resource { name: "m87.bpmn".to_owned(), content: m87_bpmn::EXECUTABLE.as_bytes().to_vec() };
    let id = "m87-governed-loop".to_owned();
    vec![
        ("Topology", proto::TopologyRequest::default().encode_to_vec()),
        (
            "DeployResource",
            proto::DeployResourceRequest { resources: vec![resource], ..Default::default() }.encode_to_vec(),
        ),
        (
            "CreateProcessInstance",
            proto::CreateProcessInstanceRequest {
                bpmn_process_id: id,
                version: -1,
                variables: variables.clone(),
                ..Default::default()
            }
            .encode_to_vec(),
        ),
        (
            "ActivateJobs",
            proto::ActivateJobsRequest {
                r#type: "claim-run".to_owned(),
                worker: "w".to_owned(),
                timeout: 1000,
                max_jobs_to_activate: 3,
                request_timeout: 5,
                ..Default::default()
            }
            .encode_to_vec(),
        ),
        (
            "CompleteJob",
            proto::CompleteJobRequest { job_key: key, variables: variables.clone(), ..Default::default() }
                .encode_to_vec(),
        ),
        (
            "FailJob",
            proto::FailJobRequest { job_key: key, retries: 2, retry_back_off: 1, ..Default::default() }.encode_to_vec(),
        ),
        (
            "ThrowError",
            proto::ThrowErrorRequest { job_key: key, error_code: "e".to_owned(), ..Default::default() }.encode_to_vec(),
        ),
        (
            "UpdateJobRetries",
            proto::UpdateJobRetriesRequest { job_key: key, retries: 1, ..Default::default() }.encode_to_vec(),
        ),
        (
            "UpdateJobTimeout",
            proto::UpdateJobTimeoutRequest { job_key: key, timeout: 1, ..Default::default() }.encode_to_vec(),
        ),
        (
            "CancelProcessInstance",
            proto::CancelProcessInstanceRequest { process_instance_key: key, ..Default::default() }.encode_to_vec(),
        ),
        (
            "SetVariables",
            proto::SetVariablesRequest { element_instance_key: key, variables, ..Default::default() }.encode_to_vec(),
        ),
        ("ResolveIncident", proto::ResolveIncidentRequest { incident_key: key, ..Default::default() }.encode_to_vec()),
        ("Nonsense", vec![]),
    ]
}

async fn call(channel: &Channel, method: &str, message: Vec<u8>) -> Option<Code> {
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await.ok()?;
    let path = format!("/gateway_protocol.Gateway/{method}").parse().unwrap();
    let ask = client.server_streaming(Request::new(message), path, Bytes);
    // A poll may stay open; what matters is that the engine goes on.
    match tokio::time::timeout(Duration::from_millis(200), ask).await {
        Ok(Err(status)) => Some(status.code()),
        Ok(Ok(_)) | Err(_) => None,
    }
}

/// Not even HTTP/2.
fn garbage(random: &mut Random, address: SocketAddr) {
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let bytes = mutated(random, preface, &random.clone().bytes(200));
    let Ok(mut stream) = TcpStream::connect(address) else { return };
    let _ = stream.set_read_timeout(Some(Duration::from_millis(2)));
    let _ = stream.write_all(&bytes);
    let _ = stream.read(&mut [0; 256]);
}

async fn answers(channel: &Channel) {
    let mut gateway = GatewayClient::new(channel.clone());
    let asked = tokio::time::timeout(Duration::from_secs(10), gateway.topology(proto::TopologyRequest {}));
    asked.await.expect("the engine answers").expect("with its topology");
}

#[test]
fn gateway_frames() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (address, stop, serving) = runtime.block_on(async {
        let engine = Engine::open(EngineOptions::default()).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let token = stop.clone();
        let callers = Arc::new(Open);
        let serving =
            tokio::spawn(async move { engine.serve(listener, Protection::PlainOnLoopback, callers, token).await });
        (address, stop, serving)
    });
    let channel = runtime.block_on(async { m87_zeebe::connect(&address.to_string(), m87_zeebe::Tls::Plain).unwrap() });
    fuzz("gateway_frames", |random| {
        if random.one_in(8) {
            garbage(random, address);
        }
        let key = 2_251_799_813_685_249 + random.below(64) as i64;
        let calls = calls(key);
        let (method, message) = random.pick(&calls).clone();
        let other = random.pick(&calls).1.clone();
        let message = match random.below(4) {
            0 => random.bytes(120),
            1 => message,
            _ => mutated(random, &message, &other),
        };
        let code = runtime.block_on(call(&channel, method, message));
        assert!(!matches!(code, Some(Code::DataLoss | Code::Unknown)), "{method}: {code:?}");
        runtime.block_on(answers(&channel));
    });
    stop.cancel();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(10), serving).await }).unwrap().unwrap().unwrap();
}
