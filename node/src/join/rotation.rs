//! Renews the client certificate of a node before it ends. New connections use the new certificate.
//!
//! Upstream: k8s.io/client-go/util/certificate.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use orlop_apimachinery::clock::{Backoff, Clock};
use orlop_pki::certificate::{CertificateFacts, facts};
use rand::Rng as _;
use tokio_util::sync::CancellationToken;

use super::error::JoinError;
use super::files::JoinFiles;
use super::order;

/// Maximum duration of one wait, because the clock may be set or the machine suspended meanwhile.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
const FIRST_RETRY: Duration = Duration::from_secs(60);
const LAST_RETRY: Duration = Duration::from_secs(30 * 60);

/// When a certificate is renewed: after 70 to 90 percent of its lifetime, so that the nodes of a cluster do not renew theirs at the same
/// time. `random` is between 0 and 1.
fn due(facts: &CertificateFacts, random: f64) -> Timestamp {
    let lifetime = facts.not_after.duration_since(facts.not_before);
    let share = lifetime.as_secs_f64() * (0.7 + 0.2 * random.clamp(0.0, 1.0));
    let share = SignedDuration::try_from_secs_f64(share).unwrap_or(SignedDuration::ZERO);
    facts.not_before.checked_add(share).unwrap_or(facts.not_after)
}

/// Renews the certificate whenever it is due, until `stop`.
pub async fn keep(client: Client, name: String, files: JoinFiles, clock: Clock, stop: CancellationToken) {
    let work = async {
        let mut backoff = Backoff::new(FIRST_RETRY, LAST_RETRY);
        loop {
            match renew_when_due(&client, &name, &files, clock).await {
                Ok(end) => {
                    backoff.reset();
                    tracing::info!("the certificate of node {name} is renewed, and ends at {end}");
                }
                Err(error) => {
                    tracing::error!("the certificate of node {name} cannot be renewed: {error}");
                    tokio::time::sleep(backoff.advance()).await;
                }
            }
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = work => {}
    }
}

/// Returns the end of the new certificate.
async fn renew_when_due(
    client: &Client,
    name: &str,
    files: &JoinFiles,
    clock: Clock,
) -> Result<Timestamp, JoinError> {
    let missing = || JoinError::NoCertificate(files.identity.clone());
    let text = files.read(&files.identity)?.ok_or_else(missing)?;
    let due = due(&facts(text.as_bytes()).ok_or_else(missing)?, rand::rng().random());
    loop {
        let left = due.duration_since(clock.now());
        match Duration::try_from(left) {
            Ok(left) if !left.is_zero() => tokio::time::sleep(left.min(LONGEST_WAIT)).await,
            Ok(_) | Err(_) => break,
        }
    }
    let renewed = order::order(client, name).await?;
    let facts = facts(renewed.as_bytes()).ok_or_else(missing)?;
    files.write(&files.identity, &renewed)?;
    Ok(facts.not_after)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn certificates_are_renewed_in_the_last_third() {
        let facts = CertificateFacts {
            not_before: "2026-01-01T00:00:00Z".parse().unwrap(),
            not_after: "2026-01-11T00:00:00Z".parse().unwrap(),
            common_name: String::new(),
        };
        for (random, want) in [
            (0.0, "2026-01-08T00:00:00Z"),
            (0.5, "2026-01-09T00:00:00Z"),
            (1.0, "2026-01-10T00:00:00Z"),
            (7.0, "2026-01-10T00:00:00Z"),
        ] {
            assert_eq!(due(&facts, random), want.parse::<Timestamp>().unwrap(), "{random}");
        }
        let never = CertificateFacts { not_after: facts.not_before, ..facts.clone() };
        assert_eq!(due(&never, 0.5), facts.not_before);
    }
}
