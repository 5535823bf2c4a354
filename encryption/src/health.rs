//! The health of all KMS plugins, under the name of upstream's health check `kms-providers`.
//!
//! Upstream: the type `kmsHealthChecker` in apiserver `pkg/server/options/encryptionconfig/config.go`, and `controller/controller.go`.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::errors::aggregate;
use crate::kms::KmsProvider;

/// The shortest time that a changed configuration waits for its plugins, as upstream.
const SHORTEST_WAIT: Duration = Duration::from_secs(10);
/// The interval between two checks of a plugin that a changed configuration waits for, as upstream.
const WAIT_INTERVAL: Duration = Duration::from_millis(100);

const ENDED: &str = "the thread of the KMS provider has ended";

/// Checks the plugins. `is_forced` calls them even if a recent result could be repeated.
pub(crate) async fn check(providers: &[Arc<KmsProvider>], is_forced: bool) -> Result<(), String> {
    let checks: Vec<_> = providers
        .iter()
        .map(|provider| {
            let (sender, receiver) = oneshot::channel();
            // An error means that the request has ended.
            provider.check(is_forced, Box::new(move |result| drop(sender.send(result))));
            receiver
        })
        .collect();
    let mut results = Vec::new();
    for check in checks {
        results.push(check.await.unwrap_or_else(|_| Err(ENDED.to_owned())));
    }
    joined(results)
}

/// Calls the plugins and blocks until they respond or time out.
pub(crate) fn check_now(providers: &[Arc<KmsProvider>]) -> Result<(), String> {
    let checks: Vec<_> = providers
        .iter()
        .map(|provider| {
            let (sender, receiver) = channel();
            provider.check(true, Box::new(move |result| drop(sender.send(result))));
            (receiver, provider.longest_check())
        })
        .collect();
    joined(checks.into_iter().map(|(receiver, longest)| {
        receiver.recv_timeout(longest).unwrap_or_else(|error| Err(error.to_string()))
    }))
}

/// Blocks until all plugins are healthy, or returns the problem.
pub(crate) fn wait_until_healthy(providers: &[Arc<KmsProvider>]) -> Result<(), String> {
    let timeouts: Duration = providers
        .iter()
        .map(|provider| provider.configuration().timeout.duration)
        .fold(Duration::ZERO, Duration::saturating_add);
    let longest = SHORTEST_WAIT.max(timeouts.saturating_mul(2));
    let began = Instant::now();
    loop {
        match check_now(providers) {
            Ok(()) => return Ok(()),
            Err(problem) if began.elapsed() >= longest => return Err(problem),
            Err(_) => std::thread::sleep(WAIT_INTERVAL),
        }
    }
}

/// Joins the results of all providers, in the order of the file.
fn joined(results: impl IntoIterator<Item = Result<(), String>>) -> Result<(), String> {
    let results = results.into_iter().enumerate();
    let errors =
        results.filter_map(|(nth, result)| result.err().map(|why| format!("kms-provider-{nth}: {why}")));
    aggregate(errors.collect()).map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn problems_are_joined_as_upstream_does() {
        let down = || Err("down".to_owned());
        for (results, want) in [
            (vec![], Ok(())),
            (vec![Ok(()), Ok(())], Ok(())),
            (vec![Ok(()), down()], Err("kms-provider-1: down".to_owned())),
            (vec![down(), down()], Err("[kms-provider-0: down, kms-provider-1: down]".to_owned())),
        ] {
            assert_eq!(joined(results), want);
        }
    }
}
