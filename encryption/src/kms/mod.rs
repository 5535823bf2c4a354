//! The provider `kms`, version v2: a plugin of the operator, in another process, encrypts the seed from which the keys of values are
//! derived.
//!
//! Upstream: apiserver `pkg/storage/value/encrypt/envelope/kmsv2` and `pkg/server/options/encryptionconfig`.
//!
//! * [`proto`] is generated from `proto/` when this crate is built.
//! * `endpoint` parses the address of the plugin, `client` calls it.
//! * `data_key` encrypts values with a seed. `object` is the stored form of a value.
//! * `write_seed` is the seed of new values, with its time limit. `health` polls the plugin and replaces the seed when the plugin
//!   changes its key.
//! * `seed_cache` contains the decrypted seeds of stored values, `recent_failures` the seeds that could not be decrypted.
//! * `provider` combines these. Its thread runs the calls, so that its callers need no runtime.
//! * `metrics` has upstream's metrics.

mod client;
mod data_key;
mod endpoint;
mod health;
mod metrics;
mod object;
mod provider;
mod recent_failures;
mod seed_cache;
mod shared;
mod write_seed;

pub(crate) use self::endpoint::{EndpointError, parse as parse_endpoint};
pub(crate) use self::metrics::text as metrics_text;
pub(crate) use self::provider::KmsProvider;

/// Messages and services of a KMS plugin, and the stored form of a value.
#[allow(missing_docs, clippy::all, clippy::unwrap_used, unreachable_pub)]
pub mod proto {
    tonic::include_proto!("v2");
}
