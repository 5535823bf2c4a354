//! Handles of kinds: built-in kinds are static, and the kind of a CustomResourceDefinition is reference counted.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use orlop_openapi::StructType;

use super::Kind;

/// A kind. Cheap to clone; for built-in kinds it is a plain reference.
#[derive(Clone)]
pub enum KindRef {
    /// A built-in kind.
    Builtin(&'static dyn Kind),
    /// The kind of a CustomResourceDefinition.
    Custom(Arc<dyn Kind>),
}

impl Deref for KindRef {
    type Target = dyn Kind;

    fn deref(&self) -> &Self::Target {
        match self {
            KindRef::Builtin(kind) => *kind,
            KindRef::Custom(kind) => &**kind,
        }
    }
}

impl From<&'static dyn Kind> for KindRef {
    fn from(kind: &'static dyn Kind) -> Self {
        KindRef::Builtin(kind)
    }
}

impl fmt::Debug for KindRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.names().fmt(f)
    }
}

/// The type of a kind's objects.
#[derive(Clone, Debug)]
pub enum TypeRef {
    /// A type of a built-in kind.
    Builtin(&'static StructType),
    /// The type of a custom kind.
    Custom(Arc<StructType>),
}

impl Deref for TypeRef {
    type Target = StructType;

    fn deref(&self) -> &StructType {
        match self {
            TypeRef::Builtin(ty) => ty,
            TypeRef::Custom(ty) => ty,
        }
    }
}
