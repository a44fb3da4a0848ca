//! The servers' TLS: a certificate authority of our own and one leaf, in the Secret `m87-tls`, made and rotated here.
//!
//! What is due is decided from times alone ([`decide`]). The leaf is replaced at two thirds of its life, while the server runs
//! ([`Leaf::replace`]). A new certificate authority is announced in the bundle first and signs only a week later, and the old
//! one stays in the bundle for a week more: whoever reads `ca.pem` from the ConfigMap `m87-ca` at each connection, and every
//! pod that has got it inline, believes both meanwhile.

use super::call::{CallError, call, found};
use super::keys::publish;
use super::labels;
use super::names::{PUBLIC, TLS};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use m87_authority::client::SERVER_NAME;
use m87_core::json::sha256_hex;
use m87_core::time::Timestamp;
use m87_zeebe::Leaf;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PublicKeyData,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use time::OffsetDateTime;
use tokio_util::sync::CancellationToken;

/// The bundle of certificate authorities, in the ConfigMap of what everybody may know.
pub const CA_PEM: &str = "ca.pem";
/// All of it, in the Secret; the other keys there are for people.
const STATE: &str = "state.json";

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;
/// How long a leaf is valid.
const LEAF_LIFE: i64 = 90 * DAY;
/// How long a certificate authority is valid.
const CA_LIFE: i64 = 3 * 365 * DAY;
/// How long the next certificate authority is announced before it signs, and the last one is believed after it has signed.
const OVERLAP: i64 = 7 * DAY;
/// Clocks of other nodes may be behind by so much.
const SKEW: i64 = HOUR;
/// How often it is looked whether something is due.
const LOOK: Duration = Duration::from_secs(3600);

/// From when until when something is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Validity {
    /// Not before.
    pub from: Timestamp,
    /// Not after.
    pub until: Timestamp,
}

impl Validity {
    fn starting(now: Timestamp, life: i64) -> Self {
        Self { from: now.plus_millis(-SKEW), until: now.plus_millis(life) }
    }

    fn holds(self, now: Timestamp) -> bool {
        self.from <= now && now < self.until
    }

    fn is_due(self, now: Timestamp) -> bool {
        let life = self.until.millis().saturating_sub(self.from.millis());
        now >= self.from.plus_millis(life / 3 * 2)
    }
}

/// What is known of the certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// The certificate authority that signs.
    pub signing: Validity,
    /// The next one, if it is announced: since when.
    pub announced: Option<Timestamp>,
    /// The last one, if it is still believed: since when it signs no more.
    pub retired: Option<Timestamp>,
    /// The leaf.
    pub leaf: Validity,
    /// Whether the leaf carries every name that it must.
    pub names: Names,
}

/// Whether the leaf carries every name that it must.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// It does.
    Complete,
    /// It does not.
    Wanting,
}

/// What is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Nothing.
    Nothing,
    /// Everything is made anew: the certificate authority is not valid. Clients believe it once they have read it.
    Everything,
    /// A new leaf.
    Leaf,
    /// The next certificate authority is made and announced.
    Announcement,
    /// The announced certificate authority signs from now on, and a new leaf with it.
    Succession,
    /// The last certificate authority is believed no longer.
    Farewell,
}

/// What is due now; asked again until nothing is.
pub fn decide(now: Timestamp, facts: &Facts) -> Due {
    let passed = |since: Timestamp| now >= since.plus_millis(OVERLAP);
    if !facts.signing.holds(now) {
        return Due::Everything;
    }
    if facts.announced.is_some_and(passed) {
        return Due::Succession;
    }
    if facts.names == Names::Wanting || !facts.leaf.holds(now) || facts.leaf.is_due(now) {
        return Due::Leaf;
    }
    if facts.announced.is_none() && facts.signing.is_due(now) {
        return Due::Announcement;
    }
    if facts.retired.is_some_and(passed) {
        return Due::Farewell;
    }
    Due::Nothing
}

/// A certificate with its key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pair {
    certificate_pem: String,
    key_pem: String,
    validity: Validity,
}

/// All that is kept.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct State {
    signing: Pair,
    next: Option<(Timestamp, Pair)>,
    /// The certificate alone: its key is thrown away.
    last: Option<(Timestamp, String)>,
    leaf: Pair,
    names: Vec<String>,
}

impl State {
    fn make(now: Timestamp, names: &[String]) -> Result<Self, rcgen::Error> {
        let signing = make_ca(now)?;
        let leaf = make_leaf(now, &signing, names)?;
        Ok(Self { signing, next: None, last: None, leaf, names: names.to_vec() })
    }

    fn facts(&self, names: &[String]) -> Facts {
        Facts {
            signing: self.signing.validity,
            announced: self.next.as_ref().map(|(since, _)| *since),
            retired: self.last.as_ref().map(|(since, _)| *since),
            leaf: self.leaf.validity,
            names: if self.names == names { Names::Complete } else { Names::Wanting },
        }
    }

    /// Does what is due; `None` if nothing is.
    fn after(&self, now: Timestamp, names: &[String]) -> Result<Option<Self>, rcgen::Error> {
        let renewed = |mut state: Self| {
            state.leaf = make_leaf(now, &state.signing, names)?;
            state.names = names.to_vec();
            Ok(Some(state))
        };
        match (decide(now, &self.facts(names)), self.next.clone()) {
            (Due::Nothing, _) | (Due::Succession, None) => Ok(None),
            (Due::Everything, _) => Self::make(now, names).map(Some),
            (Due::Leaf, _) => renewed(self.clone()),
            (Due::Announcement, _) => Ok(Some(Self { next: Some((now, make_ca(now)?)), ..self.clone() })),
            (Due::Succession, Some((_, next))) => {
                let last = Some((now, self.signing.certificate_pem.clone()));
                renewed(Self { signing: next, next: None, last, ..self.clone() })
            }
            (Due::Farewell, _) => Ok(Some(Self { last: None, ..self.clone() })),
        }
    }

    /// Every certificate authority that is to be believed.
    fn bundle(&self) -> String {
        let next = self.next.as_ref().map(|(_, pair)| pair.certificate_pem.as_str());
        let last = self.last.as_ref().map(|(_, pem)| pem.as_str());
        [Some(self.signing.certificate_pem.as_str()), next, last].into_iter().flatten().collect()
    }
}

fn ca_parameters(key: &KeyPair) -> Result<CertificateParams, rcgen::Error> {
    let mut parameters = CertificateParams::new(Vec::new())?;
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    // A name of its own, so that two in one bundle are not taken for each other.
    let id: String = sha256_hex(&key.subject_public_key_info()).chars().take(16).collect();
    parameters.distinguished_name.push(DnType::CommonName, format!("m87 CA {id}"));
    Ok(parameters)
}

fn instant(at: Timestamp) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(at.millis().div_euclid(1000)).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

fn make_ca(now: Timestamp) -> Result<Pair, rcgen::Error> {
    let key = KeyPair::generate()?;
    let validity = Validity::starting(now, CA_LIFE);
    let mut parameters = ca_parameters(&key)?;
    (parameters.not_before, parameters.not_after) = (instant(validity.from), instant(validity.until));
    let certificate_pem = parameters.self_signed(&key)?.pem();
    Ok(Pair { certificate_pem, key_pem: key.serialize_pem(), validity })
}

fn make_leaf(now: Timestamp, ca: &Pair, names: &[String]) -> Result<Pair, rcgen::Error> {
    let ca_key = KeyPair::from_pem(&ca.key_pem)?;
    let issuer = Issuer::new(ca_parameters(&ca_key)?, ca_key);
    let mut validity = Validity::starting(now, LEAF_LIFE);
    validity.until = validity.until.min(ca.validity.until);
    let mut parameters = CertificateParams::new(names.to_vec())?;
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    parameters.distinguished_name.push(DnType::CommonName, "m87");
    (parameters.not_before, parameters.not_after) = (instant(validity.from), instant(validity.until));
    let key = KeyPair::generate()?;
    let certificate_pem = parameters.signed_by(&key, &issuer)?.pem();
    Ok(Pair { certificate_pem, key_pem: key.serialize_pem(), validity })
}

/// The names by which the Service `m87` of that namespace is reached, and the one that clients know without a Service.
pub fn service_names(namespace: &str) -> Vec<String> {
    let service = |rest: &str| format!("m87.{namespace}{rest}");
    vec!["m87".to_owned(), service(""), service(".svc"), service(".svc.cluster.local"), SERVER_NAME.to_owned()]
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The API server.
    #[error(transparent)]
    Call(#[from] CallError),
    /// What is in the Secret is not what was written there.
    #[error(
        "Secret {namespace}/{TLS}: {message}; delete the Secret to have everything made anew (clients then have to read {CA_PEM} \
         of ConfigMap {namespace}/{PUBLIC} again)"
    )]
    Unreadable {
        /// The operator's own namespace.
        namespace: String,
        /// What is wrong.
        message: String,
    },
    /// A certificate cannot be made.
    #[error("no certificate can be made: {0}")]
    Make(#[from] rcgen::Error),
}

/// TLS on a cluster.
pub struct ClusterTls {
    secrets: Api<Secret>,
    maps: Api<ConfigMap>,
    namespace: String,
    names: Vec<String>,
    leaf: Arc<Leaf>,
    bundle: RwLock<String>,
}

impl ClusterTls {
    /// Reads it, or makes it on the first start; does what is due.
    pub async fn open(client: Client, namespace: &str, now: Timestamp) -> Result<Self, TlsError> {
        let secrets = Api::namespaced(client.clone(), namespace);
        let maps = Api::namespaced(client, namespace);
        let names = service_names(namespace);
        let state = up_to_date(&secrets, namespace, now, &names).await?;
        let leaf = Leaf::new(state.leaf.certificate_pem.as_bytes(), state.leaf.key_pem.as_bytes());
        let leaf = leaf.map_err(|error| unreadable(namespace, error))?;
        let bundle = state.bundle();
        publish(&maps, CA_PEM, &bundle).await?;
        Ok(Self { secrets, maps, namespace: namespace.to_owned(), names, leaf, bundle: RwLock::new(bundle) })
    }

    /// What servers show; it is replaced while they run.
    pub fn leaf(&self) -> Arc<Leaf> {
        Arc::clone(&self.leaf)
    }

    /// Every certificate authority that clients have to believe now, PEM: for whoever gets it inline.
    pub fn ca_pem(&self) -> String {
        self.bundle.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Does what is due, and shows it.
    pub async fn tend(&self, now: Timestamp) -> Result<(), TlsError> {
        let state = up_to_date(&self.secrets, &self.namespace, now, &self.names).await?;
        let bundle = state.bundle();
        // Whoever connects to the new leaf must be able to believe it.
        publish(&self.maps, CA_PEM, &bundle).await?;
        *self.bundle.write().unwrap_or_else(PoisonError::into_inner) = bundle;
        let shown = self.leaf.replace(state.leaf.certificate_pem.as_bytes(), state.leaf.key_pem.as_bytes());
        shown.map_err(|error| unreadable(&self.namespace, error))
    }

    /// Does what is due, each hour, until `stop`.
    pub async fn run(&self, now: impl Fn() -> Timestamp + Send + Sync, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(LOOK)).await.is_some() {
            if let Err(error) = self.tend(now()).await {
                tracing::error!(%error, "the servers' TLS is not up to date");
            }
        }
    }
}

fn unreadable(namespace: &str, message: impl std::fmt::Display) -> TlsError {
    TlsError::Unreadable { namespace: namespace.to_owned(), message: message.to_string() }
}

/// How often the Secret is read again because somebody has changed it meanwhile.
const TRIES: usize = 5;

/// What is kept, after what is due was done.
async fn up_to_date(
    secrets: &Api<Secret>,
    namespace: &str,
    now: Timestamp,
    names: &[String],
) -> Result<State, TlsError> {
    for _ in 0..TRIES {
        let secret = found("reading the servers' TLS", secrets.get(TLS)).await?;
        let state = secret.as_ref().map(|secret| read(secret, namespace)).transpose()?;
        let next = match &state {
            Some(state) => state.after(now, names)?,
            None => Some(State::make(now, names)?),
        };
        let (next, written) = match (state, next) {
            (Some(state), None) => return Ok(state),
            (_, Some(next)) => {
                let object = write(secret.as_ref(), &next, namespace)?;
                let parameters = PostParams::default();
                let written = match secret {
                    Some(_) => call("writing the servers' TLS", secrets.replace(TLS, &parameters, &object)).await,
                    None => call("making the servers' TLS", secrets.create(&parameters, &object)).await,
                };
                (next, written)
            }
            (None, None) => continue,
        };
        match written {
            // Perhaps something else is due after it.
            Ok(_) if next.after(now, names)?.is_none() => return Ok(next),
            Ok(_) | Err(CallError::Conflict(_) | CallError::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(CallError::Unavailable(format!("Secret {namespace}/{TLS} is being changed by others")).into())
}

fn read(secret: &Secret, namespace: &str) -> Result<State, TlsError> {
    let bytes = secret.data.as_ref().and_then(|data| data.get(STATE));
    let bytes = bytes.ok_or_else(|| unreadable(namespace, format_args!("it has no key {STATE}")))?;
    serde_json::from_slice(&bytes.0).map_err(|error| unreadable(namespace, format_args!("{STATE}: {error}")))
}

fn write(secret: Option<&Secret>, state: &State, namespace: &str) -> Result<Secret, TlsError> {
    let json = serde_json::to_vec(state).map_err(|error| unreadable(namespace, error))?;
    let entry = |name: &str, bytes: &[u8]| (name.to_owned(), ByteString(bytes.to_vec()));
    let data = BTreeMap::from([
        entry(STATE, &json),
        entry("tls.crt", state.leaf.certificate_pem.as_bytes()),
        entry("tls.key", state.leaf.key_pem.as_bytes()),
        entry(CA_PEM, state.bundle().as_bytes()),
    ]);
    let metadata = match secret {
        Some(secret) => ObjectMeta { managed_fields: None, ..secret.metadata.clone() },
        None => ObjectMeta { name: Some(TLS.to_owned()), labels: Some(labels()), ..ObjectMeta::default() },
    };
    Ok(Secret { metadata, type_: Some("Opaque".to_owned()), data: Some(data), ..Secret::default() })
}

#[cfg(test)]
mod tests;
