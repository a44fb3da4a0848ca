//! Who asks. An absent or unattested actor is a non-human one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who made the proposal, as someone other than the actor has attested it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Actor {
    /// The user's name as the API server or the operating system knows it.
    #[schemars(length(max = 256))]
    pub username: String,
    /// The user's uid where the authenticator gives one, else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 256))]
    pub uid: String,
    /// Which token or certificate the request was authenticated with, where the API server names one. Nothing is judged by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub credential_id: Option<String>,
    /// Who says so.
    pub attestation: Attestation,
}

/// Who vouches for the actor's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Attestation {
    /// Nobody: a name without a witness is not believed.
    Unattested,
    /// The operating system under which `m87 run` was started.
    OperatingSystem,
    /// The API server's admission, which stamped the name on the object.
    Admission,
}

impl Actor {
    /// Whether a person is asking: someone vouches for the name, and it is none that programs have.
    pub fn is_human(&self) -> bool {
        self.is_attested() && !self.username.starts_with("system:")
    }

    /// Whether someone vouches for the name. A blank name is nobody's.
    pub fn is_attested(&self) -> bool {
        self.attestation != Attestation::Unattested && !self.username.trim().is_empty()
    }

    /// The same actor, whichever token it came with: by this, an effect belongs to it.
    #[must_use]
    pub fn without_credential(&self) -> Self {
        Self { credential_id: None, ..self.clone() }
    }

    /// Who asked and who says so, in words.
    pub fn told(&self) -> String {
        match self.attestation {
            Attestation::Unattested => format!("{:?}, for whom nobody vouches", self.username),
            Attestation::OperatingSystem => format!("{:?}, says the operating system", self.username),
            Attestation::Admission => {
                let came_by = came_by(&self.username, self.credential_id.as_deref());
                format!("{:?}, says admission ({came_by})", self.username)
            }
        }
    }
}

/// How an actor of a cluster came in, in words: by which credential, or what it means that none is named.
pub fn came_by(username: &str, credential_id: Option<&str>) -> String {
    match credential_id {
        Some(id) => format!("by credential {id:?}"),
        None if username.starts_with("system:serviceaccount:") => {
            "no credential named: impersonated, by a legacy token, or not stamped".to_owned()
        }
        None => "no credential named: impersonated, by a login that names none, or not stamped".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::decide::decide;
    use crate::fixtures::{dossier, evidence};
    use crate::json::to_canonical;
    use crate::plan::plan;

    const ID: &str = "JTI=ba56da8c-cd58-4482-ab4f-825ba52aa27a";

    #[test]
    fn an_actor_without_a_credential_is_written_as_it_was_before_there_was_one() {
        let text = r#"{"attestation":"Admission","uid":"7","username":"ann"}"#;
        let actor: Actor = serde_json::from_str(text).unwrap();
        assert_eq!((actor.credential_id.as_ref(), to_canonical(&actor).unwrap().as_str()), (None, text));
        let named = Actor { credential_id: Some(ID.to_owned()), ..actor.clone() };
        assert!(to_canonical(&named).unwrap().contains(&format!(r#""credentialId":"{ID}""#)));
        assert_eq!(named.without_credential(), actor);
    }

    #[test]
    fn nothing_is_judged_or_planned_by_the_credential() {
        let (without, mut with) = (dossier(), dossier());
        with.actor.credential_id = Some(ID.to_owned());
        assert_eq!(plan(&with).unwrap().hash(), plan(&without).unwrap().hash());
        assert_eq!(decide(&with, &evidence()), decide(&without, &evidence()));
        with.actor.username = "system:serviceaccount:team-a:agent".to_owned();
        let nobody = {
            let mut it = with.clone();
            it.actor.credential_id = None;
            it
        };
        assert_eq!(decide(&with, &evidence()), decide(&nobody, &evidence()));
    }

    #[test]
    fn a_missing_credential_is_told_as_what_it_may_mean() {
        let by = |username: &str, attestation, id: Option<&str>| {
            let (username, credential_id) = (username.to_owned(), id.map(str::to_owned));
            Actor { username, uid: String::new(), credential_id, attestation }.told()
        };
        let (program, legacy) = ("system:serviceaccount:a:b", "impersonated, by a legacy token, or not stamped");
        assert_eq!(
            by("ann", Attestation::Admission, Some(ID)),
            format!("\"ann\", says admission (by credential {ID:?})")
        );
        assert!(by(program, Attestation::Admission, None).contains(legacy));
        assert!(by("ann", Attestation::Admission, None).contains("impersonated, by a login that names none"));
        assert_eq!(by("ann", Attestation::OperatingSystem, None), "\"ann\", says the operating system");
        assert_eq!(by("ann", Attestation::Unattested, Some(ID)), "\"ann\", for whom nobody vouches");
    }
}
