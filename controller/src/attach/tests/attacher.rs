//! A fake attacher: it answers VolumeAttachments by one rule per node.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::testing::FakeApi;

/// The finalizer of its VolumeAttachments.
pub(super) const FINALIZER: &str = "external-attacher/test";

/// Rules by node; `*` for all others.
pub(super) type Rules = Arc<Mutex<BTreeMap<String, String>>>;

/// Rules of a row.
pub(super) fn rules(lines: &[&str]) -> Rules {
    let rules = lines.iter().map(|line| line.split_once('=').unwrap());
    Arc::new(Mutex::new(rules.map(|(at, how)| (at.to_owned(), how.to_owned())).collect()))
}

/// Answers until it is dropped.
pub(super) async fn run(api: FakeApi, rules: Rules) {
    let mut answered = 0;
    let mut revisions = api.revisions();
    loop {
        revisions.borrow_and_update();
        for object in api.list("volumeattachments") {
            let node = object["spec"]["nodeName"].as_str().unwrap();
            let rule = {
                let rules = rules.lock();
                rules.get(node).or_else(|| rules.get("*")).cloned().unwrap_or_else(|| "ok".to_owned())
            };
            answer(&api, &object, &rule, &mut answered);
        }
        // New rules arrive without a change of an object, so all objects are checked again.
        let _ = tokio::time::timeout(Duration::from_secs(1), revisions.changed()).await;
    }
}

fn answer(api: &FakeApi, object: &serde_json::Value, rule: &str, answered: &mut u32) {
    let name = object["metadata"]["name"].as_str().unwrap();
    let patch = |subresource: &str, patch| api.patch("volumeattachments", name, subresource, patch);
    let (word, text) = rule.split_once(": ").unwrap_or((rule, ""));
    let status = &object["status"];
    if object["metadata"].get("deletionTimestamp").is_some() {
        match word {
            "detachNever" => {}
            "detachError" if status["detachError"].is_object() => {}
            "detachError" => drop(patch("status", json!({"status": {"detachError": {"message": text}}}))),
            _ => drop(patch("", json!({"metadata": {"finalizers": null}}))),
        }
        return;
    }
    if status["attached"] == true || word == "attachNever" || word == "attachOnce" && *answered > 0 {
        return;
    }
    if word == "attachError" {
        if !status["attachError"].is_object() {
            patch("status", json!({"status": {"attachError": {"message": text}}}));
        }
        return;
    }
    patch("", json!({"metadata": {"finalizers": [FINALIZER]}}));
    patch("status", json!({"status": {"attached": true, "attachError": null}}));
    *answered += 1;
}
