//! `m87 store accept`: a person takes responsibility for a store that is older than its mark.

use crate::args::StoreCommand;
use crate::exit::Exit;
use crate::local::folder::Folder;
use crate::local::ground::{Ground, Times};
use crate::local::session::PUBLISH;
use crate::say::say;
use m87_authority::clock::{Clock, SystemClock};
use m87_authority::publish::Publisher;
use m87_authority::world::NoStatus;
use std::sync::Arc;

/// Accepts the store of an out folder. What came with it is never executed any more.
pub(crate) async fn run(command: &StoreCommand) -> anyhow::Result<Exit> {
    let StoreCommand::Accept { out, key } = command;
    let folder = Folder::at(out)?;
    anyhow::ensure!(folder.store().is_dir(), "{}: there is no store here", folder.path().display());
    let _held = folder.hold()?;
    let Ground { authority, .. } =
        Ground::open(&folder, key.as_deref(), None, Times::usual(), Arc::default(), Arc::new(NoStatus)).await?;
    let restored = authority.restored();
    match &restored {
        None => say!("the store is at its mark: there is nothing to accept"),
        Some(why) => {
            authority.accept().await?;
            say!("accepted; the runs in it get no contract any more, new ones do\n  {why}");
        }
    }
    // Also if it was accepted before, and that was interrupted.
    let accepted_at = Some(SystemClock.now().at);
    Publisher::start(authority.clone(), authority.store().id(), accepted_at).close(PUBLISH).await;
    Ok(Exit::AsAsked)
}
