//! The Kubernetes API as data: objects, errors, and one file per built-in kind. Pure: no I/O, no clock.
//!
//! Reading order: [`object`] is an object in memory, [`kind`] the trait that every kind implements,
//! [`registry`] the built-in kinds, [`validate`] the rules that kinds share, [`field_errors`] and [`status`]
//! the errors that a client receives ([`go_json`] prints their values), [`projection`] the labels and fields that selectors read, [`query`] the
//! parameters of a request.

pub mod field_errors;
pub mod go_json;
pub mod kind;
pub mod object;
pub mod projection;
pub mod query;
pub mod registry;
pub mod status;
pub mod validate;
