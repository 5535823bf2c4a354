//! Writes the condition of an APIService.

use orlop_api::object::show_time;
use orlop_store::{CommitError, Expect, Key, Op, Write};
use serde_json::Value;

use super::condition::with_condition;
use crate::encode::stored;
use crate::projection::Projection;
use crate::registry::Kind;
use crate::state::Inner;

/// Maximum number of attempts, if other writes of the APIService come first.
const ATTEMPTS: usize = 5;

/// Writes status, reason and message of the condition of an APIService, if it still has this specification. If the write fails, the next
/// check tries again.
pub(super) async fn condition(
    server: &Inner,
    kind: &dyn Kind,
    key: &Key,
    spec: &Value,
    condition: &(&str, &str, String),
) {
    for _ in 0..ATTEMPTS {
        // On a full disk the remaining space is reserved for deletes.
        if server.store.usage().full {
            return;
        }
        let Some(write) = next_write(server, kind, key, spec, condition) else { return };
        match server.store.commit(vec![write]).await {
            Ok(_) => return,
            Err(CommitError::Conflict { .. }) => {}
            Err(error) => {
                let key = key.as_str();
                tracing::debug!(%error, key, "the condition of an APIService cannot be written now");
                return;
            }
        }
    }
}

/// The write of the condition; `None` if the APIService has it, or has another specification.
fn next_write(
    server: &Inner,
    kind: &dyn Kind,
    key: &Key,
    spec: &Value,
    (status, reason, message): &(&str, &str, String),
) -> Option<Write<Projection>> {
    let head = server.store.head();
    let record = head.get(key.as_str())?;
    let object = stored::decode(record).ok().filter(|object| object.at(&["spec"]) == Some(spec))?;
    let now = show_time(server.now());
    let mut next = with_condition(&object, (*status, *reason, message.clone()), &now)?;
    next.meta().remove("resourceVersion");
    let (value, view) = stored::encode(kind, &next);
    let expect = Expect::Revision(record.mod_revision);
    Some(Write { key: record.key.clone(), expect, op: Op::Put { value, view } })
}
