//! Encodes the OpenAPI v2 document in protobuf, as gnostic's `openapi.v2.Document`: kubectl before 1.27
//! requests only this format.
//!
//! The encoder supports only what [`crate::v2`] puts into the document. The field numbers are those of gnostic's
//! `OpenAPIv2.proto`.

use serde_json::Value;

use super::message::{Message, members};

/// Encodes a document.
pub(crate) fn encode(document: &Value) -> Vec<u8> {
    let mut out = Message::default();
    out.text(1, &document["swagger"]);
    let mut info = Message::default();
    info.text(1, &document["info"]["title"]);
    info.text(2, &document["info"]["version"]);
    out.message(2, info);
    let mut paths = Message::default();
    for (path, item) in members(&document["paths"]) {
        paths.named(2, path, path_item(item));
    }
    out.message(8, paths);
    let mut definitions = Message::default();
    for (name, definition) in members(&document["definitions"]) {
        definitions.named(1, name, schema(definition));
    }
    out.message(9, definitions);
    out.bytes
}

fn path_item(item: &Value) -> Message {
    let operation = &item["patch"];
    let mut patch = Message::default();
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        // ParametersItem.parameter, Parameter.non_body_parameter,
        // NonBodyParameter.query_parameter_sub_schema
        let mut query = Message::default();
        query.text(2, &parameter["in"]);
        query.text(4, &parameter["name"]);
        query.text(6, &parameter["type"]);
        patch.message(8, query.within(3).within(2).within(1));
    }
    let mut responses = Message::default();
    for (code, response) in members(&operation["responses"]) {
        let mut content = Message::default();
        content.text(1, &response["description"]);
        responses.named(1, code, content.within(1));
    }
    patch.message(9, responses);
    extensions(operation, 13, &mut patch);
    patch.within(8)
}

fn schema(value: &Value) -> Message {
    let mut out = Message::default();
    out.text(1, &value["$ref"]);
    out.text(2, &value["format"]);
    out.text(4, &value["description"]);
    for name in value["required"].as_array().into_iter().flatten() {
        out.text(19, name);
    }
    if value["additionalProperties"].is_object() {
        out.message(21, schema(&value["additionalProperties"]).within(1));
    }
    if value["type"].is_string() {
        let mut kinds = Message::default();
        kinds.text(1, &value["type"]);
        out.message(22, kinds);
    }
    if value["items"].is_object() {
        out.message(23, schema(&value["items"]).within(1));
    }
    if value["properties"].is_object() {
        let mut properties = Message::default();
        for (name, property) in members(&value["properties"]) {
            properties.named(1, name, schema(property));
        }
        out.message(25, properties);
    }
    extensions(value, 31, &mut out);
    out
}

/// The fields that begin with `x-`, as `NamedAny` with YAML in it; JSON is valid YAML.
fn extensions(value: &Value, number: u32, out: &mut Message) {
    for (name, content) in members(value).filter(|(name, _)| name.starts_with("x-")) {
        out.named(number, name, Message::yaml(content));
    }
}
