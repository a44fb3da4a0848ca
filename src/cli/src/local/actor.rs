//! Who asks, without a cluster: the user of the operating system who started this process.

use m87_core::actor::{Actor, Attestation};

/// The actor of this invocation. A name given with `--as` is only believed if it is the user's own: the operating system
/// vouches for no other, so that an agent which calls itself something is not taken for a person.
pub(crate) fn actor(name: Option<&str>) -> Actor {
    let uid = rustix::process::getuid().as_raw();
    let own = username(uid);
    let username = name.unwrap_or(&own).to_owned();
    let attestation = if username == own { Attestation::OperatingSystem } else { Attestation::Unattested };
    let uid = if username == own { uid.to_string() } else { String::new() };
    Actor { username, uid, credential_id: None, attestation }
}

/// The name that the system's user database has for a uid; without one, the number is the name.
fn username(uid: u32) -> String {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    });
    named.unwrap_or_else(|| format!("uid:{uid}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ones_own_name_is_attested() {
        let own = actor(None);
        assert_eq!(own.attestation, Attestation::OperatingSystem);
        assert_eq!(actor(Some(&own.username)), own);
        let other = actor(Some("somebody-else"));
        assert_eq!((other.attestation, other.uid.as_str()), (Attestation::Unattested, ""));
        assert!(!other.is_human());
    }
}
