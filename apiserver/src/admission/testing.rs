//! For the plugins' tests: writes and facts from JSON.

use std::cell::RefCell;
use std::ops::ControlFlow;

use serde_json::Value;

use super::chain::Chain;
use super::plugin::Plugin;
use super::request::{Lookup, Operation, Request};
use crate::encode::head::ObjectHead;
use crate::encode::head::testing::head_at;
use crate::encode::undecoded::Undecoded;
use crate::encode::undecoded::testing::{Counted, DecodeCounter};
use crate::registry::{KINDS, Kind};
use orlop_api::object::Object;
use orlop_api::status::ApiError;
use orlop_auth::UserInfo;
use orlop_auth::request_info::{RequestInfo, RequestTarget};

fn kind(plural: &str) -> &'static dyn Kind {
    *KINDS.iter().find(|kind| kind.names().plural == plural).expect("a kind that is served")
}

/// The domain of the names on which all verbs are permitted.
pub(super) const PERMITTED_DOMAIN: &str = "permitted.example.org";

/// Objects that a plugin finds.
#[derive(Default)]
pub(super) struct Facts {
    objects: Vec<(&'static str, Object)>,
    /// Counts the visited objects that a plugin decodes.
    pub(super) decoded: DecodeCounter,
}

impl Facts {
    /// From pairs of plural and object.
    pub(super) fn new(objects: &[(&'static str, Value)]) -> Self {
        let objects = objects.iter().map(|(plural, object)| (*plural, Object::from_value(object.clone())));
        Facts { objects: objects.collect(), ..Facts::default() }
    }

    /// None.
    pub(super) fn none() -> Self {
        Facts::default()
    }
}

impl Lookup for Facts {
    /// Permits verbs on the resource `permitted`, and on all names of a domain.
    fn permits(&self, _user: &UserInfo, request: &RequestInfo) -> bool {
        let all = format!("{PERMITTED_DOMAIN}/*");
        matches!(&request.target, RequestTarget::Resource(target)
            if target.resource == "permitted" || target.name == all)
    }

    fn head(&self, kind: &dyn Kind, namespace: &str, name: &str) -> Option<ObjectHead> {
        self.get(kind, namespace, name).map(|object| head_at(kind, object.into_value(), 1))
    }

    fn get(&self, kind: &dyn Kind, namespace: &str, name: &str) -> Option<Object> {
        self.list(kind, Some(namespace)).find(|object| object.name() == name)
    }

    fn list<'a>(
        &'a self,
        kind: &'a dyn Kind,
        namespace: Option<&str>,
    ) -> Box<dyn Iterator<Item = Object> + 'a> {
        let plural = kind.names().plural;
        let namespace = namespace.map(str::to_owned);
        let inside = move |object: &Object| {
            namespace.as_deref().is_none_or(|namespace| object.namespace() == namespace)
        };
        Box::new(self.objects.iter().filter(move |(p, o)| *p == plural && inside(o)).map(|(_, o)| o.clone()))
    }

    fn visit(
        &self,
        kind: &dyn Kind,
        namespace: Option<&str>,
        visit: &mut dyn FnMut(&dyn Undecoded) -> ControlFlow<()>,
    ) {
        let counted = |object| Counted { object, counter: &self.decoded };
        // A break ends the visit.
        let _ = self.list(kind, namespace).try_for_each(|object| visit(&counted(object)));
    }

    fn size_without(&self, kind: &dyn Kind, namespace: Option<&str>, name: &str) -> usize {
        let others = self.list(kind, namespace).filter(|object| object.name() != name);
        others.map(|object| object.into_value().to_string().len()).sum()
    }
}

/// A write to put through a plugin.
pub(super) struct Write {
    kind: &'static dyn Kind,
    operation: Operation,
    namespace: &'static str,
    subresource: &'static str,
    user: UserInfo,
    is_collection: bool,
    object: Option<Object>,
    old: Option<Object>,
}

impl Write {
    fn new(plural: &str, operation: Operation, object: Option<Value>, old: Option<Value>) -> Self {
        Write {
            kind: kind(plural),
            operation,
            namespace: "",
            subresource: "",
            user: UserInfo::admin(),
            is_collection: false,
            object: object.map(Object::from_value),
            old: old.map(Object::from_value),
        }
    }

    pub(super) fn create(plural: &str, object: Value) -> Self {
        Self::new(plural, Operation::Create, Some(object), None)
    }

    pub(super) fn update(plural: &str, old: Value, object: Value) -> Self {
        Self::new(plural, Operation::Update, Some(object), Some(old))
    }

    pub(super) fn delete(plural: &str, old: Value) -> Self {
        Self::new(plural, Operation::Delete, None, Some(old))
    }

    pub(super) fn in_namespace(mut self, namespace: &'static str) -> Self {
        self.namespace = namespace;
        self
    }

    pub(super) fn to(mut self, subresource: &'static str) -> Self {
        self.subresource = subresource;
        self
    }

    /// The write of a node.
    pub(super) fn by_node(mut self, node: &str) -> Self {
        self.user = UserInfo::new(format!("system:node:{node}"), ["system:nodes".to_owned()]);
        self
    }

    /// As part of a write to a collection.
    pub(super) fn of_collection(mut self) -> Self {
        self.is_collection = true;
        self
    }

    fn with<T>(&mut self, run: impl FnOnce(&mut Request<'_>) -> T) -> T {
        let shown = self.object.as_ref().or(self.old.as_ref());
        let name = shown.map(Object::name).unwrap_or_default().to_owned();
        run(&mut Request {
            kind: self.kind,
            namespace: self.namespace,
            name: &name,
            path_name: if self.is_collection { "" } else { &name },
            user: &self.user,
            operation: self.operation,
            subresource: self.subresource,
            object: self.object.as_mut(),
            old: self.old.as_ref(),
            findings: RefCell::default(),
        })
    }

    /// Runs the plugin; the object after it, or the refusal.
    pub(super) fn mutate(&mut self, plugin: &dyn Plugin, facts: &Facts) -> Result<Value, ApiError> {
        self.with(|request| plugin.mutate(request, facts))?;
        Ok(self.object.clone().unwrap_or_default().into_value())
    }

    /// Runs the second half of all plugins.
    pub(super) fn validate_all(&mut self, chain: &Chain, facts: &Facts) -> Result<(), ApiError> {
        self.with(|request| chain.validate(request, facts))
    }

    /// Runs the plugin's second half, which must not reject; returns its warnings.
    pub(super) fn warnings(&mut self, plugin: &dyn Plugin, facts: &Facts) -> Vec<String> {
        self.with(|request| {
            plugin.validate(request, facts).expect("accepted");
            request.findings.borrow().warnings.clone()
        })
    }

    /// Runs the plugin's second half.
    pub(super) fn validate(&mut self, plugin: &dyn Plugin, facts: &Facts) -> Result<(), ApiError> {
        self.with(|request| plugin.validate(request, facts))
    }
}
