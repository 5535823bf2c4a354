//! Maintains the ConfigMap with the date since which the server records the use of tokens in Secrets. `legacy-serviceaccount-token-cleaner-controller`
//! reads it.
//!
//! Upstream: pkg/controlplane/controller/legacytokentracking.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use orlop_api::object::{Object, show_time};
use orlop_store::{Expect, Key, Op, Write};
use serde_json::json;

use super::repair::commit;
use crate::dispatch;
use crate::encode::stored;
use crate::registry::by_resource;
use crate::state::Inner;
use crate::verbs::write::first_generation;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "kube-apiserver-legacy-service-account-token-tracking";
const SINCE: &str = "since";

/// Creates the ConfigMap, or replaces a malformed date.
///
/// # Errors
/// A message for the log if it cannot be read or written.
pub(super) async fn keep(server: &Inner) -> Result<(), String> {
    if !server.config.tracks_legacy_tokens {
        return Ok(());
    }
    let Some(kind) = by_resource("", "v1", "configmaps") else { return Ok(()) };
    let key = dispatch::key(kind, NAMESPACE, NAME);
    let head = server.store.head();
    let found = head.get(&key);
    let existing = found.map(|record| stored::decode(record)).transpose().map_err(|error| error.message)?;
    if existing.as_ref().is_some_and(|map| map.str_at(&["data", SINCE]).parse::<Date>().is_ok()) {
        return Ok(());
    }
    let (mut object, expect) = match (existing, found) {
        (Some(map), Some(record)) => (map, Expect::Revision(record.mod_revision)),
        _ => {
            let mut map = Object::from_value(json!({"metadata": {"name": NAME, "namespace": NAMESPACE}}));
            map.set(&["metadata", "uid"], uuid::Uuid::new_v4().to_string());
            map.set(&["metadata", "creationTimestamp"], show_time(server.now()));
            first_generation(kind, &mut map);
            kind.prepare_create(&mut map, server.now());
            (map, Expect::Absent)
        }
    };
    object.set(&["data", SINCE], server.now().to_zoned(TimeZone::UTC).date().to_string());
    object.meta().remove("resourceVersion");
    let (value, view) = stored::encode(kind, &object);
    let write = Write { key: Key::from(key), expect, op: Op::Put { value, view } };
    // After a conflict, the next round reads the ConfigMap again.
    commit(&*server.store, vec![write]).await.map(drop)
}
