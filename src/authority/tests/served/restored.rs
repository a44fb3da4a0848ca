//! A store that was restored from an older copy.

use crate::scene::{Served, denial, end, redeem};
use m87_authority::row::Ending;
use m87_authority::{AuthorityClient, AuthorityError, Denial, GrpcClient};
use m87_core::decide::{Effect, decide};
use m87_core::reason::{Reason, Terminal};
use std::path::Path;
use std::time::Duration;

/// Copies a store that nobody holds.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_restored_from_an_older_copy_refuses_says_why_and_never_executes_twice() {
    let folder = tempfile::tempdir().unwrap();
    let (store, kept) = (folder.path().join("store"), folder.path().join("kept"));
    let served = Served::begin(folder.path()).await;
    served.open("a").await;
    let contract = served.contracted(1).await;
    let (exec, _) = served.exec(0);
    end(served).await;
    copy(&store, &kept);

    let served = Served::begin(folder.path()).await;
    served.driver.look_around().await.unwrap();
    exec_redeem(&exec, &contract).await.unwrap();
    end(served).await;
    std::fs::remove_dir_all(&store).unwrap();
    copy(&kept, &store);

    let served = Served::begin(folder.path()).await;
    let why = served.authority.restored().unwrap();
    assert!(why.contains("m87 store accept --out DIR") && why.contains("redemptions"), "{why}");
    served.driver.look_around().await.unwrap();
    assert_eq!(denial(exec_redeem(&exec, &contract).await), Denial::StoreRestored);

    served.authority.accept().await.unwrap();
    assert_eq!(served.authority.restored(), None);
    assert!(matches!(exec_redeem(&exec, &contract).await, Err(AuthorityError::Refused { .. })));
    let loaded = served.authority.store().runs(None).await.unwrap().remove(0);
    assert!(!loaded.run.row.dispatched() && loaded.barred);
    // The tool was let loose in the history that was lost: nobody may say that nothing happened.
    let uid = loaded.run.dossier.run.uid.clone();
    served.authority.end(&uid, Ending::Interrupted(Reason::DeadlineExceeded)).await.unwrap();
    assert_eq!(served.sealed(&uid).await, (Terminal::Failed, Some(Reason::OutcomeUnknown)));
    let ended = served.authority.load(&uid).await.unwrap().run;
    assert_eq!(decide(&ended.dossier, &ended.row.evidence).effect, Effect::Unknown);
    end(served).await;
    assert_eq!(Served::begin(folder.path()).await.authority.restored(), None);
}

async fn exec_redeem(exec: &GrpcClient, contract: &str) -> Result<(), AuthorityError> {
    loop {
        match exec.redeem(redeem(contract, "n")).await {
            Ok(_) => return Ok(()),
            Err(AuthorityError::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => return Err(error),
        }
    }
}
