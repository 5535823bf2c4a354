//! Encodes an OpenAPI v3 document. The tables contain the field numbers of gnostic's `OpenAPIv3.proto`; they omit the
//! fields that no document uses.

use serde_json::Value;

use super::message::{Message, members};

/// A message of gnostic.
struct Layout {
    fields: &'static [(&'static str, u32, Form)],
    /// The number of the extensions.
    extensions: u32,
    /// Whether a reference can replace the message. Both are then in a message of their own.
    or_reference: bool,
}

/// The form of a field. A list is a repeated field.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Flag,
    Count,
    Number,
    Yaml,
    Message(&'static Layout),
    /// A map: a message with the entries under this number.
    Map(&'static Layout, u32),
    /// A schema that cannot be a reference.
    Not,
    /// A list of schemas in a message of its own.
    Items,
    /// A schema or a boolean.
    Additional,
    /// A number, a boolean or a string. Other defaults have no form.
    Default,
}

static DOCUMENT: Layout = Layout {
    fields: &[
        ("openapi", 1, Form::Text),
        ("info", 2, Form::Message(&INFO)),
        ("paths", 4, Form::Map(&PATH_ITEM, 1)),
        ("components", 5, Form::Message(&COMPONENTS)),
    ],
    extensions: 9,
    or_reference: false,
};

static INFO: Layout = Layout {
    fields: &[("title", 1, Form::Text), ("description", 2, Form::Text), ("version", 6, Form::Text)],
    extensions: 7,
    or_reference: false,
};

static COMPONENTS: Layout = Layout {
    fields: &[
        ("schemas", 1, Form::Map(&SCHEMA, 1)),
        ("responses", 2, Form::Map(&RESPONSE, 1)),
        ("parameters", 3, Form::Map(&PARAMETER, 1)),
        ("requestBodies", 5, Form::Map(&REQUEST_BODY, 1)),
        ("securitySchemes", 7, Form::Map(&SECURITY_SCHEME, 1)),
    ],
    extensions: 10,
    or_reference: false,
};

static SECURITY_SCHEME: Layout = Layout {
    fields: &[
        ("type", 1, Form::Text),
        ("description", 2, Form::Text),
        ("name", 3, Form::Text),
        ("in", 4, Form::Text),
        ("scheme", 5, Form::Text),
    ],
    extensions: 9,
    or_reference: true,
};

static PATH_ITEM: Layout = Layout {
    fields: &[
        ("summary", 2, Form::Text),
        ("description", 3, Form::Text),
        ("get", 4, Form::Message(&OPERATION)),
        ("put", 5, Form::Message(&OPERATION)),
        ("post", 6, Form::Message(&OPERATION)),
        ("delete", 7, Form::Message(&OPERATION)),
        ("options", 8, Form::Message(&OPERATION)),
        ("head", 9, Form::Message(&OPERATION)),
        ("patch", 10, Form::Message(&OPERATION)),
        ("trace", 11, Form::Message(&OPERATION)),
        ("parameters", 13, Form::Message(&PARAMETER)),
    ],
    extensions: 14,
    or_reference: false,
};

static OPERATION: Layout = Layout {
    fields: &[
        ("tags", 1, Form::Text),
        ("summary", 2, Form::Text),
        ("description", 3, Form::Text),
        ("operationId", 5, Form::Text),
        ("parameters", 6, Form::Message(&PARAMETER)),
        ("requestBody", 7, Form::Message(&REQUEST_BODY)),
        ("responses", 8, Form::Map(&RESPONSE, 2)),
        ("deprecated", 10, Form::Flag),
    ],
    extensions: 13,
    or_reference: false,
};

static PARAMETER: Layout = Layout {
    fields: &[
        ("name", 1, Form::Text),
        ("in", 2, Form::Text),
        ("description", 3, Form::Text),
        ("required", 4, Form::Flag),
        ("deprecated", 5, Form::Flag),
        ("schema", 10, Form::Message(&SCHEMA)),
    ],
    extensions: 14,
    or_reference: true,
};

static REQUEST_BODY: Layout = Layout {
    fields: &[
        ("description", 1, Form::Text),
        ("content", 2, Form::Map(&MEDIA_TYPE, 1)),
        ("required", 3, Form::Flag),
    ],
    extensions: 4,
    or_reference: true,
};

static RESPONSE: Layout = Layout {
    fields: &[("description", 1, Form::Text), ("content", 3, Form::Map(&MEDIA_TYPE, 1))],
    extensions: 5,
    or_reference: true,
};

static MEDIA_TYPE: Layout =
    Layout { fields: &[("schema", 1, Form::Message(&SCHEMA))], extensions: 5, or_reference: false };

static SCHEMA: Layout = Layout {
    fields: &[
        ("nullable", 1, Form::Flag),
        ("deprecated", 8, Form::Flag),
        ("title", 9, Form::Text),
        ("multipleOf", 10, Form::Number),
        ("maximum", 11, Form::Number),
        ("exclusiveMaximum", 12, Form::Flag),
        ("minimum", 13, Form::Number),
        ("exclusiveMinimum", 14, Form::Flag),
        ("maxLength", 15, Form::Count),
        ("minLength", 16, Form::Count),
        ("pattern", 17, Form::Text),
        ("maxItems", 18, Form::Count),
        ("minItems", 19, Form::Count),
        ("uniqueItems", 20, Form::Flag),
        ("maxProperties", 21, Form::Count),
        ("minProperties", 22, Form::Count),
        ("required", 23, Form::Text),
        ("enum", 24, Form::Yaml),
        ("type", 25, Form::Text),
        ("allOf", 26, Form::Message(&SCHEMA)),
        ("oneOf", 27, Form::Message(&SCHEMA)),
        ("anyOf", 28, Form::Message(&SCHEMA)),
        ("not", 29, Form::Not),
        ("items", 30, Form::Items),
        ("properties", 31, Form::Map(&SCHEMA, 1)),
        ("additionalProperties", 32, Form::Additional),
        ("default", 33, Form::Default),
        ("description", 34, Form::Text),
        ("format", 35, Form::Text),
    ],
    extensions: 36,
    or_reference: true,
};

/// Encodes a document.
pub(crate) fn encode(document: &Value) -> Vec<u8> {
    fields(&DOCUMENT, document).bytes
}

fn message(layout: &Layout, value: &Value) -> Message {
    if layout.or_reference && value["$ref"].is_string() {
        let mut reference = Message::default();
        reference.text(1, &value["$ref"]);
        return reference.within(2);
    }
    let out = fields(layout, value);
    if layout.or_reference { out.within(1) } else { out }
}

/// Encodes the fields of a message.
fn fields(layout: &Layout, value: &Value) -> Message {
    let mut out = Message::default();
    for (name, number, form) in layout.fields {
        match (&value[*name], form) {
            (Value::Null, _) | (Value::Array(_), Form::Default) => {}
            (Value::Array(items), form) => items.iter().for_each(|item| put(&mut out, *number, *form, item)),
            (value, form) => put(&mut out, *number, *form, value),
        }
    }
    for (name, content) in members(value).filter(|(name, _)| name.starts_with("x-")) {
        out.named(layout.extensions, name, Message::yaml(content));
    }
    out
}

fn put(out: &mut Message, number: u32, form: Form, value: &Value) {
    match form {
        Form::Text => out.text(number, value),
        Form::Flag if value == true => out.integer(number, 1),
        Form::Flag => {}
        Form::Count => out.integer(number, value.as_u64().unwrap_or_default()),
        Form::Number => out.double(number, value.as_f64().unwrap_or_default()),
        Form::Yaml => out.message(number, Message::yaml(value)),
        Form::Message(layout) => out.message(number, message(layout, value)),
        Form::Map(layout, entries) => {
            let mut map = Message::default();
            for (name, value) in members(value) {
                map.named(entries, name, message(layout, value));
            }
            out.message(number, map);
        }
        Form::Not => out.message(number, fields(&SCHEMA, value)),
        Form::Items => out.message(number, message(&SCHEMA, value).within(1)),
        Form::Additional => {
            let mut either = Message::default();
            match value {
                Value::Bool(flag) => either.integer(2, u64::from(*flag)),
                schema => either.message(1, message(&SCHEMA, schema)),
            }
            out.message(number, either);
        }
        Form::Default => {
            let mut default = Message::default();
            match value {
                Value::Number(number) => default.double(1, number.as_f64().unwrap_or_default()),
                Value::Bool(flag) => default.integer(2, u64::from(*flag)),
                Value::String(text) => default.bytes(3, text.as_bytes()),
                Value::Null | Value::Array(_) | Value::Object(_) => return,
            }
            out.message(number, default);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn schemas_have_gnostics_field_numbers() {
        for (case, schema, want) in [
            ("1 a type", json!({"type": "string"}), &b"\x0a\x09\xca\x01\x06string"[..]),
            ("2 a reference", json!({"$ref": "#/a"}), b"\x12\x05\x0a\x03#/a"),
            ("3 a flag that is not set", json!({"nullable": false}), b"\x0a\x00"),
            ("4 a flag", json!({"nullable": true}), b"\x0a\x02\x08\x01"),
            ("5 a default", json!({"default": "a"}), b"\x0a\x06\x8a\x02\x03\x1a\x01a"),
            ("6 a default without a form", json!({"default": {}}), b"\x0a\x00"),
            (
                "7 items",
                json!({"items": {"$ref": "#/a"}}),
                b"\x0a\x0c\xf2\x01\x09\x0a\x07\x12\x05\x0a\x03#/a",
            ),
            ("8 an allowed value", json!({"enum": ["a"]}), b"\x0a\x09\xc2\x01\x06\x12\x04\"a\"\n"),
            ("9 open", json!({"additionalProperties": true}), b"\x0a\x05\x82\x02\x02\x10\x01"),
        ] {
            assert_eq!(message(&SCHEMA, &schema).bytes, want, "{case}");
        }
    }
}
