//! The operator's judgement of the admission policies, on a real API server with the chart installed in m87-system: run it with
//! KUBECONFIG set and `--ignored`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use m87_core::time::Timestamp;
use m87_operator::admission::{Admission, Judgement, SETTLING};
use serde_json::json;
use std::time::{SystemTime, UNIX_EPOCH};

fn now() -> Timestamp {
    let millis = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    Timestamp::from_millis(i64::try_from(millis).unwrap())
}

fn why(judgement: Judgement) -> String {
    match judgement {
        Judgement::Attested => "attested".to_owned(),
        Judgement::Unattested { why } => why,
    }
}

#[tokio::test]
#[ignore = "needs an API server with the chart installed"]
async fn installed_policies_are_believed_until_one_is_touched() {
    rustls::crypto::ring::default_provider().install_default().unwrap();
    let client = Client::try_default().await.unwrap();
    let settling = i64::try_from(SETTLING.as_millis()).unwrap();
    // A run of the time when all policies have settled, whenever this test runs.
    let later = || now().plus_millis(settling + 2_000);
    let fresh = || Admission::new(client.clone(), "m87-system", "m87").unwrap();
    let judged = async |at| why(fresh().attest(at).await.unwrap());

    assert_eq!(judged(later()).await, "attested");
    assert_eq!(why(fresh().standing(later()).await.unwrap()), "attested");
    let early = judged(Timestamp::from_millis(0)).await;
    assert!(early.contains("in force since"), "{early}");

    // An operator of another name is not the one that these policies let write status.
    let other = Admission::new(client.clone(), "elsewhere", "m87").unwrap();
    let other = why(other.attest(later()).await.unwrap());
    assert!(other.contains("is not the one of this version"), "{other}");

    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
    let binding = bindings.get("m87-run").await.unwrap();
    let admission = fresh();
    assert_eq!(why(admission.attest(later()).await.unwrap()), "attested");
    bindings.delete("m87-run", &DeleteParams::default()).await.unwrap();
    let gone = why(admission.attest(later()).await.unwrap());
    assert!(gone.contains("m87-run is not installed"), "nothing that was read before counts: {gone}");
    let mut again = ValidatingAdmissionPolicyBinding { spec: binding.spec.clone(), ..Default::default() };
    again.metadata.name = Some("m87-run".to_owned());
    again.metadata.labels = Some(binding.labels().clone());
    bindings.create(&PostParams::default(), &again).await.unwrap();
    let back = why(admission.attest(now()).await.unwrap());
    assert!(back.contains("m87-run is in force since"), "{back}");
    assert_eq!(judged(later()).await, "attested");

    let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
    let parameters = PatchParams::default();
    let set = async |value: &str| {
        let patch = json!({"spec": {"failurePolicy": value}});
        policies.patch("m87-run", &parameters, &Patch::Merge(&patch)).await.unwrap();
    };
    set("Ignore").await;
    let weaker = judged(later()).await;
    assert!(weaker.contains("m87-run is not the one of this version"), "{weaker}");
    set("Fail").await;
    let restored = judged(now()).await;
    assert!(restored.contains("m87-run is in force since"), "{restored}");
    assert_eq!(judged(later()).await, "attested");
}
