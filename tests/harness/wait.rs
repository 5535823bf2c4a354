//! Waiting for a condition: poll until it is met, and report the last state if it never is.

use std::time::Duration;

use tokio::time::Instant;

/// The timeout of any wait before a test fails. Much longer than anything should take: two busy
/// cores are no reason to fail.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// Polls until the answer is `Ok`. An `Err` contains the observed state; the last one is in
/// the panic's message.
#[track_caller]
pub(crate) fn until<T>(what: &str, ask: impl AsyncFnMut() -> Result<T, String>) -> impl Future<Output = T> {
    within(PATIENCE, what, ask, std::panic::Location::caller())
}

/// As [`until`], for what shares the processors with much other work.
#[track_caller]
pub(crate) fn until_long<T>(
    what: &str,
    ask: impl AsyncFnMut() -> Result<T, String>,
) -> impl Future<Output = T> {
    within(4 * PATIENCE, what, ask, std::panic::Location::caller())
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

/// Awaits a future that must finish within the timeout.
pub(crate) async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(result) => result,
        Err(_) => panic!("waited {PATIENCE:?} for: {what}"),
    }
}

#[tokio::test(start_paused = true)]
async fn until_polls_until_the_answer_is_ok() {
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
async fn timeout_reports_the_last_state() {
    until("what never comes", async || Err::<(), _>("not yet".to_owned())).await;
}
