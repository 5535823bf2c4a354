//! Objects and helpers of the tests.

#![allow(clippy::unwrap_used)]

mod authorization;
mod claims;
mod slices;
mod status;

use serde_json::{Value, json};

use super::*;
use crate::kind::Kind;
use crate::object::Object;
use crate::registry::expressions::{CompilesExpressions, ExpressionSession};
use crate::registry::testing::{causes, kind_now, object};

/// A compiler for which every expression is valid except `bad`.
struct Fake;

impl CompilesExpressions for Fake {
    fn session(&self, _has_variables: bool) -> Box<dyn ExpressionSession> {
        unreachable!("device selectors have no session")
    }

    fn check_device_selector(&self, text: &str) -> Result<(), String> {
        if text == "bad" { Err("why".to_owned()) } else { Ok(()) }
    }
}

const CLAIM: ResourceClaim = ResourceClaim { compiler: &Fake };
const TEMPLATE: ResourceClaimTemplate = ResourceClaimTemplate { compiler: &Fake };
const CLASS: DeviceClass = DeviceClass { compiler: &Fake };

/// A reason, a path and a message.
type Row = (&'static str, &'static str, &'static str);

const INVALID: &str = "FieldValueInvalid";
const REQUIRED: &str = "FieldValueRequired";
const FORBIDDEN: &str = "FieldValueForbidden";
const NOT_SUPPORTED: &str = "FieldValueNotSupported";
const DUPLICATE: &str = "FieldValueDuplicate";
const TOO_MANY: &str = "FieldValueTooMany";
const TOO_LONG: &str = "FieldValueTooLong";

fn claim(devices: Value) -> Object {
    let mut claim =
        object(json!({"metadata": {"name": "a", "namespace": "n"}, "spec": {"devices": devices}}));
    CLAIM.defaults(&mut claim);
    claim
}

/// A request for devices, with a change.
fn request(change: Value) -> Value {
    let mut request = json!({"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}});
    json_patch::merge(&mut request, &change);
    json!({"requests": [request]})
}

fn merged(mut value: Value, change: &Value) -> Value {
    json_patch::merge(&mut value, change);
    value
}
