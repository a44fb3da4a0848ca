//! `kubectl m87 status`: how runs stand, as their status says. What a newer or older operator writes otherwise is shown as far as
//! it is known.

use super::args::StatusArguments;
use super::cluster::{Cluster, told};
use crate::args::Output;
use crate::exit::Exit;
use crate::local::report::printable;
use crate::say::{put, say};
use ::kube::ResourceExt;
use ::kube::api::{DynamicObject, ListParams};
use anyhow::anyhow;
use m87_core::actor::came_by;
use m87_core::reason::{Reason, Terminal};
use serde_json::{Value, json};
use std::fmt::Write;

/// Runs that are asked for at one time.
const PAGE: u32 = 500;

/// Shows one run or many.
pub(crate) async fn run(arguments: &StatusArguments) -> anyhow::Result<Exit> {
    let cluster = Cluster::open(&arguments.access).await?;
    if let Some(name) = &arguments.run {
        let found = cluster.runs().get(name).await.map_err(|error| anyhow!("run {name:?}: {}", told(&error)))?;
        match arguments.output {
            Output::Table => put!(one(&found)),
            Output::Json => say!("{}", serde_json::to_string_pretty(&as_json(&found))?),
        }
        return Ok(Exit::AsAsked);
    }
    let runs = list(&cluster, arguments.all_namespaces).await?;
    match arguments.output {
        Output::Table => put!(table(&runs, arguments.all_namespaces)),
        Output::Json => {
            let runs: Vec<Value> = runs.iter().map(as_json).collect();
            say!("{}", serde_json::to_string_pretty(&json!({"runs": runs}))?);
        }
    }
    Ok(Exit::AsAsked)
}

/// Every run of the namespace, or of all, page by page.
pub(crate) async fn list(cluster: &Cluster, everywhere: bool) -> anyhow::Result<Vec<DynamicObject>> {
    let api = if everywhere { cluster.all_runs() } else { cluster.runs() };
    let (mut runs, mut from) = (Vec::new(), None);
    loop {
        let asked = ListParams { limit: Some(PAGE), continue_token: from, ..ListParams::default() };
        let page = api.list(&asked).await.map_err(|error| anyhow!("runs: {}", told(&error)))?;
        runs.extend(page.items);
        from = page.metadata.continue_.filter(|token| !token.is_empty());
        if from.is_none() {
            return Ok(runs);
        }
    }
}

/// A text of the status; empty if there is none.
pub(crate) fn says<'a>(run: &'a DynamicObject, pointer: &str) -> &'a str {
    run.data.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn table(runs: &[DynamicObject], everywhere: bool) -> String {
    let mut rows = vec![["NAMESPACE", "RUN", "PHASE", "TERMINAL", "REASON", "RECEIPT"].map(str::to_owned)];
    for run in runs {
        let hash = says(run, "/status/receipt/hash");
        rows.push([
            run.namespace().unwrap_or_default(),
            run.name_any(),
            says(run, "/status/phase").to_owned(),
            says(run, "/status/terminal").to_owned(),
            says(run, "/status/reason").to_owned(),
            hash.get(..12).unwrap_or(hash).to_owned(),
        ]);
    }
    let first = usize::from(!everywhere);
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().enumerate().skip(first).map(|(column, cell)| {
            let width = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
            format!("{:<1$}", printable(cell), width.unwrap_or_default())
        });
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    text
}

fn as_json(run: &DynamicObject) -> Value {
    json!({
        "namespace": run.namespace(), "name": run.name_any(), "uid": run.uid(),
        "status": run.data.get("status").cloned().unwrap_or_default(),
    })
}

/// One run for people: how it stands, its gates and conditions, and what can be done.
fn one(run: &DynamicObject) -> String {
    let mut text = String::new();
    let title = [says(run, "/status/phase"), says(run, "/status/terminal"), says(run, "/status/reason")];
    let title: Vec<&str> = title.into_iter().filter(|word| !word.is_empty()).collect();
    let title = if title.is_empty() { "not seen by m87 yet".to_owned() } else { title.join(" ") };
    let _ = writeln!(text, "{}/{}: {}", run.namespace().unwrap_or_default(), run.name_any(), printable(&title));
    let line = |text: &mut String, name: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(text, "  {name:<9} {}", printable(value));
        }
    };
    line(&mut text, "actor", &actor(run));
    line(&mut text, "because", says(run, "/status/message"));
    line(&mut text, "gates", &gates(run));
    line(&mut text, "effect", says(run, "/status/effect"));
    line(&mut text, "plan", says(run, "/status/planHash"));
    line(&mut text, "receipt", says(run, "/status/receipt/hash"));
    line(&mut text, "as before", &already_done(run));
    for condition in run.data.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten() {
        let of = |name: &str| condition.get(name).and_then(Value::as_str).unwrap_or_default();
        let said = format!("{}={} {}: {}", of("type"), of("status"), of("reason"), of("message"));
        line(&mut text, "condition", said.trim_end_matches([':', ' ']));
    }
    line(&mut text, "next", &next(run));
    text
}

/// Who asked, as the object says, and by which credential.
fn actor(run: &DynamicObject) -> String {
    let credential = run.data.pointer("/spec/actor/credentialId").and_then(Value::as_str);
    match says(run, "/spec/actor/username") {
        "" => String::new(),
        username => format!("{username} ({})", came_by(username, credential)),
    }
}

fn already_done(run: &DynamicObject) -> String {
    match says(run, "/status/alreadyDone/name") {
        "" => String::new(),
        name => format!("AlreadyDone by run {name:?}; nothing was done again"),
    }
}

/// Each gate that was reached, by its name, and what it said: `yes` lets the run go on.
fn gates(run: &DynamicObject) -> String {
    let said = [
        ("evaluate_constraints", "constraintsOk", true),
        ("tool_in_manifest", "toolInManifest", true),
        ("budget_exceeded_or_error", "budgetExceeded", false),
        ("artifact_verified", "artifactVerified", true),
    ];
    let reached = said.into_iter().filter_map(|(name, field, good)| {
        let value = run.data.pointer(&format!("/status/gates/{field}"))?.as_bool()?;
        Some(format!("{name} {}", if value == good { "yes" } else { "NO" }))
    });
    reached.collect::<Vec<_>>().join(", ")
}

/// What a person can do now.
fn next(run: &DynamicObject) -> String {
    let name = run.name_any();
    let place = run.namespace().map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
    let terminal = Terminal::ALL.into_iter().find(|terminal| terminal.name() == says(run, "/status/terminal"));
    let suspended = run.data.pointer("/spec/suspend").and_then(Value::as_bool).unwrap_or_default();
    match terminal {
        Some(Terminal::Complete) => format!("kubectl m87 receipt verify {name}{place} --key FILE"),
        Some(Terminal::Halt) if says(run, "/status/reason") == Reason::TenantNotBound.name() => {
            let namespace = run.namespace().unwrap_or_default();
            format!("kubectl m87 tenant {namespace} | kubectl apply -f - ; then a run with another name")
        }
        Some(Terminal::Halt | Terminal::RejectManifest | Terminal::Failed | Terminal::RejectVerify) => {
            format!("kubectl m87 explain {name}{place} says what would have passed; to run again, use another name")
        }
        None if suspended => format!(
            "it is suspended; who may approve it: kubectl patch grun {name}{place} --type merge -p '{{\"spec\":{{\"suspend\":false}}}}'"
        ),
        None => format!("it goes on; kubectl wait grun {name}{place} --for=condition=ReceiptSealed"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    fn run(name: &str, status: Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "m87.dev/v1alpha1", "kind": "GovernedRun",
            "metadata": {"name": name, "namespace": "pay", "uid": "u"},
            "spec": {"actor": {"username": "ann"}}, "status": status,
        }))
        .unwrap()
    }

    fn halted() -> Value {
        json!({
            "phase": "Sealed", "terminal": "HALT", "reason": "RiskNotAllowed",
            "message": "risk high; would pass: low", "effect": "none",
            "gates": {"constraintsOk": false},
            "receipt": {"hash": "ab".repeat(32), "logIndex": 3},
            "conditions": [{"type": "Stalled", "status": "True", "reason": "RiskNotAllowed", "message": ""}],
        })
    }

    #[test]
    fn runs_are_a_table_with_a_line_each() {
        let runs =
            [run("refund-7", halted()), run("new", Value::Null), run("odd", json!({"phase": 7, "terminal": "LATER"}))];
        let text = table(&runs, true);
        assert_eq!(
            text,
            "NAMESPACE  RUN       PHASE   TERMINAL  REASON          RECEIPT\n\
             pay        refund-7  Sealed  HALT      RiskNotAllowed  abababababab\n\
             pay        new\n\
             pay        odd               LATER\n"
        );
        assert!(table(&runs, false).starts_with("RUN "), "{text}");
    }

    #[test]
    fn one_run_says_what_refused_and_what_can_be_done() {
        let text = one(&run("refund-7", halted()));
        for said in [
            "pay/refund-7: Sealed HALT RiskNotAllowed",
            "actor     ann (no credential named: impersonated,",
            "gates     evaluate_constraints NO",
            "condition Stalled=True RiskNotAllowed\n",
            "next      kubectl m87 explain refund-7 -n pay",
        ] {
            assert!(text.contains(said), "{said}: {text}");
        }
        let mut named = run("refund-7", halted());
        named.data["spec"]["actor"]["credentialId"] = json!("JTI=1");
        assert!(one(&named).contains("actor     ann (by credential \"JTI=1\")\n"), "{}", one(&named));
        assert!(one(&run("new", Value::Null)).contains("not seen by m87 yet"));
        let unbound = run("a", json!({"terminal": "HALT", "reason": "TenantNotBound"}));
        assert!(one(&unbound).contains("kubectl m87 tenant pay | kubectl apply -f -"));
    }

    #[test]
    fn texts_of_users_cannot_steer_a_terminal() {
        let text = one(&run("a", json!({"message": "\u{1b}[2Jgone\nnext      rm -rf"})));
        assert!(!text.contains('\u{1b}') && text.lines().filter(|line| line.contains("rm -rf")).count() == 1, "{text}");
        assert!(!text.contains("\nnext      rm"), "{text}");
    }
}
