//! Kinds that CustomResourceDefinitions bring: those of clients, and those that orlop has at hand (`bundled`).
//!
//! Reading order: `definition` and `structural` are the rules of a definition itself; `schema` is the
//! structural form of a version's schema, on which `prune`, `default`, `validate` (with `format`) and
//! `rules` (CEL, run by `cel`) work. All of these are pure. `made` is the kind that a definition makes,
//! with `columns` for its table and `decode` for its bodies, and `kinds` is what is served now: an
//! immutable snapshot that a definition's write replaces. `keeper` follows the definitions in the
//! store, gives them their conditions, and removes the objects of those that go.

mod bundled;
mod cel;
mod columns;
pub(crate) mod decode;
mod default;
pub(crate) mod definition;
mod format;
pub(crate) mod keeper;
mod kinds;
mod made;
mod names;
mod prune;
mod rules;
mod schema;
mod structural;
mod validate;

pub(crate) use bundled::has as is_bundled;
pub use kinds::Kinds;
pub(crate) use kinds::{Served, version_order};
pub use made::CustomKind;
