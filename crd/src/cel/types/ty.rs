//! The types of expressions, and their notation in error messages.
//!
//! Upstream: cel-go `common/types/types.go`, `checker/format.go`.

use std::rc::Rc;

/// The most parts of a type that errors show.
const MAX_SHOWN: usize = 100;

/// A type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ty {
    /// The type of a part that does not compile. It is assignable to every type, so that one mistake has one error.
    Error,
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Timestamp,
    Duration,
    List(Rc<Ty>),
    Map(Rc<Ty>, Rc<Ty>),
    Optional(Rc<Ty>),
    /// A type with fields, or one whose values only functions read.
    Object(Rc<str>),
    /// The type of a type.
    Type(Option<Rc<Ty>>),
    /// A type that is not known yet.
    Param(u32),
}

impl Ty {
    pub(crate) fn list(item: Ty) -> Ty {
        Ty::List(Rc::new(item))
    }

    pub(crate) fn map(key: Ty, value: Ty) -> Ty {
        Ty::Map(Rc::new(key), Rc::new(value))
    }

    pub(crate) fn object(name: &str) -> Ty {
        Ty::Object(name.into())
    }

    pub(super) fn optional(inner: Ty) -> Ty {
        Ty::Optional(Rc::new(inner))
    }

    pub(super) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Ty::Dyn | Ty::Error)
    }

    /// Returns the type inside an optional type.
    pub(super) fn unwrapped(&self) -> Option<&Ty> {
        match self {
            Ty::Optional(inner) => Some(inner),
            _ => None,
        }
    }

    /// Returns the name in the errors of the checker.
    pub(crate) fn shown(&self) -> String {
        match self {
            ty if ty.has_more_parts_than(MAX_SHOWN) => "a complex type".to_owned(),
            Ty::Error => "!error!".to_owned(),
            Ty::Null => "null".to_owned(),
            Ty::Timestamp => "timestamp".to_owned(),
            Ty::Duration => "duration".to_owned(),
            Ty::Param(number) => format!("_var{number}"),
            ty => ty.written(&Ty::shown),
        }
    }

    /// Returns the name as a result type.
    pub(crate) fn declared(&self) -> String {
        match self {
            ty if ty.has_more_parts_than(MAX_SHOWN) => "a complex type".to_owned(),
            Ty::Error => "*error*".to_owned(),
            Ty::Null => "null_type".to_owned(),
            Ty::Timestamp => "google.protobuf.Timestamp".to_owned(),
            Ty::Duration => "google.protobuf.Duration".to_owned(),
            Ty::Param(number) => format!("<_var{number}>"),
            ty => ty.written(&Ty::declared),
        }
    }

    fn written(&self, inner: &dyn Fn(&Ty) -> String) -> String {
        match self {
            Ty::Dyn => "dyn".to_owned(),
            Ty::Bool => "bool".to_owned(),
            Ty::Int => "int".to_owned(),
            Ty::Uint => "uint".to_owned(),
            Ty::Double => "double".to_owned(),
            Ty::Text => "string".to_owned(),
            Ty::Bytes => "bytes".to_owned(),
            Ty::List(item) => format!("list({})", inner(item)),
            Ty::Map(key, value) => format!("map({}, {})", inner(key), inner(value)),
            Ty::Optional(value) => format!("optional_type({})", inner(value)),
            Ty::Object(name) => name.to_string(),
            Ty::Type(None) => "type".to_owned(),
            Ty::Type(Some(ty)) => format!("type({})", inner(ty)),
            Ty::Error | Ty::Null | Ty::Timestamp | Ty::Duration | Ty::Param(_) => String::new(),
        }
    }

    /// Parses the notation of `functions.txt`. A single capital letter is a type parameter.
    pub(super) fn parse(text: &str) -> Option<Ty> {
        let (name, inner) = match text.split_once('<') {
            Some((name, rest)) => (name, rest.strip_suffix('>')?),
            None => (text, ""),
        };
        Some(match name {
            "dyn" => Ty::Dyn,
            "null" => Ty::Null,
            "bool" => Ty::Bool,
            "int" => Ty::Int,
            "uint" => Ty::Uint,
            "double" => Ty::Double,
            "string" => Ty::Text,
            "bytes" => Ty::Bytes,
            "timestamp" => Ty::Timestamp,
            "duration" => Ty::Duration,
            "type" => Ty::Type(None),
            "list" => Ty::list(Ty::parse(inner)?),
            "optional" => Ty::optional(Ty::parse(inner)?),
            "map" => {
                let (key, value) = inner.split_once('|')?;
                Ty::map(Ty::parse(key)?, Ty::parse(value)?)
            }
            "A" => Ty::Param(0),
            "B" => Ty::Param(1),
            _ if name.contains('.') => Ty::object(name),
            _ => return None,
        })
    }

    /// Replaces the type parameters.
    pub(super) fn replaced(&self, by: &dyn Fn(u32) -> Option<Ty>) -> Ty {
        match self {
            Ty::Param(number) => by(*number).unwrap_or_else(|| self.clone()),
            ty => ty.with_parts(&|part| part.replaced(by)),
        }
    }

    /// Replaces the types that this one consists of.
    pub(super) fn with_parts(&self, by: &dyn Fn(&Ty) -> Ty) -> Ty {
        match self {
            Ty::List(item) => Ty::list(by(item)),
            Ty::Map(key, value) => Ty::map(by(key), by(value)),
            Ty::Optional(inner) => Ty::optional(by(inner)),
            Ty::Type(Some(inner)) => Ty::Type(Some(Rc::new(by(inner)))),
            Ty::Error
            | Ty::Dyn
            | Ty::Null
            | Ty::Bool
            | Ty::Int
            | Ty::Uint
            | Ty::Double
            | Ty::Text
            | Ty::Bytes
            | Ty::Timestamp
            | Ty::Duration
            | Ty::Object(_)
            | Ty::Type(None)
            | Ty::Param(_) => self.clone(),
        }
    }

    /// Whether the type consists of more than `most` types. A part counts as often as it occurs.
    pub(super) fn has_more_parts_than(&self, most: usize) -> bool {
        let (mut open, mut count) = (vec![self], 0);
        while let Some(ty) = open.pop() {
            count += 1;
            if count > most {
                return true;
            }
            open.extend(ty.parts());
        }
        false
    }

    /// Returns the types that this one consists of.
    pub(super) fn parts(&self) -> Vec<&Ty> {
        match self {
            Ty::List(inner) | Ty::Optional(inner) | Ty::Type(Some(inner)) => vec![inner],
            Ty::Map(key, value) => vec![key, value],
            Ty::Error
            | Ty::Dyn
            | Ty::Null
            | Ty::Bool
            | Ty::Int
            | Ty::Uint
            | Ty::Double
            | Ty::Text
            | Ty::Bytes
            | Ty::Timestamp
            | Ty::Duration
            | Ty::Object(_)
            | Ty::Type(None)
            | Ty::Param(_) => Vec::new(),
        }
    }
}
