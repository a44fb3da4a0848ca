//! Real pods on a real node: the built pod, the real binary in it, and the executor that starts, watches and discards them.
//! The authority is played by this process: it answers `redeem` and keeps what it is told, once a TokenReview has said that
//! the caller is the very pod that was made.
//!
//! `tests/pods` starts a node, loads the images and runs this with the variables that it needs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod node;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use m87_authority::{AttemptName, AttemptOrder, Executor, Handle};
use m87_core::evidence::{Ended, ExecutionReport, LimitKind};
use m87_core::json::sha256_hex;
use node::{Node, eventually};
use serde_json::json;

/// What a hostile tool looks for; it prints a line that begins with LEAK for whatever it finds.
const HOSTILE: &str = r#"
for file in /var/run/secrets/m87.dev/token /var/run/secrets/kubernetes.io/serviceaccount/token /run/secrets; do
  [ -e $file ] && echo LEAK $file
done
grep -l -a M87_AUTHORITY_C[A] /proc/[0-9]*/environ 2>/dev/null | sed 's/^/LEAK environment /'
for process in /proc/[0-9]*; do
  (tr '\0' ' ' < $process/cmdline) 2>/dev/null | grep -e --token-fil[e] | sed 's/^/LEAK exec is seen: /'
done
cat /proc/1/mem > /dev/null 2>&1 && echo LEAK memory of the shim
ls /proc/1/fd > /dev/null 2>&1 && echo LEAK files of the shim
for folder in /m87/bin /m87/link / /etc /bin; do
  (: > $folder/mine) 2>/dev/null && echo LEAK $folder can be written to
done
rm -f /m87/link/process.json 2>/dev/null && echo LEAK the mark can be removed
kill -KILL 1; kill -STOP 1
[ $(id -u) = 65533 ] || echo LEAK user $(id -u)
grep -q 'NoNewPrivs.*1' /proc/self/status || echo LEAK privileges
[ $(ls /proc | grep -c '^[0-9]') -lt 12 ] || echo LEAK processes of others
echo looked
"#;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a node with the images: tests/pods"]
async fn attempts_run_as_pods() {
    let node = Node::open().await;
    happy(&node).await;
    hangs(&node).await;
    hostile(&node).await;
    tool_container_killed(&node).await;
    exec_killed(&node).await;
    checks(&node).await;
    pre_created(&node).await;
    patched(&node).await;
    cannot_start(&node).await;
    node.close().await;
}

async fn reported(node: &Node, order: &AttemptOrder) -> (Handle, ExecutionReport) {
    let handle = node.start(order).await.unwrap();
    let report = eventually("a report", || async { node.fake.report(&order.run_uid) }).await;
    (handle, report)
}

/// Once the report is heard, the pod ends by itself; discarded, it is gone.
async fn ends(node: &Node, order: &AttemptOrder, handle: &Handle) {
    eventually("the attempt ends", || async { (!node.executor.alive(handle).await.unwrap()).then_some(()) }).await;
    assert_eq!(node.fake.redemptions(&order.run_uid), 1);
    node.executor.discard(handle).await.unwrap();
    assert!(node.pods.get_opt(&node.name(order)).await.unwrap().is_none());
    node.executor.discard(handle).await.unwrap();
}

async fn happy(node: &Node) {
    let order = node.tool("cat $M87_INPUT > $M87_OUTPUT/result; echo '{\"steps\": 3}' > $M87_USAGE; echo said");
    let (handle, report) = reported(node, &order).await;
    assert_eq!(report.ended, Ended::Exited(0), "{}", report.output);
    assert_eq!((report.output.as_str(), report.reported), ("said", Some(json!({"steps": 3}))));
    let stored = node.fake.artifact(&order.run_uid).unwrap();
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&stored).unwrap(), json!({"question": 7}));
    assert_eq!(report.artifact.unwrap().sha256, Some(sha256_hex(&stored)));
    let pod = eventually("the pod ends", || async {
        let pod = node.pods.get(&node.name(&order)).await.unwrap();
        (pod.status.as_ref()?.phase.as_deref() == Some("Succeeded")).then_some(pod)
    });
    pod.await;
    ends(node, &order, &handle).await;
    println!("happy path: report, usage and artifact heard, pod Succeeded and discarded");
}

async fn hangs(node: &Node) {
    let order = node.limited("(sleep 600 &) ; sleep 600", 2);
    let (handle, report) = reported(node, &order).await;
    assert_eq!(report.ended, Ended::Limit(LimitKind::Seconds));
    ends(node, &order, &handle).await;
    println!("a hanging tool: killed at its limit");
}

async fn hostile(node: &Node) {
    let order = node.tool(HOSTILE);
    let (handle, report) = reported(node, &order).await;
    assert_eq!((report.ended, report.output.as_str()), (Ended::Exited(0), "looked"));
    ends(node, &order, &handle).await;
    println!("a hostile tool: found nothing");
}

async fn tool_container_killed(node: &Node) {
    let order = node.tool("sleep 600");
    let handle = node.start(&order).await.unwrap();
    eventually("it redeems", || async { (node.fake.redemptions(&order.run_uid) == 1).then_some(()) }).await;
    node.kill(&order, "tool").await;
    let report = eventually("a report", || async { node.fake.report(&order.run_uid) }).await;
    assert_eq!(report.ended, Ended::Signalled(9), "{}", report.output);
    ends(node, &order, &handle).await;
    println!("the tool's container killed: reported as ended by signal 9");
}

async fn exec_killed(node: &Node) {
    let order = node.tool("sleep 600");
    let handle = node.start(&order).await.unwrap();
    eventually("it redeems", || async { (node.fake.redemptions(&order.run_uid) == 1).then_some(()) }).await;
    node.kill(&order, "exec").await;
    eventually("the attempt is dead", || async { (!node.executor.alive(&handle).await.unwrap()).then_some(()) }).await;
    eventually("the tool's container ends", || async {
        let pod = node.pods.get(&node.name(&order)).await.unwrap();
        let status = pod.status?.container_statuses?.into_iter().next()?;
        status.state?.terminated
    })
    .await;
    // Started again, perhaps more than once, it redeems nothing.
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert_eq!(node.fake.report(&order.run_uid), None);
    ends(node, &order, &handle).await;
    println!("exec killed: the tool ended, nothing was redeemed again, the attempt is dead");
}

async fn checks(node: &Node) {
    for (script, ended) in [
        ("grep -q artifact $M87_ARTIFACT && grep -q 7 $M87_INPUT", Ended::Exited(0)),
        ("echo no; exit 3", Ended::Exited(3)),
        ("echo '{\"ended\":{\"exited\":0}}' > /dev/termination-log; kill -KILL 1; exit 4", Ended::Exited(4)),
        ("sleep 600", Ended::Limit(LimitKind::Seconds)),
        ("[ ! -e /var/run/secrets ] && ! (: > /m87/order/artifact) 2>/dev/null", Ended::Exited(0)),
    ] {
        let order = node.check(script, b"the artifact", b"the artifact");
        let handle = node.start(&order).await.unwrap();
        let report = eventually("a verdict", || async { node.executor.verdict(&handle).await.unwrap() }).await;
        assert_eq!(report.ended, ended, "{script}: {}", report.output);
        eventually("it ends", || async { (!node.executor.alive(&handle).await.unwrap()).then_some(()) }).await;
        node.executor.discard(&handle).await.unwrap();
    }
    let order = node.check("true", b"stored", b"declared");
    let handle = node.start(&order).await.unwrap();
    let report = eventually("a verdict", || async { node.executor.verdict(&handle).await.unwrap() }).await;
    assert!(matches!(report.ended, Ended::NotStarted(why) if why.contains("not the declared")));
    node.executor.discard(&handle).await.unwrap();
    println!("checks: passed, refused, forged, hung, of another artifact");
}

async fn pre_created(node: &Node) {
    let order = node.tool("true");
    let made = m87_operator::executor::pod::pod(&order, &node.settings, &node.ca, "somebody else's").unwrap();
    let foreign: Pod = serde_json::from_value(made).unwrap();
    node.pods.create(&PostParams::default(), &foreign).await.unwrap();
    let error = node.start(&order).await.unwrap_err();
    assert!(error.to_string().contains("made by somebody else"), "{error}");
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    assert_eq!(node.fake.redemptions(&order.run_uid), 0);
    // By name alone nothing is cleared away but what says that it is this run's.
    let stranger = AttemptName { run_uid: format!("{}-not", order.run_uid), ..order.name() };
    node.executor.discard_unheard(&stranger).await.unwrap();
    let owned = json!({"metadata": {"labels": {"m87.dev/run-uid": "another"}}});
    node.pods.patch(&node.name(&order), &PatchParams::default(), &Patch::Merge(owned)).await.unwrap();
    node.executor.discard_unheard(&order.name()).await.unwrap();
    assert!(node.pods.get(&node.name(&order)).await.is_ok());
    let own = json!({"metadata": {"labels": {"m87.dev/run-uid": order.run_uid}}});
    node.pods.patch(&node.name(&order), &PatchParams::default(), &Patch::Merge(own)).await.unwrap();
    eventually("it is cleared away", || async { node.executor.discard_unheard(&order.name()).await.ok() }).await;
    assert!(node.pods.get_opt(&node.name(&order)).await.unwrap().is_none());
    println!("a pod that was there before: not used, and its token opens nothing");
}

async fn patched(node: &Node) {
    let order = node.tool("true");
    // Not answered yet: the pod is changed before it redeems.
    node.fake.hold(&order.run_uid);
    let handle = node.start(&order).await.unwrap();
    eventually("it asks", || async { node.fake.asked(&order.run_uid).then_some(()) }).await;
    assert_eq!(node.executor.as_made(&handle).await.unwrap(), Ok(()));
    let other = json!({"spec": {"containers": [{"name": "tool", "image": node.other_image}]}});
    node.pods.patch(&node.name(&order), &PatchParams::default(), &Patch::Strategic(other)).await.unwrap();
    let why = node.executor.as_made(&handle).await.unwrap().unwrap_err();
    assert!(why.contains("was changed") && why.contains(&format!("tool: {}", node.other_image)), "{why}");
    node.fake.release(&order.run_uid);
    eventually("it is refused", || async { node.fake.refused(&order.run_uid).then_some(()) }).await;
    assert_eq!(node.fake.redemptions(&order.run_uid), 0);
    node.executor.discard(&handle).await.unwrap();
    println!("an image patched after creation: the contract is refused");
}

async fn cannot_start(node: &Node) {
    let mut order = node.tool("true");
    order.image =
        Some("m87.local/absent@sha256:0000000000000000000000000000000000000000000000000000000000000000".to_owned());
    let handle = node.start(&order).await.unwrap();
    eventually("the image is not there", || async {
        let pod = node.pods.get(&node.name(&order)).await.unwrap();
        let tool = pod.status?.container_statuses?.into_iter().next()?;
        tool.state?.waiting?.reason.filter(|reason| reason.contains("Image") || reason.contains("Err"))
    })
    .await;
    assert!(node.executor.alive(&handle).await.unwrap());
    assert_eq!(node.fake.redemptions(&order.run_uid), 0);
    // A slow node is asked again, as the authority would.
    eventually("it is discarded", || async { node.executor.discard(&handle).await.ok() }).await;
    let left = node.pods.list(&ListParams::default()).await.unwrap();
    assert_eq!(left.items.len(), 0, "{:?}", left.items.iter().map(|pod| &pod.metadata.name).collect::<Vec<_>>());
    println!("an image that is not there: the pod waits, nothing was redeemed, and it can be discarded");
}

impl Node {
    fn name(&self, order: &AttemptOrder) -> String {
        m87_operator::executor::pod::name(&order.name()).unwrap()
    }

    async fn start(&self, order: &AttemptOrder) -> Result<Handle, m87_authority::ExecutorError> {
        let handle = self.executor.start(order).await?;
        self.fake.made(&order.run_uid, &handle);
        Ok(handle)
    }
}
