//! Encodes the OpenAPI v2 document in protobuf, as gnostic's `openapi.v2.Document`: kubectl before 1.27
//! requests only this format.
//!
//! The encoder supports only what [`crate::v2`] puts into the document. The field numbers are those of gnostic's
//! `OpenAPIv2.proto`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::message::{Message, members};

/// The fields of a path item, by method.
const METHODS: &[(&str, u32)] =
    &[("get", 2), ("put", 3), ("post", 4), ("delete", 5), ("options", 6), ("head", 7), ("patch", 8)];

/// A document under construction. It contains paths and definitions in encoded form, because they need many times the memory as
/// values.
#[derive(Default)]
pub(crate) struct Encoder {
    paths: BTreeMap<String, Message>,
    definitions: BTreeMap<String, Message>,
}

impl Encoder {
    pub(crate) fn path(&mut self, path: String, item: &Value) {
        self.paths.insert(path, path_item(item));
    }

    /// Adds a definition. It replaces a definition with the same name.
    pub(crate) fn definition(&mut self, name: String, definition: &Value) {
        self.definitions.insert(name, schema(definition));
    }

    /// The document; `head` has its other members.
    pub(crate) fn finish(self, head: &Value) -> Vec<u8> {
        let mut out = Message::default();
        out.text(1, &head["swagger"]);
        let mut info = Message::default();
        info.text(1, &head["info"]["title"]);
        info.text(2, &head["info"]["version"]);
        out.message(2, info);
        let mut paths = Message::default();
        for (path, item) in self.paths {
            paths.named(2, &path, item);
        }
        out.message(8, paths);
        let mut definitions = Message::default();
        for (name, definition) in self.definitions {
            definitions.named(1, &name, definition);
        }
        out.message(9, definitions);
        let mut parameters = Message::default();
        for (key, parameter) in members(&head["parameters"]) {
            parameters.named(1, key, self::parameter(parameter));
        }
        out.message(10, parameters);
        for requirement in list(&head["security"]) {
            let mut schemes = Message::default();
            for (name, _) in members(requirement) {
                schemes.named(1, name, Message::default());
            }
            out.message(12, schemes);
        }
        let mut schemes = Message::default();
        for (name, scheme) in members(&head["securityDefinitions"]) {
            schemes.named(1, name, api_key(scheme).within(2));
        }
        out.message(13, schemes);
        out.bytes
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn api_key(scheme: &Value) -> Message {
    let mut out = Message::default();
    for (name, number) in [("type", 1), ("name", 2), ("in", 3), ("description", 4)] {
        out.text(number, &scheme[name]);
    }
    out
}

fn path_item(item: &Value) -> Message {
    let mut out = Message::default();
    for (method, number) in METHODS {
        if item[*method].is_object() {
            out.message(*number, operation(&item[*method]));
        }
    }
    for parameter in list(&item["parameters"]) {
        out.message(9, parameters_item(parameter));
    }
    out
}

fn operation(operation: &Value) -> Message {
    let mut out = Message::default();
    let texts = |out: &mut Message, number: u32, name: &str| {
        list(&operation[name]).for_each(|text| out.text(number, text));
    };
    texts(&mut out, 1, "tags");
    out.text(3, &operation["description"]);
    out.text(5, &operation["operationId"]);
    texts(&mut out, 6, "produces");
    texts(&mut out, 7, "consumes");
    for parameter in list(&operation["parameters"]) {
        out.message(8, parameters_item(parameter));
    }
    let mut responses = Message::default();
    for (code, response) in members(&operation["responses"]) {
        let mut content = Message::default();
        content.text(1, &response["description"]);
        if response["schema"].is_object() {
            content.message(2, schema(&response["schema"]).within(1));
        }
        responses.named(1, code, content.within(1));
    }
    out.message(9, responses);
    texts(&mut out, 10, "schemes");
    extensions(operation, 13, &mut out);
    out
}

/// `ParametersItem`: a parameter or a reference to one.
fn parameters_item(value: &Value) -> Message {
    if value["$ref"].is_string() {
        let mut reference = Message::default();
        reference.text(1, &value["$ref"]);
        return reference.within(2);
    }
    parameter(value).within(1)
}

fn parameter(value: &Value) -> Message {
    let mut out = Message::default();
    let flag = |out: &mut Message, number: u32, name: &str| {
        if value[name] == true {
            out.integer(number, 1);
        }
    };
    if value["in"] == "body" {
        out.text(1, &value["description"]);
        out.text(2, &value["name"]);
        out.text(3, &value["in"]);
        flag(&mut out, 4, "required");
        out.message(5, schema(&value["schema"]));
        return out.within(1);
    }
    flag(&mut out, 1, "required");
    out.text(2, &value["in"]);
    out.text(3, &value["description"]);
    out.text(4, &value["name"]);
    // QueryParameterSubSchema has one field more than PathParameterSubSchema.
    let (kind, unique, number) = if value["in"] == "path" { (5, 19, 4) } else { (6, 20, 3) };
    out.text(kind, &value["type"]);
    flag(&mut out, unique, "uniqueItems");
    out.within(number).within(2)
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
