//! Patches of real objects. The first byte of an input selects the object; the rest is the patch. For an apply,
//! the second byte decides whether it is forced, and the rest is two documents, one per manager, separated by
//! [`BETWEEN`].

use orlop_openapi::types;
use serde_json::{Map, Value};

use super::{allowed, bodies, choose, in_bounds, seeds, whole};
use crate::registry::Kind;
use orlop_api::object::Object;
use orlop_api::validate::FieldErrors;
use orlop_codec::decode::{conform, read_yaml};
use orlop_codec::managed_fields::{self, Writer};
use orlop_codec::patch::{self, PatchKind};

/// The separator between two documents of an input.
pub(super) const BETWEEN: &[u8] = b"\n%%\n";

const NOW: &str = "2026-01-02T03:04:05Z";

/// Applies an RFC 6902 patch.
pub(super) fn json_patch(data: &[u8]) {
    patched(data, PatchKind::Json);
}

/// Applies an RFC 7386 patch.
pub(super) fn merge_patch(data: &[u8]) {
    patched(data, PatchKind::Merge);
}

/// Applies a strategic merge patch.
pub(super) fn strategic_patch(data: &[u8]) {
    patched(data, PatchKind::Strategic);
}

fn patched(data: &[u8], form: PatchKind) {
    let Some((kind, patch)) = choose(data) else { return };
    let ty = types().named(kind.names().schema).expect("every kind has a type");
    let object = seeds::object(kind);
    let document = whole(kind, &object);
    let input = patch.len() + document.to_string().len();
    let result = match patch::apply(form, document, patch, ty) {
        Ok(result) => result.document,
        Err(error) => return allowed::check(&error),
    };
    // A JSON patch may copy up to some megabytes.
    let output = result.to_string().len();
    match form {
        PatchKind::Json => assert!(output < input + (8 << 20), "{output} bytes"),
        PatchKind::Merge | PatchKind::Strategic | PatchKind::Apply => {
            in_bounds(input, output, "a patched object")
        }
    }
    let Value::Object(mut members) = result else { return };
    members.remove("kind");
    members.remove("apiVersion");
    match conform(Value::Object(members), ty) {
        Ok(conformed) => {
            let size = Value::Object(conformed.object.clone()).to_string().len();
            let object = Object(conformed.object);
            bodies::is_settled(kind, &object, size);
        }
        Err(why) => {
            let error = patch::unfit_result(form, &Value::Null, patch, false, &why);
            allowed::check(&error);
        }
    }
}

/// Applies the documents of two managers one after the other, to no object and to the previous result.
pub(super) fn apply(data: &[u8]) {
    let Some((kind, data)) = choose(data) else { return };
    let Some((force, data)) = data.split_first() else { return };
    let (first, second) = documents(data);
    let mut live: Option<Object> = None;
    for (step, (manager, document)) in
        [("one", first), ("two", second), ("one", second)].into_iter().enumerate()
    {
        let Some(config) = config(document) else { continue };
        let Some(next) = applied(kind, manager, live.as_ref(), &config, *force % 2 == 1, data.len()) else {
            continue;
        };
        let again = applied(kind, manager, Some(&next), &config, false, data.len());
        // Repeating an apply changes nothing, with one exception: fields that a manager gave up can leave an empty
        // value behind, which is not stored and which the repeated apply restores. Invalid objects are skipped
        // because they are never stored: an item without its keys would count as a new item each time.
        if step < 2 && is_valid(kind, &next) {
            let again = again.expect("an accepted apply succeeds when repeated");
            assert_eq!(again, next, "the same applied twice is not the same");
        }
        live = Some(next);
    }
}

fn is_valid(kind: &'static dyn Kind, object: &Object) -> bool {
    let mut object = object.clone();
    let mut errors = FieldErrors::default();
    kind.defaults(&mut object);
    kind.validate(&object, &mut errors);
    errors.is_empty()
}

/// The documents of an input.
fn documents(data: &[u8]) -> (&[u8], &[u8]) {
    let at = data.windows(BETWEEN.len()).position(|part| part == BETWEEN);
    at.map_or((data, data), |at| (&data[..at], &data[at + BETWEEN.len()..]))
}

fn config(document: &[u8]) -> Option<Map<String, Value>> {
    match read_yaml(document) {
        Ok((Value::Object(config), _)) => Some(config),
        Ok(_) => None,
        Err(why) => {
            in_bounds(document.len(), why.len(), "a message");
            None
        }
    }
}

fn applied(
    kind: &'static dyn Kind,
    manager: &str,
    live: Option<&Object>,
    config: &Map<String, Value>,
    force: bool,
    input: usize,
) -> Option<Object> {
    let writer = Writer { kind, subresource: "", manager, now: NOW };
    match managed_fields::apply(&writer, live, config.clone(), force) {
        Ok(object) => {
            bodies::is_settled(kind, &object, input);
            Some(object)
        }
        Err(error) => {
            allowed::check(&error);
            None
        }
    }
}
