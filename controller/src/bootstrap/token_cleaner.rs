//! `token-cleaner-controller`: deletes bootstrap tokens when they expire.
//!
//! Upstream: pkg/controller/bootstrap/tokencleaner.go; there, the controller is off by default.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Preconditions};
use orlop_client::api::Api;
use orlop_client::bootstrap_token::{NAMESPACE, expiration};
use orlop_client::client::{is_conflict, is_not_found};
use orlop_client::informer::{Change, Informer, key_of};
use orlop_client::names::controller;
use orlop_client::queue::WorkQueue;
use orlop_client::worker;

use super::follow_tokens;
use crate::context::{Context, ControllerError};

/// An expired token could not be deleted; it is tried again.
#[derive(Debug, thiserror::Error)]
#[error("cannot delete the expired bootstrap token {key}: {source}")]
struct TokenError {
    key: String,
    source: kube::Error,
}

/// The decision about a token.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    /// It stays until it is changed.
    Stays,
    /// It expires after this time.
    Wait(Duration),
    /// It has expired.
    Delete,
}

fn fate(token: &Secret, now: Timestamp) -> Fate {
    match expiration(token) {
        Ok(None) => Fate::Stays,
        Ok(Some(end)) => match Duration::try_from(end.duration_since(now)) {
            Ok(left) if !left.is_zero() => Fate::Wait(left),
            Ok(_) | Err(_) => Fate::Delete,
        },
        // Authentication rejects such a token. Upstream: GetExpiration.
        Err(_) => Fate::Delete,
    }
}

/// Runs the controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let queue = WorkQueue::new(context.options.rate_limit);
        let tokens = Informer::<Secret>::new();
        let _changes = tokens.add_handler({
            let queue = queue.clone();
            move |change: &Change<Secret>| {
                if let Some(token) = change.new.as_deref() {
                    queue.add(key_of(token));
                }
            }
        });
        let _following = follow_tokens(&context, &tokens);
        if !context.ready(tokens.synced()).await {
            return Ok(());
        }
        let syncs = context.syncs::<Secret, _>(controller::TOKEN_CLEANER);
        worker::run_until(&context.shutdown, &queue, 1, syncs, |key| {
            sync(&context, &queue, tokens.get(&key), key)
        })
        .await;
        Ok(())
    })
}

async fn sync(
    context: &Context,
    queue: &WorkQueue<String>,
    token: Option<Arc<Secret>>,
    key: String,
) -> Result<(), TokenError> {
    let Some(token) = token else { return Ok(()) };
    match fate(&token, context.clock.now()) {
        Fate::Stays => return Ok(()),
        Fate::Wait(left) => {
            queue.add_after(key, left);
            return Ok(());
        }
        Fate::Delete => {}
    }
    let api: Api<Secret> = Api::namespaced(context.client.clone(), NAMESPACE);
    let parameters = DeleteParams {
        preconditions: Some(Preconditions {
            uid: token.metadata.uid.clone(),
            resource_version: token.metadata.resource_version.clone(),
        }),
        ..DeleteParams::default()
    };
    match api.delete(token.metadata.name.as_deref().unwrap_or_default(), &parameters).await {
        Ok(_) => Ok(()),
        Err(error) if is_not_found(&error) || is_conflict(&error) => Ok(()),
        Err(source) => Err(TokenError { key, source }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use k8s_openapi::ByteString;

    use super::*;

    #[test]
    fn tokens_are_deleted_when_they_expire() {
        let now: Timestamp = "2026-11-26T12:00:00Z".parse().unwrap();
        for (expiration, want) in [
            (None, Fate::Stays),
            (Some(""), Fate::Stays),
            (Some("2026-11-26T12:00:10Z"), Fate::Wait(Duration::from_secs(10))),
            (Some("2026-11-26T13:00:10+01:00"), Fate::Wait(Duration::from_secs(10))),
            (Some("2026-11-26T12:00:00Z"), Fate::Delete),
            (Some("2024-01-02T03:04:05Z"), Fate::Delete),
            (Some("tomorrow"), Fate::Delete),
        ] {
            let mut token = Secret::default();
            if let Some(text) = expiration {
                let data = token.data.get_or_insert_default();
                data.insert("expiration".to_owned(), ByteString(text.as_bytes().to_vec()));
            }
            assert_eq!(fate(&token, now), want, "{expiration:?}");
        }
    }
}
