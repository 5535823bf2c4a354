//! Tests of the webhook.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use orlop_auth::request_info::ResourceTarget;
use serde_json::json;

use super::*;
use crate::webhook_client::ReviewError;

/// A webhook that answers with these statuses, the last one repeatedly, and its reviews.
pub(in crate::authorization) fn webhook(
    statuses: Vec<Result<Value, &'static str>>,
    change: impl FnOnce(&mut WebhookSettings),
) -> (Arc<AuthorizationWebhook>, Arc<Mutex<Vec<Value>>>) {
    let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
    let reviews = seen.clone();
    let post: WebhookPost = Arc::new(move |document: Bytes| {
        let mut review: Value = serde_json::from_slice(&document).expect("a review");
        let mut reviews = reviews.lock();
        let status = statuses[reviews.len().min(statuses.len() - 1)].clone();
        reviews.push(review.clone());
        let answer = status.map(|status| {
            review["status"] = status;
            Bytes::from(review.to_string())
        });
        let error = |why: &str| ReviewError { message: why.to_owned(), is_temporary: false };
        async move { answer.map_err(error) }.boxed()
    });
    let mut settings = WebhookSettings::default();
    change(&mut settings);
    (Arc::new(AuthorizationWebhook::new(AuthorizationWebhookConfig { post, settings })), seen)
}

pub(in crate::authorization) fn get_pod(name: &str) -> RequestInfo {
    let target =
        ResourceTarget { resource: "pods".to_owned(), name: name.to_owned(), ..ResourceTarget::default() };
    RequestInfo { verb: "get".into(), target: RequestTarget::Resource(target) }
}

fn ann() -> UserInfo {
    UserInfo::new("ann", [])
}

#[tokio::test(start_paused = true)]
async fn answers_are_cached_as_long_as_configured() {
    let (webhook, seen) = webhook(vec![Ok(json!({"allowed": true})), Ok(json!({"allowed": false}))], |_| {});
    for (advance, name, verdict, calls) in [
        (0, "a", Verdict::Allow, 1),
        (299, "a", Verdict::Allow, 1),
        (1, "a", Verdict::NoOpinion, 2),
        (29, "a", Verdict::NoOpinion, 2),
        (1, "a", Verdict::NoOpinion, 3),
        (0, "b", Verdict::NoOpinion, 4),
    ] {
        tokio::time::advance(Duration::from_secs(advance)).await;
        let opinion = webhook.decide(&ann(), &get_pod(name)).await;
        assert_eq!((opinion.verdict, seen.lock().len()), (verdict, calls), "{advance} {name}");
    }
    let other = UserInfo::new("bob", []);
    webhook.decide(&other, &get_pod("b")).await;
    assert_eq!(seen.lock().len(), 5, "another user");
}

#[tokio::test(start_paused = true)]
async fn zero_disables_the_cache_and_long_attributes_are_not_cached() {
    let (webhook, seen) =
        webhook(vec![Ok(json!({"allowed": true}))], |settings| settings.authorized_ttl = Duration::ZERO);
    webhook.decide(&ann(), &get_pod("a")).await;
    webhook.decide(&ann(), &get_pod("a")).await;
    assert_eq!(seen.lock().len(), 2);
    let (webhook, seen) = self::webhook(vec![Ok(json!({"allowed": true}))], |_| {});
    let long = get_pod(&"x".repeat(MAX_CACHED_ATTRIBUTES));
    webhook.decide(&ann(), &long).await;
    webhook.decide(&ann(), &long).await;
    assert_eq!(seen.lock().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn verdicts_follow_the_status() {
    let both = "webhook subject access review returned both allow and deny response";
    for (status, verdict, error) in [
        (Ok(json!({"allowed": true, "reason": "r"})), Verdict::Allow, None),
        (Ok(json!({"allowed": false, "reason": "r"})), Verdict::NoOpinion, None),
        (Ok(json!({"denied": true, "reason": "r"})), Verdict::Deny, None),
        (Ok(json!({"allowed": true, "denied": true, "reason": "r"})), Verdict::Deny, Some(both)),
    ] {
        let (webhook, _) = webhook(vec![status], |_| {});
        let want = Opinion { verdict, reason: "r".to_owned(), error: error.map(str::to_owned) };
        assert_eq!(webhook.decide(&ann(), &get_pod("a")).await, want);
    }
}

#[tokio::test(start_paused = true)]
async fn failures_are_not_cached_and_deny_if_configured() {
    for (denies, verdict) in [(false, Verdict::NoOpinion), (true, Verdict::Deny)] {
        let (webhook, seen) = webhook(vec![Err("broken"), Ok(json!({"allowed": true}))], |settings| {
            settings.denies_on_failure = denies;
        });
        let failed = webhook.decide(&ann(), &get_pod("a")).await;
        assert_eq!((failed.verdict, failed.error.as_deref()), (verdict, Some("broken")));
        assert_eq!(webhook.decide(&ann(), &get_pod("a")).await.verdict, Verdict::Allow);
        assert_eq!(seen.lock().len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn threads_can_wait_for_the_webhook() {
    let (webhook, seen) = webhook(vec![Ok(json!({"allowed": true}))], |_| {});
    assert_eq!(webhook.decide_blocking(&ann(), &get_pod("a")).verdict, Verdict::Allow);
    assert_eq!(webhook.decide_blocking(&ann(), &get_pod("a")).verdict, Verdict::Allow);
    assert_eq!(seen.lock().len(), 1, "the second answer is cached");
}

#[tokio::test(start_paused = true)]
async fn webhook_is_called_only_if_the_conditions_match() {
    let (webhook, seen) = webhook(vec![Ok(json!({"allowed": true}))], |settings| {
        settings.match_conditions = vec!["request.user != 'ann'".to_owned()];
    });
    let skipped = Opinion { verdict: Verdict::NoOpinion, reason: String::new(), error: None };
    assert_eq!(webhook.decide(&ann(), &get_pod("a")).await, skipped);
    assert_eq!(seen.lock().len(), 0);
    assert_eq!(webhook.decide(&UserInfo::new("bob", []), &get_pod("a")).await.verdict, Verdict::Allow);
}
