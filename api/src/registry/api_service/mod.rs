//! The `APIService` kind: the server of an API group and version. The API server forwards the requests of such a group to it.
//!
//! Upstream: kube-aggregator pkg/apis/apiregistration, pkg/registry/apiservice.

use jiff::Timestamp;
use orlop_apimachinery::names;
use serde_json::{Value, json};

use super::workload::{given, number, spec, text};
use super::{addresses, cells, checks, json_defaults};
use crate::kind::{Column, Kind, NameRule, Names, Policy, Scope, StatusSubresource};
use crate::object::Object;
use crate::validate::{FieldErrors, Path};

/// The `APIService` kind.
pub(super) struct ApiService;

/// The API group.
pub const GROUP: &str = "apiregistration.k8s.io";
/// The label of objects that a server maintains.
const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

const NAMES: Names = Names {
    group: GROUP,
    version: "v1",
    kind: "APIService",
    plural: "apiservices",
    singular: "apiservice",
    short: &[],
    categories: &["api-extensions"],
    schema: "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService",
};

const AVAILABLE: &str = "Available";
const STATUSES: [&str; 3] = ["True", "False", "Unknown"];

/// When a server restores an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Managed {
    /// At its start: built-in groups.
    OnStart,
    /// At all times: groups of custom kinds.
    Continuously,
}

impl Managed {
    fn label(self) -> &'static str {
        match self {
            Managed::OnStart => "onstart",
            Managed::Continuously => "true",
        }
    }

    /// When a server restores this object; `None` if users maintain it.
    pub fn of(service: &Object) -> Option<Self> {
        let label = service.labels().and_then(|labels| labels.get(MANAGED)).and_then(Value::as_str);
        [Managed::OnStart, Managed::Continuously].into_iter().find(|managed| label == Some(managed.label()))
    }
}

/// The object for a group and version that a server serves itself, with its priorities.
pub fn local(group: &str, version: &str, priorities: (i32, i32), managed: Managed) -> Object {
    let mut spec = json!({
        "version": version, "groupPriorityMinimum": priorities.0, "versionPriority": priorities.1,
    });
    if !group.is_empty() {
        spec["group"] = group.into();
    }
    Object::from_value(json!({
        "metadata": {"name": format!("{version}.{group}"), "labels": {MANAGED: managed.label()}},
        "spec": spec,
    }))
}

impl Kind for ApiService {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/apiregistration.k8s.io/apiservices/"
    }

    fn policy(&self) -> Policy {
        Policy {
            names: NameRule::PathSegment,
            unconditional_update: false,
            status: StatusSubresource::StatusOnly,
            ..Policy::DEFAULT
        }
    }

    fn defaults(&self, service: &mut Object) {
        if let Some(reference) = json_defaults::object(service.object_at(&["spec"]), "service") {
            json_defaults::value(reference, "port", 443);
        }
    }

    fn prepare_create(&self, service: &mut Object, now: Timestamp) {
        let is_local = given(spec(service), "service").is_none();
        let status = if is_local {
            json!({"conditions": [{
                "type": AVAILABLE, "status": "True", "lastTransitionTime": checks::seconds(now),
                "reason": "Local", "message": "Local APIServices are always available",
            }]})
        } else {
            json!({})
        };
        service.set(&["status"], status);
    }

    fn validate(&self, service: &Object, errors: &mut FieldErrors) {
        let spec = spec(service);
        let (group, version) = (text(spec, "group"), text(spec, "version"));
        let required = format!("{version}.{group}");
        let name = service.name();
        if name != required && names::path_segment(name).is_empty() {
            let why = format!("must be `spec.version+\".\"+spec.group`: {required:?}");
            errors.invalid(&Path::new("metadata.name"), name, &why);
        }
        validate_spec(spec, group, version, errors);
    }

    fn validate_status(&self, service: &Object, _old: &Object, errors: &mut FieldErrors) {
        let path = Path::new("status.conditions");
        let conditions = service.at(&["status", "conditions"]).and_then(Value::as_array);
        for (at, condition) in conditions.into_iter().flatten().enumerate() {
            checks::one_of(
                errors,
                &path.index(at).child("status"),
                Some(text(condition, "status")),
                &STATUSES,
            );
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            cells::NAME,
            cells::text("Service", "The Service of the server."),
            cells::text("Available", "Whether the server is available."),
            cells::AGE,
        ];
        COLUMNS
    }

    fn cells(&self, service: &Object, now: Timestamp) -> Vec<Value> {
        let reference = given(spec(service), "service");
        let shown = reference.map_or("Local".to_owned(), |reference| {
            format!("{}/{}", text(reference, "namespace"), text(reference, "name"))
        });
        let conditions = service.at(&["status", "conditions"]).and_then(Value::as_array);
        let mut conditions = conditions.into_iter().flatten();
        let available = conditions.find(|condition| text(condition, "type") == AVAILABLE);
        let available =
            match available.map(|condition| (text(condition, "status"), text(condition, "reason"))) {
                None => "Unknown".to_owned(),
                Some((status, reason)) if status != "True" && !reason.is_empty() => {
                    format!("{status} ({reason})")
                }
                Some((status, _)) => status.to_owned(),
            };
        vec![cells::name(service), shown.into(), available.into(), cells::age(service, now)]
    }
}

fn validate_spec(spec: &Value, group: &str, version: &str, errors: &mut FieldErrors) {
    let path = Path::new("spec");
    if !group.is_empty() {
        checks::subdomain(errors, &path.child("group"), group);
    } else if version != "v1" {
        let why = "only v1 may have an empty group and it better be legacy kube";
        errors.required(&path.child("group"), why);
    }
    checks::each(errors, &path.child("version"), version, names::dns1035_label(version));
    for (field, largest) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1000)] {
        let priority = number(spec, field);
        if !(1..=largest).contains(&priority) {
            errors.invalid(
                &path.child(field),
                priority,
                &format!("must be positive and less than {largest}"),
            );
        }
    }
    let bundle = decoded_length(text(spec, "caBundle"));
    let is_insecure = spec.get("insecureSkipTLSVerify") == Some(&Value::Bool(true));
    let insecure = path.child("insecureSkipTLSVerify");
    let Some(service) = given(spec, "service") else {
        if bundle > 0 {
            let why = "local APIServices may not have a caBundle";
            errors.invalid(&path.child("caBundle"), format!("{bundle} bytes"), why);
        }
        if is_insecure {
            errors.invalid(&insecure, true, "local APIServices may not have insecureSkipTLSVerify");
        }
        return;
    };
    let path = path.child("service");
    for field in ["namespace", "name"] {
        checks::required(errors, &path.child(field), text(service, field));
    }
    let port = number(service, "port");
    if !(1..=65535).contains(&port) {
        errors.invalid(&path.child("port"), port, &format!("port is not valid: {}", addresses::NO_PORT));
    }
    if is_insecure && bundle > 0 {
        errors.invalid(&insecure, true, "may not be true if caBundle is present");
    }
}

/// The number of bytes that a text in base64 contains. Decoding has checked the text.
fn decoded_length(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

#[cfg(test)]
mod tests;
