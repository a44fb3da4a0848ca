//! Where identifiers and secrets come from.
//!
//! With an injected clock identifiers are derived, so that receipts come out byte for byte; secrets never are.

use m87_core::json::compute_hash;
use m87_core::time::Timestamp;

/// Draws identifiers and secrets.
pub trait Entropy: Send + Sync {
    /// An identifier in the form of a UUID. `names` say what it is for.
    fn id(&self, names: &[&str]) -> String;

    /// 32 bytes that nobody can guess, hex.
    fn secret(&self) -> Result<String, NoEntropy>;
}

/// The operating system gives no random bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the operating system gives no random bytes: {0}")]
pub struct NoEntropy(String);

/// Everything is random.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn id(&self, names: &[&str]) -> String {
        // Without random bytes an identifier is still one of these names at this instant.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let mut bytes = [0; 16];
        match getrandom::fill(&mut bytes) {
            Ok(()) => uuid(&hex::encode(bytes)),
            Err(_) => derive(&[&now.to_string()], names),
        }
    }

    fn secret(&self) -> Result<String, NoEntropy> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|error| NoEntropy(error.to_string()))?;
        Ok(hex::encode(bytes))
    }
}

/// Identifiers follow from the injected clock, the signing key and their names.
#[derive(Debug, Clone)]
pub struct DerivedEntropy {
    /// The injected instant.
    pub clock: Timestamp,
    /// The id of the signing key.
    pub key_id: String,
}

impl Entropy for DerivedEntropy {
    fn id(&self, names: &[&str]) -> String {
        derive(&[&self.clock.to_string(), &self.key_id], names)
    }

    fn secret(&self) -> Result<String, NoEntropy> {
        SystemEntropy.secret()
    }
}

fn derive(from: &[&str], names: &[&str]) -> String {
    uuid(&compute_hash(&(from, names)).unwrap_or_default())
}

/// 32 hex digits in the form of a UUID (version 4's marks, so that it is taken wherever one is).
fn uuid(hex: &str) -> String {
    let digits: Vec<char> = hex.chars().take(32).collect();
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default().iter().collect::<String>();
    format!("{}-{}-4{}-a{}-{}", part(0, 8), part(8, 12), part(13, 16), part(17, 20), part(20, 32))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn derived_identifiers_follow_from_clock_key_and_names() {
        let one = DerivedEntropy { clock: Timestamp::from_millis(0), key_id: "k".to_owned() };
        let other = DerivedEntropy { key_id: "l".to_owned(), ..one.clone() };
        assert_eq!(one.id(&["run", "a"]), one.id(&["run", "a"]));
        assert_ne!(one.id(&["run", "a"]), one.id(&["run", "b"]));
        assert_ne!(one.id(&["ab", "c"]), one.id(&["a", "bc"]));
        assert_ne!(one.id(&["run", "a"]), other.id(&["run", "a"]));
    }

    #[test]
    fn identifiers_look_like_uuids_and_secrets_are_never_derived() {
        let derived = DerivedEntropy { clock: Timestamp::from_millis(0), key_id: "k".to_owned() };
        for id in [SystemEntropy.id(&["x"]), derived.id(&["x"])] {
            assert_eq!(id.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        }
        assert_ne!(derived.secret().unwrap(), derived.secret().unwrap());
        assert_ne!(SystemEntropy.id(&["x"]), SystemEntropy.id(&["x"]));
    }
}
