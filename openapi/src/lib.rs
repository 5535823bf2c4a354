//! Schemas of the kinds, and the OpenAPI documents assembled from them.
//!
//! Reading order: [`shape`] defines the structure of a type, `facts` adds what the published schemas
//! omit, [`load`] builds the one [`types`] arena, [`document`] assembles the documents.

pub mod document;
mod endpoints;
mod extensions;
mod facts;
mod gnostic;
mod head;
pub mod load;
mod operations;
mod own;
mod parts;
pub mod resource;
mod schemas;
pub mod shape;
mod v2;
mod v3;

pub use document::{Document, Documents};
pub use load::{OPEN_OBJECT, types};
pub use resource::{ResourceDoc, SubresourceDoc};
pub use shape::{
    ByNumber, Field, ListType, Merge, Numbered, Presence, Scalar, Shape, Strategic, StructType, TypeId, Types,
};
