//! A request, as policies and webhooks see it.

use std::borrow::Cow;

use orlop_api::object::Object;
use orlop_auth::UserInfo;
use serde_json::{Map, Value, json};

use crate::admission::request::Operation;
use crate::registry::{self, Kind, Names};

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdmissionOperation {
    Create,
    Update,
    Delete,
    Connect,
}

impl AdmissionOperation {
    /// The name in rules and reviews.
    pub(crate) fn text(self) -> &'static str {
        match self {
            AdmissionOperation::Create => "CREATE",
            AdmissionOperation::Update => "UPDATE",
            AdmissionOperation::Delete => "DELETE",
            AdmissionOperation::Connect => "CONNECT",
        }
    }
}

impl From<Operation> for AdmissionOperation {
    fn from(operation: Operation) -> Self {
        match operation {
            Operation::Create => AdmissionOperation::Create,
            Operation::Update => AdmissionOperation::Update,
            Operation::Delete => AdmissionOperation::Delete,
        }
    }
}

/// The kind of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupVersionKind {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
}

impl GroupVersionKind {
    pub(crate) fn of(names: &Names) -> Self {
        GroupVersionKind {
            group: names.group.to_owned(),
            version: names.version.to_owned(),
            kind: names.kind.to_owned(),
        }
    }

    /// `v1`, or `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    fn json(&self) -> Value {
        json!({"group": self.group, "version": self.version, "kind": self.kind})
    }
}

/// A request, without its objects.
#[derive(Clone)]
pub(crate) struct Attributes<'a> {
    pub(crate) operation: AdmissionOperation,
    /// The resource of the path.
    pub(crate) names: &'a Names,
    pub(crate) subresource: &'a str,
    /// `""` for cluster-scoped kinds; the name for namespaces.
    pub(crate) namespace: &'a str,
    /// `""` if it is still to be generated.
    pub(crate) name: &'a str,
    /// The kind of the object: that of the resource or of the subresource.
    pub(crate) kind: GroupVersionKind,
    /// Other forms of the same objects: the versions of a custom kind, whose objects differ only in `apiVersion`, the other group of
    /// Events, and the other version of autoscalers.
    pub(crate) equivalents: Vec<GroupVersionKind>,
    pub(crate) user: &'a UserInfo,
    pub(crate) dry_run: bool,
    /// The options of the request, such as `CreateOptions`.
    pub(crate) options: Value,
}

impl Attributes<'_> {
    /// Whether the request is to a namespace itself.
    pub(crate) fn is_namespace(&self) -> bool {
        self.names.group.is_empty() && self.names.plural == "namespaces"
    }

    /// The kinds of the request and of a match, if built-in kinds show the same objects in both forms.
    fn other_form(&self, kind: &GroupVersionKind) -> Option<(&'static dyn Kind, &'static dyn Kind)> {
        if (&kind.group, &kind.version) == (&self.kind.group, &self.kind.version) {
            return None;
        }
        let of = |group: &str, version: &str| registry::by_resource(group, version, self.names.plural);
        of(self.names.group, self.names.version).zip(of(&kind.group, &kind.version))
    }

    /// Decodes a document in the form of a matched kind to an object of the kind of the request.
    ///
    /// # Errors
    /// Those of `decode`.
    pub(crate) fn decode_shown<E>(
        &self,
        own: &dyn Kind,
        matched: &GroupVersionKind,
        decode: impl FnOnce(&dyn Kind) -> Result<Object, E>,
    ) -> Result<Object, E> {
        match self.other_form(matched) {
            None => decode(own),
            Some((own, other)) => decode(other).map(|object| own.to_shown(other.to_stored(object))),
        }
    }

    /// The object in the form of a matched kind, without its kind.
    pub(crate) fn converted<'o>(&self, object: &'o Object, matched: &GroupVersionKind) -> Cow<'o, Object> {
        match self.other_form(matched) {
            None => Cow::Borrowed(object),
            Some((own, other)) => Cow::Owned(other.to_shown(own.to_stored(object.clone()))),
        }
    }

    /// The object in the form of a matched kind, with its kind.
    pub(crate) fn shown(&self, object: &Object, kind: &GroupVersionKind) -> Value {
        let object = self.converted(object, kind);
        let mut map = Map::with_capacity(object.0.len() + 2);
        map.insert("kind".to_owned(), kind.kind.clone().into());
        map.insert("apiVersion".to_owned(), kind.api_version().into());
        for (name, value) in object.0.iter().filter(|(name, _)| *name != "kind" && *name != "apiVersion") {
            map.insert(name.clone(), value.clone());
        }
        Value::Object(map)
    }

    /// The `request` of expressions, and of reviews without the uid and the objects.
    pub(crate) fn request(&self, matched: &GroupVersionKind) -> Value {
        let resource = |group: &str, version: &str| json!({"group": group, "version": version, "resource": self.names.plural});
        let mut user = json!({"username": self.user.username, "groups": self.user.groups});
        if !self.user.uid.is_empty() {
            user["uid"] = self.user.uid.clone().into();
        }
        if !self.user.extra.is_empty() {
            user["extra"] = json!(self.user.extra);
        }
        let own = (self.names.group, self.names.version);
        let (group, version) =
            if self.subresource.is_empty() { (&*matched.group, &*matched.version) } else { own };
        let mut request = json!({
            "kind": matched.json(), "resource": resource(group, version), "requestKind": self.kind.json(),
            "requestResource": resource(own.0, own.1), "operation": self.operation.text(), "userInfo": user,
            "dryRun": self.dry_run, "options": self.options,
        });
        for (name, value) in [
            ("subResource", self.subresource),
            ("requestSubResource", self.subresource),
            ("name", self.name),
            ("namespace", self.namespace),
        ] {
            if !value.is_empty() {
                request[name] = value.into();
            }
        }
        request
    }
}
