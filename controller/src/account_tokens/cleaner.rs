//! `legacy-serviceaccount-token-cleaner-controller`: once a day, marks Secrets as invalid that an old version of Kubernetes
//! created for an account and that were unused for the clean-up period. It deletes Secrets that have been invalid for
//! another period.
//!
//! A Secret was created by an old version if its account lists it. The API server records the use of tokens, since the date
//! in a ConfigMap.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, ServiceAccount};
use kube::Client;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions};
use orlop_client::api::Api;
use orlop_client::client::{is_conflict, is_not_found};
use orlop_client::informer::{Informer, split_key};
use orlop_client::meta::is_terminating;
use serde_json::json;

use super::mounted::secret_names;
use super::{SECRET_TYPE, account_name, is_account_of};
use crate::context::{Context, ControllerError};

/// The ConfigMap with the date since which the API server records the use of tokens.
const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";
/// The key in [`TRACKING`].
const SINCE: &str = "since";
/// Secret: the date of the last use of its token.
const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
/// Secret: the date since which its token is invalid.
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
/// The number of Secrets in one response.
const PAGE: u32 = 500;
/// The interval of the rounds. Upstream: DefaultCleanerSyncInterval.
const INTERVAL: Duration = Duration::from_secs(24 * 3600);

/// A round failed; the next one tries again.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}: {cause}")]
struct CleanError {
    what: &'static str,
    cause: kube::Error,
}

/// The dates that decide about Secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Limits {
    /// Secrets that were created since then remain.
    pub(super) created: Timestamp,
    /// Tokens that were used or marked since this date remain.
    pub(super) used: Date,
    /// Today, in UTC.
    pub(super) today: Date,
}

/// The limits; `None` until the API server has recorded the use of tokens for the whole period.
pub(super) fn limits(since: &str, now: Timestamp, period: Duration) -> Option<Limits> {
    let period = SignedDuration::try_from(period).ok()?;
    // Recording begins at some time of this date.
    let complete = since.parse::<Date>().ok()?.tomorrow().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp();
    let created = now.checked_sub(period).ok().filter(|created| *created >= complete)?;
    let date = |at: Timestamp| at.to_zoned(TimeZone::UTC).date();
    Some(Limits { created, used: date(created), today: date(now) })
}

/// Whether the token was unused for the whole period. A Secret with a malformed date remains.
pub(super) fn is_unused(secret: &Secret, limits: &Limits) -> bool {
    let is_old = secret.metadata.creation_timestamp.as_ref().is_some_and(|at| at.0 < limits.created);
    let is_unused = match label(secret, LAST_USED) {
        None => true,
        Some(date) => date.parse::<Date>().is_ok_and(|date| date < limits.used),
    };
    secret.type_.as_deref() == Some(SECRET_TYPE) && is_old && is_unused && !is_terminating(secret)
}

/// The decision about an unused token.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It was marked less than a period ago.
    Stay,
    /// Mark it as invalid.
    Mark,
    /// Delete it.
    Delete,
}

/// Decides about an unused token.
pub(super) fn fate(secret: &Secret, limits: &Limits) -> Fate {
    match label(secret, INVALID_SINCE).and_then(|date| date.parse::<Date>().ok()) {
        None => Fate::Mark,
        Some(since) if since < limits.used => Fate::Delete,
        Some(_) => Fate::Stay,
    }
}

fn label<'a>(secret: &'a Secret, key: &str) -> Option<&'a str> {
    secret.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

/// Runs the controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let pods = context.informers.pods();
        if !context.ready(pods.synced()).await {
            return Ok(());
        }
        loop {
            if let Err(error) = round(&context, &pods).await {
                tracing::warn!(%error, "cannot delete unused tokens of service accounts; the next attempt is in 24 h");
            }
            tokio::select! {
                () = context.shutdown.cancelled() => return Ok(()),
                () = tokio::time::sleep(INTERVAL) => {}
            }
        }
    })
}

/// The Secrets with unused tokens, without their data. Lists page by page, and decodes one Secret at a time.
async fn unused_secrets(reader: &Client, limits: &Limits) -> kube::Result<Vec<Secret>> {
    let api: Api<Secret> = Api::all(reader.clone());
    let mut parameters = ListParams::default().fields(&format!("type={SECRET_TYPE}")).limit(PAGE);
    let mut unused = Vec::new();
    loop {
        let (list, secrets) = api.list_lazily(&parameters).await?;
        for secret in secrets {
            let secret = secret?;
            if is_unused(&secret, limits) {
                unused.push(Secret { data: None, ..secret });
            }
        }
        match list.continue_ {
            Some(token) if !token.is_empty() => parameters = parameters.continue_token(&token),
            Some(_) | None => return Ok(unused),
        }
    }
}

/// Each Secret needs one write; if it fails, the next round decides again.
async fn round(context: &Context, pods: &Informer<Pod>) -> Result<(), CleanError> {
    let failed = |what: &'static str| move |cause: kube::Error| CleanError { what, cause };
    let tracking: Api<ConfigMap> = Api::namespaced(context.client.clone(), "kube-system");
    let tracking =
        tracking.get_opt(TRACKING).await.map_err(failed("get the ConfigMap of the use of tokens"))?;
    let since = tracking.and_then(|tracking| tracking.data?.remove(SINCE)).unwrap_or_default();
    let period = context.options.legacy_token_clean_up_period;
    let Some(limits) = limits(&since, context.clock.now(), period) else { return Ok(()) };
    let reader = context.informers.client();
    let secrets =
        unused_secrets(&reader, &limits).await.map_err(failed("list the tokens of service accounts"))?;
    let mut mounted: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    // A pod that cannot be decoded may use any token of its namespace.
    let unread: BTreeSet<String> =
        pods.set_aside().iter().map(|pod| split_key(&pod.key).0.to_owned()).collect();
    for secret in &secrets {
        let (Some(namespace), Some(name)) = (&secret.metadata.namespace, &secret.metadata.name) else {
            continue;
        };
        let Some(account) = account_name(secret) else { continue };
        let accounts: Api<ServiceAccount> = Api::namespaced(reader.clone(), namespace);
        let account = accounts.get_opt(account).await.map_err(failed("get the account of a token"))?;
        let Some(account) = account.filter(|account| is_account_of(secret, account)) else { continue };
        if !account.secrets.iter().flatten().any(|listed| listed.name.as_ref() == Some(name)) {
            continue;
        }
        if unread.contains(namespace) {
            continue;
        }
        let used = mounted.entry(namespace.clone()).or_insert_with(|| {
            pods.each_in_namespace(namespace).flat_map(|pod| secret_names(&pod)).collect()
        });
        if used.contains(name) {
            continue;
        }
        let api: Api<Secret> = Api::namespaced(context.client.clone(), namespace);
        let done = match fate(secret, &limits) {
            Fate::Stay => Ok(()),
            Fate::Mark => {
                let labels = json!({INVALID_SINCE: limits.today.to_string()});
                let patch = json!({"metadata": {"uid": secret.metadata.uid, "labels": labels}});
                api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
            }
            Fate::Delete => {
                let exactly = Preconditions {
                    uid: secret.metadata.uid.clone(),
                    resource_version: secret.metadata.resource_version.clone(),
                };
                api.delete(name, &DeleteParams::default().preconditions(exactly)).await.map(drop)
            }
        };
        match done {
            Ok(()) => {}
            Err(error) if is_not_found(&error) || is_conflict(&error) => {}
            Err(error) => tracing::warn!(namespace, name, %error, "cannot clean up an unused token"),
        }
    }
    Ok(())
}
