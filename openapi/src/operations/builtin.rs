//! The operations of built-in kinds. Paths, ids and descriptions are those of upstream
//! (apiserver/pkg/endpoints/installer.go).

use super::names::{Naming, title, with_article};
use super::parameters::{
    DELETING, LISTING, NAMESPACE, PATCHING, PRETTY, PROXIED_PATH, Parameter, WRITING, of_connection,
    selecting,
};
use super::{ANY, Body, Content, MEDIA, OK, OK_ACCEPTED, OK_CREATED, OK_CREATED_ACCEPTED, Route, STREAMED};
use crate::resource::{ResourceDoc, SubresourceDoc, gvk};
use crate::schemas::{DELETE_OPTIONS, PATCH, STATUS, WATCH_EVENT};

/// The media types of patches.
const PATCHES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];
/// The media types of logs.
const LOG: &[&str] = &["text/plain", super::JSON, super::YAML, super::PROTOBUF];
const METHODS: &[&str] = &["delete", "get", "head", "options", "patch", "post", "put"];

pub(super) fn routes(resource: &ResourceDoc) -> Vec<Route> {
    let target = Target::of(resource, None);
    let collection = resource.collection_path();
    let mut routes = target.collection(&collection);
    routes.extend(target.object(&format!("{collection}/{{name}}")));
    if resource.namespaced {
        routes.extend(target.all_namespaces());
    }
    for sub in &resource.subresources {
        let target = Target::of(resource, Some(sub));
        let path = format!("{collection}/{{name}}/{}", sub.name);
        match sub.schema {
            "" => routes.extend(target.connections(&path)),
            _ => routes.extend(target.object(&path)),
        }
        routes.extend(target.create(&path));
    }
    routes
}

/// A resource or a subresource.
struct Target<'a> {
    resource: &'a ResourceDoc,
    sub: Option<&'a SubresourceDoc>,
    naming: Naming,
    schema: &'static str,
    /// The kind of its objects.
    kind: &'static str,
    verbs: &'static [&'static str],
}

impl<'a> Target<'a> {
    fn of(resource: &'a ResourceDoc, sub: Option<&'a SubresourceDoc>) -> Self {
        let naming = Naming::of(resource.group, resource.version);
        let (schema, kind, verbs) = match sub {
            Some(sub) => (sub.schema, sub.kind, sub.verbs),
            None => (resource.schema, resource.kind, resource.verbs),
        };
        Target { resource, sub, naming, schema, kind, verbs }
    }

    fn has(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    fn is_watched(&self) -> bool {
        self.sub.is_none() && self.has("watch")
    }

    /// The kind and the subresource in operation ids, such as `NamespacedPodStatus`.
    fn id(&self) -> String {
        let scope = if self.resource.namespaced { "Namespaced" } else { "" };
        format!("{scope}{}{}", self.resource.kind, title(self.sub.map_or("", |sub| sub.name)))
    }

    /// The beginning of a description, such as `read status of `.
    fn action_of(&self, action: &str) -> String {
        self.sub.map_or_else(|| format!("{action} "), |sub| format!("{action} {} of ", sub.name))
    }

    /// An operation. The path parameters follow from the path.
    fn route(&self, path: &str, method: &'static str, action: &'static str) -> Route {
        let mut parameters = Vec::new();
        if path.contains("{namespace}") {
            parameters.push(NAMESPACE.clone());
        }
        if path.contains("{name}") {
            parameters.push(Parameter::object_name(self.kind));
        }
        if path.contains("{path}") {
            parameters.push(PROXIED_PATH.clone());
        }
        if action != "connect" {
            parameters.push(PRETTY.clone());
        }
        let (group, version) =
            self.sub.map_or((self.resource.group, self.resource.version), |sub| (sub.group, sub.version));
        Route {
            path: path.to_owned(),
            method,
            id: String::new(),
            tag: self.naming.tag.clone(),
            description: String::new(),
            action: Some((action, gvk(group, version, self.kind))),
            parameters,
            body: None,
            consumes: ANY,
            produces: MEDIA,
            answer: Content::Object(self.schema.to_owned()),
            codes: OK,
        }
    }

    fn body(&self) -> Option<Body> {
        Some(Body { schema: self.schema.to_owned(), is_required: true })
    }

    fn collection(&self, path: &str) -> Vec<Route> {
        let mut routes = Vec::new();
        if self.has("list") {
            routes.push(self.list(path, &self.id()));
        }
        routes.extend(self.create(path));
        if self.has("deletecollection") {
            let mut route = self.route(path, "delete", "deletecollection");
            route.id = self.naming.id("delete", &format!("Collection{}", self.id()));
            route.description = format!("delete collection of {}", self.kind);
            route.parameters.extend(DELETING.iter().chain(selecting()).cloned());
            route.body = Some(Body { schema: DELETE_OPTIONS.to_owned(), is_required: false });
            route.answer = Content::Object(STATUS.to_owned());
            routes.push(route);
        }
        if self.has("list") && self.is_watched() {
            routes.push(self.watch_list(&self.watch_path(path), &format!("{}List", self.id())));
        }
        routes
    }

    /// The lists and watches of the objects in all namespaces.
    fn all_namespaces(&self) -> Vec<Route> {
        let path = format!("/{}/{}", self.resource.document_path(), self.resource.plural);
        let kind = self.resource.kind;
        let mut routes = Vec::new();
        if self.has("list") {
            routes.push(self.list(&path, &format!("{kind}ForAllNamespaces")));
            if self.is_watched() {
                routes.push(self.watch_list(&self.watch_path(&path), &format!("{kind}ListForAllNamespaces")));
            }
        }
        routes
    }

    /// The deprecated path of the watches of a path.
    fn watch_path(&self, path: &str) -> String {
        let start = format!("/{}/", self.resource.document_path());
        format!("{start}watch/{}", path.strip_prefix(&start).unwrap_or(path))
    }

    fn list(&self, path: &str, id: &str) -> Route {
        let mut route = self.route(path, "get", "list");
        route.id = self.naming.id("list", id);
        let verbs = if self.is_watched() { "list or watch" } else { "list" };
        route.description = format!("{verbs} objects of kind {}", self.kind);
        route.parameters.extend_from_slice(LISTING);
        route.produces = STREAMED;
        route.answer = Content::Object(self.resource.list_schema());
        route
    }

    fn watch_list(&self, path: &str, id: &str) -> Route {
        let description = format!(
            "watch individual changes to a list of {}. deprecated: use the 'watch' parameter with a list operation instead.",
            self.kind
        );
        self.watch(path, "watchlist", id, description)
    }

    fn watch(&self, path: &str, action: &'static str, id: &str, description: String) -> Route {
        let mut route = self.route(path, "get", action);
        route.id = self.naming.id("watch", id);
        route.description = description;
        route.parameters.extend_from_slice(LISTING);
        route.produces = STREAMED;
        route.answer = Content::Object(WATCH_EVENT.to_owned());
        route
    }

    fn create(&self, path: &str) -> Option<Route> {
        if !self.has("create") || self.schema.is_empty() {
            return None;
        }
        let mut route = self.route(path, "post", "post");
        route.id = self.naming.id("create", &self.id());
        route.description = format!("{}{}", self.action_of("create"), with_article(self.resource.kind));
        route.parameters.extend_from_slice(WRITING);
        route.body = self.body();
        route.codes = OK_CREATED_ACCEPTED;
        Some(route)
    }

    /// The operations on an object or a part of it.
    fn object(&self, path: &str) -> Vec<Route> {
        let kind = self.resource.kind;
        let the_specified = |action: &str| format!("{}the specified {kind}", self.action_of(action));
        let mut routes = Vec::new();
        if self.has("get") {
            let mut route = self.route(path, "get", "get");
            route.id = self.naming.id("read", &self.id());
            route.description = the_specified("read");
            routes.push(route);
        }
        if self.has("update") {
            let mut route = self.route(path, "put", "put");
            route.id = self.naming.id("replace", &self.id());
            route.description = the_specified("replace");
            route.parameters.extend_from_slice(WRITING);
            route.body = self.body();
            route.codes = OK_CREATED;
            routes.push(route);
        }
        if self.has("patch") {
            let mut route = self.route(path, "patch", "patch");
            route.id = self.naming.id("patch", &self.id());
            route.description = the_specified("partially update");
            route.parameters.extend_from_slice(PATCHING);
            route.body = Some(Body { schema: PATCH.to_owned(), is_required: true });
            route.consumes = PATCHES;
            route.codes = OK_CREATED;
            routes.push(route);
        }
        if self.has("delete") {
            let mut route = self.route(path, "delete", "delete");
            route.id = self.naming.id("delete", &self.id());
            route.description = format!("{}{}", self.action_of("delete"), with_article(kind));
            route.parameters.extend_from_slice(DELETING);
            route.body = Some(Body { schema: DELETE_OPTIONS.to_owned(), is_required: false });
            route.codes = OK_ACCEPTED;
            if !self.resource.delete_returns_object {
                route.answer = Content::Object(STATUS.to_owned());
            }
            routes.push(route);
        }
        if self.is_watched() {
            let description = format!(
                "watch changes to an object of kind {kind}. deprecated: use the 'watch' parameter with a list operation \
                 instead, filtered to a single item with the 'fieldSelector' parameter."
            );
            routes.push(self.watch(&self.watch_path(path), "watch", &self.id(), description));
        }
        routes
    }

    /// The log of a pod, or connections to a pod, a service or a node.
    fn connections(&self, path: &str) -> Vec<Route> {
        let is_log = self.verbs == ["get"];
        if is_log {
            let mut route = self.route(path, "get", "get");
            route.id = self.naming.id("read", &self.id());
            route.description = format!("{}the specified {}", self.action_of("read"), self.resource.kind);
            route.parameters.extend_from_slice(of_connection(self.kind));
            route.produces = LOG;
            route.answer = Content::Text;
            return vec![route];
        }
        // A proxied request has any method and any path.
        let is_proxy = self.has("update");
        let methods = METHODS.iter().filter(|method| is_proxy || matches!(**method, "get" | "post"));
        let mut routes = Vec::new();
        for method in methods {
            routes.push(self.connection(path, method, ""));
            if is_proxy {
                routes.push(self.connection(&format!("{path}/{{path}}"), method, "WithPath"));
            }
        }
        routes
    }

    fn connection(&self, path: &str, method: &'static str, suffix: &str) -> Route {
        let mut route = self.route(path, method, "connect");
        route.id = self.naming.id("connect", &format!("{}{}{suffix}", title(method), self.id()));
        let action = format!("connect {} requests to", method.to_uppercase());
        route.description = format!("{}{}", self.action_of(&action), self.resource.kind);
        route.parameters.extend_from_slice(of_connection(self.kind));
        route.produces = ANY;
        route.answer = Content::Text;
        route
    }
}
