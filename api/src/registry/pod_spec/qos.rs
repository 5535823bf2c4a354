//! The quality-of-service class of a pod, computed from the requests and limits of its containers.

use orlop_apimachinery::quantity::Quantity;
use serde_json::Value;

use crate::object::Object;

/// The resources that determine the class.
const COUNTED: [&str; 2] = ["cpu", "memory"];

/// `Guaranteed`, `Burstable` or `BestEffort`.
pub(in crate::registry) fn class(pod: &Object) -> &'static str {
    let whole = pod.at(&["spec", "resources"]).filter(|resources| {
        ["limits", "requests"]
            .iter()
            .any(|list| resources.get(list).and_then(Value::as_object).is_some_and(|list| !list.is_empty()))
    });
    // Pod-level resources replace those of the containers.
    let consumers: Vec<&Value> = match whole {
        Some(resources) => vec![resources],
        None => ["containers", "initContainers"]
            .iter()
            .filter_map(|list| pod.at(&["spec", list]).and_then(Value::as_array))
            .flatten()
            .filter_map(|container| container.get("resources"))
            .collect(),
    };
    let amount = |consumer: &Value, list: &str, name: &str| {
        let quantity = Quantity::parse(consumer.get(list)?.get(name)?.as_str()?).ok()?;
        (!quantity.is_zero() && !quantity.is_negative()).then_some(quantity)
    };
    let mut any = false;
    let mut guaranteed = true;
    for consumer in consumers {
        for name in COUNTED {
            let (request, limit) = (amount(consumer, "requests", name), amount(consumer, "limits", name));
            any |= request.is_some() || limit.is_some();
            guaranteed &= limit.is_some() && request == limit;
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn qos_class_follows_requests_and_limits() {
        let full = json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}});
        for (case, spec, want) in [
            ("nothing", json!({"containers": [{"name": "c"}]}), "BestEffort"),
            ("zero", json!({"containers": [{"resources": {"requests": {"cpu": "0"}}}]}), "BestEffort"),
            (
                "other resource",
                json!({"containers": [{"resources": {"requests": {"example.com/x": "1"}}}]}),
                "BestEffort",
            ),
            ("equal", json!({"containers": [{ "resources": full }]}), "Guaranteed"),
            ("one of two", json!({"containers": [{ "resources": full }, {"resources": {}}]}), "Burstable"),
            (
                "init counts",
                json!({"containers": [{ "resources": full }], "initContainers": [{"resources": {}}]}),
                "Burstable",
            ),
            (
                "less than the limit",
                json!({"containers": [{"resources": {"limits": {"cpu": "1", "memory": "1Gi"},
                    "requests": {"cpu": "500m", "memory": "1Gi"}}}]}),
                "Burstable",
            ),
            ("whole pod", json!({"resources": full, "containers": [{"resources": {}}]}), "Guaranteed"),
        ] {
            let pod = Object::from_value(json!({ "spec": spec }));
            assert_eq!(class(&pod), want, "{case}");
        }
    }
}
