//! The signing key: a Secret, made on the first start, never changed, never made again.
//!
//! Nobody would trust what a second key signs. So a key that is gone from where it has signed is an error that a person
//! settles, and so is another one in its place.

use super::call::{CallError, call, found};
use super::labels;
use super::names::{MARK, PUBLIC, SIGNING_KEY};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use m87_authority::entropy::{Entropy, NoEntropy, SystemEntropy};
use m87_core::sign::{SignError, SigningKey};
use serde_json::json;
use std::collections::BTreeMap;

/// The private key in its Secret: PKCS#8, PEM.
pub const PRIVATE_PEM: &str = "signing.pem";
/// The public key in the ConfigMap of what everybody may know: SPKI, PEM.
pub const PUBLIC_PEM: &str = "signing.pub.pem";

/// Why there is no signing key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The key is gone, and there is a trace of it.
    #[error(
        "Secret {namespace}/{SIGNING_KEY}: the signing key is gone, and {trace} says that it has signed here. Restore the \
         Secret from a backup. Only if its receipts need not be trusted any more: delete {trace} too, and the volume"
    )]
    Gone {
        /// The operator's own namespace.
        namespace: String,
        /// What says so.
        trace: String,
    },
    /// Another key has signed here.
    #[error(
        "Secret {namespace}/{SIGNING_KEY}: this key is not the one that has signed here, whose public half is in ConfigMap \
         {namespace}/{PUBLIC}, key {PUBLIC_PEM}. Restore the right Secret from a backup; to go on with this one, remove that \
         key from the ConfigMap"
    )]
    Another {
        /// The operator's own namespace.
        namespace: String,
    },
    /// What is in the Secret is no key.
    #[error("Secret {namespace}/{SIGNING_KEY}, key {PRIVATE_PEM}: {source}; restore the Secret from a backup")]
    NoKey {
        /// The operator's own namespace.
        namespace: String,
        /// Why not.
        source: SignError,
    },
    /// No random bytes.
    #[error(transparent)]
    Entropy(#[from] NoEntropy),
    /// The API server.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// What is known before a key is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Traces {
    key: Presence,
    public: Public,
    mark: Presence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    There,
    Absent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Public {
    Absent,
    OfThisKey,
    OfAnother,
    /// There, while there is no key to compare it with.
    OfALostKey,
}

/// What to do about the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    Make,
    Use,
    RefuseGone(&'static str),
    RefuseAnother,
}

const fn decide(traces: Traces) -> Decision {
    match (traces.key, traces.public, traces.mark) {
        (Presence::There, Public::OfAnother | Public::OfALostKey, _) => Decision::RefuseAnother,
        (Presence::There, Public::Absent | Public::OfThisKey, _) => Decision::Use,
        (Presence::Absent, _, Presence::There) => Decision::RefuseGone(MARK),
        (Presence::Absent, Public::OfThisKey | Public::OfAnother | Public::OfALostKey, Presence::Absent) => {
            Decision::RefuseGone(PUBLIC)
        }
        (Presence::Absent, Public::Absent, Presence::Absent) => Decision::Make,
    }
}

/// Reads the key, or makes it on the first start, and publishes its public half.
pub async fn signing_key(client: Client, namespace: &str) -> Result<SigningKey, KeyError> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
    let secret = found("reading the signing key", secrets.get(SIGNING_KEY)).await?;
    let key = secret.as_ref().map(|secret| read(secret, namespace)).transpose()?;
    let public = found("reading the public signing key", maps.get(PUBLIC)).await?;
    let public = public.and_then(|map| map.data).and_then(|data| data.get(PUBLIC_PEM).cloned());
    let mark = found("looking for the high-water mark", maps.get_metadata(MARK)).await?;
    let traces = Traces {
        key: if key.is_some() { Presence::There } else { Presence::Absent },
        public: match (&public, &key) {
            (None, _) => Public::Absent,
            (Some(_), None) => Public::OfALostKey,
            (Some(public), Some(key)) if pem(key, namespace)? == *public => Public::OfThisKey,
            (Some(_), Some(_)) => Public::OfAnother,
        },
        mark: if mark.is_some() { Presence::There } else { Presence::Absent },
    };
    let key = match (decide(traces), key) {
        (Decision::Use, Some(key)) => key,
        (Decision::Make | Decision::Use, _) => make(&secrets, namespace).await?,
        (Decision::RefuseGone(trace), _) => {
            return Err(KeyError::Gone {
                namespace: namespace.to_owned(),
                trace: format!("ConfigMap {namespace}/{trace}"),
            });
        }
        (Decision::RefuseAnother, _) => return Err(KeyError::Another { namespace: namespace.to_owned() }),
    };
    if public.is_none() {
        publish(&maps, PUBLIC_PEM, &pem(&key, namespace)?).await?;
    }
    Ok(key)
}

fn pem(key: &SigningKey, namespace: &str) -> Result<String, KeyError> {
    key.verifying_key().to_pem().map_err(|source| KeyError::NoKey { namespace: namespace.to_owned(), source })
}

fn read(secret: &Secret, namespace: &str) -> Result<SigningKey, KeyError> {
    let bytes = secret.data.as_ref().and_then(|data| data.get(PRIVATE_PEM)).map(|bytes| bytes.0.as_slice());
    let text = String::from_utf8_lossy(bytes.unwrap_or_default());
    SigningKey::from_pem(&text).map_err(|source| KeyError::NoKey { namespace: namespace.to_owned(), source })
}

/// Makes the key; if somebody else has made it meanwhile, that one is it.
async fn make(secrets: &Api<Secret>, namespace: &str) -> Result<SigningKey, KeyError> {
    let seed: [u8; 32] = hex::decode(SystemEntropy.secret()?)
        .ok()
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or_else(|| CallError::Refused("32 random bytes were asked for, and others came".to_owned()))?;
    let key = SigningKey::from_seed(&seed);
    let text = key.to_pem().map_err(|source| KeyError::NoKey { namespace: namespace.to_owned(), source })?;
    let secret = Secret {
        metadata: ObjectMeta { name: Some(SIGNING_KEY.to_owned()), labels: Some(labels()), ..ObjectMeta::default() },
        type_: Some("Opaque".to_owned()),
        immutable: Some(true),
        data: Some(BTreeMap::from([(PRIVATE_PEM.to_owned(), ByteString(text.into_bytes()))])),
        ..Secret::default()
    };
    match call("making the signing key", secrets.create(&PostParams::default(), &secret)).await {
        Ok(_) => Ok(key),
        Err(CallError::Conflict(_)) => {
            read(&call("reading the signing key", secrets.get(SIGNING_KEY)).await?, namespace)
        }
        Err(error) => Err(error.into()),
    }
}

/// Writes one key of the ConfigMap of what everybody may know, and leaves the others as they are.
pub(crate) async fn publish(maps: &Api<ConfigMap>, name: &str, text: &str) -> Result<(), CallError> {
    let what = format!("publishing {name}");
    let patch = Patch::Merge(json!({"data": {name: text}}));
    match call(&what, maps.patch_metadata(PUBLIC, &PatchParams::default(), &patch)).await {
        Err(CallError::NotFound(_)) => {}
        other => return other.map(drop),
    }
    let object = ConfigMap {
        metadata: ObjectMeta { name: Some(PUBLIC.to_owned()), labels: Some(labels()), ..ObjectMeta::default() },
        ..ConfigMap::default()
    };
    match call(&what, maps.create(&PostParams::default(), &object)).await {
        Ok(_) | Err(CallError::Conflict(_)) => {}
        Err(error) => return Err(error),
    }
    call(&what, maps.patch_metadata(PUBLIC, &PatchParams::default(), &patch)).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn traces(key: Presence, public: Public, mark: Presence) -> Traces {
        Traces { key, public, mark }
    }

    #[test]
    fn a_key_is_made_only_where_nothing_says_that_there_was_one() {
        use Presence::{Absent, There};
        assert_eq!(decide(traces(Absent, Public::Absent, Absent)), Decision::Make);
        assert_eq!(decide(traces(Absent, Public::Absent, There)), Decision::RefuseGone(MARK));
        assert_eq!(decide(traces(Absent, Public::OfALostKey, There)), Decision::RefuseGone(MARK));
        assert_eq!(decide(traces(Absent, Public::OfALostKey, Absent)), Decision::RefuseGone(PUBLIC));
    }

    #[test]
    fn a_key_that_is_there_is_used_unless_another_has_signed() {
        use Presence::{Absent, There};
        for mark in [There, Absent] {
            assert_eq!(decide(traces(There, Public::Absent, mark)), Decision::Use);
            assert_eq!(decide(traces(There, Public::OfThisKey, mark)), Decision::Use);
            assert_eq!(decide(traces(There, Public::OfAnother, mark)), Decision::RefuseAnother);
        }
    }
}
