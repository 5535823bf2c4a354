//! Encryption at rest: transforms values between memory and disk as configured by `--encryption-provider-config`.
//!
//! The format of the file and of the stored values is upstream's (`apiserver.config.k8s.io/v1`), so that the same file works with an
//! etcd that kube-apiserver uses.
//!
//! * [`config`] reads the file, `validate` checks it.
//! * `provider` has one file for each algorithm, and [`kms`] calls plugins that protect the keys. `chain` selects a provider by the
//!   prefix of a stored value.
//! * `rules` assigns the providers to resources. [`resource`] finds the resource of a key.
//! * `health` checks all KMS plugins.
//! * [`Encryption`] combines these to a [`Transformer`](orlop_store::Transformer). `reload` reads a changed file again, and uses it only
//!   if no object needs a key that it does not contain. [`recover`] writes objects again that were unreadable while a KMS plugin was not
//!   available.

mod chain;
pub mod config;
mod encryption;
mod errors;
mod health;
pub mod kms;
mod provider;
pub mod recover;
mod reload;
pub mod resource;
mod rules;
mod validate;

pub use encryption::{Encryption, EncryptionError};
