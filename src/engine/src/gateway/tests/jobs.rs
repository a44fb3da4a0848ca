//! Jobs leave by held polls and streams, and none is lost on the way.

use std::time::Instant;

use m87_zeebe::{BackOff, Client, Handler, Job, JobWorker, Outcome, WorkerOptions};

use super::*;

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

#[tokio::test]
async fn an_activated_job_says_all_that_a_worker_needs() {
    let (engine, mut gateway) = open().await;
    let process = deploy(&mut gateway, "p", "work").await;
    let request = proto::CreateProcessInstanceRequest { variables: r#"{"a":1,"b":[2]}"#.into(), ..latest("p") };
    let instance = gateway.create_process_instance(request).await.unwrap().into_inner().process_instance_key;
    let jobs = activate(&mut gateway, ask("work", 5, 1000)).await.unwrap();
    let [job] = &jobs[..] else { panic!("{jobs:?}") };
    assert_eq!((job.r#type.as_str(), job.worker.as_str(), job.element_id.as_str()), ("work", "tester", "task"));
    assert_eq!((job.process_instance_key, job.process_definition_key), (instance, process.process_definition_key));
    assert_eq!((job.bpmn_process_id.as_str(), job.process_definition_version, job.retries), ("p", 1, 3));
    assert_eq!(job.custom_headers, r#"{"colour":"blue"}"#);
    assert_eq!(job.variables, r#"{"a":1,"b":[2]}"#);
    assert_eq!(job.tenant_id, "<default>");
    assert!(job.key > 1 << 51 && job.deadline > 1_700_000_000_000, "{job:?}");
    let only = proto::ActivateJobsRequest { fetch_variable: vec!["b".into(), "zz".into()], ..ask("work", 1, -1) };
    gateway.fail_job(proto::FailJobRequest { job_key: job.key, retries: 3, ..Default::default() }).await.unwrap();
    assert_eq!(activate(&mut gateway, only).await.unwrap()[0].variables, r#"{"b":[2]}"#);
    engine.stop().await;
}

#[tokio::test]
async fn a_poll_below_zero_is_not_held_and_one_above_is_held_as_asked() {
    let (engine, mut gateway) = open().await;
    for (request_timeout, held) in [(-1, ms(0)..ms(1000)), (1500, ms(1500)..ms(5000))] {
        let started = Instant::now();
        assert!(activate(&mut gateway, ask("work", 1, request_timeout)).await.unwrap().is_empty());
        assert!(held.contains(&started.elapsed()), "{request_timeout}: {:?}", started.elapsed());
    }
    engine.stop().await;
}

#[tokio::test]
async fn a_held_poll_wakes_for_a_new_job() {
    let (engine, mut gateway) = open().await;
    deploy(&mut gateway, "p", "work").await;
    let mut other = gateway.clone();
    let poll = tokio::spawn(async move { activate(&mut other, ask("work", 5, 30_000)).await.unwrap() });
    tokio::time::sleep(ms(100)).await;
    let created = Instant::now();
    create(&mut gateway, "p").await;
    assert_eq!(poll.await.unwrap().len(), 1);
    assert!(created.elapsed() < ms(2000), "{:?}", created.elapsed());
    engine.stop().await;
}

#[tokio::test]
async fn a_held_poll_ends_empty_and_well_before_its_client_gives_up() {
    let (engine, mut gateway) = open().await;
    let mut request = tonic::Request::new(ask("work", 1, 60_000));
    request.set_timeout(ms(3000));
    let started = Instant::now();
    assert!(activate(&mut gateway, request).await.unwrap().is_empty());
    assert!((ms(2600)..ms(3000)).contains(&started.elapsed()), "{:?}", started.elapsed());
    engine.stop().await;
}

#[tokio::test]
async fn a_job_is_not_lost_to_a_poll_whose_client_has_gone() {
    let (engine, mut gateway) = open().await;
    deploy(&mut gateway, "p", "work").await;
    for _ in 0..5 {
        let mut other = gateway.clone();
        let poll = tokio::spawn(async move { activate(&mut other, ask("work", 1, 30_000)).await });
        tokio::time::sleep(ms(50)).await;
        poll.abort();
    }
    tokio::time::sleep(ms(50)).await;
    create(&mut gateway, "p").await;
    let jobs = activate(&mut gateway, ask("work", 1, 5_000)).await.unwrap();
    assert_eq!(jobs.len(), 1);
    engine.stop().await;
}

#[tokio::test]
async fn what_a_client_does_not_read_is_handed_back() {
    let (engine, mut gateway) = open().await;
    deploy(&mut gateway, "p", "work").await;
    create(&mut gateway, "p").await;
    let (metadata, closing) = (tonic::metadata::MetadataMap::new(), CancellationToken::new());
    let batch = crate::gateway::jobs::activate(&engine, &metadata, ask("work", 1, -1), &closing).await.unwrap();
    assert!(activate(&mut gateway, ask("work", 1, -1)).await.unwrap().is_empty(), "it is taken");
    drop(batch);
    assert_eq!(activate(&mut gateway, ask("work", 1, 5_000)).await.unwrap().len(), 1, "and back again");
    engine.stop().await;
}

#[tokio::test]
async fn a_batch_fits_one_message_and_the_rest_waits_for_the_next_poll() {
    let (engine, mut gateway) = open().await;
    deploy(&mut gateway, "p", "work").await;
    let big = format!(r#"{{"a":"{}"}}"#, "x".repeat(1_500_000));
    for _ in 0..5 {
        let request = proto::CreateProcessInstanceRequest { variables: big.clone(), ..latest("p") };
        gateway.create_process_instance(request).await.unwrap();
    }
    let mut taken = Vec::new();
    for _ in 0..3 {
        taken.push(activate(&mut gateway, ask("work", 5, 1000)).await.unwrap().len());
    }
    assert_eq!(taken, [2, 2, 1]);
    engine.stop().await;
}

#[tokio::test]
async fn a_new_job_is_pushed_and_the_backlog_is_left_to_polls() {
    let (engine, mut gateway) = open().await;
    deploy(&mut gateway, "p", "work").await;
    let backlog = create(&mut gateway, "p").await;
    let mut stream = gateway.stream_activated_jobs(stream_ask("work")).await.unwrap().into_inner();
    let pushed = create(&mut gateway, "p").await;
    let job = stream.message().await.unwrap().unwrap();
    assert_eq!(job.process_instance_key, pushed);
    assert!(tokio::time::timeout(ms(100), stream.message()).await.is_err());
    let polled = activate(&mut gateway, ask("work", 5, -1)).await.unwrap();
    assert_eq!(polled.iter().map(|job| job.process_instance_key).collect::<Vec<_>>(), [backlog]);
    engine.stop().await;
}

#[tokio::test]
async fn a_job_is_not_lost_to_a_stream_whose_client_has_gone() {
    let (engine, mut gateway) = open().await;
    deploy(&mut gateway, "p", "work").await;
    let stream = gateway.stream_activated_jobs(stream_ask("work")).await.unwrap().into_inner();
    drop(stream);
    tokio::time::sleep(ms(100)).await;
    create(&mut gateway, "p").await;
    assert_eq!(activate(&mut gateway, ask("work", 1, 5_000)).await.unwrap().len(), 1);
    engine.stop().await;
}

#[tokio::test]
async fn a_gateway_that_closes_ends_polls_empty_and_streams_as_unavailable() {
    let engine = engine().await;
    let served = serve(&engine, Protection::PlainOnLoopback, Arc::new(Open)).await;
    let mut gateway = GatewayClient::new(served.channel());
    let mut stream = gateway.stream_activated_jobs(stream_ask("work")).await.unwrap().into_inner();
    let poll = tokio::spawn(async move { activate(&mut gateway, ask("work", 1, 60_000)).await });
    tokio::time::sleep(ms(100)).await;
    let started = Instant::now();
    served.end().await;
    assert!(started.elapsed() < CLOSING, "nothing had to be cut off: {:?}", started.elapsed());
    assert_eq!(poll.await.unwrap().unwrap(), []);
    assert_eq!(stream.message().await.unwrap_err().code(), tonic::Code::Unavailable);
    engine.stop().await;
}

struct Done;

#[async_trait::async_trait]
impl Handler for Done {
    async fn handle(&self, _: Job) -> Outcome {
        tokio::time::sleep(ms(10)).await;
        Outcome::Complete(serde_json::json!({ "done": true }))
    }
}

async fn all_done(engine: &Engine) {
    let ended = async {
        while engine.committed().running() > 0 {
            tokio::time::sleep(ms(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), ended).await.expect("all are done");
}

#[tokio::test]
async fn a_worker_of_our_own_works_through_polls_and_pushes() {
    let (engine, mut gateway) = open().await;
    deploy(&mut gateway, "p", "work").await;
    for _ in 0..50 {
        create(&mut gateway, "p").await;
    }
    let stop = CancellationToken::new();
    let client = Client::new(engine.channel(Caller::Anonymous));
    let worker = JobWorker::new(client, WorkerOptions::new("own")).handle("work", Arc::new(Done));
    let worker = tokio::spawn(worker.run(stop.clone()));
    for _ in 0..50 {
        create(&mut gateway, "p").await;
    }
    all_done(&engine).await;
    stop.cancel();
    worker.await.unwrap();
    engine.stop().await;
}

#[tokio::test]
async fn a_worker_outlives_the_engine_and_goes_on_where_it_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let options = || EngineOptions { data: Some(folder.path().into()), ..EngineOptions::default() };
    let engine = Engine::open(options()).await.unwrap();
    let mut gateway = GatewayClient::new(engine.channel(Caller::Anonymous));
    deploy(&mut gateway, "p", "work").await;
    futures::future::join_all((0..120).map(|_| {
        let mut gateway = gateway.clone();
        async move { create(&mut gateway, "p").await }
    }))
    .await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let client = Client::new(m87_zeebe::connect(&address.to_string(), m87_zeebe::Tls::Plain).unwrap());
    let options_of_worker = WorkerOptions {
        timeout: ms(2_000),
        max_jobs: 4,
        back_off: BackOff { first: ms(10), cap: ms(200) },
        ..WorkerOptions::new("own")
    };
    let stop = CancellationToken::new();
    let worker = JobWorker::new(client, options_of_worker).handle("work", Arc::new(Done));
    let worker = tokio::spawn(worker.run(stop.clone()));

    let (mut engine, mut listener) = (engine, listener);
    for _ in 0..3 {
        let (served, closing) = (engine.clone(), CancellationToken::new());
        let token = closing.clone();
        let serving =
            tokio::spawn(
                async move { served.serve(listener, Protection::PlainOnLoopback, Arc::new(Open), token).await },
            );
        tokio::time::sleep(ms(60)).await;
        engine.stop().await;
        serving.await.unwrap().unwrap();
        assert!(engine.committed().running() > 0, "it was stopped in the middle");
        engine = Engine::open(options()).await.unwrap();
        listener = TcpListener::bind(address).await.unwrap();
    }
    let served = engine.clone();
    let closing = stop.clone();
    let serving =
        tokio::spawn(async move { served.serve(listener, Protection::PlainOnLoopback, Arc::new(Open), closing).await });
    all_done(&engine).await;
    stop.cancel();
    worker.await.unwrap();
    serving.await.unwrap().unwrap();
    engine.stop().await;
}
