//! Who is taken for a lane at the engine's door.

use crate::place::Place;
use k8s_openapi::api::authentication::v1::BoundObjectReference;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client, Config};
use m87_core::lane::Lane;
use m87_engine::gateway::{Caller, Callers, Unidentified};
use m87_engine::{Engine, EngineOptions};
use m87_operator::gateway::{LaneCallers, serve};
use m87_zeebe::{Activation, Error, Leaf, Tls, Token, connect};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

const OURS: &str = "m87.dev";

#[tokio::test]
#[ignore = "needs a cluster"]
async fn only_a_lanes_own_token_for_our_audience_makes_a_lane() {
    let (here, other) = (Place::make("callers").await, Place::make("others").await);
    here.account("somebody").await;
    let callers = LaneCallers::new(here.client.clone(), &here.namespace);
    for lane in Lane::ALL {
        let token = here.token(&format!("m87-lane-{}", lane.name()), OURS, None).await;
        assert_eq!(callers.identify(Some(&token)).await, Ok(Caller::Lane(lane)));
    }
    let good = here.token("m87-lane-runner", OURS, None).await;
    let (head, signature) = good.rsplit_once('.').unwrap();
    let forged = format!("{head}.{}", signature.chars().rev().collect::<String>());
    for (why, token) in [
        ("the API server's audience", here.token("m87-lane-runner", "https://kubernetes.default.svc", None).await),
        ("another audience", here.token("m87-lane-runner", "vault", None).await),
        ("another account", here.token("somebody", OURS, None).await),
        ("another namespace", other.token("m87-lane-runner", OURS, None).await),
        ("another signature", forged),
        ("garbage", "a.b.c".to_owned()),
        ("nothing", String::new()),
        ("without end", "x".repeat(100_000)),
    ] {
        assert_eq!(callers.identify(Some(&token)).await, Err(Unidentified::Unknown), "{why}");
    }
    assert_eq!(callers.identify(None).await, Err(Unidentified::Unknown));
    here.remove().await;
    other.remove().await;
}

#[tokio::test]
#[ignore = "needs a cluster"]
async fn a_token_dies_with_its_pod() {
    let here = Place::make("pods").await;
    let pods: Api<Pod> = Api::namespaced(here.client.clone(), &here.namespace);
    let pod = json!({"metadata": {"name": "lane"}, "spec": {
        "serviceAccountName": "m87-lane-runner",
        "securityContext": {"runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "c", "image": "none", "securityContext": {
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
        }}],
    }});
    let made = pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let bound = BoundObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        name: Some("lane".to_owned()),
        uid: made.metadata.uid,
    };
    let token = here.token("m87-lane-runner", OURS, Some(bound)).await;
    let fresh = || LaneCallers::new(here.client.clone(), &here.namespace);
    let callers = fresh();
    assert_eq!(callers.identify(Some(&token)).await, Ok(Caller::Lane(Lane::Runner)));
    pods.delete("lane", &DeleteParams::default().grace_period(0)).await.unwrap();
    crate::place::until("the token is nobody's", || async {
        (fresh().identify(Some(&token)).await == Err(Unidentified::Unknown)).then_some(())
    })
    .await;
    // What was believed is forgotten.
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(callers.identify(Some(&token)).await, Err(Unidentified::Unknown));
    here.remove().await;
}

#[tokio::test]
#[ignore = "needs a cluster"]
async fn nobody_to_ask_and_no_right_to_ask_are_no_refusal() {
    let nowhere = Client::try_from(Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
    let mut config = Config::infer().await.unwrap();
    config.auth_info.impersonate = Some("jane".to_owned());
    let powerless = Client::try_from(config).unwrap();
    for (client, says) in [(nowhere, "token review"), (powerless, "forbidden")] {
        match LaneCallers::new(client, "m87-system").identify(Some("a.b.c")).await {
            Err(Unidentified::Unavailable(why)) => assert!(why.contains(says), "{why}"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
#[ignore = "needs a cluster"]
async fn a_lane_gets_its_own_jobs_over_tls_and_a_token_file() {
    let here = Place::make("served").await;
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let folder = tempfile::tempdir().unwrap();
    let (ca, token) = (folder.path().join("ca.pem"), folder.path().join("token"));
    std::fs::write(&ca, &certificate).unwrap();

    let engine = Engine::open(EngineOptions::default()).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("localhost:{}", listener.local_addr().unwrap().port());
    let leaf = Leaf::new(certificate.as_bytes(), key.as_bytes()).unwrap();
    let (stop, serving) = (CancellationToken::new(), engine.clone());
    let callers = LaneCallers::new(here.client.clone(), &here.namespace);
    let until = stop.clone();
    let served = tokio::spawn(async move { serve(&serving, listener, leaf, callers, until).await });

    let channel = connect(&address, Tls::CaFile { path: ca, name: None }).unwrap();
    let client = m87_zeebe::Client::new(channel).with_token(Arc::new(Token::File(token.clone())));
    let ask = |job: &str| {
        let ask = Activation {
            job_type: job.to_owned(),
            worker: "test".to_owned(),
            timeout: Duration::from_secs(1),
            variables: None,
        };
        let client = client.clone();
        async move { client.activate_jobs(&ask, 1, Duration::ZERO).await }
    };
    let missing = ask("execute").await.unwrap_err();
    assert!(missing.is_unavailable() && missing.to_string().contains("token"), "{missing}");
    std::fs::write(&token, here.token("m87-lane-runner", OURS, None).await).unwrap();
    assert_eq!(ask("execute").await.unwrap().len(), 0);
    assert!(ask("verify-artifact").await.unwrap_err().to_string().contains("governance lane's"));
    // The file is read anew at each call.
    std::fs::write(&token, here.token("m87-lane-governance", OURS, None).await).unwrap();
    assert_eq!(ask("verify-artifact").await.unwrap().len(), 0);
    assert!(matches!(ask("execute").await, Err(Error::Refused { .. })));
    assert_eq!(client.answers_anybody().await, Ok(false));
    stop.cancel();
    served.await.unwrap().unwrap();
    engine.stop().await;
    here.remove().await;
}
