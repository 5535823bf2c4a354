//! Documents of the endpoints that upstream documents besides resources: discovery, version, the keys of tokens.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json, to_value};
use utoipa::openapi::schema::ComponentsBuilder;

use crate::head::{VERSION, info, security_schemes};
use crate::operations::discovery::{self, API_GROUP, API_GROUP_LIST, API_VERSIONS, VERSION_INFO};
use crate::operations::{Route, v3};
use crate::schemas::{kinds_of_schemas, reachable_from};
use crate::types;
use crate::v3::structure;

/// The documents, by their path in the index.
pub(crate) fn documents(groups: &BTreeSet<&'static str>) -> Vec<(String, Value)> {
    let text = Map::new();
    let mut documents = vec![
        ("api".to_owned(), document(discovery::core_versions(), schemas(API_VERSIONS))),
        ("apis".to_owned(), document(discovery::groups(), schemas(API_GROUP_LIST))),
        (".well-known/openid-configuration".to_owned(), document(discovery::issuer(), text.clone())),
        ("openid/v1/jwks".to_owned(), document(discovery::keys(), text)),
        ("version".to_owned(), document(discovery::version(), version())),
    ];
    for group in groups {
        documents.push((format!("apis/{group}"), document(discovery::group(group), schemas(API_GROUP))));
    }
    documents
}

fn document(route: Route, schemas: Map<String, Value>) -> Value {
    let mut components = Map::from_iter([("securitySchemes".to_owned(), security_schemes())]);
    if !schemas.is_empty() {
        components.insert("schemas".to_owned(), schemas.into());
    }
    let paths: Map<String, Value> = v3::paths(&[route]).into_iter().collect();
    json!({"openapi": VERSION, "info": info(), "paths": paths, "components": components})
}

/// The schemas that are reachable from one.
fn schemas(root: &str) -> Map<String, Value> {
    let kinds = kinds_of_schemas(std::iter::empty());
    let structs = reachable_from(vec![root]).into_iter().filter_map(|name| {
        let kinds = kinds.get(name).map(|kinds| (crate::resource::GVK, json!(kinds)));
        Some((name, structure(types().get(types().named(name)?), kinds)))
    });
    let components = structs.fold(ComponentsBuilder::new(), |all, (name, schema)| all.schema(name, schema));
    match to_value(components.build()).map(|mut components| components["schemas"].take()) {
        Ok(Value::Object(schemas)) => schemas,
        _ => Map::new(),
    }
}

fn version() -> Map<String, Value> {
    Map::from_iter([(VERSION_INFO.to_owned(), version_info())])
}

/// The schema of the version: no type of the arena has it, because it exists only as JSON.
pub(crate) fn version_info() -> Value {
    let required = [
        "major",
        "minor",
        "gitVersion",
        "gitCommit",
        "gitTreeState",
        "buildDate",
        "goVersion",
        "compiler",
        "platform",
    ];
    let optional = ["emulationMajor", "emulationMinor", "minCompatibilityMajor", "minCompatibilityMinor"];
    let mut properties = Map::new();
    for name in required {
        properties.insert(name.to_owned(), json!({"type": "string", "default": ""}));
    }
    for name in optional {
        properties.insert(name.to_owned(), json!({"type": "string"}));
    }
    let description = "The Kubernetes release whose API the server implements, and the build of the server.";
    json!({"type": "object", "description": description, "required": required, "properties": properties})
}
