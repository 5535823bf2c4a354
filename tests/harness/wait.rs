//! Waiting for a level: ask until the answer is right, and say what it was when it never is.

use std::time::Duration;

use tokio::time::Instant;

/// How long anything may take before a test gives up. Much longer than it ever should: two busy
/// cores are no reason to fail.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// Asks until the answer is `Ok`. What an `Err` holds is the state that was seen; the last one is in
/// the panic's message.
#[track_caller]
pub(crate) fn until<T>(what: &str, ask: impl AsyncFnMut() -> Result<T, String>) -> impl Future<Output = T> {
    within(PATIENCE, what, ask, std::panic::Location::caller())
}

async fn within<T>(
    patience: Duration,
    what: &str,
    mut ask: impl AsyncFnMut() -> Result<T, String>,
    place: &'static std::panic::Location<'static>,
) -> T {
    let start = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        let last = match ask().await {
            Ok(found) => return found,
            Err(state) => state,
        };
        assert!(
            start.elapsed() < patience,
            "{place}: waited {patience:?} for: {what}\nwhat was seen last:\n{last}"
        );
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// A future that must end in time.
pub(crate) async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(result) => result,
        Err(_) => panic!("waited {PATIENCE:?} for: {what}"),
    }
}

#[tokio::test(start_paused = true)]
async fn it_waits_for_the_level() {
    let mut asked = 0;
    let found = until("the third answer", async || {
        asked += 1;
        if asked < 3 { Err(format!("answer {asked}")) } else { Ok(asked) }
    })
    .await;
    assert_eq!(found, 3);
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "what was seen last:\nnot yet")]
async fn it_tells_the_last_state() {
    until("what never comes", async || Err::<(), _>("not yet".to_owned())).await;
}
