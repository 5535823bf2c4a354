//! Polls a plugin, and replaces the seed of new values when the plugin changes its key.
//!
//! Upstream: the type `kmsv2PluginProbe` in apiserver `pkg/server/options/encryptionconfig/config.go`. The intervals are upstream's.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use uuid::Uuid;

use super::client::Client;
use super::data_key;
use super::object::{KeyIdError, hashed, validate_key_id};
use super::proto::StatusResponse;
use super::shared::Shared;
use super::write_seed::{Current, Moment, WriteSeed};
use crate::errors::aggregate;
use crate::provider::random;

/// The interval between two polls of a healthy plugin.
const POLL_HEALTHY: Duration = Duration::from_secs(60);
/// The interval between two polls of a plugin that is not healthy.
const POLL_FAILING: Duration = Duration::from_secs(10);
/// How long a health check repeats a good result.
const REPEAT_HEALTHY: Duration = Duration::from_secs(20);
/// How long a health check repeats a bad result.
const REPEAT_FAILING: Duration = Duration::from_secs(3);

/// The health of a plugin.
pub(crate) struct Health {
    name: String,
    shared: Arc<Shared>,
    pub(crate) client: Client,
    last: Mutex<LastCheck>,
}

#[derive(Default)]
struct LastCheck {
    result: Option<(Instant, Result<(), String>)>,
    /// The first version that the plugin reported; it must not change.
    version: Option<String>,
}

impl LastCheck {
    /// The last result, if a health check may repeat it.
    fn repeated(&self, now: Instant) -> Option<Result<(), String>> {
        let (at, result) = self.result.as_ref()?;
        let lifetime = if result.is_ok() { REPEAT_HEALTHY } else { REPEAT_FAILING };
        (now.saturating_duration_since(*at) < lifetime).then(|| result.clone())
    }
}

impl Health {
    /// The health of a plugin with this name.
    pub(crate) fn new(name: String, shared: Arc<Shared>, client: Client) -> Self {
        Health { name, shared, client, last: Mutex::default() }
    }

    /// Polls the plugin until the future is dropped. Waits before the first poll: the reader of the configuration checks the plugin.
    pub(crate) async fn poll(&self) {
        let mut interval = POLL_FAILING;
        loop {
            tokio::time::sleep(interval).await;
            interval = if self.check(false).await.is_ok() { POLL_HEALTHY } else { POLL_FAILING };
        }
    }

    /// Calls the plugin, unless a recent result can be repeated. `is_forced` calls it in any case.
    pub(crate) async fn check(&self, is_forced: bool) -> Result<(), String> {
        let mut last = self.last.lock().await;
        if !is_forced && let Some(repeated) = last.repeated(Instant::now()) {
            return repeated;
        }
        let name = &self.name;
        // Upstream repeats the error of the call without its prefix.
        let (result, repeated) = match self.client.status().await {
            Ok(status) => {
                let result = self.judge(&status, &mut last.version).await;
                (result.clone(), result)
            }
            Err(error) => {
                let shown = format!(
                    "failed to perform status section of the healthz check for KMS Provider {name}, error: {error}"
                );
                (Err(shown), Err(error.to_string()))
            }
        };
        if result.is_ok() {
            self.shared.failures.end_outage();
        }
        let was_healthy = last.result.as_ref().map(|(_, result)| result.is_ok());
        match &result {
            Ok(()) if was_healthy != Some(true) => tracing::info!("the KMS plugin {name} is healthy"),
            Err(error) if was_healthy != Some(false) => {
                tracing::error!(%error, "the KMS plugin {name} is not healthy");
            }
            Ok(()) | Err(_) => {}
        }
        last.result = Some((Instant::now(), repeated));
        result
    }

    /// Checks the status of a plugin, and rotates the seed if its key has changed.
    async fn judge(&self, status: &StatusResponse, version: &mut Option<String>) -> Result<(), String> {
        let mut errors = faults(status, version);
        match validate_key_id(&status.key_id) {
            Err(KeyIdError { text, label }) => {
                self.shared.metrics.note_invalid(label);
                errors.push(format!("got invalid KMSv2 KeyID hash {:?}: {text}", hashed(&status.key_id)));
            }
            Ok(()) => {
                self.shared.metrics.note_status(&status.key_id);
                errors.extend(self.rotate(&status.key_id).await.err());
            }
        }
        match aggregate(errors) {
            None => Ok(()),
            Some(why) => Err(format!("kmsv2 Provider {} is not healthy, error: {why}", self.name)),
        }
    }

    /// Ensures that new values have a seed of the current key. If this fails, the former seed stays in use until it expires.
    async fn rotate(&self, key_id: &str) -> Result<(), String> {
        // The plugin may change its key during the call, so the lifetime of the seed begins before it.
        let now = Moment::now();
        let former = self.shared.current();
        if let Ok(current) = &former
            && current.seed.key_id() == key_id
        {
            self.shared.set_current(Current::valid_at(current.seed.clone(), now));
            return Ok(());
        }
        let uid = Uuid::new_v4().to_string();
        let generated = self.generate(&uid).await;
        let (error, encrypted_with) = match generated {
            Ok(seed) if seed.key_id() == key_id => {
                let hash = hashed(key_id);
                tracing::info!(
                    provider = self.name,
                    key_id_hash = hash,
                    "generated a new seed for new values"
                );
                self.shared.set_current(Current::valid_at(Arc::new(seed), now));
                return Ok(());
            }
            Ok(seed) => ("<nil>".to_owned(), hashed(seed.key_id())),
            Err(error) => (error, String::new()),
        };
        let (state_error, state_hash, expires) = match &former {
            Ok(current) => ("<nil>", hashed(current.seed.key_id()), current.expires.rfc3339()),
            Err(error) => (*error, String::new(), "0001-01-01T00:00:00Z".to_owned()),
        };
        Err(format!(
            "failed to rotate DEK uid={uid:?}, useSeed=true, errState={state_error}, errGen={error}, statusKeyIDHash={:?}, \
             encryptKeyIDHash={encrypted_with:?}, stateKeyIDHash={state_hash:?}, expirationTimestamp={expires}",
            hashed(key_id)
        ))
    }

    /// A new seed, encrypted by the plugin.
    async fn generate(&self, uid: &str) -> Result<WriteSeed, String> {
        let seed: [u8; data_key::SIZE] = random()?;
        let encrypted = self.client.encrypt(&seed, uid).await;
        let encrypted = encrypted.map_err(|error| format!("failed to encrypt DEK, error: {error}"))?;
        WriteSeed::new(&seed, encrypted)
    }
}

/// The faults of a status, apart from its key. Stores the first version.
fn faults(status: &StatusResponse, first: &mut Option<String>) -> Vec<String> {
    let mut errors = Vec::new();
    let StatusResponse { version, healthz, .. } = status;
    if healthz != "ok" {
        errors.push(format!("got unexpected healthz status: {healthz}"));
    }
    if !matches!(version.as_str(), "v2" | "v2beta1") {
        errors.push(format!("expected KMSv2 API version v2, got {version}"));
        return errors;
    }
    let first = first.get_or_insert_with(|| version.clone());
    if first != version {
        errors.push(format!(
            "KMSv2 API version should not change after the initial status response version {first}, got {version}"
        ));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_is_judged_as_upstream_does() {
        for (first, version, healthz, want) in [
            (None, "v2", "ok", &[][..]),
            (None, "v2beta1", "ok", &[]),
            (Some("v2"), "v2", "ok", &[]),
            (
                Some("v2beta1"),
                "v2",
                "ok",
                &[
                    "KMSv2 API version should not change after the initial status response version v2beta1, got v2",
                ],
            ),
            (None, "v1", "ok", &["expected KMSv2 API version v2, got v1"]),
            (
                None,
                "",
                "key is disabled",
                &["got unexpected healthz status: key is disabled", "expected KMSv2 API version v2, got "],
            ),
        ] {
            let status = StatusResponse {
                version: version.to_owned(),
                healthz: healthz.to_owned(),
                key_id: "1".to_owned(),
            };
            let mut first = first.map(str::to_owned);
            assert_eq!(faults(&status, &mut first), want, "{version} {healthz}");
        }
    }

    #[test]
    fn health_checks_repeat_recent_results() {
        let start = Instant::now();
        for (result, repeated) in [(Ok(()), 20), (Err("down".to_owned()), 3)] {
            let last = LastCheck { result: Some((start, result.clone())), version: None };
            let after = |seconds| last.repeated(start + Duration::from_secs(seconds));
            assert_eq!((after(repeated - 1), after(repeated)), (Some(result), None));
        }
        assert_eq!(LastCheck::default().repeated(start), None);
    }
}
