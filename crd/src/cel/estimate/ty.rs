//! Types of expressions, as far as their costs depend on them.

use std::rc::Rc;

use super::decl::Decl;
use super::kind::Kind;
use super::size::Size;

/// The type of an expression.
#[derive(Clone, Debug)]
pub(super) enum Type {
    Plain(Kind),
    Declared(Rc<Decl>),
    List(Rc<Type>),
    Map(Rc<(Type, Type)>),
    Optional(Rc<Type>),
}

impl Type {
    pub(super) fn list(element: Type) -> Self {
        Type::List(Rc::new(element))
    }

    pub(super) fn map(key: Type, value: Type) -> Self {
        Type::Map(Rc::new((key, value)))
    }

    pub(super) fn optional(value: Type) -> Self {
        Type::Optional(Rc::new(value))
    }

    pub(super) fn kind(&self) -> Kind {
        match self {
            Type::Plain(kind) => *kind,
            Type::Declared(decl) => decl.kind,
            Type::List(_) => Kind::List,
            Type::Map(_) => Kind::Map,
            Type::Optional(_) => Kind::Optional,
        }
    }

    /// The size of every value of the type, if all have the same.
    pub(super) fn size(&self) -> Option<Size> {
        if let Type::Optional(value) = self {
            return value.size();
        }
        match self.kind() {
            Kind::Bool | Kind::Int | Kind::Uint | Kind::Double | Kind::Duration | Kind::Timestamp => {
                Some(Size::exactly(1))
            }
            Kind::Dyn
            | Kind::Null
            | Kind::Text
            | Kind::Bytes
            | Kind::List
            | Kind::Map
            | Kind::Object
            | Kind::Optional
            | Kind::Quantity
            | Kind::Ip
            | Kind::Cidr
            | Kind::Url
            | Kind::Semver
            | Kind::Format
            | Kind::Opaque => None,
        }
    }

    /// The type of the items of a list, or of the values of a map.
    pub(super) fn element(&self) -> Type {
        match self {
            Type::Declared(decl) => declared(decl.element()),
            Type::List(element) => element.as_ref().clone(),
            Type::Map(entry) => entry.1.clone(),
            Type::Plain(_) | Type::Optional(_) => Type::Plain(Kind::Dyn),
        }
    }

    /// The type of the keys of a map.
    pub(super) fn key(&self) -> Type {
        match self {
            Type::Declared(decl) if decl.kind == Kind::Map => Type::Plain(Kind::Text),
            Type::Map(entry) => entry.0.clone(),
            Type::Declared(_) | Type::Plain(_) | Type::List(_) | Type::Optional(_) => Type::Plain(Kind::Dyn),
        }
    }

    /// The type of a member of an object or a map.
    pub(super) fn field(&self, name: &str) -> Type {
        match self {
            Type::Declared(decl) if decl.kind == Kind::Object => declared(decl.field(name)),
            Type::Optional(value) => Type::optional(value.field(name)),
            Type::Declared(_) | Type::Plain(_) | Type::List(_) | Type::Map(_) => self.element(),
        }
    }

    /// The type of an optional's value.
    pub(super) fn value(&self) -> Type {
        match self {
            Type::Optional(value) => value.as_ref().clone(),
            other => other.clone(),
        }
    }

    /// This type, or the other one if this is not known.
    pub(super) fn or(self, other: &Type) -> Type {
        let is_vague = match &self {
            Type::Plain(Kind::Dyn | Kind::Null) => true,
            Type::List(element) => matches!(**element, Type::Plain(Kind::Dyn)),
            Type::Map(entry) => matches!(entry.1, Type::Plain(Kind::Dyn)),
            Type::Plain(_) | Type::Declared(_) | Type::Optional(_) => false,
        };
        if is_vague { other.clone() } else { self }
    }
}

fn declared(decl: Option<Rc<Decl>>) -> Type {
    decl.map_or(Type::Plain(Kind::Dyn), Type::Declared)
}
