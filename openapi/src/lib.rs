//! Schemas of the kinds, and the OpenAPI documents assembled from them.
//!
//! Reading order: [`shape`] says what a type looks like, `facts` adds what the published schemas
//! leave out, [`load`] builds the one [`types`] arena, [`document`] assembles the documents.

pub mod document;
mod facts;
pub mod load;
pub mod shape;

pub use load::types;
pub use shape::{
    Field, ListType, Merge, Numbered, Presence, Scalar, Shape, Strategic, StructType, TypeId, Types,
};
