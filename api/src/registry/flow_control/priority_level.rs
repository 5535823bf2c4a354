//! The `PriorityLevelConfiguration` kind.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::spec_format::PRIORITY_LEVEL;
use super::{GROUP, POLICY, bootstrap, validate_status};
use crate::kind::{Column, Kind, Names, Policy, Scope};
use crate::object::Object;
use crate::registry::workload::{given, number, spec, text};
use crate::registry::{cells, json_defaults};
use crate::validate::{FieldErrors, Path};

/// The `PriorityLevelConfiguration` kind.
pub(in crate::registry) struct PriorityLevelConfiguration;

const NAMES: Names = Names {
    group: GROUP,
    version: "v1",
    kind: "PriorityLevelConfiguration",
    plural: "prioritylevelconfigurations",
    singular: "prioritylevelconfiguration",
    short: &[],
    categories: &[],
    schema: "io.k8s.api.flowcontrol.v1.PriorityLevelConfiguration",
};

/// The only priority level of the type `Exempt`.
const EXEMPT: &str = "exempt";
/// An annotation of another version, in which 0 shares are invalid.
const PRESERVED_ZERO: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";
const MOST_QUEUES: i64 = 10_000_000;
/// The bits of a hash that select the queues of a flow.
const HASH_BITS: f64 = 60.0;

impl Kind for PriorityLevelConfiguration {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/prioritylevelconfigurations/"
    }

    fn policy(&self) -> Policy {
        POLICY
    }

    fn defaults(&self, level: &mut Object) {
        let spec = level.object_at(&["spec"]);
        if let Some(exempt) = json_defaults::object(spec, "exempt") {
            json_defaults::value(exempt, "nominalConcurrencyShares", 0);
            json_defaults::value(exempt, "lendablePercent", 0);
        }
        let Some(limited) = json_defaults::object(spec, "limited") else { return };
        json_defaults::value(limited, "nominalConcurrencyShares", 30);
        json_defaults::value(limited, "lendablePercent", 0);
        let response = json_defaults::object(limited, "limitResponse");
        if let Some(queuing) = response.and_then(|response| json_defaults::object(response, "queuing")) {
            for (field, default) in [("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)] {
                json_defaults::number(queuing, field, default);
            }
        }
    }

    fn prepare_create(&self, level: &mut Object, _now: Timestamp) {
        level.set(&["status"], json!({}));
    }

    fn validate(&self, level: &Object, errors: &mut FieldErrors) {
        if level.annotation(PRESERVED_ZERO).is_some() {
            let why = format!("annotation '{PRESERVED_ZERO}' is forbidden");
            errors.forbidden(&Path::new("metadata.annotations"), &why);
        }
        let path = Path::new("spec");
        validate_spec(level.name(), spec(level), &path, errors);
        validate_fixed(level.name(), spec(level), &path, errors);
        validate_status(level, errors);
    }

    fn validate_status(&self, level: &Object, _old: &Object, errors: &mut FieldErrors) {
        validate_status(level, errors);
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            cells::NAME,
            cells::text("Type", "Whether requests are limited."),
            cells::text("NominalConcurrencyShares", "The share of the concurrent requests of the server."),
            cells::text("Queues", "The number of queues."),
            cells::text("HandSize", "The number of queues of a flow."),
            cells::text("QueueLengthLimit", "The largest number of requests in a queue."),
            cells::AGE,
        ];
        COLUMNS
    }

    fn cells(&self, level: &Object, now: Timestamp) -> Vec<Value> {
        let spec = spec(level);
        let limited = given(spec, "limited");
        let queuing = limited.and_then(|limited| limited.pointer("/limitResponse/queuing"));
        let queuing = queuing.filter(|queuing| !queuing.is_null());
        let shown = |of: Option<&Value>, field: &str| {
            of.map_or_else(|| Value::from("<none>"), |of| number(of, field).into())
        };
        vec![
            cells::name(level),
            text(spec, "type").into(),
            shown(limited, "nominalConcurrencyShares"),
            shown(queuing, "queues"),
            shown(queuing, "handSize"),
            shown(queuing, "queueLengthLimit"),
            cells::age(level, now),
        ]
    }
}

fn validate_spec(name: &str, spec: &Value, path: &Path, errors: &mut FieldErrors) {
    let (kind, at) = (text(spec, "type"), path.child("type"));
    if (name == EXEMPT) != (kind == "Exempt") {
        errors.invalid(&at, kind, "type must be 'Exempt' if and only if name is 'exempt'");
    }
    let (limited, exempt) = (given(spec, "limited"), given(spec, "exempt"));
    match kind {
        "Exempt" => {
            if limited.is_some() {
                errors.forbidden(&path.child("limited"), "must be nil if the type is not Limited");
            }
            if let Some(exempt) = exempt {
                let path = path.child("exempt");
                shares(exempt, &path, errors);
                percent(exempt, &path, errors);
            }
        }
        "Limited" => {
            if exempt.is_some() {
                errors.forbidden(&path.child("exempt"), "must be nil if the type is Limited");
            }
            match limited {
                None => errors.required(&path.child("limited"), "must not be empty when type is Limited"),
                Some(limited) => validate_limited(limited, &path.child("limited"), errors),
            }
        }
        _ => errors.not_supported(&at, kind, &["Exempt", "Limited"]),
    }
}

/// The mandatory levels have a fixed spec, except for the shares of the exempt level.
fn validate_fixed(name: &str, spec: &Value, path: &Path, errors: &mut FieldErrors) {
    let Some(mut fixed) = bootstrap::mandatory_priority_level(name) else { return };
    let why = if name == EXEMPT {
        fixed["spec"]["exempt"] = spec.get("exempt").cloned().unwrap_or_default();
        format!("spec of '{name}' except the 'spec.exempt' field must equal the fixed value")
    } else {
        format!("spec of '{name}' must equal the fixed value")
    };
    let shown = PRIORITY_LEVEL.show(Some(spec));
    if shown != PRIORITY_LEVEL.show(fixed.get("spec")) {
        errors.invalid_shown(path, &shown, &why);
    }
}

fn shares(of: &Value, path: &Path, errors: &mut FieldErrors) {
    let shares = number(of, "nominalConcurrencyShares");
    if shares < 0 {
        errors.invalid(&path.child("nominalConcurrencyShares"), shares, "must be a non-negative integer");
    }
}

fn percent(of: &Value, path: &Path, errors: &mut FieldErrors) {
    let percent = number(of, "lendablePercent");
    if !(0..=100).contains(&percent) {
        errors.invalid(&path.child("lendablePercent"), percent, "must be between 0 and 100, inclusive");
    }
}

fn validate_limited(limited: &Value, path: &Path, errors: &mut FieldErrors) {
    shares(limited, path, errors);
    validate_response(
        limited.get("limitResponse").unwrap_or(&Value::Null),
        &path.child("limitResponse"),
        errors,
    );
    percent(limited, path, errors);
    let borrowed = number(limited, "borrowingLimitPercent");
    if borrowed < 0 {
        let why = "if specified, must be a non-negative integer";
        errors.invalid(&path.child("borrowingLimitPercent"), borrowed, why);
    }
}

fn validate_response(response: &Value, path: &Path, errors: &mut FieldErrors) {
    let (queuing, at) = (given(response, "queuing"), path.child("queuing"));
    match (text(response, "type"), queuing) {
        ("Reject", None) => {}
        ("Reject", Some(_)) => {
            errors.forbidden(&at, "must be nil if limited.limitResponse.type is not Limited");
        }
        ("Queue", None) => {
            errors.required(&at, "must not be empty if limited.limitResponse.type is Limited");
        }
        ("Queue", Some(queuing)) => validate_queuing(queuing, &at, errors),
        (other, _) => errors.not_supported(&path.child("type"), other, &["Queue", "Reject"]),
    }
}

fn validate_queuing(queuing: &Value, path: &Path, errors: &mut FieldErrors) {
    const POSITIVE: &str = "must be positive";
    let length = number(queuing, "queueLengthLimit");
    if length <= 0 {
        errors.invalid(&path.child("queueLengthLimit"), length, POSITIVE);
    }
    let (queues, at) = (number(queuing, "queues"), path.child("queues"));
    if queues <= 0 {
        errors.invalid(&at, queues, POSITIVE);
    } else if queues > MOST_QUEUES {
        errors.invalid(&at, queues, &format!("must not be greater than {MOST_QUEUES}"));
    }
    let (hand, at) = (number(queuing, "handSize"), path.child("handSize"));
    if hand <= 0 {
        errors.invalid(&at, hand, POSITIVE);
    } else if hand > queues {
        errors.invalid(&at, hand, &format!("should not be greater than queues ({queues})"));
    } else if entropy_bits(queues, hand) > HASH_BITS {
        let why = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {HASH_BITS}"
        );
        errors.invalid(&at, hand, &why);
    }
}

/// The bits that select `hand` of `queues` queues. Both numbers have 32 bits.
fn entropy_bits(queues: i64, hand: i64) -> f64 {
    let exact = |number: i64| f64::from(i32::try_from(number).unwrap_or(i32::MAX));
    (exact(queues).log2() * exact(hand)).ceil()
}
