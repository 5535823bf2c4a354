//! The capacity that drivers published, by topology. A query is about one class and one node: capacities of segments that the
//! node's labels rule out are not visited, so that a driver which publishes one object per node costs no more than one with a
//! single object.

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::storage::v1::CSIStorageCapacity;
use orlop_apimachinery::quantity::Quantity;

use super::terms::{Labels, Selects};

/// The capacity of one object.
#[derive(Debug)]
struct ObjectCapacity {
    /// The largest volume.
    size: Quantity,
    /// The nodes that can access it; none without a topology.
    nodes: Selects,
}

/// By the key of the object.
type Rooms = BTreeMap<String, ObjectCapacity>;

/// The capacities of one class.
#[derive(Debug, Default)]
struct OfClass {
    /// Objects that require a label: by its key, then by its value. Each is stored under one of the labels that it requires.
    labelled: HashMap<String, HashMap<String, Rooms>>,
    /// All other objects.
    others: Rooms,
}

/// Where an object's capacity is stored.
#[derive(Debug)]
struct CapacityKey {
    class: String,
    label: Option<(String, String)>,
}

/// All published capacities.
#[derive(Debug, Default)]
pub struct Capacities {
    classes: HashMap<String, OfClass>,
    places: HashMap<String, CapacityKey>,
}

impl Capacities {
    /// An object was added or changed; none when it was deleted.
    pub fn put(&mut self, key: &str, capacity: Option<&CSIStorageCapacity>) {
        self.remove(key);
        let Some(capacity) = capacity else { return };
        let size = capacity.maximum_volume_size.as_ref().or(capacity.capacity.as_ref());
        let Some(size) = size.and_then(|size| Quantity::parse(&size.0).ok()) else { return };
        let topology = capacity.node_topology.as_ref();
        let label = topology.and_then(|topology| topology.match_labels.as_ref()?.first_key_value());
        let label = label.map(|(key, value)| (key.clone(), value.clone()));
        let class = capacity.storage_class_name.clone();
        let of = self.classes.entry(class.clone()).or_default();
        let rooms = match label.clone() {
            Some((key, value)) => of.labelled.entry(key).or_default().entry(value).or_default(),
            None => &mut of.others,
        };
        rooms.insert(key.to_owned(), ObjectCapacity { size, nodes: Selects::read(topology) });
        self.places.insert(key.to_owned(), CapacityKey { class, label });
    }

    fn remove(&mut self, key: &str) {
        let Some(CapacityKey { class, label }) = self.places.remove(key) else { return };
        let Some(of) = self.classes.get_mut(&class) else { return };
        match label {
            None => {
                of.others.remove(key);
            }
            Some((name, value)) => {
                if let Some(values) = of.labelled.get_mut(&name) {
                    if let Some(rooms) = values.get_mut(&value) {
                        rooms.remove(key);
                        if rooms.is_empty() {
                            values.remove(&value);
                        }
                    }
                    if values.is_empty() {
                        of.labelled.remove(&name);
                    }
                }
            }
        }
        if of.labelled.is_empty() && of.others.is_empty() {
            self.classes.remove(&class);
        }
    }

    /// Whether there is capacity for a volume of this class and size that is accessible from a node with these labels.
    pub fn has_room(&self, class: &str, size: &Quantity, labels: &Labels) -> bool {
        let Some(of) = self.classes.get(class) else { return false };
        let near = of.labelled.iter().filter_map(|(key, values)| values.get(labels.get(key)?));
        let mut rooms = near.chain([&of.others]).flat_map(BTreeMap::values);
        rooms.any(|room| room.size >= *size && room.nodes.matches(labels))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn storage_capacity(class: &str, size: &str, topology: Value) -> CSIStorageCapacity {
        let capacity = json!({"metadata": {"namespace": "ns", "name": "x"}, "storageClassName": class, "capacity": size,
            "nodeTopology": topology});
        serde_json::from_value(capacity).unwrap()
    }

    #[test]
    fn updated_capacity_replaces_the_old_one() {
        let labels: Labels = serde_json::from_value(json!({"host": "a", "zone": "z"})).unwrap();
        let one = Quantity::from_integer(1);
        let host = |host: &str| json!({"matchLabels": {"host": host}});
        let table = [
            ("nothing", None, false),
            ("here", Some(storage_capacity("k", "1", host("a"))), true),
            ("on another node", Some(storage_capacity("k", "1", host("b"))), false),
            (
                "two labels",
                Some(storage_capacity("k", "1", json!({"matchLabels": {"host": "a", "zone": "z"}}))),
                true,
            ),
            (
                "one of two labels",
                Some(storage_capacity("k", "1", json!({"matchLabels": {"host": "a", "zone": "y"}}))),
                false,
            ),
            (
                "an expression",
                Some(storage_capacity(
                    "k",
                    "1",
                    json!({"matchExpressions": [{"key": "zone", "operator": "Exists"}]}),
                )),
                true,
            ),
            ("everywhere", Some(storage_capacity("k", "1", json!({}))), true),
            ("nowhere", Some(storage_capacity("k", "1", Value::Null)), false),
            ("of another class", Some(storage_capacity("l", "1", host("a"))), false),
            ("no capacity", Some(storage_capacity("k", "0", host("a"))), false),
        ];
        let mut all = Capacities::default();
        for (name, capacity, fits) in table {
            all.put("ns/x", capacity.as_ref());
            assert_eq!(all.has_room("k", &one, &labels), fits, "{name}");
        }
        all.put("ns/x", None);
        assert!(all.classes.is_empty() && all.places.is_empty());
    }
}
