//! What a plugin sees of a write, and how it asks about other objects.

use crate::registry::{Kind, Names};
use orlop_api::object::Object;
use orlop_api::status::ApiError;

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// POST, a PUT or apply that creates, and POST to a subresource such as `binding`.
    Create,
    /// PUT and PATCH of what is there.
    Update,
    /// DELETE, of one object or of each object of a collection.
    Delete,
}

/// A write on its way to the store.
pub struct Request<'a> {
    /// The kind written to; for a subresource the kind it hangs on.
    pub kind: &'a dyn Kind,
    /// Namespace, `""` for cluster-scoped kinds.
    pub namespace: &'a str,
    /// Name from the path, or from the object; `""` when it is still to be generated.
    pub name: &'a str,
    /// What is being done.
    pub operation: Operation,
    /// Subresource such as `status`, or `""`.
    pub subresource: &'a str,
    /// The object as it is to be stored; `None` for a delete.
    pub object: Option<&'a mut Object>,
    /// The object as it is stored; `None` for a create.
    pub old: Option<&'a Object>,
}

impl Request<'_> {
    /// Whether this is a write to the resource itself, not to one of its subresources.
    pub(super) fn is(&self, group: &str, plural: &str) -> bool {
        let names = self.names();
        self.subresource.is_empty() && names.group == group && names.plural == plural
    }

    /// The names of the kind.
    pub(super) fn names(&self) -> &Names {
        self.kind.names()
    }

    /// 403. A name that is still to be generated shows as its prefix.
    pub(super) fn refuse(&self, why: &str) -> ApiError {
        let object = self.object.as_deref();
        let names = [
            self.name,
            object.map_or("", Object::name),
            object.map_or("", |object| object.str_at(&["metadata", "generateName"])),
        ];
        let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown");
        ApiError::forbidden(self.names(), name, why)
    }
}

/// Reads of the store's newest state, from memory.
pub trait Lookup {
    /// One object; `namespace` is `""` for cluster-scoped kinds.
    fn get(&self, kind: &dyn Kind, namespace: &str, name: &str) -> Option<Object>;
    /// All objects of a kind, or those in a namespace.
    fn list(&self, kind: &dyn Kind, namespace: Option<&str>) -> Vec<Object>;
}
