//! `bootstrap-signer-controller`: signs the kubeconfig in the ConfigMap `cluster-info` with every bootstrap token that is valid for
//! signing.
//!
//! Upstream: pkg/controller/bootstrap/bootstrapsigner.go; there, the controller is off by default.

use std::collections::BTreeMap;

use futures::future::{BoxFuture, join};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::PostParams;
use orlop_client::api::Api;
use orlop_client::bootstrap_token::{
    BootstrapToken, CLUSTER_INFO, CLUSTER_INFO_KEY, PUBLIC_NAMESPACE, SIGNATURE_PREFIX, Usage,
};
use orlop_client::client::is_not_found;
use orlop_client::informer::{Change, Informer};
use orlop_client::names::controller;
use orlop_client::queue::WorkQueue;
use orlop_client::watcher::Selection;
use orlop_client::worker;
use orlop_pki::jws;
use tokio_util::task::AbortOnDropHandle;

use super::follow_tokens;
use crate::context::{Context, ControllerError};

/// The signatures could not be written; it is tried again.
#[derive(Debug, thiserror::Error)]
#[error("cannot sign ConfigMap {PUBLIC_NAMESPACE}/{CLUSTER_INFO} with the bootstrap tokens: {0}")]
struct SignError(kube::Error);

/// The data of the ConfigMap with current signatures; `None` if it has them, or contains nothing to sign.
fn wanted(
    map: &ConfigMap,
    tokens: impl Iterator<Item = BootstrapToken>,
    now: Timestamp,
) -> Option<BTreeMap<String, String>> {
    let data = map.data.as_ref()?;
    let content = data.get(CLUSTER_INFO_KEY)?;
    let mut wanted: BTreeMap<String, String> = data
        .iter()
        .filter(|(key, _)| !key.starts_with(SIGNATURE_PREFIX))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    for token in tokens.filter(|token| token.is_valid_for(Usage::Signing, now)) {
        wanted.insert(
            format!("{SIGNATURE_PREFIX}{}", token.id),
            jws::detached(&token.id, token.secret(), content),
        );
    }
    (wanted != *data).then_some(wanted)
}

/// Runs the controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let queue = WorkQueue::new(context.options.rate_limit);
        let (tokens, maps) = (Informer::<Secret>::new(), Informer::<ConfigMap>::new());
        let wake = |queue: &WorkQueue<&'static str>| {
            let queue = queue.clone();
            move || queue.add(CLUSTER_INFO)
        };
        let _tokens = tokens.add_handler({
            let wake = wake(&queue);
            move |_: &Change<Secret>| wake()
        });
        let _maps = maps.add_handler({
            let wake = wake(&queue);
            move |_: &Change<ConfigMap>| wake()
        });
        let _following_tokens = follow_tokens(&context, &tokens);
        let _following_maps = AbortOnDropHandle::new(tokio::spawn({
            let (maps, shutdown) = (maps.clone(), context.shutdown.clone());
            let api = Api::namespaced(context.client.clone(), PUBLIC_NAMESPACE);
            let named = Selection::fields(&format!("metadata.name={CLUSTER_INFO}"));
            async move { maps.run_selected(api, named, shutdown).await }
        }));
        if !context.ready(join(tokens.synced(), maps.synced())).await {
            return Ok(());
        }
        let syncs = context.other_syncs(controller::BOOTSTRAP_SIGNER);
        worker::run_until(&context.shutdown, &queue, 1, syncs, |_| sync(&context, &tokens, &maps)).await;
        Ok(())
    })
}

/// One write, conditional on the cached version; if it fails, the next sync decides again.
async fn sync(
    context: &Context,
    tokens: &Informer<Secret>,
    maps: &Informer<ConfigMap>,
) -> Result<(), SignError> {
    let Some(map) = maps.get(&format!("{PUBLIC_NAMESPACE}/{CLUSTER_INFO}")) else { return Ok(()) };
    let all = tokens.kept().into_iter().filter_map(|kept| BootstrapToken::read(&kept.get()).ok());
    let Some(data) = wanted(&map, all, context.clock.now()) else { return Ok(()) };
    let next = ConfigMap { data: Some(data), ..ConfigMap::clone(&map) };
    let api: Api<ConfigMap> = Api::namespaced(context.client.clone(), PUBLIC_NAMESPACE);
    match api.replace(CLUSTER_INFO, &PostParams::default(), &next).await {
        Ok(_) => Ok(()),
        Err(error) if is_not_found(&error) => Ok(()),
        Err(error) => Err(SignError(error)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn token(id: &str, usages: &[Usage], expiration: Option<&str>) -> BootstrapToken {
        let mut token = BootstrapToken::new(id, "0123456789abcdef").unwrap();
        token.expiration = expiration.map(|text| text.parse().unwrap());
        token.usages = usages.to_vec();
        token
    }

    fn map(entries: &[(&str, &str)]) -> ConfigMap {
        let data = entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        ConfigMap { data: Some(data), ..ConfigMap::default() }
    }

    #[test]
    fn each_token_for_signing_signs() {
        let now: Timestamp = "2026-11-26T12:00:00Z".parse().unwrap();
        let tokens = || {
            [
                token("aaaaaa", &[Usage::Signing], None),
                token("bbbbbb", &[Usage::Authentication], None),
                token("cccccc", &[Usage::Signing], Some("2026-11-26T11:00:00Z")),
            ]
            .into_iter()
        };
        let unsigned = map(&[(CLUSTER_INFO_KEY, "text"), ("jws-kubeconfig-old000", "x"), ("other", "y")]);
        let signed = wanted(&unsigned, tokens(), now).unwrap();
        assert_eq!(signed.keys().collect::<Vec<_>>(), ["jws-kubeconfig-aaaaaa", "kubeconfig", "other"]);
        let done = ConfigMap { data: Some(signed), ..ConfigMap::default() };
        assert_eq!(wanted(&done, tokens(), now), None);
        assert_eq!(wanted(&map(&[("other", "y")]), tokens(), now), None, "nothing to sign");
    }
}
