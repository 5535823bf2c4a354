//! Decisions on the threads where they delay no other request.

use std::sync::Arc;

use futures::FutureExt as _;
use orlop_api::status::ApiError;
use orlop_auth::UserInfo;
use orlop_auth::request_info::RequestInfo;

use super::{AuthorizationDecision, Progress};
use crate::limits::Client;
use crate::state::Inner;

/// Decides about a right on the caller's thread, if this takes little time and needs no webhook, and otherwise as [`decide_elsewhere`].
///
/// # Errors
/// As [`decide_elsewhere`].
pub(crate) async fn decide_right(
    server: &Arc<Inner>,
    user: &UserInfo,
    right: &RequestInfo,
    client: Option<Client>,
) -> Result<AuthorizationDecision, ApiError> {
    match server.authorizer.decide_briefly(user, right) {
        Ok(decision) => Ok(decision),
        Err(progress) => decide_elsewhere(server, user, right, client, progress).boxed().await,
    }
}

/// Continues a decision with webhooks, and what takes long on the threads for expensive requests. `None` for a client that waits for no
/// place on these threads: a component of this process, or one that has a place already.
///
/// # Errors
/// The client must wait for too many of its requests, or the server stops.
pub(super) async fn decide_elsewhere(
    server: &Arc<Inner>,
    user: &UserInfo,
    right: &RequestInfo,
    client: Option<Client>,
    progress: Progress,
) -> Result<AuthorizationDecision, ApiError> {
    let progress = match server.authorizer.decide_here(progress, user, right).await {
        Ok(decision) => return Ok(decision),
        Err(progress) => progress,
    };
    let (server_there, user, right) = (server.clone(), user.clone(), right.clone());
    let work = async move { Ok(server_there.authorizer.decide_all(progress, &user, &right).await) };
    server.compute.run(client, work.boxed()).await
}
