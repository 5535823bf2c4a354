//! CustomResourceDefinitions as pure functions: no I/O, no clock.
//!
//! Reading order: [`definition`] and `structural` are the rules of a definition, [`accept`] accepts its names, [`kind`]
//! is the kind `CustomResourceDefinition`. `schema` is the structural form of a version's schema, on which `prune`,
//! `coerce`, `default`, `validate` (with `format`) and `rules` (CEL, evaluated by `cel`) work. [`custom_kind`] is the kind that a
//! definition defines, with `columns` for its table. [`bundled`] are the definitions that are compiled in.

pub mod accept;
pub mod bundled;
mod cel;
mod coerce;
mod columns;
pub mod custom_kind;
mod default;
pub mod definition;
pub mod expression;
mod format;
pub mod kind;
mod names;
mod pattern;
mod program;
mod prune;
mod rule;
mod rules;
mod scale;
mod schema;
mod structural;
mod validate;

pub use custom_kind::{CustomKind, Definition};
pub use kind::CustomResourceDefinition;
