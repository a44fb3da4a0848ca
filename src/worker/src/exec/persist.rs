//! Asking again: `Unavailable` is no answer, so the question is put until there is one or the time is over.

use m87_authority::AuthorityError;
use std::time::Duration;
use tokio::time::Instant;

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Calls until an answer or a definite no, or until that instant; then the last "unavailable" stands.
pub(super) async fn persist<T, F>(until: Instant, mut call: impl FnMut() -> F) -> Result<T, AuthorityError>
where
    F: Future<Output = Result<T, AuthorityError>>,
{
    let mut pause = FIRST_PAUSE;
    loop {
        match call().await {
            Err(AuthorityError::Unavailable(why)) if Instant::now() + pause < until => {
                tracing::debug!(why, "asking the authority again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            answer => return answer,
        }
    }
}
