//! Who may do what, asked over the wire.

use m87_core::lane::{JobType, Lane};
use tonic::{Code, Status};

use super::*;

/// An engine with an instance at a task of each job type, and the keys of those jobs.
async fn one_job_of_each_type() -> (Engine, Vec<(JobType, i64)>) {
    let (engine, mut gateway) = open().await;
    let mut jobs = Vec::new();
    for job in JobType::ALL {
        deploy(&mut gateway, job.name(), job.name()).await;
        create(&mut gateway, job.name()).await;
        jobs.push((job, activate(&mut gateway, ask(job.name(), 1, 1000)).await.unwrap()[0].key));
    }
    (engine, jobs)
}

fn owner(job: JobType) -> Caller {
    job.lane().map_or(Caller::Operator, Caller::Lane)
}

fn callers() -> impl Iterator<Item = Caller> {
    Lane::ALL.into_iter().map(Caller::Lane).chain([Caller::Operator])
}

fn code<T>(result: Result<T, Status>) -> Code {
    result.err().map_or(Code::Ok, |status| status.code())
}

#[tokio::test]
async fn a_lane_cannot_touch_the_jobs_of_another() {
    let (engine, jobs) = one_job_of_each_type().await;
    for caller in callers() {
        let mut gateway = GatewayClient::new(engine.channel(caller));
        for (job, key) in jobs.iter().copied().filter(|(job, _)| owner(*job) != caller) {
            let results = [
                code(activate(&mut gateway, ask(job.name(), 1, -1)).await),
                code(gateway.stream_activated_jobs(stream_ask(job.name())).await),
                code(gateway.complete_job(proto::CompleteJobRequest { job_key: key, ..Default::default() }).await),
                code(gateway.fail_job(proto::FailJobRequest { job_key: key, ..Default::default() }).await),
                code(gateway.throw_error(proto::ThrowErrorRequest { job_key: key, ..Default::default() }).await),
                code(
                    gateway
                        .update_job_timeout(proto::UpdateJobTimeoutRequest {
                            job_key: key,
                            timeout: 1,
                            ..Default::default()
                        })
                        .await,
                ),
            ];
            assert_eq!(results, [Code::PermissionDenied; 6], "{caller:?} {job:?}");
        }
    }
    for (job, key) in jobs {
        assert!(engine.job(key).is_some_and(|view| view.retries == 3), "{job:?} is untouched");
    }
    engine.stop().await;
}

#[tokio::test]
async fn each_caller_can_do_its_own_jobs() {
    let (engine, jobs) = one_job_of_each_type().await;
    for (job, key) in jobs {
        let mut gateway = GatewayClient::new(engine.channel(owner(job)));
        let update = proto::UpdateJobTimeoutRequest { job_key: key, timeout: 60_000, ..Default::default() };
        gateway.update_job_timeout(update).await.unwrap();
        gateway.complete_job(proto::CompleteJobRequest { job_key: key, ..Default::default() }).await.unwrap();
        assert!(activate(&mut gateway, ask(job.name(), 1, -1)).await.unwrap().is_empty());
    }
    assert_eq!(engine.committed().running(), 0);
    engine.stop().await;
}

#[tokio::test]
async fn a_lane_cannot_steer_a_process() {
    let (engine, mut open) = open().await;
    let process = deploy(&mut open, "p", "execute").await;
    let instance = create(&mut open, "p").await;
    for lane in Lane::ALL {
        let mut gateway = GatewayClient::new(engine.channel(Caller::Lane(lane)));
        let variables = r#"{"constraints_ok":true}"#;
        let start = proto::ProcessInstanceCreationStartInstruction { element_id: "task".into() };
        let late = proto::CreateProcessInstanceRequest { start_instructions: vec![start], ..latest("p") };
        let set = proto::SetVariablesRequest {
            element_instance_key: instance,
            variables: variables.into(),
            ..Default::default()
        };
        let resources = vec![proto::Resource { name: "q.bpmn".into(), content: self::process("q", "execute") }];
        let deploy = proto::DeployResourceRequest { resources, ..Default::default() };
        let cancel = proto::CancelProcessInstanceRequest { process_instance_key: instance, ..Default::default() };
        let modify = proto::ModifyProcessInstanceRequest { process_instance_key: instance, ..Default::default() };
        let migrate = proto::MigrateProcessInstanceRequest { process_instance_key: instance, ..Default::default() };
        let delete =
            proto::DeleteResourceRequest { resource_key: process.process_definition_key, ..Default::default() };
        let resolve = proto::ResolveIncidentRequest { incident_key: 1, ..Default::default() };
        let results = [
            ("set variables", code(gateway.set_variables(set).await)),
            ("create", code(gateway.create_process_instance(latest("p")).await)),
            ("start instructions", code(gateway.create_process_instance(late).await)),
            ("deploy", code(gateway.deploy_resource(deploy).await)),
            ("cancel", code(gateway.cancel_process_instance(cancel).await)),
            ("modify", code(gateway.modify_process_instance(modify).await)),
            ("migrate", code(gateway.migrate_process_instance(migrate).await)),
            ("delete", code(gateway.delete_resource(delete).await)),
            ("resolve", code(gateway.resolve_incident(resolve).await)),
        ];
        for (what, result) in results {
            assert_eq!(result, Code::PermissionDenied, "{lane:?}: {what}");
        }
        gateway.topology(proto::TopologyRequest {}).await.unwrap();
    }
    assert_eq!(engine.committed().running(), 1);
    engine.stop().await;
}

#[tokio::test]
async fn without_a_known_token_nothing_is_answered_but_health() {
    let engine = engine().await;
    let tokens =
        Tokens::default().with("the-operators", Caller::Operator).with("the-runners", Caller::Lane(Lane::Runner));
    let served = serve(&engine, Protection::PlainOnLoopback, Arc::new(tokens)).await;
    for (token, expected) in [
        (None, Code::Unauthenticated),
        (Some(""), Code::Unauthenticated),
        (Some("Bearer wrong"), Code::Unauthenticated),
        (Some("Basic the-operators"), Code::Unauthenticated),
        (Some("Bearer the-runners"), Code::PermissionDenied),
        (Some("Bearer the-operators"), Code::NotFound),
    ] {
        let mut gateway = GatewayClient::with_interceptor(served.channel(), move |mut request: tonic::Request<()>| {
            if let Some(token) = token {
                request.metadata_mut().insert("authorization", token.parse().unwrap());
            }
            Ok(request)
        });
        assert_eq!(code(gateway.create_process_instance(latest("p")).await), expected, "{token:?}");
        let look = code(gateway.topology(proto::TopologyRequest {}).await);
        assert_eq!(look == Code::Unauthenticated, expected == Code::Unauthenticated, "{token:?}");
    }
    let mut health = tonic_health::pb::health_client::HealthClient::new(served.channel());
    let ask = tonic_health::pb::HealthCheckRequest { service: "gateway_protocol.Gateway".into() };
    let status = health.check(ask).await.unwrap().into_inner().status;
    assert_eq!(status, i32::from(tonic_health::pb::health_check_response::ServingStatus::Serving));
    served.end().await;
    engine.stop().await;
}

#[tokio::test]
async fn an_open_gateway_lets_anybody_do_what_a_plain_zeebe_does() {
    let engine = engine().await;
    let served = serve(&engine, Protection::PlainOnLoopback, Arc::new(Open)).await;
    let mut gateway = GatewayClient::with_interceptor(served.channel(), |mut request: tonic::Request<()>| {
        request.metadata_mut().insert("authorization", "".parse().unwrap());
        Ok(request)
    });
    let resource = proto::Resource { name: "p.bpmn".into(), content: process("p", "anything") };
    let request = proto::DeployResourceRequest { resources: vec![resource], ..Default::default() };
    gateway.deploy_resource(request).await.unwrap();
    gateway.create_process_instance(latest("p")).await.unwrap();
    served.end().await;
    engine.stop().await;
}

#[tokio::test]
async fn plain_text_is_refused_beyond_loopback_unless_said_explicitly() {
    let engine = engine().await;
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let callers: Arc<dyn Callers> = Arc::new(Open);
    let refusal = engine.serve(listener, Protection::PlainOnLoopback, callers.clone(), CancellationToken::new()).await;
    assert!(matches!(refusal, Err(ServeError::NotLoopback(_))), "{refusal:?}");
    let (listener, stop) = (TcpListener::bind("0.0.0.0:0").await.unwrap(), CancellationToken::new());
    stop.cancel();
    engine.serve(listener, Protection::PlainAnywhere, callers, stop).await.unwrap();
    engine.stop().await;
}

#[tokio::test]
async fn tls_is_served_and_a_broken_certificate_is_refused_at_the_start() {
    let engine = engine().await;
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let (certificate, key) = (made.cert.pem().into_bytes(), made.signing_key.serialize_pem().into_bytes());
    let served = serve(&engine, Protection::Tls { certificate: certificate.clone(), key }, Arc::new(Open)).await;
    let tls = m87_zeebe::Tls::Ca { pem: certificate, name: Some("localhost".into()) };
    let channel = m87_zeebe::connect(&served.address.to_string(), tls).unwrap();
    let topology = GatewayClient::new(channel).topology(proto::TopologyRequest {}).await.unwrap().into_inner();
    assert_eq!(topology.cluster_id, "engine-under-test");
    assert!(GatewayClient::new(served.channel()).topology(proto::TopologyRequest {}).await.is_err());
    served.end().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let broken = Protection::Tls { certificate: b"no".to_vec(), key: b"no".to_vec() };
    let refusal = engine.serve(listener, broken, Arc::new(Open), CancellationToken::new()).await;
    assert!(matches!(refusal, Err(ServeError::Tls(_))), "{refusal:?}");
    engine.stop().await;
}

#[tokio::test]
async fn a_new_certificate_is_shown_without_a_restart_and_open_connections_go_on() {
    let make = || {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        (made.cert.pem().into_bytes(), made.signing_key.serialize_pem().into_bytes())
    };
    let (old, new) = (make(), make());
    let engine = engine().await;
    let leaf = m87_zeebe::Leaf::new(&old.0, &old.1).unwrap();
    let served = serve(&engine, Protection::TlsBy(leaf.clone()), Arc::new(Open)).await;
    let address = served.address.to_string();
    let gateway = |ca: &[u8]| {
        let tls = m87_zeebe::Tls::Ca { pem: ca.to_vec(), name: Some("localhost".into()) };
        GatewayClient::new(m87_zeebe::connect(&address, tls).unwrap())
    };
    let mut before = gateway(&old.0);
    before.topology(proto::TopologyRequest {}).await.unwrap();
    leaf.replace(&new.0, &new.1).unwrap();
    before.topology(proto::TopologyRequest {}).await.unwrap();
    assert!(gateway(&old.0).topology(proto::TopologyRequest {}).await.is_err());
    gateway(&new.0).topology(proto::TopologyRequest {}).await.unwrap();
    assert!(leaf.replace(b"no", b"no").is_err());
    gateway(&new.0).topology(proto::TopologyRequest {}).await.unwrap();
    served.end().await;
    engine.stop().await;
}
