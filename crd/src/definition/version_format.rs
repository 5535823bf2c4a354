//! Versions in the format of upstream's error messages: its internal structs as JSON, with Go's field names, in the order of the struct,
//! including empty fields. The parts that all versions share are not in the versions.

use orlop_api::go_json;
use serde_json::{Map, Value};

use super::part::Shared;
use crate::rules;

/// Maximum length of the text, bytes. Upstream has no limit, but a schema of two bytes takes a thousand here.
const MAX_TEXT: usize = 1 << 18;

/// How a value is printed, and the substitute for a missing one.
#[derive(Clone, Copy)]
enum Form {
    /// A string; missing is `""`.
    Text,
    /// A boolean; missing is `false`.
    Flag,
    /// A number; missing is `0`.
    Count,
    /// Any JSON; missing is `null`.
    Plain,
    /// A struct; missing is `null`.
    Struct(&'static [Field]),
    /// A list of structs; missing is `null`.
    Structs(&'static [Field]),
    /// A schema; missing is `null`.
    Schema,
    /// A list of schemas; missing is `null`.
    Schemas,
    /// A map of schemas; missing is `null`.
    SchemaMap,
    /// A schema or a list of schemas.
    SchemaOrList,
    /// A schema or a boolean.
    SchemaOrFlag,
    /// A map of schemas and of lists of strings.
    Dependencies,
    /// A list of validation rules.
    Rules,
}

/// Go's name, the JSON name, and the form of a field.
type Field = (&'static str, &'static str, Form);

const SCHEMA: &[Field] = &[
    ("ID", "id", Form::Text),
    ("Schema", "$schema", Form::Text),
    ("Ref", "$ref", Form::Plain),
    ("Description", "description", Form::Text),
    ("Type", "type", Form::Text),
    ("Nullable", "nullable", Form::Flag),
    ("Format", "format", Form::Text),
    ("Title", "title", Form::Text),
    ("Default", "default", Form::Plain),
    ("Maximum", "maximum", Form::Plain),
    ("ExclusiveMaximum", "exclusiveMaximum", Form::Flag),
    ("Minimum", "minimum", Form::Plain),
    ("ExclusiveMinimum", "exclusiveMinimum", Form::Flag),
    ("MaxLength", "maxLength", Form::Plain),
    ("MinLength", "minLength", Form::Plain),
    ("Pattern", "pattern", Form::Text),
    ("MaxItems", "maxItems", Form::Plain),
    ("MinItems", "minItems", Form::Plain),
    ("UniqueItems", "uniqueItems", Form::Flag),
    ("MultipleOf", "multipleOf", Form::Plain),
    ("Enum", "enum", Form::Plain),
    ("MaxProperties", "maxProperties", Form::Plain),
    ("MinProperties", "minProperties", Form::Plain),
    ("Required", "required", Form::Plain),
    ("Items", "items", Form::SchemaOrList),
    ("AllOf", "allOf", Form::Schemas),
    ("OneOf", "oneOf", Form::Schemas),
    ("AnyOf", "anyOf", Form::Schemas),
    ("Not", "not", Form::Schema),
    ("Properties", "properties", Form::SchemaMap),
    ("AdditionalProperties", "additionalProperties", Form::SchemaOrFlag),
    ("PatternProperties", "patternProperties", Form::SchemaMap),
    ("Dependencies", "dependencies", Form::Dependencies),
    ("AdditionalItems", "additionalItems", Form::SchemaOrFlag),
    ("Definitions", "definitions", Form::SchemaMap),
    (
        "ExternalDocs",
        "externalDocs",
        Form::Struct(&[("Description", "description", Form::Text), ("URL", "url", Form::Text)]),
    ),
    ("Example", "example", Form::Plain),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", Form::Plain),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", Form::Flag),
    ("XIntOrString", "x-kubernetes-int-or-string", Form::Flag),
    ("XListMapKeys", "x-kubernetes-list-map-keys", Form::Plain),
    ("XListType", "x-kubernetes-list-type", Form::Plain),
    ("XMapType", "x-kubernetes-map-type", Form::Plain),
    ("XValidations", "x-kubernetes-validations", Form::Rules),
];

const SUBRESOURCES: &[Field] = &[
    ("Status", "status", Form::Struct(&[])),
    (
        "Scale",
        "scale",
        Form::Struct(&[
            ("SpecReplicasPath", "specReplicasPath", Form::Text),
            ("StatusReplicasPath", "statusReplicasPath", Form::Text),
            ("LabelSelectorPath", "labelSelectorPath", Form::Plain),
        ]),
    ),
];

const COLUMN: &[Field] = &[
    ("Name", "name", Form::Text),
    ("Type", "type", Form::Text),
    ("Format", "format", Form::Text),
    ("Description", "description", Form::Text),
    ("Priority", "priority", Form::Count),
    ("JSONPath", "jsonPath", Form::Text),
];

const VERSION: &[Field] = &[
    ("Name", "name", Form::Text),
    ("Served", "served", Form::Flag),
    ("Storage", "storage", Form::Flag),
    ("Deprecated", "deprecated", Form::Flag),
    ("DeprecationWarning", "deprecationWarning", Form::Plain),
    ("Schema", "schema", Form::Struct(&[("OpenAPIV3Schema", "openAPIV3Schema", Form::Schema)])),
    ("Subresources", "subresources", Form::Struct(SUBRESOURCES)),
    ("AdditionalPrinterColumns", "additionalPrinterColumns", Form::Structs(COLUMN)),
    ("SelectableFields", "selectableFields", Form::Structs(&[("JSONPath", "jsonPath", Form::Text)])),
];

/// Returns the versions as upstream prints them. Schemas are omitted if the text would be too long.
pub(super) fn show(versions: &[Value], shared: &Shared) -> String {
    let mut hidden: Vec<&str> = [
        ("schema", shared.schema),
        ("subresources", shared.subresources),
        ("additionalPrinterColumns", shared.columns),
        ("selectableFields", shared.selectable),
    ]
    .into_iter()
    .filter_map(|(name, is_shared)| is_shared.then_some(name))
    .collect();
    let whole = show_without(versions, &hidden);
    if whole.len() <= MAX_TEXT {
        return whole;
    }
    hidden.push("schema");
    show_without(versions, &hidden)
}

/// Returns a schema as upstream prints it; `None` if the text would be too long.
pub(super) fn show_schema(value: &Value) -> Option<String> {
    let mut text = String::new();
    schema(&mut text, value);
    Some(text).filter(|text| text.len() <= MAX_TEXT)
}

/// Returns the fields of a schema that have a value, with Go's names, in the order of the struct.
pub(super) fn set_fields(schema: &Value) -> impl Iterator<Item = &'static str> {
    let is_set = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Bool(true) | Value::Number(_) => true,
    };
    SCHEMA.iter().filter(move |(_, json, _)| schema.get(json).is_some_and(is_set)).map(|(name, ..)| *name)
}

fn show_without(versions: &[Value], hidden: &[&str]) -> String {
    let mut text = String::new();
    list(&mut text, versions, |text, version| {
        let mut version = version.as_object().cloned().unwrap_or_default();
        version.retain(|name, _| !hidden.contains(&name.as_str()));
        fields(text, VERSION, &Value::Object(version));
    });
    text
}

fn fields(text: &mut String, fields: &[Field], of: &Value) {
    text.push('{');
    for (at, (name, json, form)) in fields.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        text.push_str(&format!("\"{name}\":"));
        write(text, *form, of.get(json).filter(|value| !value.is_null()));
    }
    text.push('}');
}

fn write(text: &mut String, form: Form, value: Option<&Value>) {
    let Some(value) = value else {
        return text.push_str(match form {
            Form::Text => "\"\"",
            Form::Flag => "false",
            Form::Count => "0",
            _ => "null",
        });
    };
    let items = || value.as_array().map_or(&[][..], Vec::as_slice);
    match form {
        Form::Text | Form::Flag | Form::Count | Form::Plain => text.push_str(&go_json::encode(value)),
        Form::Struct(members) => fields(text, members, value),
        Form::Structs(members) => list(text, items(), |text, item| fields(text, members, item)),
        Form::Schema => schema(text, value),
        Form::Schemas => list(text, items(), schema),
        Form::SchemaMap => map(text, value, schema),
        Form::SchemaOrList => {
            text.push_str("{\"Schema\":");
            write(text, Form::Schema, Some(value).filter(|value| value.is_object()));
            text.push_str(",\"JSONSchemas\":");
            write(text, Form::Schemas, Some(value).filter(|value| value.is_array()));
            text.push('}');
        }
        Form::SchemaOrFlag => {
            text.push_str(&format!("{{\"Allows\":{},\"Schema\":", value.as_bool().unwrap_or(true)));
            write(text, Form::Schema, Some(value).filter(|value| value.is_object()));
            text.push('}');
        }
        Form::Dependencies => map(text, value, |text, value| {
            text.push_str("{\"Schema\":");
            write(text, Form::Schema, Some(value).filter(|value| value.is_object()));
            text.push_str(",\"Property\":");
            write(text, Form::Plain, Some(value).filter(|value| value.is_array()));
            text.push('}');
        }),
        Form::Rules => list(text, items(), |text, rule| text.push_str(&rules::shown(rule))),
    }
}

/// Appends a schema, unless the text is too long.
fn schema(text: &mut String, value: &Value) {
    if text.len() <= MAX_TEXT {
        fields(text, SCHEMA, value);
    }
}

fn list(text: &mut String, items: &[Value], item: impl Fn(&mut String, &Value)) {
    text.push('[');
    for (at, value) in items.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        item(text, value);
    }
    text.push(']');
}

fn map(text: &mut String, value: &Value, item: impl Fn(&mut String, &Value)) {
    text.push('{');
    for (at, (name, value)) in value.as_object().unwrap_or(&Map::new()).iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        text.push_str(&go_json::encode(&Value::from(name.as_str())));
        text.push(':');
        item(text, value);
    }
    text.push('}');
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The printed versions as JSON, without the fields that are empty.
    fn shown(versions: &Value) -> Value {
        let versions = versions.as_array().unwrap();
        let text = show(versions, &Shared::of(versions));
        without_empty(serde_json::from_str(&text).unwrap())
    }

    fn without_empty(value: Value) -> Value {
        let is_empty = |value: &Value| value.is_null() || value == "" || value == false || value == 0;
        match value {
            Value::Object(members) => members
                .into_iter()
                .filter(|(_, value)| !is_empty(value))
                .map(|(name, value)| (name, without_empty(value)))
                .collect(),
            Value::Array(items) => items.into_iter().map(without_empty).collect(),
            other => other,
        }
    }

    #[test]
    fn versions_are_printed_with_the_parts_that_differ() {
        let column = json!({"name": "A", "type": "string", "jsonPath": ".a"});
        let v1 = json!({
            "name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object"}},
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.a", "statusReplicasPath": ".status.a"}},
            "additionalPrinterColumns": [column], "selectableFields": [{"jsonPath": ".a"}],
        });
        let mut v2 = json!({"name": "v2", "deprecated": true, "deprecationWarning": "old"});
        assert_eq!(
            shown(&json!([v1, v2])),
            json!([
                {
                    "Name": "v1", "Served": true, "Storage": true,
                    "Schema": {"OpenAPIV3Schema": {"Type": "object"}},
                    "Subresources": {"Status": {}, "Scale": {
                        "SpecReplicasPath": ".spec.a", "StatusReplicasPath": ".status.a",
                    }},
                    "AdditionalPrinterColumns": [{"Name": "A", "Type": "string", "JSONPath": ".a"}],
                    "SelectableFields": [{"JSONPath": ".a"}],
                },
                {"Name": "v2", "Deprecated": true, "DeprecationWarning": "old"},
            ])
        );
        for part in ["schema", "subresources", "additionalPrinterColumns", "selectableFields"] {
            v2[part] = v1[part].clone();
        }
        assert_eq!(
            shown(&json!([v1, v2])),
            json!([
                {"Name": "v1", "Served": true, "Storage": true},
                {"Name": "v2", "Deprecated": true, "DeprecationWarning": "old"},
            ])
        );
    }

    #[test]
    fn schemas_are_printed_with_all_their_fields() {
        let schema = json!({
            "type": "object", "description": "<d>", "default": {"b": 1, "a": 1.5}, "maximum": 5.0, "enum": ["x", null],
            "items": {"type": "string"}, "allOf": [{"not": {"nullable": true}}], "additionalProperties": {"type": "integer"},
            "properties": {"b": {"additionalProperties": true}, "a": {"items": [{"$ref": "#/x"}]}},
            "dependencies": {"s": {"title": "t"}, "l": ["p"]}, "externalDocs": {"url": "u"},
            "x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-list-map-keys": ["k"],
            "x-kubernetes-validations": [{"rule": "self < 1"}],
        });
        let versions = json!([
            {"name": "v1", "schema": {"openAPIV3Schema": schema}},
            {"name": "v2", "schema": {"openAPIV3Schema": {}}},
        ]);
        let text = show(versions.as_array().unwrap(), &Shared::of(versions.as_array().unwrap()));
        for part in [
            "\"Description\":\"\\u003cd\\u003e\"",
            "\"Default\":{\"a\":1.5,\"b\":1}",
            "\"Maximum\":5,\"ExclusiveMaximum\":false",
            "\"Rule\":\"self \\u003c 1\"",
            "\"Properties\":null,\"AdditionalProperties\":{\"Allows\":true,\"Schema\":null},\"PatternProperties\":null",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let shown = shown(&versions);
        assert_eq!(shown[1], json!({"Name": "v2", "Schema": {"OpenAPIV3Schema": {}}}));
        assert_eq!(
            shown[0]["Schema"]["OpenAPIV3Schema"],
            json!({
                "Type": "object", "Description": "<d>", "Default": {"b": 1, "a": 1.5}, "Maximum": 5, "Enum": ["x", null],
                "Items": {"Schema": {"Type": "string"}}, "AllOf": [{"Not": {"Nullable": true}}],
                "AdditionalProperties": {"Allows": true, "Schema": {"Type": "integer"}},
                "Properties": {
                    "a": {"Items": {"JSONSchemas": [{"Ref": "#/x"}]}},
                    "b": {"AdditionalProperties": {"Allows": true}},
                },
                "Dependencies": {"s": {"Schema": {"Title": "t"}}, "l": {"Property": ["p"]}}, "ExternalDocs": {"URL": "u"},
                "XPreserveUnknownFields": true, "XListMapKeys": ["k"], "XValidations": [{"Rule": "self < 1"}],
            })
        );
    }

    #[test]
    fn long_schemas_are_omitted() {
        let many: Map<String, Value> = (0..MAX_TEXT / 500).map(|at| (format!("p{at}"), json!({}))).collect();
        let versions = json!([
            {"name": "v1", "schema": {"openAPIV3Schema": {"properties": many}}},
            {"name": "v2"},
        ]);
        assert_eq!(shown(&versions), json!([{"Name": "v1"}, {"Name": "v2"}]));
    }
}
