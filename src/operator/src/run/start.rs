//! What has to be there before anything else: an API server that answers, and the custom resources.

use super::Shared;
use crate::health::{Part, PartState};
use crate::lease;
use crate::world::call::call;
use m87_api::{API_VERSION, GROUP, GovernancePolicySpec, GovernedRunSpec, Spec, VERSION};
use m87_core::tool::ManifestSpec;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Between two looks.
const LOOK: Duration = Duration::from_secs(2);

/// Waits until the API server serves every kind; false if `stop` comes first.
pub(super) async fn crds(shared: &Shared, stop: &CancellationToken) -> bool {
    loop {
        match missing(shared).await {
            Ok(missing) if missing.is_empty() => {
                shared.health.set(Part::Api, PartState::Well);
                return true;
            }
            Ok(missing) => {
                shared.health.set(Part::Api, PartState::Well);
                let why = format!("{} of {API_VERSION} are not served: install the chart m87-crds", missing.join(", "));
                shared.health.set(Part::Crds, PartState::Waiting(why));
            }
            Err(why) => shared.health.set(Part::Api, PartState::Waiting(why)),
        }
        if stop.run_until_cancelled(tokio::time::sleep(LOOK)).await.is_none() {
            return false;
        }
    }
}

/// The kinds that are not served. Asked of discovery, which answers also where nothing may be listed.
async fn missing(shared: &Shared) -> Result<Vec<&'static str>, String> {
    let all = [GovernancePolicySpec::PLURAL, ManifestSpec::PLURAL, GovernedRunSpec::PLURAL];
    let groups = call("discovery", shared.client.list_api_groups()).await.map_err(|error| error.to_string())?;
    if !groups.groups.iter().any(|group| group.name == GROUP) {
        return Ok(all.to_vec());
    }
    let version = format!("{GROUP}/{VERSION}");
    let resources = call("discovery", shared.client.list_api_group_resources(&version)).await;
    let resources = resources.map_err(|error| error.to_string())?.resources;
    Ok(all.into_iter().filter(|plural| !resources.iter().any(|resource| resource.name == *plural)).collect())
}

/// The lease as readiness has it. Whoever only waits for it is of no use yet.
pub(super) fn of_lease(tenure: lease::Tenure) -> PartState {
    match tenure {
        lease::Tenure::Leading => PartState::Well,
        lease::Tenure::Unknown => PartState::Waiting("nobody has looked at it yet".to_owned()),
        lease::Tenure::Waiting(holder) => PartState::Waiting(format!("standby: {holder} leads")),
        lease::Tenure::Blocked(why) => PartState::Waiting(why),
        lease::Tenure::Lost(loss) => PartState::Waiting(loss.to_string()),
    }
}
