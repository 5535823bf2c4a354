//! Users, credentials and authorization. Pure: the API server's middleware applies these rules to requests, and keeps what they
//! need in its store.
//!
//! * [`user`]: the user of a request.
//! * [`token_file`], [`service_account`], [`certificate`]: the credentials that identify a user. [`kubelet_token`]: those with which the
//!   server identifies itself to node agents.
//! * [`guard`]: rejects requests that a foreign page made a browser send.
//! * [`authorize`]: whether a user may perform a request.

pub mod authorize;
pub mod certificate;
pub mod guard;
pub mod kubelet_token;
pub mod service_account;
pub mod token_file;
pub mod user;

pub use user::{PUBLIC_PATHS, UserInfo};
