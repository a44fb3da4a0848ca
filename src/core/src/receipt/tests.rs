#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
use super::*;
use crate::actor::Attestation;
use crate::evidence::Interrupted;
use crate::fixtures::{at, dossier, evidence};
use crate::log::{Checkpoint, Log, LogEntry};
use serde_json::{Value, json};

fn key() -> SigningKey {
    SigningKey::from_seed(&[3; 32])
}

fn sealing(terminal: Terminal) -> Sealing {
    Sealing {
        process: Some(Instance {
            engine_id: "engine".to_owned(),
            definition_key: "2251799813685249".to_owned(),
            version: 1,
            instance_key: "2251799813685251".to_owned(),
            end_event: Some(terminal.end_event().to_owned()),
        }),
        timestamp: at(8),
        key_id: key().key_id(),
    }
}

/// A dossier and evidence for each terminal.
fn terminals() -> Vec<(Terminal, Dossier, Evidence)> {
    let (mut halt, mut reject) = (dossier(), dossier());
    halt.proposal.reasoning_trace = None;
    reject.proposal.tool = Some("nope".to_owned());
    let early = |dossier: &Dossier| {
        let Evidence { proposed, validated, .. } = crate::fixtures::evidence_of(dossier);
        Evidence { proposed, validated, ..Evidence::default() }
    };
    let (mut failed, mut unverified) = (evidence(), evidence());
    failed.execution.as_mut().unwrap().report.as_mut().unwrap().reported = None;
    unverified.verified.as_mut().unwrap().validation = None;
    vec![
        (Terminal::Complete, dossier(), evidence()),
        (Terminal::Halt, halt.clone(), early(&halt)),
        (Terminal::RejectManifest, reject.clone(), early(&reject)),
        (Terminal::Failed, dossier(), failed),
        (Terminal::RejectVerify, dossier(), unverified),
    ]
}

fn bundle(dossier: Dossier, evidence: Evidence, sealing: &Sealing, key: &SigningKey) -> Bundle {
    let receipt = make(&dossier, &evidence, sealing).unwrap();
    let run = receipt.run.uid.clone();
    let sealed = receipt.seal(key).unwrap();
    let mut log = Log::default();
    for other in ["a", "b", "c"] {
        log.append(LogEntry::opened(other, "hash").leaf().unwrap());
    }
    let index = log.append(LogEntry::sealed(&run, &sealed.hash).leaf().unwrap());
    log.append(LogEntry::opened("d", "hash").leaf().unwrap());
    let checkpoint = Checkpoint::new(&dossier.cluster_uid, &dossier.namespace.uid, &log, at(9)).seal(key).unwrap();
    let inclusion = Inclusion { index, path: log.inclusion(index, log.size()).unwrap() };
    Bundle::new(sealed.envelope, &key.verifying_key(), inclusion, checkpoint, dossier, evidence)
}

#[test]
fn every_terminal_has_a_receipt_that_can_be_recomputed() {
    for (terminal, dossier, evidence) in terminals() {
        let bytes = bundle(dossier, evidence, &sealing(terminal), &key()).to_bytes().unwrap();
        let verification = verify(&bytes, Some(&key().verifying_key()));
        assert!(verification.passed() && verification.key_pinned, "{terminal:?}: {:#?}", verification.checks);
        let receipt = verification.receipt.unwrap();
        assert_eq!(receipt.terminal, terminal);
        assert_eq!(receipt.reason.is_none(), terminal == Terminal::Complete);
        assert_eq!(receipt.reason_hash.is_none(), terminal == Terminal::Complete);
    }
}

#[test]
fn same_input_same_bytes() {
    for (terminal, dossier, evidence) in terminals() {
        let once = make(&dossier, &evidence, &sealing(terminal)).unwrap().seal(&key()).unwrap();
        let again = make(&dossier, &evidence, &sealing(terminal)).unwrap().seal(&key()).unwrap();
        assert_eq!(once, again);
    }
}

#[test]
fn a_receipts_bytes_do_not_depend_on_its_place_in_the_log() {
    let text = to_canonical(&make(&dossier(), &evidence(), &sealing(Terminal::Complete)).unwrap()).unwrap();
    assert!(!text.contains("logIndex") && !text.contains("\"index\""), "{text}");
}

#[test]
fn the_receipt_of_a_complete_run_reads_like_this() {
    let receipt = make(&dossier(), &evidence(), &sealing(Terminal::Complete)).unwrap();
    insta::assert_json_snapshot!(receipt);
}

#[test]
fn where_there_was_no_process_the_receipt_says_null() {
    let mut dossier = dossier();
    dossier.policy = None;
    dossier.process = None;
    let alone = Sealing { process: None, ..sealing(Terminal::Halt) };
    let receipt = make(&dossier, &Evidence::default(), &alone).unwrap();
    assert_eq!((receipt.terminal, receipt.reason), (Terminal::Halt, Some(Reason::PolicyMissing)));
    assert_eq!(
        (&receipt.process, &receipt.policy, &receipt.plan_hash, &receipt.contract),
        (&None, &None, &None, &None)
    );
    let reused = Evidence {
        interrupted: Some(Interrupted { reason: Reason::IdempotencyKeyReused, at: at(0) }),
        ..Evidence::default()
    };
    let bytes = bundle(dossier, reused, &alone, &key()).to_bytes().unwrap();
    assert!(verify(&bytes, Some(&key().verifying_key())).passed());
}

#[test]
fn a_changed_byte_fails() {
    for (terminal, dossier, evidence) in terminals() {
        let bytes = bundle(dossier, evidence, &sealing(terminal), &key()).to_bytes().unwrap();
        let key = key().verifying_key();
        // A sample of the bytes of one bundle, and a smaller one of the others, which are made of the same parts.
        let step = if terminal == Terminal::Complete { 13 } else { 211 };
        for at in (0..bytes.len()).step_by(step) {
            // A bit that keeps most letters letters and digits digits, so that what fails is the meaning and not the form.
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(
                !verify(&changed, Some(&key)).passed(),
                "byte {at} of {terminal:?} may be {:?}",
                char::from(changed[at])
            );
        }
        for at in (0..bytes.len()).step_by(997) {
            let mut shorter = bytes.clone();
            shorter.remove(at);
            assert!(!verify(&shorter, Some(&key)).passed());
            let mut longer = bytes.clone();
            longer.insert(at, b' ');
            assert!(!verify(&longer, Some(&key)).passed());
        }
        assert!(!verify(&bytes[..bytes.len() - 1], Some(&key)).passed());
    }
}

#[test]
fn a_foreign_key_fails_and_no_key_is_said_to_be_untrusted() {
    let own = bundle(dossier(), evidence(), &sealing(Terminal::Complete), &key());
    let other = SigningKey::from_seed(&[4; 32]);
    let verification = own.verify(Some(&other.verifying_key()));
    assert!(!verification.passed());
    assert!(verification.checks[0].detail.contains("foreign key"), "{:?}", verification.checks);
    let unpinned = own.verify(None);
    assert!(unpinned.passed() && !unpinned.key_pinned);
    assert!(unpinned.checks[0].detail.contains("untrusted key"), "{:?}", unpinned.checks);
    // Signed by someone else from the same inputs: as good as any, but not by the trusted key.
    let forged =
        bundle(dossier(), evidence(), &Sealing { key_id: other.key_id(), ..sealing(Terminal::Complete) }, &other);
    assert!(forged.verify(None).passed());
    assert!(!forged.verify(Some(&key().verifying_key())).passed());
}

/// The names of the checks that fail.
fn failing(bundle: &Bundle) -> Vec<&'static str> {
    let verification = bundle.verify(Some(&key().verifying_key()));
    verification.checks.into_iter().filter(|check| !check.passed).map(|check| check.name).collect()
}

#[test]
fn each_check_fails_for_what_it_is_there_for() {
    let whole = || bundle(dossier(), evidence(), &sealing(Terminal::Complete), &key());
    assert!(failing(&whole()).is_empty());

    let mut lied = evidence();
    lied.execution.as_mut().unwrap().report.as_mut().unwrap().reported = Some(json!({"steps": 21}));
    assert_eq!(failing(&Bundle { evidence: lied, ..whole() }), ["the evidence decides what the receipt says"]);

    let mut weaker = dossier();
    weaker.policy.as_mut().unwrap().spec.constraints.targets_forbidden.clear();
    let failed = failing(&Bundle { dossier: weaker, ..whole() });
    assert_eq!(failed, ["what was pinned has its hashes", "the evidence decides what the receipt says"]);

    let moved = Bundle { inclusion: Inclusion { index: 2, ..whole().inclusion }, ..whole() };
    assert_eq!(failing(&moved), ["the receipt is in the log"]);

    let removed = Log::default();
    let checkpoint = Checkpoint::new("cluster", "uid-of-default", &removed, at(9)).seal(&key()).unwrap();
    assert_eq!(failing(&Bundle { checkpoint, ..whole() }), ["the receipt is in the log"]);
    let elsewhere = Checkpoint::new("cluster", "uid-of-other", &removed, at(9)).seal(&key()).unwrap();
    assert_eq!(failing(&Bundle { checkpoint: elsewhere, ..whole() }), ["the checkpoint is signed for this log"]);
    let swapped = Bundle { checkpoint: whole().envelope, ..whole() };
    assert_eq!(failing(&swapped), ["the checkpoint is signed for this log"]);

    // A receipt that the authority's own key signed, and that the evidence does not bear out.
    let mut receipt = make(&dossier(), &evidence(), &sealing(Terminal::Complete)).unwrap();
    receipt.actor.username = "bob".to_owned();
    let sealed = receipt.seal(&key()).unwrap();
    let failed = failing(&Bundle { envelope: sealed.envelope, ..whole() });
    assert_eq!(failed, ["the evidence decides what the receipt says", "the receipt is in the log"]);
    let mut statement = Statement::about(make(&dossier(), &evidence(), &sealing(Terminal::Complete)).unwrap());
    statement.subject[0].digest.sha256 = "0".repeat(64);
    let envelope = Envelope::seal(PAYLOAD_TYPE, to_canonical(&statement).unwrap().as_bytes(), &key());
    assert_eq!(failing(&Bundle { envelope, ..whole() }), ["the statement is about the artifact or the reason"]);
}

#[test]
fn a_receipt_says_which_credential_its_actor_came_with_or_that_none_was_named() {
    for credential in [Some("JTI=1".to_owned()), None] {
        let mut dossier = dossier();
        dossier.actor.attestation = Attestation::Admission;
        dossier.actor.credential_id = credential.clone();
        let whole = bundle(dossier, evidence(), &sealing(Terminal::Complete), &key());
        let verified = whole.verify(Some(&key().verifying_key()));
        assert!(verified.passed(), "{:?}", verified.checks);
        assert_eq!(verified.receipt.unwrap().actor.credential_id, credential);
        let mut other = whole;
        other.dossier.actor.credential_id = Some("JTI=2".to_owned());
        assert_eq!(failing(&other), ["the evidence decides what the receipt says"]);
    }
}

#[test]
fn what_a_bundle_does_not_know_is_refused() {
    let bytes = bundle(dossier(), evidence(), &sealing(Terminal::Complete), &key()).to_bytes().unwrap();
    let value: Value = serde_json::from_slice(&bytes).unwrap();
    let mut places = vec![String::new()];
    for object in [
        "/dossier",
        "/dossier/proposal",
        "/dossier/policy/spec",
        "/dossier/manifest/spec/tools/0",
        "/evidence",
        "/evidence/execution/report",
        "/envelope",
        "/checkpoint",
        "/inclusion",
    ] {
        places.push(object.to_owned());
    }
    for place in places {
        let mut changed = value.clone();
        changed.pointer_mut(&place).unwrap()["unknown"] = json!(1);
        let text = crate::json::canonical(&changed).unwrap();
        assert!(!verify(text.as_bytes(), None).passed(), "{place}");
    }
    for (field, other) in [("kind", "Receipt"), ("specVersion", "2")] {
        let mut changed = value.clone();
        changed[field] = json!(other);
        assert!(!verify(crate::json::canonical(&changed).unwrap().as_bytes(), None).passed(), "{field}");
    }
}

#[test]
fn no_bytes_make_the_verifier_panic() {
    for bytes in [&b""[..], b"{}", b"[]", b"null", b"\xff", b"{\"kind\":\"Bundle\"}"] {
        assert!(!verify(bytes, None).passed());
    }
}
