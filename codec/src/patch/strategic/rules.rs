//! Provides the type information for a merge.

use orlop_openapi::{Shape, Strategic, StructType, TypeId, Types};

use orlop_apimachinery::steps::{OutOfSteps, Steps};

use super::fault::Fault;

/// The merge rules below an object, a map, or the items of a list.
pub(super) trait Rules<'a>: Copy {
    /// The rules below a member (for a list: below its items), and the merge strategy if the member is a list.
    fn member(self, name: &str) -> Result<(Self, &'a Strategic), Fault>;
    /// The name of the type, for errors.
    fn name(self) -> &'a str;
    /// Takes steps of the merge: one for each item of a list that is merged.
    fn take_steps(self, count: usize) -> Result<(), Fault>;
}

/// Rules declared by the API types.
#[derive(Clone, Copy)]
pub(super) struct Declared<'a> {
    level: Level<'a>,
    /// The steps that the merge may still take.
    steps: &'a Steps,
}

/// The type that is merged.
#[derive(Clone, Copy)]
enum Level<'a> {
    /// A struct.
    Struct(&'a Types, &'a StructType),
    /// A map with values of this shape.
    Map(&'a Types, &'a Shape),
    /// A type without declared members: any JSON, or a scalar.
    Free,
}

impl<'a> Declared<'a> {
    /// The rules of a struct type.
    pub(super) fn of(types: &'a Types, ty: TypeId, steps: &'a Steps) -> Self {
        Declared { level: Level::Struct(types, types.get(ty)), steps }
    }
}

impl<'a> Level<'a> {
    fn of(types: &'a Types, shape: &'a Shape) -> Self {
        match shape {
            Shape::Struct(ty) | Shape::Either(ty) => Level::Struct(types, types.get(*ty)),
            Shape::Map(values) => Level::Map(types, values),
            Shape::List(items) => Level::of(types, items),
            Shape::Scalar(_) | Shape::Json | Shape::Inline(_) | Shape::Deduced => Level::Free,
        }
    }
}

impl<'a> Rules<'a> for Declared<'a> {
    fn member(self, name: &str) -> Result<(Self, &'a Strategic), Fault> {
        let (level, strategy) = match self.level {
            Level::Struct(types, ty) => {
                let field = ty
                    .field(name)
                    .ok_or_else(|| Fault::NoField { owner: ty.short_name.clone(), field: name.to_owned() })?;
                (Level::of(types, &field.shape), &field.merge.strategic)
            }
            Level::Map(types, values) => (Level::of(types, values), &Strategic::Replace),
            Level::Free => (Level::Free, &Strategic::Replace),
        };
        Ok((Declared { level, steps: self.steps }, strategy))
    }

    fn name(self) -> &'a str {
        match self.level {
            Level::Struct(_, ty) => &ty.short_name,
            Level::Map(..) => "map",
            Level::Free => "interface",
        }
    }

    fn take_steps(self, count: usize) -> Result<(), Fault> {
        self.steps.take(count).map_err(|OutOfSteps| Fault::OutOfSteps)
    }
}
