//! The engine's 64-bit keys, one type a kind, so that an instance cannot be cancelled by its job's key.
//!
//! Outside gRPC they are decimal texts, since JSON numbers lose digits past 2^53.

use std::{fmt, num::ParseIntError, str::FromStr};

macro_rules! keys {
    ($($(#[$doc:meta])* $name:ident)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
            pub struct $name(pub i64);

            impl fmt::Display for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    self.0.fmt(f)
                }
            }

            impl FromStr for $name {
                type Err = ParseIntError;

                fn from_str(text: &str) -> Result<Self, Self::Err> {
                    text.parse().map(Self)
                }
            }

            impl From<$name> for i64 {
                fn from(key: $name) -> Self {
                    key.0
                }
            }
        )*
    };
}

keys! {
    /// Of a definition: one version of one process.
    DefinitionKey
    /// Of a process instance.
    InstanceKey
    /// Of an element of an instance, or of the instance as a scope.
    ElementKey
    /// Of a job.
    JobKey
    /// Of an incident.
    IncidentKey
}
