//! Provides the type information for a merge.

use orlop_openapi::{Shape, Strategic, StructType, TypeId, Types};

use super::fault::Fault;

/// The merge rules below an object, a map, or the items of a list.
pub(super) trait Rules<'a>: Copy {
    /// The rules below a member (for a list: below its items), and the merge strategy if the member is a list.
    fn member(self, name: &str) -> Result<(Self, &'a Strategic), Fault>;
    /// The name of the type, for errors.
    fn name(self) -> &'a str;
}

/// Rules declared by the API types.
#[derive(Clone, Copy)]
pub(super) enum Declared<'a> {
    /// A struct.
    Struct(&'a Types, &'a StructType),
    /// A map with values of this shape.
    Map(&'a Types, &'a Shape),
    /// A type without declared members: any JSON, or a scalar.
    Free,
}

impl<'a> Declared<'a> {
    /// The rules of a struct type.
    pub(super) fn of(types: &'a Types, ty: TypeId) -> Self {
        Declared::Struct(types, types.get(ty))
    }

    fn below(types: &'a Types, shape: &'a Shape) -> Self {
        match shape {
            Shape::Struct(ty) | Shape::Either(ty) => Declared::of(types, *ty),
            Shape::Map(values) => Declared::Map(types, values),
            Shape::List(items) => Declared::below(types, items),
            Shape::Scalar(_) | Shape::Json | Shape::Inline(_) | Shape::Deduced => Declared::Free,
        }
    }
}

impl<'a> Rules<'a> for Declared<'a> {
    fn member(self, name: &str) -> Result<(Self, &'a Strategic), Fault> {
        match self {
            Declared::Struct(types, ty) => {
                let field = ty
                    .field(name)
                    .ok_or_else(|| Fault::NoField { owner: ty.short_name.clone(), field: name.to_owned() })?;
                Ok((Declared::below(types, &field.shape), &field.merge.strategic))
            }
            Declared::Map(types, values) => Ok((Declared::below(types, values), &Strategic::Replace)),
            Declared::Free => Ok((self, &Strategic::Replace)),
        }
    }

    fn name(self) -> &'a str {
        match self {
            Declared::Struct(_, ty) => &ty.short_name,
            Declared::Map(..) => "map",
            Declared::Free => "interface",
        }
    }
}
