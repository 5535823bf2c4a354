//! A Kubernetes-compatible REST API: HTTP in, store out.
//!
//! Reading order: [`registry`] says what a kind is (one file each), `verbs` what can be done to
//! any kind (one file each), [`decode`] and `encode` how bytes become objects and back,
//! [`patch`] and [`validate`] are pure, [`admission`] changes or refuses a write before it is
//! stored, [`services`] gives addresses, `routes` are the paths that are no resources,
//! `insight` tells what was and what changes, [`server`] puts it all on a router.

mod accounts;
pub mod admission;
mod allocation;
pub mod auth;
mod background;
pub mod clock;
pub mod custom;
mod dispatch;
mod encode;
mod exchange;
pub mod explain;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod handler;
pub mod insight;
mod kubernetes_service;
pub mod limits;
mod metrics;
mod namespace_locks;
mod projection;
pub mod registry;
mod routes;
pub mod server;
pub mod services;
mod state;
mod verbs;

pub(crate) use orlop_api::query;
// The old names of moved modules.
pub use orlop_api::{object, status, validate};
pub(crate) use orlop_codec::managed_fields as managed;
pub use orlop_codec::{decode, patch};
pub use projection::Projection;
pub use server::{Config, Server, ServerError};
