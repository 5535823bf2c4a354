//! The collections that admission reads whole for a write, and a bound on their size: each write pays for every object in
//! them, and a cluster-scoped one is read by writes in all namespaces.

use super::request::{Lookup, Operation, Request};
use crate::registry::{self, Kind};
use orlop_api::object::Object;
use orlop_api::status::ApiError;

/// Maximum size of one collection, bytes: all objects of a cluster-scoped kind, or those of one namespace. Decoding it
/// takes tens of milliseconds.
const MAX_BYTES: usize = 4 << 20;

/// The collections, by group and plural.
const COLLECTIONS: [(&str, &str); 8] = [
    ("", "resourcequotas"),
    ("", "limitranges"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("node.k8s.io", "runtimeclasses"),
    ("storage.k8s.io", "storageclasses"),
    ("networking.k8s.io", "ingressclasses"),
    ("networking.k8s.io", "servicecidrs"),
    // Evictions read them, see `handler::weight`.
    ("policy", "poddisruptionbudgets"),
];

/// The collections that a write to a kind reads.
pub(super) fn read_by<'a>(group: &'a str, plural: &'a str) -> impl Iterator<Item = &'static dyn Kind> + 'a {
    let is_read = move |read: &str| match read {
        "limitranges" => matches!((group, plural), ("", "pods" | "persistentvolumeclaims")),
        "priorityclasses" | "runtimeclasses" => (group, plural) == ("", "pods"),
        "storageclasses" => (group, plural) == ("", "persistentvolumeclaims"),
        "servicecidrs" => (group, plural) == ("", "services"),
        "poddisruptionbudgets" => false,
        "ingressclasses" => (group, plural) == ("networking.k8s.io", "ingresses"),
        _ => true,
    };
    let read = COLLECTIONS.into_iter().filter(move |(_, read)| is_read(read));
    read.filter_map(|(group, plural)| registry::by_resource(group, "v1", plural))
}

/// Refuses an object that makes one of these collections too large. Objects that do not grow are always accepted.
pub(super) fn check(request: &Request<'_>, lookup: &dyn Lookup) -> Result<(), ApiError> {
    let names = request.names();
    let is_read = COLLECTIONS.contains(&(names.group, names.plural)) && request.subresource.is_empty();
    let Some(object) = request.object.as_deref().filter(|_| is_read) else { return Ok(()) };
    let size = size_of(object);
    match request.operation {
        Operation::Delete => return Ok(()),
        Operation::Update if request.old.is_some_and(|old| size <= size_of(old)) => return Ok(()),
        Operation::Create | Operation::Update => {}
    }
    let namespace = (!request.namespace.is_empty()).then_some(request.namespace);
    let others = lookup.size_without(request.kind, namespace, object.name());
    if others + size <= MAX_BYTES {
        return Ok(());
    }
    Err(request.refuse(&format!(
        "all {} together may have at most {MAX_BYTES} bytes, because other writes read all of them; the others have {others} \
         bytes, and this one has {size}",
        names.plural
    )))
}

fn size_of(object: &Object) -> usize {
    serde_json::to_vec(&object.0).map_or(0, |text| text.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::admission::chain::Chain;
    use crate::admission::testing::{Facts, Write};

    #[test]
    fn collection_that_other_writes_read_is_bounded() {
        let quota = |name: &str, bytes: usize| {
            let metadata = json!({"name": name, "namespace": "n", "annotations": {"a": "x".repeat(bytes)}});
            json!({"metadata": metadata, "spec": {}})
        };
        let half = 2 << 20;
        let facts = Facts::new(&[
            ("resourcequotas", quota("a", half)),
            ("resourcequotas", quota("b", half - 1000)),
            ("limitranges", json!({"metadata": {"name": "a", "namespace": "n"}})),
            ("poddisruptionbudgets", quota("a", half)),
        ]);
        let chain = Chain::new(&[], &[]).expect("no plugin is named");
        let fits = |mut write: Write| write.validate_all(&chain, &facts).is_ok();
        for (case, write, want) in [
            ("1 little", Write::create("resourcequotas", quota("c", 100)), true),
            ("2 too much", Write::create("resourcequotas", quota("c", 2000)), false),
            ("3 grows", Write::update("resourcequotas", quota("b", half - 1000), quota("b", half)), false),
            ("4 does not grow", Write::update("resourcequotas", quota("a", half), quota("a", half)), true),
            ("5 another collection", Write::create("limitranges", quota("b", 2000)), true),
            ("6 not read by other writes", Write::create("configmaps", quota("b", half)), true),
            ("7 deleted", Write::delete("resourcequotas", quota("a", half)), true),
            ("8 a budget", Write::create("poddisruptionbudgets", quota("b", half - 1000)), true),
            ("9 too much for evictions", Write::create("poddisruptionbudgets", quota("b", half)), false),
        ] {
            assert_eq!(fits(write.in_namespace("n")), want, "{case}");
        }
    }

    #[test]
    fn pods_and_claims_read_more_than_quotas() {
        let read = |plural| -> Vec<&str> { read_by("", plural).map(|kind| kind.names().plural).collect() };
        assert_eq!(read("configmaps"), ["resourcequotas"]);
        assert_eq!(read("services"), ["resourcequotas", "servicecidrs"]);
        assert_eq!(read("poddisruptionbudgets"), ["resourcequotas"]);
        assert_eq!(read("pods"), ["resourcequotas", "limitranges", "priorityclasses", "runtimeclasses"]);
        assert_eq!(read("persistentvolumeclaims"), ["resourcequotas", "limitranges", "storageclasses"]);
    }
}
