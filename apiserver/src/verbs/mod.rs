//! Operations on any kind, one file per verb. No verb depends on a specific kind, except the subresources that
//! only one kind has ([`binding`], [`connect`], [`eviction`], [`finalize`], [`token`]).

pub(crate) mod apply;
pub(crate) mod attempts;
pub(crate) mod binding;
pub(crate) mod component_status;
pub(crate) mod connect;
mod connect_admission;
mod connect_target;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod delete_collection;
pub(crate) mod delete_options;
pub(crate) mod eviction;
pub(crate) mod filter;
pub(crate) mod finalize;
mod former;
pub(crate) mod get;
mod kubelet;
pub(crate) mod list;
pub(crate) mod options;
pub(crate) mod part;
pub(crate) mod patch;
pub(crate) mod quota_commit;
mod raw_public_key;
pub(crate) mod request;
pub(crate) mod review;
mod review_attributes;
pub(crate) mod revision;
pub(crate) mod scale;
mod service_proxy;
pub(crate) mod token;
mod unsafe_delete;
pub(crate) mod update;
pub(crate) mod watch;
pub(crate) mod write;

#[cfg(test)]
mod tests;
