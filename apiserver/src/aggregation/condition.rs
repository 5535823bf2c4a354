//! The condition `Available` of an APIService. Pure.
//!
//! Upstream: kube-aggregator `pkg/controllers/status`.

use orlop_api::object::Object;
use serde_json::{Value, json};

const AVAILABLE: &str = "Available";

/// A port of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServicePort {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) port: u16,
}

/// What is known about the server of an APIService.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Availability {
    /// This server serves the version.
    Local,
    /// The Service does not exist.
    NoService,
    /// The Service has no such port.
    NoPort,
    /// The Service has no EndpointSlice.
    NoEndpoints,
    /// No endpoint is ready and has the port of this name.
    NoAddress { port_name: String },
    /// The server does not respond to the request for its resources.
    Failed(String),
    /// The server responds.
    Passed,
}

impl Availability {
    /// The status, the reason and the message of the condition.
    pub(super) fn condition(&self, service: &ServicePort) -> (&'static str, &'static str, String) {
        let ServicePort { namespace, name, port } = service;
        match self {
            Availability::Local => ("True", "Local", "Local APIServices are always available".to_owned()),
            Availability::NoService => {
                ("False", "ServiceNotFound", format!("service/{name} in {namespace:?} is not present"))
            }
            Availability::NoPort => (
                "False",
                "ServicePortError",
                format!("service/{name} in {namespace:?} is not listening on port {port}"),
            ),
            Availability::NoEndpoints => (
                "False",
                "EndpointsNotFound",
                format!("cannot find endpointslices for service/{name} in {namespace:?}"),
            ),
            Availability::NoAddress { port_name } => (
                "False",
                "MissingEndpoints",
                format!(
                    "endpointslices for service/{name} in {namespace:?} have no addresses with port name {port_name:?}"
                ),
            ),
            Availability::Failed(why) => ("False", "FailedDiscoveryCheck", why.clone()),
            Availability::Passed => ("True", "Passed", "all checks passed".to_owned()),
        }
    }
}

fn conditions(object: &Object) -> impl Iterator<Item = &Value> {
    object.at(&["status", "conditions"]).and_then(Value::as_array).into_iter().flatten()
}

/// Whether the condition of an APIService is true.
pub(super) fn is_available(object: &Object) -> bool {
    conditions(object).any(|condition| condition["type"] == AVAILABLE && condition["status"] == "True")
}

/// Whether a version of this server has another condition than [`Availability::Local`].
pub(super) fn is_wrong_for_local(object: &Object) -> bool {
    let is_local = object.at(&["spec", "service"]).is_none_or(Value::is_null);
    is_local
        && with_condition(object, Availability::Local.condition(&ServicePort::default()), &Value::Null)
            .is_some()
}

/// The APIService with this condition; `None` if it already has it. The time of the transition changes with the status only.
pub(super) fn with_condition(
    object: &Object,
    (status, reason, message): (&str, &str, String),
    now: &Value,
) -> Option<Object> {
    let known = conditions(object).find(|condition| condition["type"] == AVAILABLE);
    let is_same = known.is_some_and(|known| {
        known["status"] == status && known["reason"] == reason && known["message"] == message
    });
    if is_same {
        return None;
    }
    let since =
        known.filter(|known| known["status"] == status).map(|known| known["lastTransitionTime"].clone());
    let condition = json!({
        "type": AVAILABLE, "status": status, "lastTransitionTime": since.unwrap_or_else(|| now.clone()),
        "reason": reason, "message": message,
    });
    let mut all: Vec<Value> = conditions(object).cloned().collect();
    match all.iter_mut().find(|condition| condition["type"] == AVAILABLE) {
        Some(place) => *place = condition,
        None => all.push(condition),
    }
    let mut next = object.clone();
    next.set(&["status", "conditions"], Value::from(all));
    Some(next)
}

/// The result of a check.
pub(super) struct Checked {
    pub(super) availability: Availability,
    /// The resources, if the server has listed them, within the limits.
    pub(super) resources: Option<Vec<Value>>,
    /// Whether the server has an OpenAPI v3 document of the version.
    pub(super) has_openapi: bool,
}

impl Checked {
    /// The result without a list of resources.
    pub(super) fn without_resources(availability: Availability) -> Self {
        Checked { availability, resources: None, has_openapi: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(conditions: Value) -> Object {
        Object::from_value(json!({"metadata": {"name": "v1.g"}, "status": {"conditions": conditions}}))
    }

    fn condition(status: &str, reason: &str, since: &str) -> Value {
        json!({"type": "Available", "status": status, "reason": reason, "message": "m", "lastTransitionTime": since})
    }

    #[test]
    fn transition_time_changes_with_the_status() {
        let other = json!({"type": "Other", "status": "True"});
        for (case, before, new, want) in [
            ("1 new", json!([]), ("True", "Passed"), Some(json!([condition("True", "Passed", "now")]))),
            ("2 same", json!([condition("True", "Passed", "then")]), ("True", "Passed"), None),
            (
                "3 another reason",
                json!([condition("False", "ServiceNotFound", "then")]),
                ("False", "MissingEndpoints"),
                Some(json!([condition("False", "MissingEndpoints", "then")])),
            ),
            (
                "4 another status, beside another condition",
                json!([other, condition("False", "ServiceNotFound", "then")]),
                ("True", "Passed"),
                Some(json!([other, condition("True", "Passed", "now")])),
            ),
        ] {
            let next = with_condition(&object(before), (new.0, new.1, "m".to_owned()), &"now".into());
            let found = next.map(|next| next.at(&["status", "conditions"]).cloned().unwrap_or_default());
            assert_eq!(found, want, "{case}");
        }
    }

    #[test]
    fn only_the_status_true_makes_a_server_available() {
        for (conditions, want) in [
            (json!([]), false),
            (json!([condition("False", "r", "t")]), false),
            (json!([condition("Unknown", "r", "t")]), false),
            (json!([{"type": "Other", "status": "True"}]), false),
            (json!([condition("True", "r", "t")]), true),
        ] {
            assert_eq!(is_available(&object(conditions.clone())), want, "{conditions}");
        }
    }
}
