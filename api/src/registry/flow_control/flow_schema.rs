//! The `FlowSchema` kind.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::spec_format::{FLOW_SCHEMA, METHOD};
use super::{GROUP, POLICY, bootstrap, flow_rules, items, validate_status};
use crate::kind::{Column, Kind, Names, Policy, Scope};
use crate::object::Object;
use crate::registry::workload::{given, number, spec, text};
use crate::registry::{cells, checks, json_defaults};
use crate::validate::{FieldErrors, Path};

/// The `FlowSchema` kind.
pub(in crate::registry) struct FlowSchema;

const NAMES: Names = Names {
    group: GROUP,
    version: "v1",
    kind: "FlowSchema",
    plural: "flowschemas",
    singular: "flowschema",
    short: &[],
    categories: &[],
    schema: "io.k8s.api.flowcontrol.v1.FlowSchema",
};

const DEFAULT_PRECEDENCE: i64 = 1000;
const LARGEST_PRECEDENCE: i64 = 10_000;
/// The schema that alone may have the precedence 1.
const EXEMPT: &str = "exempt";
const DANGLING: &str = "Dangling";

/// The condition that states whether the priority level of a schema exists. `None` if the stored condition is correct.
pub fn dangling_condition(schema: &Object, exists: bool, now: Timestamp) -> Option<Value> {
    let level = text(spec(schema).get("priorityLevelConfiguration").unwrap_or(&Value::Null), "name");
    let (status, reason, end) = if exists {
        ("False", "Found", "and it exists")
    } else {
        ("True", "NotFound", "but there is no such object")
    };
    let message =
        format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?} {end}");
    let stored = items(schema.at(&["status"]).unwrap_or(&Value::Null), "conditions")
        .iter()
        .find(|condition| text(condition, "type") == DANGLING);
    let is = |condition: &Value, name: &str, want: &str| text(condition, name) == want;
    if stored.is_some_and(|stored| {
        is(stored, "status", status) && is(stored, "reason", reason) && is(stored, "message", &message)
    }) {
        return None;
    }
    let unchanged = stored.filter(|stored| is(stored, "status", status));
    let since = unchanged.and_then(|stored| given(stored, "lastTransitionTime")).cloned();
    Some(json!({
        "type": DANGLING, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": since.unwrap_or_else(|| checks::seconds(now).into()),
    }))
}

impl Kind for FlowSchema {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/flowschemas/"
    }

    fn policy(&self) -> Policy {
        POLICY
    }

    fn defaults(&self, schema: &mut Object) {
        json_defaults::number(schema.object_at(&["spec"]), "matchingPrecedence", DEFAULT_PRECEDENCE);
    }

    fn prepare_create(&self, schema: &mut Object, _now: Timestamp) {
        schema.set(&["status"], json!({}));
    }

    fn validate(&self, schema: &Object, errors: &mut FieldErrors) {
        let (spec, path) = (spec(schema), Path::new("spec"));
        validate_spec(schema.name(), spec, &path, errors);
        if let Some(fixed) = bootstrap::mandatory_flow_schema(schema.name()) {
            let shown = FLOW_SCHEMA.show(Some(spec));
            if shown != FLOW_SCHEMA.show(fixed.get("spec")) {
                let why = format!("spec of '{}' must equal the fixed value", schema.name());
                errors.invalid_shown(&path, &shown, &why);
            }
        }
        validate_status(schema, errors);
    }

    fn validate_status(&self, schema: &Object, _old: &Object, errors: &mut FieldErrors) {
        validate_status(schema, errors);
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            cells::NAME,
            cells::text("PriorityLevel", "The priority level of the requests that the schema matches."),
            cells::text("MatchingPrecedence", "The order in which schemas are compared with a request."),
            cells::text("DistinguisherMethod", "How the requests are separated into flows."),
            cells::AGE,
            cells::text("MissingPL", "Whether the priority level does not exist."),
        ];
        COLUMNS
    }

    fn cells(&self, schema: &Object, now: Timestamp) -> Vec<Value> {
        let spec = spec(schema);
        let conditions = items(schema.at(&["status"]).unwrap_or(&Value::Null), "conditions");
        let dangling = conditions.iter().find(|condition| text(condition, "type") == DANGLING);
        let method = given(spec, "distinguisherMethod").map_or("<none>", |method| text(method, "type"));
        vec![
            cells::name(schema),
            schema.str_at(&["spec", "priorityLevelConfiguration", "name"]).into(),
            number(spec, "matchingPrecedence").into(),
            method.into(),
            cells::age(schema, now),
            dangling.map_or("?", |condition| text(condition, "status")).into(),
        ]
    }
}

fn validate_spec(name: &str, spec: &Value, path: &Path, errors: &mut FieldErrors) {
    let (precedence, at) = (number(spec, "matchingPrecedence"), path.child("matchingPrecedence"));
    if precedence <= 0 {
        errors.invalid(&at, precedence, "must be a positive value");
    }
    if precedence > LARGEST_PRECEDENCE {
        errors.invalid(&at, precedence, &format!("must not be greater than {LARGEST_PRECEDENCE}"));
    }
    if precedence == 1 && name != EXEMPT {
        errors.invalid(&at, precedence, "only the schema named 'exempt' may have matchingPrecedence 1");
    }
    if let Some(method) = given(spec, "distinguisherMethod")
        && !matches!(text(method, "type"), "ByNamespace" | "ByUser")
    {
        let at = path.child("distinguisherMethod").child("type");
        errors.not_supported_shown(&at, &METHOD.show(Some(method)), &["ByNamespace", "ByUser"]);
    }
    let level = text(spec.get("priorityLevelConfiguration").unwrap_or(&Value::Null), "name");
    let at = path.child("priorityLevelConfiguration").child("name");
    if level.is_empty() {
        errors.required(&at, "must reference a priority level");
    } else {
        checks::subdomain(errors, &at, level);
    }
    for (at, rule) in items(spec, "rules").iter().enumerate() {
        flow_rules::validate(rule, &path.child("rules").index(at), errors);
    }
}
