//! Tests of the order of modes.

use serde_json::json;

use super::webhook::tests::{get_pod, webhook};
use super::*;

/// An authorizer with a webhook that answers with this status, or fails.
fn authorizer(modes: &[AuthorizationMode], status: Result<serde_json::Value, &'static str>) -> Authorizer {
    let store: Arc<dyn Kv<Projection>> = Arc::new(orlop_store::memory::Memory::default());
    let (webhook, _) = webhook(vec![status], |_| {});
    Authorizer { webhooks: vec![webhook], ..Authorizer::new(modes.to_vec(), Vec::new(), store) }
}

fn decision(allowed: bool, denied: bool, reason: &str, error: &str) -> AuthorizationDecision {
    AuthorizationDecision { allowed, denied, reason: reason.to_owned(), error: error.to_owned() }
}

#[tokio::test(start_paused = true)]
async fn first_mode_with_an_opinion_decides() {
    use AuthorizationMode::{AlwaysAllow, AlwaysDeny, Webhook};
    let everything = "Everything is forbidden.";
    let allow = || Ok(json!({"allowed": true, "reason": "hook"}));
    let deny = || Ok(json!({"denied": true, "reason": "hook"}));
    let neither = || Ok(json!({"reason": "hook"}));
    for (case, modes, status, want) in [
        ("1 permitted", &[AlwaysDeny, Webhook(0)][..], allow(), decision(true, false, "hook", "")),
        ("2 rejected before", &[Webhook(0), AlwaysAllow], deny(), decision(false, true, "hook", "")),
        ("3 no opinion", &[Webhook(0), AlwaysAllow], neither(), decision(true, false, "", "")),
        (
            "4 all reasons",
            &[Webhook(0), AlwaysDeny],
            neither(),
            decision(false, false, &format!("hook\n{everything}"), ""),
        ),
        ("5 failed", &[AlwaysDeny, Webhook(0)], Err("broken"), decision(false, false, everything, "broken")),
        ("6 failed and permitted", &[Webhook(0), AlwaysAllow], Err("broken"), decision(true, false, "", "")),
        (
            "7 failed twice",
            &[Webhook(0), Webhook(0)],
            Err("broken"),
            decision(false, false, "", "[broken, broken]"),
        ),
    ] {
        let authorizer = authorizer(modes, status);
        let got = authorizer.decide(&UserInfo::new("ann", []), &get_pod("a")).await;
        assert_eq!(got, want, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn masters_need_no_webhook() {
    let authorizer = authorizer(&[AuthorizationMode::Webhook(0)], Ok(json!({"denied": true})));
    assert!(authorizer.decide(&UserInfo::admin(), &get_pod("a")).await.allowed);
}
