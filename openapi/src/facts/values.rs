//! The allowed values and the defaults of fields, for the documents: the published JSON schemas omit both.
//!
//! The facts are in `values.txt`. A line `=Set VALUE...` defines a set of values; `_` is a space, and `""` the empty
//! text. A set has the name of one of the upstream types that allow its values. A line `@prefix` sets the schema
//! prefix of the lines after it; every other line is a type and its fields:
//!
//! ```text
//! Type field=Set field=Set:DEFAULT field=:DEFAULT
//! ```
//!
//! A default is a JSON scalar. The table has only the defaults that differ from the zero value, or that an optional
//! field has; the documents derive the others from the type of the field ([`document_default`]).
//!
//! Sources: the markers `+enum` and `+default` of upstream's `types.go` at 1.36.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::shape::{Field, Presence, Scalar, Shape, StructType};

/// The values of a field.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct FieldValues {
    /// The allowed values; empty if the field allows any.
    pub(crate) allowed: Vec<String>,
    /// The declared default.
    default: Option<Value>,
}

type Table = HashMap<String, HashMap<&'static str, FieldValues>>;

/// Returns the values of a field that allows only some, or declares a default.
pub(crate) fn values(ty: &StructType, field: &Field) -> Option<&'static FieldValues> {
    static TABLE: LazyLock<Table> = LazyLock::new(|| {
        parse(include_str!("values.txt")).expect("the table is part of the program and a test parses it")
    });
    TABLE.get(&ty.name)?.get(field.name.as_str())
}

/// Returns the default of a field in the documents. Without a declared one, this is the zero value of a struct, or of a
/// scalar that is always written.
pub(crate) fn document_default(ty: &StructType, field: &Field) -> Option<Value> {
    if let Some(default) = values(ty, field).and_then(|values| values.default.clone()) {
        return Some(default);
    }
    let is_always = field.presence == Presence::Always && !field.nullable;
    match &field.shape {
        Shape::Struct(_) if field.presence != Presence::Pointer && !field.nullable => Some(json!({})),
        Shape::Scalar(Scalar::String) if is_always => Some(json!("")),
        Shape::Scalar(Scalar::Bool) if is_always => Some(json!(false)),
        Shape::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Float) if is_always => Some(json!(0)),
        Shape::Struct(_)
        | Shape::Scalar(_)
        | Shape::Map(_)
        | Shape::List(_)
        | Shape::Json
        | Shape::Either(_)
        | Shape::Inline(_)
        | Shape::Deduced => None,
    }
}

fn parse(text: &'static str) -> Result<Table, String> {
    let mut table = Table::new();
    let mut sets: HashMap<&str, Vec<String>> = HashMap::new();
    let mut prefix = "";
    for (index, line) in text.lines().enumerate() {
        let at = |why: &str| format!("line {}: {why}", index + 1);
        if let Some(name) = line.strip_prefix('@') {
            prefix = name;
            continue;
        }
        let mut words = line.split(' ');
        let head = words.next().unwrap_or_default();
        if let Some(set) = head.strip_prefix('=') {
            let values = words.map(|value| match value {
                "\"\"" => String::new(),
                value => value.replace('_', " "),
            });
            sets.insert(set, values.collect());
            continue;
        }
        let mut fields = HashMap::new();
        for word in words {
            let (field, rest) = word.split_once('=').ok_or_else(|| at(word))?;
            let (set, default) = rest.split_once(':').map_or((rest, None), |(set, text)| (set, Some(text)));
            let allowed = match set {
                "" => Vec::new(),
                set => sets.get(set).cloned().ok_or_else(|| at(set))?,
            };
            let default = default.map(serde_json::from_str).transpose().map_err(|_| at(word))?;
            fields.insert(field, FieldValues { allowed, default });
        }
        table.insert(format!("{prefix}.{head}"), fields);
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types;

    #[test]
    fn lines_define_sets_and_fields() {
        let table = parse("=Set \"\" a_b\n@g\nType x=Set y=Set:\"a\" z=:0").expect("well formed");
        let allowed = vec![String::new(), "a b".to_owned()];
        let fields = &table["g.Type"];
        assert_eq!(fields["x"], FieldValues { allowed: allowed.clone(), default: None });
        assert_eq!(fields["y"], FieldValues { allowed, default: Some(json!("a")) });
        assert_eq!(fields["z"], FieldValues { allowed: Vec::new(), default: Some(json!(0)) });
        for malformed in ["Type x", "Type x=None", "Type x=:a"] {
            assert!(parse(malformed).is_err(), "{malformed}");
        }
    }

    #[test]
    fn defaults_are_declared_or_follow_from_the_type() {
        for (name, field, want) in [
            ("core.v1.Pod", "metadata", Some(json!({}))),
            ("core.v1.Pod", "kind", None),
            ("core.v1.ContainerPort", "protocol", Some(json!("TCP"))),
            ("core.v1.ContainerPort", "containerPort", Some(json!(0))),
            ("core.v1.ContainerPort", "hostPort", None),
            ("core.v1.PodSpec", "securityContext", None),
            ("core.v1.PodSpec", "containers", None),
            ("core.v1.NodeStatus", "daemonEndpoints", Some(json!({}))),
            ("core.v1.ServicePort", "targetPort", None),
            ("core.v1.NodeCondition", "lastHeartbeatTime", None),
            ("core.v1.ResourceFieldSelector", "divisor", None),
            ("storage.v1.VolumeAttachmentStatus", "attached", Some(json!(false))),
        ] {
            let ty = types().named(&format!("io.k8s.api.{name}")).map(|id| types().get(id)).expect(name);
            assert_eq!(document_default(ty, ty.field(field).expect(field)), want, "{name} {field}");
        }
    }
}
