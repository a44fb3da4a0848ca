//! Whose token it is, asked of the API server: for every caller of ours that is not an attempt's own process.

use super::call::{CallError, call};
use super::names::AUDIENCE;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus, UserInfo};
use kube::Client;
use kube::api::{Api, PostParams};

/// No token is longer; a longer one is nobody's.
const MAX_TOKEN: usize = 16 * 1024;

/// Who the API server says has a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The user name.
    pub username: String,
    /// The user's uid; of a ServiceAccount its object's.
    pub uid: String,
    /// The groups of the user.
    pub groups: Vec<String>,
    /// The pod that the token was made for, where it was made for one.
    pub pod: Option<PodIdentity>,
}

/// The pod that a token is bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodIdentity {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

impl Identity {
    /// Namespace and name of the ServiceAccount, if it is one.
    pub fn service_account(&self) -> Option<(&str, &str)> {
        self.username.strip_prefix("system:serviceaccount:")?.split_once(':')
    }
}

/// Asks the API server whose token it is; `None` if it is nobody's, or meant for anybody else, the API server itself included.
///
/// # Errors
/// If nobody could say.
pub async fn token_review(client: &Client, token: &str) -> Result<Option<Identity>, CallError> {
    if token.is_empty() || token.len() > MAX_TOKEN {
        return Ok(None);
    }
    let review = TokenReview {
        spec: TokenReviewSpec { audiences: Some(vec![AUDIENCE.to_owned()]), token: token.to_owned() },
        ..TokenReview::default()
    };
    let api: Api<TokenReview> = Api::all(client.clone());
    let answer = call("a token review", api.create(&PostParams::default(), &review)).await?;
    Ok(answer.status.and_then(identity))
}

/// Who the answer names. Without our audience in it, the API server may not have looked at the audience at all.
fn identity(status: TokenReviewStatus) -> Option<Identity> {
    let ours = status.audiences.is_some_and(|audiences| audiences.iter().any(|audience| audience == AUDIENCE));
    if status.authenticated != Some(true) || !ours {
        return None;
    }
    let UserInfo { username, uid, groups, extra } = status.user?;
    let extra = extra.unwrap_or_default();
    let one = |key: &str| match extra.get(key).map(Vec::as_slice) {
        Some([value]) => Some(value.clone()),
        _ => None,
    };
    let pod = one("authentication.kubernetes.io/pod-name").zip(one("authentication.kubernetes.io/pod-uid"));
    Some(Identity {
        username: username?,
        uid: uid.unwrap_or_default(),
        groups: groups.unwrap_or_default(),
        pod: pod.map(|(name, uid)| PodIdentity { name, uid }),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use serde_json::{Value, json};

    fn read(change: impl FnOnce(&mut Value)) -> Option<Identity> {
        let mut status = json!({
            "authenticated": true,
            "audiences": ["m87.dev"],
            "user": {
                "username": "system:serviceaccount:m87-system:m87-lane-runner",
                "uid": "u-1",
                "groups": ["system:serviceaccounts"],
                "extra": {
                    "authentication.kubernetes.io/pod-name": ["p"],
                    "authentication.kubernetes.io/pod-uid": ["p-1"],
                },
            },
        });
        change(&mut status);
        identity(serde_json::from_value(status).unwrap())
    }

    #[test]
    fn an_identity_is_who_has_the_token_and_the_pod_it_was_made_for() {
        let it = read(|_| {}).unwrap();
        assert_eq!(it.service_account(), Some(("m87-system", "m87-lane-runner")));
        assert_eq!(it.pod, Some(PodIdentity { name: "p".to_owned(), uid: "p-1".to_owned() }));
        let without = read(|status| drop(status["user"].as_object_mut().unwrap().remove("extra"))).unwrap();
        assert_eq!(without.pod, None);
    }

    #[test]
    fn a_token_that_is_not_meant_for_m87_is_nobodys() {
        assert_eq!(read(|status| status["authenticated"] = json!(false)), None);
        assert_eq!(read(|status| drop(status.as_object_mut().unwrap().remove("authenticated"))), None);
        for audiences in [json!(["https://kubernetes.default.svc"]), json!([]), Value::Null] {
            assert_eq!(read(|status| status["audiences"] = audiences.clone()), None, "{audiences}");
        }
        assert_eq!(read(|status| drop(status.as_object_mut().unwrap().remove("user"))), None);
    }

    #[test]
    fn a_person_is_no_service_account() {
        let person = read(|status| status["user"]["username"] = json!("jane")).unwrap();
        assert_eq!(person.service_account(), None);
    }
}
