//! What the reconcilers write: status, and the deletion of what has expired. Both are for one object by its uid, so that neither
//! ever hits another that was made under the same name meanwhile.

use super::view::Meta;
use crate::metrics::Metrics;
use crate::objects::within;
use crate::world::call::{CallError, call, found};
use kube::Client;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use m87_api::Spec;
use serde_json::{Value, json};

/// Who writes status, as the API server records it.
pub const FIELD_MANAGER: &str = "m87-status";

/// Replaces the status of an object as a whole. `None` if the object is gone, or another has its name.
pub async fn put_status<S: Spec>(
    client: &Client,
    metrics: &Metrics,
    meta: &Meta,
    status: &Value,
) -> Result<Option<DynamicObject>, CallError> {
    let what = format!("writing the status of {} {}", S::KIND, meta.key);
    let operations = json!([
        {"op": "test", "path": "/metadata/uid", "value": meta.uid},
        {"op": "add", "path": "/status", "value": status},
    ]);
    let patch = serde_json::from_value(operations).map_err(|error| CallError::Refused(format!("{what}: {error}")))?;
    let api = within::<S>(client.clone(), &meta.key.namespace);
    let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    metrics.wrote(S::KIND, "status");
    match call(&what, api.patch_status(&meta.key.name, &parameters, &Patch::Json::<()>(patch))).await {
        Ok(object) => Ok(Some(object)),
        Err(CallError::NotFound(_)) => Ok(None),
        // The test failed, or the server does not take such a status: only a look tells which.
        Err(error @ (CallError::Refused(_) | CallError::Conflict(_))) => {
            let what = format!("reading {} {}", S::KIND, meta.key);
            match found(&what, api.get_metadata(&meta.key.name)).await? {
                Some(there) if there.metadata.uid.as_deref() == Some(&meta.uid) => Err(error),
                Some(_) | None => Ok(None),
            }
        }
        Err(error @ (CallError::Forbidden(_) | CallError::Unavailable(_))) => Err(error),
    }
}

/// Deletes an object, if it is still the one that is meant.
pub async fn delete<S: Spec>(client: &Client, metrics: &Metrics, meta: &Meta) -> Result<(), CallError> {
    let what = format!("deleting {} {}", S::KIND, meta.key);
    let api = within::<S>(client.clone(), &meta.key.namespace);
    let preconditions = Preconditions { uid: Some(meta.uid.clone()), resource_version: None };
    let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    metrics.wrote(S::KIND, "delete");
    match call(&what, api.delete(&meta.key.name, &parameters)).await {
        // Gone, or another has the name.
        Ok(_) | Err(CallError::NotFound(_) | CallError::Conflict(_)) => Ok(()),
        Err(error @ (CallError::Forbidden(_) | CallError::Refused(_) | CallError::Unavailable(_))) => Err(error),
    }
}
