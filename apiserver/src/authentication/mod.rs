//! Authenticates requests.
//!
//! [`Authenticators`] is a middleware around the whole router. It adds the [`UserInfo`] to the extensions of each authenticated
//! request, where the handlers read it. In order:
//!
//! 1. A request that already has a `UserInfo` comes from this process ([`in_process`]): extensions are not part of HTTP.
//! 2. Without any means of authentication, which the listener allows on loopback only, a client of the server's own user or of root
//!    is [`UserInfo::admin`] ([`PeerUser`]); [`guard`] rejects requests of foreign sites.
//! 3. Else the authenticators decide, in upstream's order: the headers of a front proxy, the client certificate, and the bearer token
//!    ([`tokens`]: token file, service accounts, bootstrap tokens, OpenID Connect, webhook). The first that accepts its credentials
//!    names the user. If none does and a request has credentials, it gets 401; the response never contains the reason.
//! 4. A request without credentials is anonymous, where [`AnonymousAccess`] permits that.
//!
//! [`config`] is the configuration, [`layer`] the middleware. [`page`] signs in the web page on loopback; its sessions end with the
//! credentials that [`session_origin`] records.
//!
//! Upstream: `pkg/kubeapiserver/authenticator/config.go`, apiserver `pkg/endpoints/filters/authentication.go`.
//!
//! [`UserInfo`]: orlop_auth::UserInfo
//! [`UserInfo::admin`]: orlop_auth::UserInfo::admin
//! [`guard`]: orlop_auth::guard

mod anonymous;
mod bearer;
mod bootstrap_tokens;
mod chain;
pub mod config;
mod layer;
pub mod oidc;
pub(crate) mod page;
pub(crate) mod page_router;
mod peer_user;
mod refusal;
mod session_check;
mod session_origin;
mod tokens;
pub mod webhook;

pub(crate) use anonymous::AnonymousAccess;
pub(crate) use chain::Authenticators;
pub use config::AuthConfig;
pub use layer::in_process;
pub(crate) use layer::{InThisProcess, authenticate};
pub use page::{PageCode, PageSignIn};
pub use peer_user::PeerUser;
pub(crate) use tokens::StreamCredential;

#[cfg(test)]
mod tests;
