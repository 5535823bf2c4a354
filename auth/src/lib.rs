//! Users, credentials and authorization. Pure: the API server's middleware applies these rules to requests, and keeps what they
//! need in its store.
//!
//! * [`user`]: the user of a request.
//! * [`token_file`], [`service_account`], [`certificate`], [`bootstrap_token`], [`oidc`], [`front_proxy`]: the credentials that identify
//!   a user. [`limits`] bounds its attributes, and [`jwt`] verifies signed tokens. [`kubelet_token`]: the credentials with which
//!   the server identifies itself to node agents. [`page_session`]: the sign-in of the web page.
//! * [`guard`]: rejects requests that a foreign page made a browser send.
//! * [`impersonation`]: the user that a request wants to act as.
//! * [`request_info`]: the verb and the target of a request. [`rbac`]: what roles and bindings permit. [`node`]: what node agents
//!   may do. [`authorize`]: decisions of a server without roles.
//! * [`selection`]: the requirements of the selectors of a request. [`access_review`]: the review that an authorization webhook receives.
//! * [`file_version`]: detects changed files.
//! * [`audit`]: which requests are recorded in the audit log, and the form of the records.

pub mod access_review;
pub mod audit;
pub mod authorize;
pub mod bootstrap_token;
pub mod certificate;
mod constant_time;
mod der;
pub mod file_version;
pub mod front_proxy;
pub mod guard;
pub mod impersonation;
pub mod jwt;
pub mod kubelet_token;
pub mod limits;
pub mod node;
pub mod oidc;
pub mod page_session;
pub mod pem;
pub mod rbac;
pub mod request_info;
pub mod selection;
pub mod service_account;
pub mod token_file;
pub mod user;

pub use constant_time::SecretDigest;
pub use user::{PUBLIC_PATHS, UserInfo};
