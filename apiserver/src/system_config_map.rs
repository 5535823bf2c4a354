//! Reads and writes the ConfigMaps that the server maintains in `kube-system`.

use orlop_api::object::{Object, show_time};
use orlop_store::{Expect, Key, Op, Write};
use serde_json::{Value, json};

use crate::dispatch;
use crate::encode::stored;
use crate::projection::Projection;
use crate::registry::{Kind, by_resource};
use crate::state::Inner;
use crate::verbs::write::first_generation;

const NAMESPACE: &str = "kube-system";

/// A ConfigMap of the server, which may not exist yet.
pub(crate) struct SystemConfigMap {
    kind: &'static dyn Kind,
    name: &'static str,
    stored: Option<(Object, Expect)>,
}

impl SystemConfigMap {
    /// Reads the ConfigMap. Returns `None` if the server does not serve ConfigMaps.
    ///
    /// # Errors
    /// A message for the log if it cannot be read.
    pub(crate) fn read(server: &Inner, name: &'static str) -> Result<Option<Self>, String> {
        let Some(kind) = by_resource("", "v1", "configmaps") else { return Ok(None) };
        let head = server.store.head();
        let stored = match head.get(&dispatch::key(kind, NAMESPACE, name)) {
            Some(record) => {
                let object = stored::decode(record).map_err(|error| error.message)?;
                Some((object, Expect::Revision(record.mod_revision)))
            }
            None => None,
        };
        Ok(Some(SystemConfigMap { kind, name, stored }))
    }

    /// The ConfigMap, if it exists.
    pub(crate) fn existing(&self) -> Option<&Object> {
        self.stored.as_ref().map(|(object, _)| object)
    }

    /// The write that creates or changes the ConfigMap, with this value in a field. Other fields stay.
    pub(crate) fn write(self, server: &Inner, field: &[&str], value: Value) -> Write<Projection> {
        let SystemConfigMap { kind, name, stored } = self;
        let (mut object, expect) = stored.unwrap_or_else(|| {
            let mut new = Object::from_value(json!({"metadata": {"name": name, "namespace": NAMESPACE}}));
            new.set(&["metadata", "uid"], uuid::Uuid::new_v4().to_string());
            new.set(&["metadata", "creationTimestamp"], show_time(server.now()));
            first_generation(kind, &mut new);
            kind.prepare_create(&mut new, server.now());
            (new, Expect::Absent)
        });
        object.set(field, value);
        object.meta().remove("resourceVersion");
        let (value, view) = stored::encode(kind, &object);
        let key = Key::from(dispatch::key(kind, NAMESPACE, name));
        Write { key, expect, op: Op::Put { value, view } }
    }
}
