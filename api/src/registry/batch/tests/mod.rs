//! Objects and helpers of the tests.

#![allow(clippy::unwrap_used)]

mod cron_jobs;
mod jobs;
mod policies;
mod status;
mod updates;

use serde_json::{Value, json};

use super::*;
use crate::kind::Kind;
use crate::object::Object;
use crate::registry::testing::{causes, kind_now, object};

/// A reason, a path and a message.
type Row = (&'static str, &'static str, &'static str);

const INVALID: &str = "FieldValueInvalid";
const REQUIRED: &str = "FieldValueRequired";
const NOT_SUPPORTED: &str = "FieldValueNotSupported";
const DUPLICATE: &str = "FieldValueDuplicate";
const TOO_MANY: &str = "FieldValueTooMany";

/// The spec of a valid job, with a change.
fn spec_with(change: &Value) -> Value {
    let mut spec = json!({
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]}},
    });
    json_patch::merge(&mut spec, change);
    spec
}

/// A job after defaulting.
fn defaulted(change: &Value) -> Object {
    let mut job = object(json!({
        "metadata": {"name": "a", "namespace": "n", "uid": "u-1", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": spec_with(change),
    }));
    Job.defaults(&mut job);
    job
}

/// A new job.
fn job(change: &Value) -> Object {
    let mut job = defaulted(change);
    Job.prepare_create(&mut job, kind_now());
    job
}

/// A stored job with another spec.
fn changed(old: &Object, change: &Value) -> Object {
    let mut new = old.clone().into_value();
    json_patch::merge(&mut new, &json!({"spec": change}));
    object(new)
}
