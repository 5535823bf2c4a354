//! The operations of custom kinds. They differ from those of built-in kinds as upstream
//! (apiextensions-apiserver/pkg/controller/openapi/builder).

use super::names::{Naming, title, with_article};
use super::parameters::{DELETING, GETTING, LISTING, NAMESPACE, PATCHING, PRETTY, Parameter, WRITING};
use super::{Body, Content, JSON, OK, OK_ACCEPTED, OK_CREATED, OK_CREATED_ACCEPTED, Route, YAML};
use crate::resource::ResourceDoc;
use crate::schemas::{DELETE_OPTIONS, PATCH, STATUS};

/// The media types of bodies and responses.
const MEDIA: &[&str] = &[JSON, YAML];
/// The media types of patches.
const PATCHES: &[&str] =
    &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];

pub(super) fn routes(resource: &ResourceDoc) -> Vec<Route> {
    let custom = Custom { resource, naming: Naming::of(resource.group, resource.version) };
    let collection = resource.collection_path();
    let list = resource.list_schema();
    let (object, kind) = (resource.schema, resource.kind);
    let mut routes = Vec::new();
    if resource.namespaced {
        let path = format!("/{}/{}", resource.document_path(), resource.plural);
        let mut route = custom.route(&path, "", "list", &list);
        route.id = custom.naming.id("list", &format!("{kind}ForAllNamespaces"));
        routes.push(route);
    }
    routes.push(custom.route(&collection, "", "list", &list));
    routes.push(custom.route(&collection, "", "post", object));
    routes.push(custom.route(&collection, "", "deletecollection", STATUS));
    let item = format!("{collection}/{{name}}");
    routes.push(custom.route(&item, "", "get", object));
    routes.push(custom.route(&item, "", "put", object));
    routes.push(custom.route(&item, "", "delete", STATUS));
    routes.push(custom.route(&item, "", "patch", object));
    for sub in &resource.subresources {
        let path = format!("{item}/{}", sub.name);
        for action in ["get", "put", "patch"] {
            routes.push(custom.route(&path, sub.name, action, sub.schema));
        }
    }
    routes
}

struct Custom<'a> {
    resource: &'a ResourceDoc,
    naming: Naming,
}

impl Custom<'_> {
    /// An operation whose responses have a schema.
    fn route(&self, path: &str, sub: &str, action: &'static str, schema: &str) -> Route {
        let kind = self.resource.kind;
        let mut parameters = vec![PRETTY.clone()];
        if path.contains("{namespace}") {
            parameters.push(NAMESPACE.clone());
        }
        if path.contains("{name}") {
            parameters.push(Parameter::object_name(kind));
        }
        let scope = if self.resource.namespaced { "Namespaced" } else { "" };
        let Rules { method, verb, id, options, codes, object } = rules(action);
        parameters.extend_from_slice(options);
        let part = if sub.is_empty() { String::new() } else { format!("{sub} of ") };
        let noun = match object {
            Noun::Specified => format!("the specified {kind}"),
            Noun::New => with_article(kind),
            Noun::Objects => format!("objects of kind {kind}"),
            Noun::Kind => kind.to_owned(),
        };
        let (id, collection) = id;
        let body = match action {
            "post" | "put" => Some(Body { schema: schema.to_owned(), is_required: true }),
            "patch" => Some(Body { schema: PATCH.to_owned(), is_required: true }),
            "delete" => Some(Body { schema: DELETE_OPTIONS.to_owned(), is_required: false }),
            _ => None,
        };
        Route {
            path: path.to_owned(),
            method,
            id: self.naming.id(id, &format!("{collection}{scope}{kind}{}", title(sub))),
            tag: self.naming.tag.clone(),
            description: format!("{verb} {part}{noun}"),
            action: Some((action, self.resource.gvk())),
            parameters,
            body,
            consumes: if action == "patch" { PATCHES } else { MEDIA },
            produces: MEDIA,
            answer: Content::Object(schema.to_owned()),
            codes,
        }
    }
}

/// The noun of a description.
enum Noun {
    Specified,
    New,
    Objects,
    Kind,
}

/// The parts of an operation that depend only on its action.
struct Rules {
    method: &'static str,
    /// The verb of the description.
    verb: &'static str,
    /// The start of the operation id, and the part after group and version.
    id: (&'static str, &'static str),
    options: &'static [Parameter],
    codes: &'static [(&'static str, &'static str)],
    object: Noun,
}

fn rules(action: &str) -> Rules {
    let (method, verb, id, options, codes, object) = match action {
        "list" => ("get", "list", ("list", ""), LISTING, OK, Noun::Objects),
        "post" => ("post", "create", ("create", ""), WRITING, OK_CREATED_ACCEPTED, Noun::New),
        "deletecollection" => {
            ("delete", "delete collection of", ("delete", "Collection"), LISTING, OK, Noun::Kind)
        }
        "put" => ("put", "replace", ("replace", ""), WRITING, OK_CREATED, Noun::Specified),
        "patch" => ("patch", "partially update", ("patch", ""), PATCHING, OK, Noun::Specified),
        "delete" => ("delete", "delete", ("delete", ""), DELETING, OK_ACCEPTED, Noun::New),
        _ => ("get", "read", ("read", ""), GETTING, OK, Noun::Specified),
    };
    Rules { method, verb, id, options, codes, object }
}
