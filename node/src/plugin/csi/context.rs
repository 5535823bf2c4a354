//! Builds the volume context for a driver besides the volume's own attributes: the attacher's publish context,
//! the pod's identity, and tokens of its service account.

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{
    BoundObjectReference, TokenRequest, TokenRequestSpec, TokenRequestStatus,
};
use k8s_openapi::api::core::v1::{Pod, SecretReference, ServiceAccount};
use k8s_openapi::api::storage::v1::{CSIDriver, VolumeAttachment};
use kube::api::PostParams;
use orlop_client::api::Api;
use orlop_client::client::message_of;
use orlop_csi::error::Code;
use orlop_volume::attachment;
use orlop_volume::csi::secrets;

use super::driver::{DriverRegistry, is_attached};
use super::source::VolumeLifecycle;
use crate::host::Host;
use crate::plugin::PluginError;

/// Key of the tokens, in the volume context or among the secrets.
pub(super) const TOKENS: &str = "csi.storage.k8s.io/serviceAccount.tokens";
/// The server's default for a request without an expiration.
const TOKEN_LIFE: i64 = 3600;
/// The longest time before a token is renewed, whatever its lifetime (upstream: kubelet's token manager).
const TOKEN_AGE: i64 = 24 * 3600;
/// The time limit of an answer of the API server. Upstream's clients use the same.
const PATIENCE: Duration = Duration::from_secs(60);

/// The publish context from the attacher. Empty for a driver whose volumes are not attached.
///
/// # Errors
/// The volume is not attached to this node, or is being detached.
pub(super) async fn publish_context(
    host: &Host,
    known: &DriverRegistry,
    driver: &str,
    handle: &str,
) -> Result<HashMap<String, String>, PluginError> {
    if !is_attached(known.object(driver).as_deref()) {
        return Ok(HashMap::new());
    }
    let name = attachment::name(driver, handle, &host.config.name);
    let api: Api<VolumeAttachment> = Api::all(host.client.clone());
    let found = answered(api.get(&name)).await.map_err(|(why, cause)| {
        let message = format!("volume {handle} has GET error for volume attachment {name}: {why}");
        refused(message, cause)
    })?;
    if is_exhausted(&found) {
        known.doubt();
    }
    attached(&found, handle).map_err(PluginError::plain)
}

/// Whether the driver has reached its volume limit on this node (upstream: isResourceExhaustedError).
fn is_exhausted(found: &VolumeAttachment) -> bool {
    let error = found.status.as_ref().and_then(|status| status.attach_error.as_ref());
    error.and_then(|error| error.error_code) == Some(Code::ResourceExhausted as i32)
}

/// The publish context in a VolumeAttachment (upstream: verifyAttachmentStatus).
fn attached(found: &VolumeAttachment, handle: &str) -> Result<HashMap<String, String>, String> {
    if found.metadata.deletion_timestamp.is_some() {
        return Err("volume attachment is being deleted".to_owned());
    }
    let name = found.metadata.name.as_deref().unwrap_or_default();
    let driver = &found.spec.attacher;
    let waits = || {
        format!(
            "volume attachment {name} is not attached yet: external-attacher of {driver} CSI driver has to attach volume {handle}"
        )
    };
    let status = found.status.as_ref().ok_or_else(waits)?;
    if status.attached {
        return Ok(status.attachment_metadata.clone().unwrap_or_default().into_iter().collect());
    }
    match &status.attach_error {
        Some(error) => Err(error.message.clone().unwrap_or_default()),
        None => Err(waits()),
    }
}

/// The values of a secret. `what` names its purpose in errors.
pub(super) async fn secret(
    host: &Host,
    what: &str,
    reference: Option<&SecretReference>,
) -> Result<HashMap<String, String>, PluginError> {
    let Some(reference) = reference else { return Ok(HashMap::new()) };
    let name = reference.name.as_deref().unwrap_or_default();
    let namespace = reference.namespace.as_deref().unwrap_or_default();
    let begin = || format!("fetching {what} {namespace}/{name} failed: ");
    if name.is_empty() || namespace.is_empty() {
        return Err(PluginError::plain(begin() + "it names no secret"));
    }
    match tokio::time::timeout(PATIENCE, secrets::read(&host.client, Some(reference))).await {
        Ok(Ok(values)) => Ok(values),
        Ok(Err(error)) => Err(PluginError::plain(begin() + &error.to_string()).caused(error)),
        Err(_) => Err(PluginError::plain(begin() + "the API server does not answer")),
    }
}

/// The pod's identity, for drivers that request it.
pub(super) fn pod_attributes(
    object: Option<&CSIDriver>,
    pod: &Pod,
    life: VolumeLifecycle,
) -> Vec<(String, String)> {
    let wanted = object.and_then(|object| object.spec.pod_info_on_mount).unwrap_or(false);
    if !wanted {
        return Vec::new();
    }
    let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.clone());
    [
        ("pod.name", pod.metadata.name.clone().unwrap_or_default()),
        ("pod.namespace", pod.metadata.namespace.clone().unwrap_or_default()),
        ("pod.uid", pod.metadata.uid.clone().unwrap_or_default()),
        ("serviceAccount.name", account.unwrap_or_default()),
        ("ephemeral", (life == VolumeLifecycle::Ephemeral).to_string()),
    ]
    .map(|(key, value)| (secrets::PREFIX.to_owned() + key, value))
    .into()
}

/// The account, pod, audience and lifetime of a token.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct TokenKey {
    namespace: String,
    account: String,
    pod: String,
    uid: String,
    audience: String,
    seconds: Option<i64>,
}

/// Caches tokens until their renewal time (upstream: pkg/kubelet/token). Without it, volumes that are republished
/// periodically would request a token each time.
#[derive(Default)]
pub(super) struct TokenCache(Mutex<BTreeMap<TokenKey, CachedToken>>);

struct CachedToken {
    status: TokenRequestStatus,
    /// The time of the renewal.
    old: Timestamp,
}

impl TokenCache {
    /// The tokens of a pod's account that a driver requests, in the format for the driver. None when it requests
    /// none.
    ///
    /// # Errors
    /// The API server does not issue one.
    pub(super) async fn of_pod(
        &self,
        host: &Host,
        object: Option<&CSIDriver>,
        pod: &Pod,
    ) -> Result<Option<String>, PluginError> {
        let requests = object.and_then(|object| object.spec.token_requests.as_deref()).unwrap_or_default();
        if requests.is_empty() {
            return Ok(None);
        }
        let mut tokens = BTreeMap::new();
        for request in requests {
            let spec = pod.spec.as_ref();
            let key = TokenKey {
                namespace: pod.metadata.namespace.clone().unwrap_or_default(),
                account: spec.and_then(|spec| spec.service_account_name.clone()).unwrap_or_default(),
                pod: pod.metadata.name.clone().unwrap_or_default(),
                uid: pod.metadata.uid.clone().unwrap_or_default(),
                audience: request.audience.clone(),
                seconds: request.expiration_seconds,
            };
            tokens.insert(request.audience.clone(), self.get(host, key).await?);
        }
        // A map of strings always serializes.
        Ok(Some(serde_json::to_string(&tokens).unwrap_or_default()))
    }

    async fn get(&self, host: &Host, key: TokenKey) -> Result<TokenRequestStatus, PluginError> {
        let now = host.clock.now();
        let held = {
            let mut all = self.0.lock();
            all.retain(|_, held| held.old > now);
            all.get(&key).map(|held| held.status.clone())
        };
        if let Some(status) = held {
            return Ok(status);
        }
        let status = ask(host, &key).await?;
        let ends = status.expiration_timestamp.as_ref().map_or(now, |at| at.0);
        let held = CachedToken { old: old(now, ends), status: status.clone() };
        self.0.lock().insert(key, held);
        Ok(status)
    }
}

/// When to renew a token issued now: when a fifth of its lifetime is left, or after a day.
fn old(now: Timestamp, ends: Timestamp) -> Timestamp {
    let life = ends.as_second().saturating_sub(now.as_second()).max(0);
    let seconds = (life - life / 5).min(TOKEN_AGE);
    now.saturating_add(jiff::SignedDuration::from_secs(seconds)).unwrap_or(now)
}

async fn ask(host: &Host, key: &TokenKey) -> Result<TokenRequestStatus, PluginError> {
    let audiences = if key.audience.is_empty() { Vec::new() } else { vec![key.audience.clone()] };
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            audiences: Some(audiences),
            expiration_seconds: Some(key.seconds.unwrap_or(TOKEN_LIFE)),
            bound_object_ref: Some(BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: Some(key.pod.clone()),
                uid: Some(key.uid.clone()),
            }),
        }),
        ..TokenRequest::default()
    };
    let TokenKey { namespace, account, .. } = key;
    let api: Api<ServiceAccount> = Api::namespaced(host.client.clone(), namespace);
    let params = PostParams::default();
    let asked = api.create_subresource::<_, TokenRequest>("token", account, &params, &request);
    let begin = "kubernetes.io/csi: mounter.SetUpAt failed to get service account token attributes: failed to fetch token: ";
    let answer = answered(asked).await.map_err(|(why, cause)| refused(format!("{begin}{why}"), cause))?;
    answer.status.ok_or_else(|| {
        PluginError::plain(format!("{begin}the API server gave none for {namespace}/{account}"))
    })
}

/// Waits for an answer of the API server, with the time limit.
async fn answered<T>(
    asked: impl Future<Output = kube::Result<T>>,
) -> Result<T, (String, Option<kube::Error>)> {
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err((message_of(&error), Some(error))),
        Err(_) => Err(("the API server does not answer".to_owned(), None)),
    }
}

fn refused(message: String, cause: Option<kube::Error>) -> PluginError {
    let error = PluginError::plain(message);
    match cause {
        Some(cause) => error.caused(cause),
        None => error,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn attachment_status_is_verified() {
        let say = |status: Value, deleted: bool| {
            let mut object = json!({"metadata": {"name": "csi-1"}, "status": status,
                "spec": {"attacher": "d", "nodeName": "n", "source": {}}});
            if deleted {
                object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            attached(&serde_json::from_value(object).unwrap(), "h")
        };
        let left = [("k".to_owned(), "v".to_owned())].into();
        assert_eq!(say(json!({"attached": true, "attachmentMetadata": {"k": "v"}}), false), Ok(left));
        assert_eq!(say(json!({"attached": true}), false), Ok(HashMap::new()));
        assert_eq!(say(json!({"attached": true}), true).unwrap_err(), "volume attachment is being deleted");
        let failed = json!({"attached": false, "attachError": {"message": "no slot"}});
        assert_eq!(say(failed, false).unwrap_err(), "no slot");
        let waits = "volume attachment csi-1 is not attached yet: external-attacher of d CSI driver has to attach volume h";
        assert_eq!(say(json!({"attached": false}), false).unwrap_err(), waits);
        assert_eq!(say(json!(null), false).unwrap_err(), waits);
    }

    #[test]
    fn tokens_are_renewed_before_they_expire() {
        let now = Timestamp::from_second(1000).unwrap();
        for (life, expected) in [(1000, 800), (0, 0), (-5, 0), (10 * 86_400, 86_400)] {
            let ends = Timestamp::from_second(1000 + life).unwrap();
            assert_eq!(old(now, ends).as_second() - 1000, expected, "{life}");
        }
    }
}
