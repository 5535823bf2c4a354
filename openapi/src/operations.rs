//! Paths and operations of the OpenAPI v3 documents.
//!
//! Clients look for three parts: `x-kubernetes-group-version-kind` and
//! `x-kubernetes-action`, which identify the operation, and the `fieldValidation` and `dryRun`
//! parameters, which show that the server supports them.

use serde_json::Value;
use utoipa::openapi::path::{
    OperationBuilder, Parameter, ParameterBuilder, ParameterIn, PathItem, PathItemBuilder, Paths,
    PathsBuilder,
};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{ArrayBuilder, Object, SchemaType, Type};
use utoipa::openapi::{ContentBuilder, Ref, Required};

use crate::extensions::extensions;
use crate::resource::{GVK, ResourceDoc, SubresourceDoc, gvk};
use crate::responses::{self, Answered, MEDIA};
use crate::schemas::DELETE_OPTIONS;
use crate::verb::{QueryParameter, Verb};

/// A list of operations; the other patch formats are objects.
const JSON_PATCH: &str = "application/json-patch+json";
const PATCHES: &[&str] = &[
    JSON_PATCH,
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

/// Every path of the resources.
pub(crate) fn paths(resources: &[&ResourceDoc]) -> Paths {
    let mut paths = PathsBuilder::new();
    for resource in resources {
        let collection = resource.collection_path();
        let namespaced = resource.namespaced;
        if let Some(item) = collection_item(resource) {
            paths = paths.path(&collection, with_path_parameters(item, namespaced, false));
        }
        if namespaced && resource.verbs.contains(&"list") {
            let item = operations([Verb::List].into_iter(), &Target::of(resource).across_namespaces());
            let path = format!("/{}/{}", resource.document_path(), resource.plural);
            paths = paths.path(path, with_path_parameters(item, false, false));
        }
        let item = operations(verbs(resource.verbs, Verb::ON_OBJECTS), &Target::of(resource));
        paths = paths.path(format!("{collection}/{{name}}"), with_path_parameters(item, namespaced, true));
        for sub in &resource.subresources {
            let verbs = verbs(sub.verbs, Verb::ON_SUBRESOURCES);
            let item = operations(verbs, &Target::of_subresource(resource, sub));
            let path = format!("{collection}/{{name}}/{}", sub.name);
            paths = paths.path(path, with_path_parameters(item, namespaced, true));
        }
    }
    paths.build()
}

fn collection_item(resource: &ResourceDoc) -> Option<PathItemBuilder> {
    let verbs: Vec<Verb> = verbs(resource.verbs, Verb::ON_COLLECTIONS).collect();
    (!verbs.is_empty()).then(|| operations(verbs.into_iter(), &Target::of(resource)))
}

fn verbs(given: &'static [&'static str], wanted: &'static [Verb]) -> impl Iterator<Item = Verb> {
    wanted.iter().copied().filter(move |verb| given.contains(&verb.name()))
}

/// The resource or subresource at a path.
struct Target {
    gvk: Value,
    schema: &'static str,
    list_schema: String,
    /// The suffix of its operation ids, such as `CoreV1NamespacedPodStatus`.
    id: String,
    tag: String,
    is_subresource: bool,
}

impl Target {
    fn of(resource: &ResourceDoc) -> Target {
        let group = resource.group.split('.').next().filter(|group| !group.is_empty()).unwrap_or("core");
        let scope = if resource.namespaced { "Namespaced" } else { "" };
        let (capital_group, version) = (capital(group), capital(resource.version));
        Target {
            gvk: resource.gvk(),
            schema: resource.schema,
            list_schema: format!("{}List", resource.schema),
            id: format!("{capital_group}{version}{scope}{}", resource.kind),
            tag: format!("{group}_{}", resource.version),
            is_subresource: false,
        }
    }

    fn of_subresource(resource: &ResourceDoc, sub: &SubresourceDoc) -> Target {
        let of = Target::of(resource);
        let id = format!("{}{}", of.id, capital(sub.name));
        let gvk = gvk(sub.group, sub.version, sub.kind);
        Target { gvk, schema: sub.schema, id, is_subresource: true, ..of }
    }

    fn across_namespaces(self) -> Target {
        Target { id: format!("{}ForAllNamespaces", self.id.replace("Namespaced", "")), ..self }
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn operations(verbs: impl Iterator<Item = Verb>, target: &Target) -> PathItemBuilder {
    verbs.fold(PathItemBuilder::new(), |item, verb| item.operation(verb.method(), operation(verb, target)))
}

fn operation(verb: Verb, target: &Target) -> OperationBuilder {
    let content = |schema: &str| ContentBuilder::new().schema(Some(Ref::from_schema_name(schema))).build();
    let answered =
        Answered { object: target.schema, list: &target.list_schema, is_subresource: target.is_subresource };
    let operation =
        OperationBuilder::new().tag(&target.tag).operation_id(Some(format!("{}{}", verb.id(), target.id)));
    let mut operation = responses::add(operation, verb, &answered)
        .extensions(extensions([(GVK, target.gvk.clone()), ("x-kubernetes-action", verb.action().into())]));
    for parameter in verb.parameters() {
        operation = operation.parameter(query(parameter));
    }
    let (body, media, required) = match verb {
        Verb::List | Verb::Get => return operation,
        Verb::Create | Verb::Update => (Some(target.schema), MEDIA, Required::True),
        Verb::Delete if target.is_subresource => return operation,
        Verb::Delete | Verb::DeleteCollection => (Some(DELETE_OPTIONS), MEDIA, Required::False),
        Verb::Patch => (None, PATCHES, Required::True),
    };
    let request = media.iter().fold(RequestBodyBuilder::new().required(Some(required)), |request, media| {
        let content = match body {
            Some(schema) => content(schema),
            None if *media == JSON_PATCH => {
                let step = Object::with_type(SchemaType::new(Type::Object));
                ContentBuilder::new().schema(Some(ArrayBuilder::new().items(step))).build()
            }
            None => {
                let any = Object::with_type(SchemaType::new(Type::Object));
                ContentBuilder::new().schema(Some(any)).build()
            }
        };
        request.content(*media, content)
    });
    operation.request_body(Some(request.build()))
}

fn query((name, kind, description): QueryParameter) -> Parameter {
    let kind = match kind {
        "boolean" => Type::Boolean,
        "integer" => Type::Integer,
        _ => Type::String,
    };
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Query)
        .required(Required::False)
        .description(Some(description))
        .schema(Some(Object::with_type(SchemaType::new(kind))))
        .build()
}

fn with_path_parameters(item: PathItemBuilder, namespaced: bool, named: bool) -> PathItem {
    let path = |name: &str, description: &str| {
        ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Path)
            .required(Required::True)
            .description(Some(description))
            .schema(Some(Object::with_type(SchemaType::new(Type::String))))
            .build()
    };
    let name = named.then(|| path("name", "Name of the object."));
    let namespace = namespaced.then(|| path("namespace", "Namespace of the object."));
    let pretty = query(("pretty", "string", "With true, the answer is indented."));
    item.parameters(Some(name.into_iter().chain(namespace).chain([pretty]))).build()
}
