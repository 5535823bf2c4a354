//! A Kubernetes-compatible REST API on top of a store.
//!
//! Reading order: [`registry`] defines the kinds (one file each), `verbs` the operations on any kind (one file
//! each), [`orlop_codec::decode`] and `encode` convert bytes to objects and back, [`orlop_codec::patch`] and [`orlop_api::validate`] are pure,
//! [`admission`] mutates or rejects a write before it is stored, [`services`] allocates addresses, `routes`
//! serves the non-resource endpoints, `insight` serves history and change streams, [`server`] combines everything
//! in a service.

pub mod admission;
pub mod aggregation;
mod allocation;
mod api_service;
pub mod audit;
pub mod authentication;
pub mod authorization;
mod background;
mod certificate_path;
pub mod client_identity;
pub mod clock;
mod cluster_info;
pub mod custom;
mod dispatch;
mod encode;
mod exchange;
pub mod explain;
mod extension_authentication;
mod followed;
mod forwarding;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod generated_name;
mod handler;
mod handler_chain;
mod https;
pub mod insight;
pub mod kubelet_client;
mod kubernetes_service;
pub mod limits;
mod metrics;
mod namespace_locks;
pub mod peer_certificates;
mod projection;
mod proxy;
pub mod registry;
mod routes;
pub mod server;
pub mod service_account;
pub mod services;
mod state;
mod system_config_map;
mod system_objects;
mod unread_body;
mod verbs;
pub mod webhook_client;

pub use api_service::{ApiService, ResponseFuture};
pub use projection::Projection;
pub use routes::OMITTED_FROM_SNAPSHOTS;
pub use server::{Config, Server, ServerError};
pub use state::{ClusterInfo, HealthCheck, MoreMetrics};
