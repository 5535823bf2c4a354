//! A Kubernetes-compatible REST API: HTTP in, store out.
//!
//! Reading order: [`registry`] says what a kind is (one file each), [`verbs`] what can be done to
//! any kind (one file each), [`decode`] and [`encode`] how bytes become objects and back,
//! [`patch`] and [`validate`] are pure, [`admission`] changes or refuses a write before
//! it is stored, [`routes`] are the paths that are no resources, [`server`] puts it all on a router.

pub mod admission;
pub mod auth;
pub mod decode;
pub mod encode;
pub mod object;
pub mod patch;
pub mod registry;
pub mod status;
pub mod validate;
