//! Requests that run as another user, if the authenticated user has the rights to impersonate it.
//!
//! Upstream: apiserver `pkg/endpoints/filters/impersonation`.

use std::sync::Arc;

use axum::extract::Request;
use orlop_api::status::ApiError;
use orlop_auth::UserInfo;
use orlop_auth::impersonation::{Attempt, Check, Impersonation, Mode};
use orlop_auth::request_info::RequestInfo;

use super::elsewhere::decide_right;
use super::forbidden::forbidden;
use crate::exchange::user_of;
use crate::limits::Client;
use crate::state::Inner;

/// The user that impersonates, and its attempts to do so.
pub(super) struct WantedImpersonation {
    /// The name of the authenticated user.
    user: String,
    attempts: Vec<Attempt>,
}

/// The impersonation that the headers of a request ask for.
///
/// # Errors
/// The headers name no user, or the request has none.
pub(super) fn wanted(request: &Request) -> Result<Option<WantedImpersonation>, ApiError> {
    let wanted =
        Impersonation::of(request.headers()).map_err(|error| ApiError::bad_request(error.to_string()))?;
    let Some(wanted) = wanted else { return Ok(None) };
    let user = user_of(request.extensions())?;
    let attempts = wanted.attempts(user, &RequestInfo::of_request(request));
    Ok(Some(WantedImpersonation { user: user.username.clone(), attempts }))
}

/// The user to impersonate, and the mode that permits it.
///
/// # Errors
/// 403 if the authenticated user lacks a right in each mode.
pub(super) async fn impersonate(
    server: &Arc<Inner>,
    asked: WantedImpersonation,
    client: Option<Client>,
) -> Result<(UserInfo, Mode), ApiError> {
    let WantedImpersonation { user, mut attempts } = asked;
    let modes = &server.authorizer.last_modes;
    let last = modes.of(&user);
    // The sort is stable.
    attempts.sort_by_key(|attempt| Some(attempt.mode) != last);
    let mut first = None;
    for attempt in attempts {
        match may_all(server, &attempt, client).await {
            Ok(()) => {
                if Some(attempt.mode) != last {
                    modes.set(&user, attempt.mode);
                }
                return Ok((attempt.user, attempt.mode));
            }
            Err(error) => _ = first.get_or_insert(error),
        }
    }
    Err(first.unwrap_or_else(|| ApiError::internal("all impersonation modes failed")))
}

/// Checks all rights of an attempt.
async fn may_all(server: &Arc<Inner>, attempt: &Attempt, client: Option<Client>) -> Result<(), ApiError> {
    let user = &attempt.requester;
    for Check { right, refused } in &attempt.checks {
        if let Some(why) = refused {
            return Err(forbidden(user, right, why));
        }
        let decision = decide_right(server, user, right, client).await?;
        if !decision.allowed {
            return Err(forbidden(user, right, &decision.reason));
        }
    }
    Ok(())
}
