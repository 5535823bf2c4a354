//! Checks the credentials behind a session of the web page, in the same way as a request with these credentials.

use orlop_auth::{UserInfo, limits};

use super::session_origin::{OpenSession, SessionOrigin, SignedIn};
use super::tokens::{TokenAuthenticators, TokenRefusal, TokenUser};
use crate::clock::Clock;

/// The result of a check of credentials.
type Checked = Result<TokenUser, TokenRefusal>;

impl TokenAuthenticators {
    /// The user of a session for the audiences of this server.
    ///
    /// # Errors
    /// A request with the credentials of the session would be refused, or would have another user.
    pub(super) async fn user_of_session(&self, session: &OpenSession, clock: &Clock) -> Checked {
        let found = match &session.signed_in.origin {
            SessionOrigin::Oidc(claims) => match &self.oidc {
                Some(issuer) => issuer.user_again(claims).await.map(|user| self.own_user(user)),
                None => return Err(TokenRefusal::default()),
            },
            SessionOrigin::Webhook(token) => match &self.webhook {
                Some(webhook) => {
                    let reviewed = webhook.user_of(token, &self.audiences, &self.audiences).await;
                    reviewed.and_then(|found| {
                        let (user, _) = found.ok_or("the webhook does not accept the token any more")?;
                        Ok(self.own_user(user))
                    })
                }
                None => return Err(TokenRefusal::default()),
            },
            SessionOrigin::Server
            | SessionOrigin::Certificate(_)
            | SessionOrigin::FrontProxy(..)
            | SessionOrigin::StaticToken(_)
            | SessionOrigin::Account(_)
            | SessionOrigin::Bootstrap(_) => return same_user(session, self.checked_now(session, clock)),
        };
        same_user(session, found.map_err(TokenRefusal::of))
    }

    /// Whether a session and its credentials are still valid, for an open stream. Calls no other server: a token of the webhook counts as
    /// valid until the session expires, as it does for a stream that was opened with the token.
    pub(super) fn is_open(&self, session: &OpenSession, clock: &Clock) -> bool {
        clock() < session.until && same_user(session, self.checked_now(session, clock)).is_ok()
    }

    /// Checks the credentials of a session with the data of this process.
    fn checked_now(&self, session: &OpenSession, clock: &Clock) -> Checked {
        let refused = TokenRefusal::default;
        let SignedIn { user, origin } = &*session.signed_in;
        let found = match origin {
            SessionOrigin::Server | SessionOrigin::Webhook(_) => Some(user.clone()),
            SessionOrigin::Certificate(peer) => match &peer.check(clock()).user {
                Some(Ok(user)) => Some(user.clone()),
                Some(Err(_)) | None => None,
            },
            SessionOrigin::FrontProxy(peer, proxy) => match &peer.check(clock()).proxy {
                Some(Ok(name)) if proxy.allows(name.as_deref()) => Some(user.clone()),
                Some(Ok(_) | Err(_)) | None => None,
            },
            SessionOrigin::StaticToken(token) => {
                self.file.as_ref().and_then(|file| file.user_of_digest(token))
            }
            SessionOrigin::Account(token) => {
                let accounts = self.accounts.as_ref().ok_or_else(refused)?;
                let found = accounts.verify_again(token, &self.audiences);
                return found.map(TokenUser::from).map_err(TokenRefusal::of_account);
            }
            SessionOrigin::Bootstrap(token) => {
                self.bootstrap.as_ref().and_then(|tokens| tokens.user_of(token))
            }
            SessionOrigin::Oidc(claims) => {
                let issuer = self.oidc.as_ref().ok_or_else(refused)?;
                Some(issuer.user_now(claims).map_err(TokenRefusal::of)?)
            }
        };
        found.map(|user| self.own_user(user)).ok_or_else(refused)
    }

    /// A user for all audiences of this server.
    fn own_user(&self, user: UserInfo) -> TokenUser {
        TokenUser::new(user, self.audiences.clone())
    }
}

/// Refuses a user that the credentials did not have at sign-in: a line of the token file can become that of another user. Groups may
/// change.
fn same_user(session: &OpenSession, checked: Checked) -> Checked {
    let found = checked?;
    limits::check(&found.user).map_err(|error| TokenRefusal::of(error.to_string()))?;
    let before = &session.signed_in.user;
    match (&found.user.username, &found.user.uid) == (&before.username, &before.uid) {
        true => Ok(found),
        false => {
            Err(TokenRefusal::of("the credentials of the session belong to another user now".to_owned()))
        }
    }
}
