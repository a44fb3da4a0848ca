//! A bundle: a sealed receipt, its place in the log, and all inputs of `decide`. Whoever holds one needs no server to see that
//! the receipt was signed, is in the log, and says what the evidence says.

use super::{PAYLOAD_TYPE, Receipt, Statement, make};
use crate::dossier::{Dossier, Pinned};
use crate::evidence::Evidence;
use crate::json::{Document, JsonError, compute_hash, read_document, to_canonical};
use crate::log::{Checkpoint, Hash, LogEntry, verify_inclusion};
use crate::sign::{Envelope, VerifyingKey};
use serde::{Deserialize, Serialize};

/// Everything that is needed to judge a receipt again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Bundle {
    /// `Bundle`.
    pub kind: String,
    /// Raised when the meaning or the fields change.
    pub spec_version: String,
    /// The signed statement.
    pub envelope: Envelope,
    /// The public key, in hex. It proves nothing by itself: pin the one you trust.
    pub public_key: String,
    /// Where the receipt is in the log.
    pub inclusion: Inclusion,
    /// The signed size and root of the log.
    pub checkpoint: Envelope,
    /// What was known before.
    pub dossier: Dossier,
    /// What was recorded since.
    pub evidence: Evidence,
}

/// The proof that an entry is in a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inclusion {
    /// The entry's index, from 0.
    pub index: u64,
    /// The hashes beside its way to the root.
    pub path: Vec<Hash>,
}

impl Document for Bundle {
    const KIND: &'static str = "Bundle";
    const SPEC_VERSION: &'static str = "1";

    fn says(&self) -> (&str, &str) {
        (&self.kind, &self.spec_version)
    }
}

/// One check of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Named {
    /// What was checked, as a statement that holds if it passed.
    pub name: &'static str,
    /// Whether it holds.
    pub passed: bool,
    /// What was found.
    pub detail: String,
}

/// The outcome of all checks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verification {
    /// Every check that could be made, in order.
    pub checks: Vec<Named>,
    /// Whether the key was pinned by whoever asked. Without it, anybody could have signed.
    pub key_pinned: bool,
    /// The receipt, if it could be read.
    pub receipt: Option<Receipt>,
}

impl Verification {
    /// Whether every check passed. It says nothing of who signed unless `key_pinned`.
    pub fn passed(&self) -> bool {
        self.receipt.is_some() && self.checks.iter().all(|check| check.passed)
    }

    fn check<T>(&mut self, name: &'static str, found: Result<(T, String), String>) -> Option<T> {
        let (value, passed, detail) = match found {
            Ok((value, detail)) => (Some(value), true, detail),
            Err(detail) => (None, false, detail),
        };
        self.checks.push(Named { name, passed, detail });
        value
    }

    fn hold(&mut self, name: &'static str, holds: bool, detail: &str) {
        self.checks.push(Named { name, passed: holds, detail: detail.to_owned() });
    }
}

/// Checks the bytes of a bundle: its form, then everything in it. `key` is the one that is trusted.
pub fn verify(bytes: &[u8], key: Option<&VerifyingKey>) -> Verification {
    let mut verification = Verification { checks: vec![], key_pinned: key.is_some(), receipt: None };
    let read = read_document::<Bundle>(bytes).map_err(|error| format!("the bundle {error}"));
    match verification.check("the bundle is in canonical form", read.map(|bundle| (bundle, String::new()))) {
        Some(bundle) => bundle.check(key, verification),
        None => verification,
    }
}

impl Bundle {
    /// Puts a bundle together.
    pub fn new(
        envelope: Envelope,
        public_key: &VerifyingKey,
        inclusion: Inclusion,
        checkpoint: Envelope,
        dossier: Dossier,
        evidence: Evidence,
    ) -> Self {
        Self {
            kind: Self::KIND.to_owned(),
            spec_version: Self::SPEC_VERSION.to_owned(),
            envelope,
            public_key: public_key.to_hex(),
            inclusion,
            checkpoint,
            dossier,
            evidence,
        }
    }

    /// The bundle's bytes, which [`verify`] takes.
    pub fn to_bytes(&self) -> Result<Vec<u8>, JsonError> {
        to_canonical(self).map(String::into_bytes)
    }

    /// Checks everything in the bundle against the trusted key, or against the bundle's own.
    pub fn verify(&self, key: Option<&VerifyingKey>) -> Verification {
        self.check(key, Verification { checks: vec![], key_pinned: key.is_some(), receipt: None })
    }

    fn check(&self, pinned: Option<&VerifyingKey>, mut checks: Verification) -> Verification {
        let Some(key) = checks.check("the key is the trusted one", self.key(pinned)) else { return checks };
        let statement = self.statement(&key);
        let Some(statement) = checks.check("the signature fits", statement) else { return checks };
        let receipt = &statement.predicate;

        let about = Statement::about(receipt.clone());
        checks.hold("the statement is about the artifact or the reason", statement == about, &about_text(&about));
        let pinned_differ = self.pinned_differ();
        checks.hold("what was pinned has its hashes", pinned_differ.is_none(), pinned_differ.unwrap_or_default());
        checks.check("the evidence decides what the receipt says", self.decided_again(receipt));
        let hash = receipt.hash().map_err(|error| error.to_string());
        if let Some(hash) = checks.check("the receipt has a hash", hash.map(|hash| (hash.clone(), hash))) {
            let found = self.checkpoint_of(&key, receipt);
            if let Some(checkpoint) = checks.check("the checkpoint is signed for this log", found) {
                checks.check("the receipt is in the log", self.included(receipt, &hash, &checkpoint));
            }
        }
        checks.receipt = Some(statement.predicate);
        checks
    }

    fn key(&self, pinned: Option<&VerifyingKey>) -> Result<(VerifyingKey, String), String> {
        let own = VerifyingKey::from_hex(&self.public_key)
            .map_err(|_| "the bundle's publicKey is no Ed25519 key in 64 hex digits".to_owned())?;
        if own.to_hex() != self.public_key {
            return Err("the key is not written in lower-case hex".to_owned());
        }
        match pinned {
            Some(pinned) if *pinned == own => Ok((own, own.key_id())),
            Some(pinned) => {
                Err(format!("foreign key: the bundle has {}, {} is trusted", own.key_id(), pinned.key_id()))
            }
            None => Ok((own, format!("untrusted key {}: none was pinned, so anybody could have signed", own.key_id()))),
        }
    }

    fn statement(&self, key: &VerifyingKey) -> Result<(Statement, String), String> {
        let payload = self.envelope.open(PAYLOAD_TYPE, key).map_err(|error| error.to_string())?;
        let statement: Statement =
            crate::json::from_canonical(&payload).map_err(|error| format!("the statement {error}"))?;
        statement.predicate.check_kind().map_err(|error| format!("the receipt {error}"))?;
        if statement.predicate.key_id != key.key_id() {
            return Err("the receipt names another key than the one that signed".to_owned());
        }
        Ok((statement, "Ed25519".to_owned()))
    }

    fn pinned_differ(&self) -> Option<&'static str> {
        fn differs<T: Serialize>(pinned: Option<&Pinned<T>>) -> bool {
            pinned.is_some_and(|pinned| compute_hash(&pinned.spec).as_ref() != Ok(&pinned.sha256))
        }
        if self.dossier.check_kind().is_err() {
            return Some("the dossier is of another kind or version");
        }
        [
            (differs(self.dossier.policy.as_ref()), "the policy has another hash"),
            (differs(self.dossier.baseline.as_ref()), "the baseline has another hash"),
            (differs(self.dossier.manifest.as_ref()), "the manifest's entries have another hash"),
        ]
        .into_iter()
        .find_map(|(differs, which)| differs.then_some(which))
    }

    /// Makes the receipt again, from the inputs and the authority's facts; it must be the same in every field.
    fn decided_again(&self, receipt: &Receipt) -> Result<((), String), String> {
        let again = make(&self.dossier, &self.evidence, &receipt.sealing()).map_err(|error| error.to_string())?;
        let name = |receipt: &Receipt| {
            let reason = receipt.reason.map_or(String::new(), |reason| format!(" {}", reason.name()));
            format!("{}{reason}", receipt.terminal.name())
        };
        if again == *receipt {
            return Ok(((), name(receipt)));
        }
        if (again.terminal, again.reason) != (receipt.terminal, receipt.reason) {
            return Err(format!("the evidence decides {}, the receipt says {}", name(&again), name(receipt)));
        }
        Err("the inputs are not those of this receipt".to_owned())
    }

    fn checkpoint_of(&self, key: &VerifyingKey, receipt: &Receipt) -> Result<(Checkpoint, String), String> {
        let checkpoint = Checkpoint::open(&self.checkpoint, key).map_err(|error| error.to_string())?;
        if (&checkpoint.cluster_uid, &checkpoint.namespace_uid) != (&receipt.cluster_uid, &receipt.namespace.uid) {
            return Err("it is a checkpoint of another log".to_owned());
        }
        let detail = format!("{} entries, root {}", checkpoint.size, checkpoint.root);
        Ok((checkpoint, detail))
    }

    fn included(&self, receipt: &Receipt, hash: &str, checkpoint: &Checkpoint) -> Result<((), String), String> {
        let leaf = LogEntry::sealed(&receipt.run.uid, hash).leaf().map_err(|error| error.to_string())?;
        let Inclusion { index, path } = &self.inclusion;
        if verify_inclusion(leaf, *index, checkpoint.size, path, checkpoint.root) {
            return Ok(((), format!("at index {index}")));
        }
        Err(format!("the proof does not lead from index {index} to the checkpoint's root"))
    }
}

fn about_text(statement: &Statement) -> String {
    statement.subject.first().map(|subject| format!("{} {}", subject.name, subject.digest.sha256)).unwrap_or_default()
}
