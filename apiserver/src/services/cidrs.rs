//! The ranges of further ServiceCIDRs. Pure.
//!
//! Upstream: `pkg/registry/core/service/ipallocator/cidrallocator.go`.

use orlop_api::object::Object;
use serde_json::Value;

use super::range::AddressRange;

/// The ranges from which Services can have addresses, of the same family as `own`, in the order of the objects. Without `own` itself.
pub(super) fn usable(
    objects: impl Iterator<Item = Object>,
    own: AddressRange,
) -> impl Iterator<Item = AddressRange> {
    objects.filter(is_ready).flat_map(|object| ranges(&object)).filter(move |range| {
        let is_same_family = range.first().is_ipv4() == own.first().is_ipv4();
        is_same_family && *range != own
    })
}

/// Whether the addresses can be used: the object is not being deleted, and the controller has not found otherwise. The controller may not
/// be running.
fn is_ready(object: &Object) -> bool {
    let conditions = object.at(&["status", "conditions"]).and_then(Value::as_array);
    let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
    !object.is_terminating() && ready.is_none_or(|ready| ready["status"] == "True")
}

fn ranges(object: &Object) -> Vec<AddressRange> {
    let cidrs = object.at(&["spec", "cidrs"]).and_then(Value::as_array);
    // A range that is too small for Services is not used.
    cidrs.into_iter().flatten().filter_map(|cidr| cidr.as_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ready_ranges_of_the_family_are_usable() {
        let own = "10.0.0.0/24".parse().expect("a range");
        let condition = |status: &str| json!([{"type": "Ready", "status": status}]);
        let time = json!("2026-11-28T00:00:00Z");
        for (case, deleted, cidrs, conditions, want) in [
            ("1 ready", json!(null), json!(["10.1.0.0/24"]), condition("True"), &["10.1.0.0/24"][..]),
            ("2 without a controller", json!(null), json!(["10.1.0.0/24"]), json!(null), &["10.1.0.0/24"]),
            ("3 not ready", json!(null), json!(["10.1.0.0/24"]), condition("False"), &[]),
            ("4 being deleted", time, json!(["10.1.0.0/24"]), condition("True"), &[]),
            (
                "5 of both families",
                json!(null),
                json!(["fd00::/112", "10.1.0.0/24"]),
                json!(null),
                &["10.1.0.0/24"],
            ),
            ("6 the range of the server", json!(null), json!(["10.0.0.0/24"]), json!(null), &[]),
            ("7 too small", json!(null), json!(["10.1.0.0/31"]), json!(null), &[]),
        ] {
            let object = json!({"metadata": {"name": "a", "deletionTimestamp": deleted},
                "spec": {"cidrs": cidrs}, "status": {"conditions": conditions}});
            let found = usable(std::iter::once(Object::from_value(object)), own);
            assert_eq!(found.map(|range| range.to_string()).collect::<Vec<_>>(), want, "{case}");
        }
    }
}
