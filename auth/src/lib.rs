//! Users, credentials and authorization. Pure: the API server's middleware applies these rules to requests, and keeps what they
//! need in its store.
//!
//! * [`user`]: the user of a request.
//! * [`token_file`], [`service_account`], [`certificate`]: the credentials that identify a user. [`kubelet_token`]: those with which the
//!   server identifies itself to node agents.
//! * [`guard`]: rejects requests that a foreign page made a browser send.
//! * [`impersonation`]: the user that a request wants to act as.
//! * [`request_info`]: the verb and the target of a request. [`rbac`]: what roles and bindings permit. [`node`]: what node agents
//!   may do. [`authorize`]: decisions of a server without roles.
//! * [`authority`]: certificates that the server signs itself.
//! * [`file_version`]: detects changed files.
//! * [`audit`]: which requests are recorded in the audit log, and the form of the records.

pub mod audit;
pub mod authority;
pub mod authorize;
pub mod certificate;
pub mod file_version;
pub mod guard;
pub mod impersonation;
pub mod kubelet_token;
pub mod node;
pub mod rbac;
pub mod request_info;
pub mod service_account;
pub mod token_file;
pub mod user;

pub use user::{PUBLIC_PATHS, UserInfo};
