//! A prefix on process ids and job types keeps one m87 apart from everything else in a shared Zeebe cluster.

/// The prefix; empty by default. Names inside m87 are without it, names on the wire with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prefix(String);

impl Prefix {
    /// A prefix as configured (`zeebe.prefix`).
    pub fn new(prefix: impl Into<String>) -> Self {
        Self(prefix.into())
    }

    /// The name as the engine knows it.
    pub fn on(&self, name: &str) -> String {
        format!("{}{name}", self.0)
    }

    /// The name as m87 knows it; a name without the prefix is left as it is.
    pub fn off(&self, name: &str) -> String {
        name.strip_prefix(self.0.as_str()).unwrap_or(name).to_owned()
    }
}
