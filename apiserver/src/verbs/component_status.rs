//! `ComponentStatus`: the health of the store, the controllers and the scheduler.
//!
//! Upstream sends requests to the health endpoints of the components on the same machine. Here the controllers and the
//! scheduler either run in this process, which ends if they fail, or elsewhere, where this server does not look.

use axum::response::Response;
use orlop_apimachinery::{fields, labels};
use serde_json::{Map, json};

use crate::encode::negotiate::Endpoint;
use crate::encode::{answer, list};
use crate::verbs::filter::Filter;
use crate::verbs::list::check_numbers;
use crate::verbs::request::Request;
use orlop_api::object::Object;
use orlop_api::query::Query;
use orlop_api::status::ApiError;

/// The names of the components, sorted.
const COMPONENTS: [&str; 3] = ["controller-manager", "etcd-0", "scheduler"];

/// Lists the components.
pub(crate) fn list(request: &Request) -> Result<Response, ApiError> {
    let wanted = request.wanted(Endpoint::List)?;
    check_numbers(&request.query)?;
    // Reports invalid selectors.
    Filter::parse(request.kind_ref(), &request.query, false)?;
    let selected = COMPONENTS.into_iter().filter(|name| is_selected(&request.query, name));
    let objects = selected.map(|name| object(name, &check(request, name))).collect();
    list::answer_objects(request.kind_ref(), objects, wanted, &request.query, request.now())
}

/// Reads one component.
pub(crate) fn get(request: &Request) -> Result<Response, ApiError> {
    let wanted = request.wanted(Endpoint::Single)?;
    let name = request.resource.name.as_str();
    if !COMPONENTS.contains(&name) {
        return Err(ApiError::plain_internal(format!("Component not found: {name}")));
    }
    let shown = object(name, &check(request, name));
    answer::object(request.kind_ref(), 200, shown, wanted, &request.query, request.now())
}

/// Whether the selectors of a list match a component. Components have no labels.
fn is_selected(query: &Query, name: &str) -> bool {
    let labels = labels::Selector::parse(query.text("labelSelector"));
    let fields = fields::Selector::parse(query.text("fieldSelector"));
    labels.is_ok_and(|labels| labels.matches(std::iter::empty()))
        && fields.is_ok_and(|fields| {
            fields.matches(|field| Some(if field == "metadata.name" { name } else { "" }))
        })
}

/// The result of the check of a component.
#[derive(Debug, PartialEq)]
enum Health {
    Healthy,
    /// The message of the failed check.
    Unhealthy(String),
    /// Why there is no result.
    Unknown(&'static str),
}

fn check(request: &Request, name: &str) -> Health {
    let config = &request.server.config;
    let poisoned = request.server.store.poisoned().map(|why| why.to_string());
    health(name, poisoned, config.runs_controllers, config.runs_scheduler)
}

/// Whether a component is healthy. `poisoned` is the reason why the store accepts no writes.
fn health(name: &str, poisoned: Option<String>, runs_controllers: bool, runs_scheduler: bool) -> Health {
    match name {
        "etcd-0" => poisoned.map_or(Health::Healthy, Health::Unhealthy),
        "scheduler" if runs_scheduler => Health::Healthy,
        "scheduler" => Health::Unknown("the scheduler does not run in the process of the API server"),
        _ if runs_controllers => Health::Healthy,
        _ => Health::Unknown("the controllers do not run in the process of the API server"),
    }
}

fn object(name: &str, health: &Health) -> Object {
    let mut condition = Map::new();
    condition.insert("type".to_owned(), "Healthy".into());
    let (status, field, text) = match health {
        Health::Healthy => ("True", "message", "ok"),
        Health::Unhealthy(message) => ("False", "message", message.as_str()),
        Health::Unknown(error) => ("Unknown", "error", *error),
    };
    condition.insert("status".to_owned(), status.into());
    condition.insert(field.to_owned(), text.into());
    Object::from_value(json!({"metadata": {"name": name}, "conditions": [condition]}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_of_components_depends_on_store_and_process() {
        let elsewhere = |name: &str| match name {
            "scheduler" => "the scheduler does not run in the process of the API server",
            _ => "the controllers do not run in the process of the API server",
        };
        for (name, poisoned, controllers, scheduler, want) in [
            ("etcd-0", None, false, false, Health::Healthy),
            ("etcd-0", Some("full"), true, true, Health::Unhealthy("full".to_owned())),
            ("controller-manager", Some("full"), true, false, Health::Healthy),
            ("controller-manager", None, false, true, Health::Unknown(elsewhere("controller-manager"))),
            ("scheduler", None, true, true, Health::Healthy),
            ("scheduler", None, true, false, Health::Unknown(elsewhere("scheduler"))),
        ] {
            let got = health(name, poisoned.map(str::to_owned), controllers, scheduler);
            assert_eq!(got, want, "{name} {poisoned:?} {controllers} {scheduler}");
        }
    }

    #[test]
    fn selectors_match_names_and_no_labels() {
        for (query, want) in [
            ("", true),
            ("fieldSelector=metadata.name%3Detcd-0", true),
            ("fieldSelector=metadata.name%3Dscheduler", false),
            ("labelSelector=a", false),
            ("labelSelector=!a", true),
        ] {
            assert_eq!(is_selected(&Query::parse(Some(query)), "etcd-0"), want, "{query}");
        }
    }
}
