//! Tests of the decisions in tables, and of the controller on the fake API server.
#![allow(clippy::unwrap_used)]

mod actions;
mod faults;
mod many_pods;
mod runs;

use k8s_openapi::api::batch::v1::Job;
use serde_json::{Value, json};

/// A Job whose spec is changed.
fn job(spec: Value) -> Value {
    let mut job = json!({"kind": "Job", "metadata": {"namespace": "ns", "name": "j", "uid": "uid-j"}, "spec": {
        "parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": false,
        "podReplacementPolicy": "TerminatingOrFailed", "selector": {"matchLabels": {"job": "j"}},
        "template": {"metadata": {"labels": {"job": "j"}}, "spec": {"containers": [{"name": "c"}], "restartPolicy": "Never"}}}});
    crate::testing::merge_into(&mut job["spec"], &spec);
    job
}

fn decoded(job: Value) -> Job {
    serde_json::from_value(job).unwrap()
}
