//! Statuses and texts, as Zeebe's clients know them.

use tonic::{Code, Status};

use super::*;

const NOBODY: i64 = 2_251_799_813_685_999;

fn refusal<T: std::fmt::Debug>(result: Result<T, Status>) -> (Code, String) {
    let status = result.expect_err("a refusal");
    (status.code(), status.message().to_owned())
}

#[tokio::test]
async fn what_does_not_exist_is_not_found_in_zeebes_words() {
    let (engine, mut gateway) = open().await;
    let key = NOBODY;
    let results = [
        (
            refusal(gateway.complete_job(proto::CompleteJobRequest { job_key: key, ..Default::default() }).await),
            format!("Command 'COMPLETE' rejected with code 'NOT_FOUND': Expected to complete job with key '{key}', but no such job was found"),
        ),
        (
            refusal(gateway.fail_job(proto::FailJobRequest { job_key: key, ..Default::default() }).await),
            format!("Command 'FAIL' rejected with code 'NOT_FOUND': Expected to fail job with key '{key}', but no such job was found"),
        ),
        (
            refusal(gateway.throw_error(proto::ThrowErrorRequest { job_key: key, ..Default::default() }).await),
            format!("Command 'THROW_ERROR' rejected with code 'NOT_FOUND': Expected to throw an error for job with key '{key}', but no such job was found"),
        ),
        (
            refusal(
                gateway
                    .update_job_retries(proto::UpdateJobRetriesRequest { job_key: key, retries: 1, ..Default::default() })
                    .await,
            ),
            format!("Command 'UPDATE_RETRIES' rejected with code 'NOT_FOUND': Expected to update retries for job with key '{key}', but no such job was found"),
        ),
        (
            refusal(
                gateway
                    .update_job_timeout(proto::UpdateJobTimeoutRequest { job_key: key, timeout: 1, ..Default::default() })
                    .await,
            ),
            format!("Command 'UPDATE_TIMEOUT' rejected with code 'NOT_FOUND': Expected to update job deadline with key '{key}', but no such job was found"),
        ),
        (
            refusal(gateway.create_process_instance(latest("nope")).await),
            "Command 'CREATE' rejected with code 'NOT_FOUND': Expected to find process definition with process ID 'nope', but none found".into(),
        ),
        (
            refusal(
                gateway
                    .create_process_instance(proto::CreateProcessInstanceRequest {
                        process_definition_key: key,
                        ..Default::default()
                    })
                    .await,
            ),
            format!("Command 'CREATE' rejected with code 'NOT_FOUND': Expected to find process definition with key '{key}', but none found"),
        ),
        (
            refusal(
                gateway
                    .set_variables(proto::SetVariablesRequest { element_instance_key: key, ..Default::default() })
                    .await,
            ),
            format!("Command 'UPDATE' rejected with code 'NOT_FOUND': Expected to update variables for element with key '{key}', but no such element was found"),
        ),
        (
            refusal(
                gateway.resolve_incident(proto::ResolveIncidentRequest { incident_key: key, ..Default::default() }).await,
            ),
            format!("Command 'RESOLVE' rejected with code 'NOT_FOUND': Expected to resolve incident with key '{key}', but no such incident was found"),
        ),
    ];
    for ((code, message), expected) in results {
        assert_eq!((code, message), (Code::NotFound, expected));
    }
    let cancel = proto::CancelProcessInstanceRequest { process_instance_key: key, ..Default::default() };
    assert_eq!(refusal(gateway.cancel_process_instance(cancel).await).0, Code::NotFound);
    engine.stop().await;
}

#[tokio::test]
async fn what_is_malformed_is_an_invalid_argument_and_says_why() {
    let (engine, mut gateway) = open().await;
    deploy(&mut gateway, "p", "work").await;
    let instance = create(&mut gateway, "p").await;
    let job = activate(&mut gateway, ask("work", 1, -1)).await.unwrap()[0].key;
    let not_object = "Property 'variables' is invalid: Expected document to be a root level object, but was 'ARRAY'";
    let of = |variables: &str| proto::CompleteJobRequest { job_key: job, variables: variables.into(), result: None };
    let stream = |ask: proto::StreamActivatedJobsRequest| ask;
    let cases = [
        (refusal(gateway.complete_job(of("[1]")).await), not_object),
        (refusal(gateway.complete_job(of("{")).await), "Invalid JSON value: "),
        (refusal(gateway.complete_job(of(r#"{"a":99999999999999999999}"#)).await), "does not fit 64 bits"),
        (
            refusal(
                gateway
                    .set_variables(proto::SetVariablesRequest {
                        element_instance_key: instance,
                        variables: "[1]".into(),
                        ..Default::default()
                    })
                    .await,
            ),
            not_object,
        ),
        (refusal(activate(&mut gateway, ask(" ", 1, -1)).await), "type to be present, but it was blank"),
        (
            refusal(activate(&mut gateway, ask("work", 0, -1)).await),
            "max jobs to activate to be greater than zero, but it was '0'",
        ),
        (refusal(activate(&mut gateway, ask("work", -7, -1)).await), "but it was '-7'"),
        (
            refusal(activate(&mut gateway, proto::ActivateJobsRequest { timeout: 0, ..ask("work", 1, -1) }).await),
            "timeout to be greater than zero, but it was '0'",
        ),
        (refusal(gateway.stream_activated_jobs(stream_ask("")).await), "type to be present"),
        (
            refusal(
                gateway
                    .stream_activated_jobs(stream(proto::StreamActivatedJobsRequest {
                        timeout: -1,
                        ..stream_ask("work")
                    }))
                    .await,
            ),
            "timeout to be greater than zero",
        ),
        (
            refusal(
                gateway
                    .update_job_retries(proto::UpdateJobRetriesRequest {
                        job_key: job,
                        retries: 0,
                        ..Default::default()
                    })
                    .await,
            ),
            "UPDATE_RETRIES",
        ),
        (
            refusal(gateway.create_process_instance(proto::CreateProcessInstanceRequest::default()).await),
            "bpmnProcessId",
        ),
        (refusal(gateway.deploy_resource(proto::DeployResourceRequest::default()).await), "at least one resource"),
    ];
    for ((code, message), part) in cases {
        assert_eq!(code, Code::InvalidArgument, "{message}");
        assert!(message.contains(part), "{message:?} should contain {part:?}");
    }
    assert_eq!(engine.job(job).unwrap().retries, 3, "nothing was changed");
    engine.stop().await;
}

#[tokio::test]
async fn the_default_tenant_is_the_only_one() {
    let (engine, mut gateway) = open().await;
    deploy(&mut gateway, "p", "work").await;
    for (tenant, expected) in [("", Code::Ok), ("<default>", Code::Ok), ("acme", Code::InvalidArgument)] {
        let request = proto::CreateProcessInstanceRequest { tenant_id: tenant.into(), ..latest("p") };
        let created = gateway.create_process_instance(request).await;
        assert_eq!(created.err().map_or(Code::Ok, |status| status.code()), expected, "{tenant}");
        let request = proto::ActivateJobsRequest { tenant_ids: vec![tenant.into()], ..ask("work", 1, -1) };
        let activated = activate(&mut gateway, request).await;
        assert_eq!(activated.err().map_or(Code::Ok, |status| status.code()), expected, "{tenant}");
    }
    engine.stop().await;
}

#[tokio::test]
async fn what_this_engine_cannot_do_is_unimplemented_by_name() {
    let (engine, mut gateway) = open().await;
    let results = [
        refusal(gateway.publish_message(proto::PublishMessageRequest::default()).await),
        refusal(gateway.broadcast_signal(proto::BroadcastSignalRequest::default()).await),
        refusal(gateway.evaluate_decision(proto::EvaluateDecisionRequest::default()).await),
        refusal(gateway.modify_process_instance(proto::ModifyProcessInstanceRequest::default()).await),
        refusal(gateway.migrate_process_instance(proto::MigrateProcessInstanceRequest::default()).await),
        refusal(gateway.delete_resource(proto::DeleteResourceRequest::default()).await),
        refusal(
            gateway.create_process_instance_with_result(proto::CreateProcessInstanceWithResultRequest::default()).await,
        ),
    ];
    for (code, message) in results {
        assert_eq!(code, Code::Unimplemented);
        assert!(message.starts_with("m87's engine cannot "), "{message}");
    }
    engine.stop().await;
}

#[tokio::test]
async fn topology_is_one_healthy_broker_with_the_engines_id() {
    let engine = engine().await;
    let served = serve(&engine, Protection::PlainOnLoopback, Arc::new(Open)).await;
    let topology = GatewayClient::new(served.channel()).topology(proto::TopologyRequest {}).await.unwrap().into_inner();
    assert_eq!(topology.cluster_id, "engine-under-test");
    assert!(topology.gateway_version.starts_with("8.6.0"), "{}", topology.gateway_version);
    assert_eq!((topology.cluster_size, topology.partitions_count, topology.replication_factor), (1, 1, 1));
    let [broker] = &topology.brokers[..] else { panic!("{topology:?}") };
    assert_eq!((broker.host.as_str(), broker.port), ("127.0.0.1", i32::from(served.address.port())));
    assert_eq!((broker.partitions[0].partition_id, broker.partitions[0].role, broker.partitions[0].health), (1, 0, 0));
    served.end().await;
    engine.stop().await;
}

#[tokio::test]
async fn a_message_over_4_mib_is_refused_and_the_next_call_works() {
    let engine = engine().await;
    let served = serve(&engine, Protection::PlainOnLoopback, Arc::new(Open)).await;
    let mut gateway = GatewayClient::new(served.channel());
    let variables = format!(r#"{{"a":"{}"}}"#, "x".repeat(5 * 1024 * 1024));
    let request = proto::CreateProcessInstanceRequest { variables, ..latest("p") };
    assert_eq!(gateway.create_process_instance(request).await.unwrap_err().code(), Code::OutOfRange);
    gateway.topology(proto::TopologyRequest {}).await.unwrap();
    served.end().await;
    engine.stop().await;
}

#[tokio::test]
async fn a_compressed_request_is_read_and_one_that_unpacks_beyond_4_mib_is_refused() {
    let (engine, gateway) = open().await;
    let mut gateway = gateway.send_compressed(CompressionEncoding::Gzip).max_encoding_message_size(usize::MAX);
    deploy(&mut gateway, "p", "work").await;
    create(&mut gateway, "p").await;
    let variables = format!(r#"{{"a":"{}"}}"#, "x".repeat(16 * 1024 * 1024));
    let request = proto::CreateProcessInstanceRequest { variables, ..latest("p") };
    gateway.create_process_instance(request).await.unwrap_err();
    assert_eq!(engine.committed().running(), 1);
    gateway.topology(proto::TopologyRequest {}).await.unwrap();
    engine.stop().await;
}

#[tokio::test]
async fn an_engine_that_has_stopped_is_unavailable() {
    let (engine, mut gateway) = open().await;
    engine.stop().await;
    let (code, _) = refusal(gateway.create_process_instance(latest("p")).await);
    assert_eq!(code, Code::Unavailable);
}
