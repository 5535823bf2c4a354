//! Handles of kinds: a kind that orlop brings is there for ever, one that a definition brings lives as
//! long as somebody holds it.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use orlop_openapi::StructType;

use super::kind::Kind;

/// A kind. Cheap to clone; for given kinds it is a plain reference.
#[derive(Clone)]
pub enum KindRef {
    /// A kind of [`super::KINDS`].
    Given(&'static dyn Kind),
    /// A kind that a CustomResourceDefinition has brought.
    Custom(Arc<dyn Kind>),
}

impl Deref for KindRef {
    type Target = dyn Kind;

    fn deref(&self) -> &Self::Target {
        match self {
            KindRef::Given(kind) => *kind,
            KindRef::Custom(kind) => &**kind,
        }
    }
}

impl From<&'static dyn Kind> for KindRef {
    fn from(kind: &'static dyn Kind) -> Self {
        KindRef::Given(kind)
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
    /// One of the arena.
    Given(&'static StructType),
    /// The type of a custom kind.
    Custom(Arc<StructType>),
}

impl Deref for TypeRef {
    type Target = StructType;

    fn deref(&self) -> &StructType {
        match self {
            TypeRef::Given(ty) => ty,
            TypeRef::Custom(ty) => ty,
        }
    }
}
