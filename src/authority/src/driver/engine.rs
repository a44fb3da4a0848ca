//! The engine as the driver needs it: four questions. Every answer may be repeated.

use crate::row::Definition;
use async_trait::async_trait;
use m87_bpmn::prefix::prefixed;
use m87_zeebe::{Client, DefinitionKey, Error, InstanceKey, absent_is_done, client};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// A process engine.
#[async_trait]
pub trait ProcessEngine: Send + Sync {
    /// The id of the engine, which changes when its data is lost.
    async fn id(&self) -> Result<String, Error>;

    /// Deploys one process; bytes that are there already keep their key.
    async fn deploy(&self, name: &str, bpmn: &[u8]) -> Result<Definition, Error>;

    /// Starts an instance whose only variable is `run`. Without an answer, one may have been started all the same.
    async fn start(&self, definition: Definition, run: &str) -> Result<i64, Error>;

    /// Ends an instance; one that is gone is ended.
    async fn cancel(&self, instance_key: i64) -> Result<(), Error>;
}

/// A Zeebe that does not say who it is: it cannot be told whether its data was lost.
const UNNAMED: &str = "zeebe";

/// The process as a shared engine gets it.
fn with_prefix(bpmn: &[u8], prefix: &str) -> Result<Vec<u8>, Error> {
    let malformed = |error: &dyn std::fmt::Display| Error::Malformed(error.to_string());
    let text = std::str::from_utf8(bpmn).map_err(|error| malformed(&error))?;
    Ok(prefixed(text, prefix).map_err(|error| malformed(&error))?.into_bytes())
}

#[async_trait]
impl ProcessEngine for Client {
    async fn id(&self) -> Result<String, Error> {
        let id = self.topology().await?.cluster_id;
        Ok(if id.is_empty() { UNNAMED.to_owned() } else { id })
    }

    async fn deploy(&self, name: &str, bpmn: &[u8]) -> Result<Definition, Error> {
        let sent = match self.prefix().as_str() {
            "" => Cow::Borrowed(bpmn),
            prefix => Cow::Owned(with_prefix(bpmn, prefix)?),
        };
        let deployed = Client::deploy(self, &[(name, &sent)]).await?;
        match deployed.as_slice() {
            [process] => Ok(Definition { key: process.definition.0, version: process.version }),
            _ => Err(Error::Malformed(format!("{} processes were deployed from one file", deployed.len()))),
        }
    }

    async fn start(&self, definition: Definition, run: &str) -> Result<i64, Error> {
        let variables = Map::from_iter([("run".to_owned(), Value::String(run.to_owned()))]);
        let definition = client::Definition::Key(DefinitionKey(definition.key));
        Ok(self.create_instance(&definition, &variables).await?.key.0)
    }

    async fn cancel(&self, instance_key: i64) -> Result<(), Error> {
        absent_is_done(self.cancel_instance(InstanceKey(instance_key)).await)
    }
}
