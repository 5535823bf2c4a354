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

/// The start of the response to other users of this machine.
const OTHER_USER: &str =
    "without credentials, this server accepts requests only from processes of its own user and of root";
/// The start of the response if the kernel does not report the user.
const UNKNOWN_USER: &str = "the user of this connection cannot be determined";
/// A header of aggregated requests.
const FORWARDED_USER: &str = "x-remote-user";
/// The start of the response to such a request.
const FORWARDED: &str = "a request with the header X-Remote-User needs the certificate of a front proxy";
/// The end of these.
const ADVICE: &str = "Use the token of a service account (kubectl create token), or TLS with a kubeconfig: start the server with \
    --tls-san localhost, and use admin.kubeconfig in its data directory. With --insecure-loopback, the server accepts every process of \
    this machine";

/// The response to a request without credentials if the server requires them on loopback.
pub(super) fn without_credentials() -> ApiError {
    let message = "Unauthorized: this server requires credentials on loopback, too. Use the file admin.kubeconfig in its data directory, \
        for example with kubectl --kubeconfig, or the token of a service account (kubectl create token). For the web page, open the link \
        that `orlop page` prints";
    ApiError { message: message.to_owned(), ..ApiError::unauthorized() }
}

/// The user of a request without credentials over loopback. `own` is the server's user; without it, every client is an administrator.
pub(super) fn local_user(
    request: &Request,
    own: Option<u32>,
    anonymous: AnonymousAccess,
) -> Result<UserInfo, ApiError> {
    let Some(own) = own else { return Ok(UserInfo::admin()) };
    // A proxy forwards the request of another user. It would be an administrator's, because the proxy runs as this user or as root.
    if request.headers().contains_key(FORWARDED_USER) {
        return Err(unauthorized(FORWARDED));
    }
    let peer = request.extensions().get::<PeerUser>().and_then(|peer| peer.0);
    match peer {
        Some(user) if user == own || user == ROOT => Ok(UserInfo::admin()),
        Some(_) | None if anonymous.permits(request.uri().path()) => Ok(UserInfo::anonymous()),
        Some(_) => Err(unauthorized(OTHER_USER)),
        None => Err(unauthorized(UNKNOWN_USER)),
    }
}

fn unauthorized(why: &str) -> ApiError {
    ApiError { message: format!("Unauthorized: {why}. {ADVICE}"), ..ApiError::unauthorized() }
}
