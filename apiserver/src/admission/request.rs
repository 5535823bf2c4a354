//! The input of a plugin: a write, and access to other objects.

use std::cell::RefCell;
use std::ops::ControlFlow;

use super::outcome::Findings;
use crate::encode::head::ObjectHead;
use crate::encode::undecoded::Undecoded;
use crate::registry::{Kind, Names};
use orlop_api::object::Object;
use orlop_api::status::ApiError;
use orlop_auth::UserInfo;
use orlop_auth::request_info::RequestInfo;

/// The operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// POST, PUT or apply that creates an object, and POST to a subresource such as `binding`.
    Create,
    /// PUT and PATCH of an existing object.
    Update,
    /// DELETE of one object, or of each object of a collection.
    Delete,
}

/// A write before it is stored.
pub struct Request<'a> {
    /// The kind that is written; for a subresource, its parent's kind.
    pub kind: &'a dyn Kind,
    /// Namespace, `""` for cluster-scoped kinds.
    pub namespace: &'a str,
    /// Name from the path or the object; `""` if it is still to be generated.
    pub name: &'a str,
    /// Name from the path; `""` for a collection.
    pub path_name: &'a str,
    /// The user that writes.
    pub user: &'a UserInfo,
    /// The operation.
    pub operation: Operation,
    /// Subresource such as `status`, or `""`.
    pub subresource: &'a str,
    /// The object to store, or the body of a request to a subresource with its own type; `None` for a delete.
    pub object: Option<&'a mut Object>,
    /// The stored object; `None` for a create.
    pub old: Option<&'a Object>,
    /// Warnings and audit annotations of the plugins.
    pub(crate) findings: RefCell<Findings>,
}

impl Request<'_> {
    /// Whether this write is to the resource itself and not to a subresource.
    pub(super) fn is(&self, group: &str, plural: &str) -> bool {
        let names = self.names();
        self.subresource.is_empty() && names.group == group && names.plural == plural
    }

    /// Adds a warning for the client.
    pub(super) fn warn(&self, text: String) {
        self.findings.borrow_mut().warn(text);
    }

    /// Adds an audit annotation.
    pub(super) fn annotate(&self, key: &str, value: String) {
        self.findings.borrow_mut().annotate(key.to_owned(), value);
    }

    /// The names of the kind.
    pub(super) fn names(&self) -> &Names {
        self.kind.names()
    }

    /// The name that upstream's plugins see: none for a delete of a collection.
    pub(super) fn requested_name(&self) -> &str {
        match self.operation {
            Operation::Create | Operation::Update => self.name,
            Operation::Delete => self.path_name,
        }
    }

    /// 403. A name that is still to be generated is shown as its prefix.
    pub(super) fn refuse(&self, why: &str) -> ApiError {
        let object = self.object.as_deref();
        let names = [
            self.requested_name(),
            object.map_or("", Object::name),
            object.map_or("", |object| object.str_at(&["metadata", "generateName"])),
        ];
        let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown");
        ApiError::forbidden(self.names(), name, why)
    }
}

/// Reads the current state of the store, from memory. Skips unreadable objects; the request then fails, whatever is decided without
/// them.
pub trait Lookup {
    /// Whether a user may perform a request.
    fn permits(&self, user: &UserInfo, request: &RequestInfo) -> bool;
    /// The head of one object; `namespace` is `""` for cluster-scoped kinds.
    fn head(&self, kind: &dyn Kind, namespace: &str, name: &str) -> Option<ObjectHead>;
    /// One object. For objects that only administrators write, or whose size `handler::weight` examines.
    fn get(&self, kind: &dyn Kind, namespace: &str, name: &str) -> Option<Object>;
    /// All objects of a kind, or those in a namespace. Decodes one at a time. For collections whose size is bounded
    /// (`collections`).
    fn list<'a>(
        &'a self,
        kind: &'a dyn Kind,
        namespace: Option<&str>,
    ) -> Box<dyn Iterator<Item = Object> + 'a>;
    /// Passes the objects that `list` returns to `visit`, until it breaks. For collections whose size has no bound.
    fn visit(
        &self,
        kind: &dyn Kind,
        namespace: Option<&str>,
        visit: &mut dyn FnMut(&dyn Undecoded) -> ControlFlow<()>,
    );
    /// The size in the store, bytes, of the objects that `list` returns, except those with this name.
    fn size_without(&self, kind: &dyn Kind, namespace: Option<&str>, name: &str) -> usize;
}
