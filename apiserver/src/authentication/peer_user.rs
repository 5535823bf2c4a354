//! Clients on loopback, identified by the user of their process.

use axum::extract::Request;
use orlop_api::status::ApiError;
use orlop_auth::UserInfo;

use super::anonymous::AnonymousAccess;

/// The user of the process that opened the connection of a request; `None` if it is not known. The listener adds it to each
/// request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerUser(pub Option<u32>);

const ROOT: u32 = 0;

/// The response to other users of this machine.
const OTHER_USER: &str = "Unauthorized: without credentials, this server accepts requests only from processes of its own user and of \
    root. Use the token of a service account (kubectl create token), or start the server with --insecure-loopback to accept every \
    process of this machine";

/// The user of a request without credentials over loopback. `own` is the server's user; without it, every client is an administrator.
pub(super) fn local_user(
    request: &Request,
    own: Option<u32>,
    anonymous: AnonymousAccess,
) -> Result<UserInfo, ApiError> {
    let Some(own) = own else { return Ok(UserInfo::admin()) };
    let peer = request.extensions().get::<PeerUser>().and_then(|peer| peer.0);
    match peer {
        Some(user) if user == own || user == ROOT => Ok(UserInfo::admin()),
        Some(_) | None if anonymous.permits(request.uri().path()) => Ok(UserInfo::anonymous()),
        Some(_) | None => Err(ApiError { message: OTHER_USER.to_owned(), ..ApiError::unauthorized() }),
    }
}
