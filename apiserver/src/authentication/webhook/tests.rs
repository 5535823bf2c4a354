//! How often the webhook is called.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use futures::FutureExt as _;
use serde_json::{Value, json};

use super::*;

/// A webhook that fails these calls, and later accepts the token `good`. Returns the tokens of its calls, too.
fn webhook(failures: Vec<ReviewPostError>, cache_ttl: Duration) -> (Webhook, Arc<Mutex<Vec<String>>>) {
    let calls: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = calls.clone();
    let failures = Mutex::new(failures.into_iter());
    let post: ReviewPost = Arc::new(move |document| {
        let document: Value = serde_json::from_slice(&document).unwrap();
        let token = document["spec"]["token"].as_str().unwrap().to_owned();
        let status = json!({"authenticated": token == "good", "user": {"username": "ann"}});
        let answer =
            json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "status": status});
        seen.lock().push(token);
        let failure = failures.lock().next();
        async move { failure.map_or(Ok(answer.to_string().into()), Err) }.boxed()
    });
    (Webhook::new(WebhookSettings { post, version: ReviewVersion::V1, cache_ttl }), calls)
}

async fn name(webhook: &Webhook, token: &str) -> Result<String, String> {
    let own = ["own".to_owned()];
    let found = webhook.user_of(token, &own, &own).await?;
    Ok(found.map(|(user, _)| user.username).unwrap_or_default())
}

#[tokio::test(start_paused = true)]
async fn results_are_reused_until_they_are_too_old() {
    let (webhook, calls) = webhook(Vec::new(), Duration::from_secs(120));
    for _ in 0..3 {
        assert_eq!(name(&webhook, "good").await.as_deref(), Ok("ann"));
        assert_eq!(name(&webhook, "bad").await.as_deref(), Ok(""));
    }
    assert_eq!(*calls.lock(), ["good", "bad"]);
    tokio::time::advance(Duration::from_secs(120)).await;
    assert_eq!(name(&webhook, "good").await.as_deref(), Ok("ann"));
    assert_eq!(calls.lock().len(), 3);
    let other = webhook.user_of("good", &["other".to_owned()], &["own".to_owned()]).await;
    assert_eq!((other, calls.lock().len()), (Ok(None), 4), "other audiences need another review");
}

#[tokio::test(start_paused = true)]
async fn cache_can_be_disabled() {
    let (webhook, calls) = webhook(Vec::new(), Duration::ZERO);
    for _ in 0..3 {
        assert_eq!(name(&webhook, "good").await.as_deref(), Ok("ann"));
    }
    assert_eq!(calls.lock().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn temporary_failures_are_retried_and_never_cached() {
    let failure = |is_temporary| ReviewPostError { message: "no".to_owned(), is_temporary };
    for (case, failures, want, count) in [
        ("1 temporary", vec![failure(true); 4], Ok("ann"), 5),
        ("2 too often", vec![failure(true); 5], Err("no"), 5),
        ("3 permanent", vec![failure(false)], Err("no"), 1),
    ] {
        let (webhook, calls) = webhook(failures, Duration::from_secs(120));
        let found = name(&webhook, "good").await;
        assert_eq!(found.as_deref().map_err(String::as_str), want, "{case}");
        assert_eq!(calls.lock().len(), count, "{case}");
        assert_eq!(name(&webhook, "good").await.as_deref(), Ok("ann"), "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn webhook_that_does_not_answer_delays_a_limited_number_of_requests() {
    let post: ReviewPost = Arc::new(|_| std::future::pending().boxed());
    let settings = WebhookSettings { post, version: ReviewVersion::V1, cache_ttl: Duration::ZERO };
    let webhook = Webhook::new(settings);
    let tokens: Vec<String> = (0..WAITING + 10).map(|nth| format!("t{nth}")).collect();
    let all = futures::future::join_all(tokens.iter().map(|token| name(&webhook, token))).await;
    let too_many =
        all.iter().filter(|found| found.as_ref().is_err_and(|why| why.contains("too many"))).count();
    let late = all.iter().filter(|found| found.as_ref().is_err_and(|why| why.contains("timed out"))).count();
    assert_eq!((too_many, late), (10, WAITING));
    assert_eq!(webhook.calls.available_permits(), CONCURRENT);
}
