//! Asking again: `Unavailable` is no answer, so the question is put until there is one or the time is over.

use m87_authority::AuthorityError;
use m87_zeebe::BackOff;
use std::time::Duration;
use tokio::time::Instant;

const BACK_OFF: BackOff = BackOff { first: Duration::from_millis(40), cap: Duration::from_secs(2) };

/// Calls until an answer or a definite no, or until that instant; then the last "unavailable" stands.
pub(super) async fn persist<T, F>(until: Instant, mut call: impl FnMut() -> F) -> Result<T, AuthorityError>
where
    F: Future<Output = Result<T, AuthorityError>>,
{
    let mut waits = BACK_OFF.start();
    loop {
        let answer = call().await;
        let Err(AuthorityError::Unavailable(why)) = &answer else {
            return answer;
        };
        let pause = waits.failed();
        if Instant::now() + pause > until {
            return answer;
        }
        tracing::debug!(why, "asking the authority again");
        tokio::time::sleep(pause).await;
    }
}
