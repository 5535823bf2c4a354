//! Follows the FlowSchemas and PriorityLevelConfigurations of the store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use orlop_store::{Key, Kv, Record, Revision, Snapshot, WatchError, Watcher};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::levels::PriorityLevel;
use super::matching::Schema;
use crate::dispatch::key_names;
use crate::encode::stored;
use crate::projection::Projection;
use crate::registry::{Kind, flow_control_kinds};

/// Delay before a new attempt to watch.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The stored objects, prepared. An object that cannot be read does not take part.
#[derive(Default)]
pub(in crate::limits) struct FlowObjects {
    pub(super) levels: BTreeMap<String, PriorityLevel>,
    pub(super) schemas: BTreeMap<String, Arc<Schema>>,
}

impl FlowObjects {
    /// Reads all objects.
    pub(in crate::limits) fn read(head: &Snapshot<Projection>) -> Self {
        let mut objects = FlowObjects::default();
        let Some((levels, schemas)) = flow_control_kinds() else { return objects };
        for record in head.range(levels.storage_prefix(), None) {
            set(&mut objects.levels, levels, &record.key, Some(record), PriorityLevel::of);
        }
        for record in head.range(schemas.storage_prefix(), None) {
            set(&mut objects.schemas, schemas, &record.key, Some(record), schema_of);
        }
        objects
    }
}

fn schema_of(object: &Value) -> Arc<Schema> {
    Arc::new(Schema::of(object))
}

/// Adds or replaces an object in its prepared form; without a readable object, removes it.
fn set<T>(
    objects: &mut BTreeMap<String, T>,
    kind: &dyn Kind,
    key: &Key,
    record: Option<&Record<Projection>>,
    prepare: impl Fn(&Value) -> T,
) {
    let (_, name) = key_names(kind, key.as_str());
    match record.and_then(|record| stored::decode(record).ok()) {
        Some(object) => _ = objects.insert(name.to_owned(), prepare(&object.into_value())),
        None => _ = objects.remove(name),
    }
}

/// Applies the stored objects and all later changes until the server closes.
pub(in crate::limits) async fn follow(
    store: Arc<dyn Kv<Projection>>,
    closing: CancellationToken,
    apply: impl Fn(&FlowObjects),
) {
    let Some((levels, schemas)) = flow_control_kinds() else { return };
    loop {
        let head = store.head();
        let watch = |kind: &dyn Kind, after: Revision| store.watch(kind.storage_prefix(), after);
        let watches = watch(levels, head.revision()).and_then(|level_watch| {
            let schema_watch = watch(schemas, head.revision())?;
            Ok((level_watch, schema_watch))
        });
        match watches {
            Ok((level_watch, schema_watch)) => {
                let mut objects = FlowObjects::read(&head);
                drop(head);
                apply(&objects);
                let following =
                    apply_changes(&apply, &mut objects, (levels, level_watch), (schemas, schema_watch));
                let Some(Err(error)) = closing.run_until_cancelled(following).await else { return };
                tracing::debug!(%error, "the watch of flow control is restarted");
            }
            Err(error) => tracing::warn!(%error, "cannot watch the objects of flow control"),
        }
        if closing.run_until_cancelled(tokio::time::sleep(AGAIN_AFTER)).await.is_none() {
            return;
        }
    }
}

/// Applies changes until a watch ends.
async fn apply_changes(
    apply: &impl Fn(&FlowObjects),
    objects: &mut FlowObjects,
    (levels, mut level_watch): (&dyn Kind, Watcher<Projection>),
    (schemas, mut schema_watch): (&dyn Kind, Watcher<Projection>),
) -> Result<std::convert::Infallible, WatchError> {
    loop {
        tokio::select! {
            events = level_watch.next() => for event in &events? {
                set(&mut objects.levels, levels, &event.key, event.record.as_deref(), PriorityLevel::of);
            },
            events = schema_watch.next() => for event in &events? {
                set(&mut objects.schemas, schemas, &event.key, event.record.as_deref(), schema_of);
            },
        }
        apply(objects);
    }
}
