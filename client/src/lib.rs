//! Client library of the controllers: connections, informers, a work queue and its workers, events, and the names of
//! annotations, finalizers and reasons; bootstrap tokens.

pub mod api;
pub mod bootstrap_token;
pub mod certificate_request;
pub mod client;
pub mod cluster_info;
pub mod component;
pub mod failing;
pub mod informer;
pub mod informers;
pub mod meta;
pub mod names;
pub mod object_key;
pub mod operations;
pub mod packed_object;
pub mod peer_user;
pub mod pods;
pub mod queue;
pub mod recorder;
pub mod small_set;
pub mod strip_managed_fields;
pub mod time_slice;
pub mod uid;
pub mod watcher;
pub mod worker;
