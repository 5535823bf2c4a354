//! Clients that act as service accounts. Each requests tokens for its account with the credentials of the process, and
//! renews them before they expire.
//!
//! Upstream: k8s.io/controller-manager `pkg/clientbuilder/client_builder_dynamic.go`.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Response, StatusCode};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Client;
use kube::api::PostParams;
use kube::client::Body;
use kube::core::ObjectMeta;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tower::{BoxError, Layer, Service};

use super::token_file::TokenFile;
use super::{ConnectError, is_already_exists, is_not_found};
use crate::api::Api;
use crate::component::{ClientBuilder, Component, accounts};

/// The requested lifetime of a token, seconds. Upstream: `defaultExpirationSeconds`.
const LIFETIME: i64 = 3600;
/// A token is used for this part of its lifetime, percent. Upstream: 100 - `defaultLeewayPercent`.
const USED: u32 = 80;
/// The shortest assumed lifetime: the clocks of server and client may differ.
const SHORTEST: Duration = Duration::from_secs(600);

/// Why a service account has no token. The text never contains tokens.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The account cannot be read or created.
    #[error(
        "cannot create service account {namespace}/{name}: {cause}; grant the user of this process the role \
         system:kube-controller-manager"
    )]
    Account {
        /// The namespace.
        namespace: &'static str,
        /// The name.
        name: &'static str,
        /// The server's error.
        cause: Box<kube::Error>,
    },
    /// The server issued no token.
    #[error(
        "cannot request a token for service account {namespace}/{name}: {cause}; grant the user of this process \
         the role system:kube-controller-manager"
    )]
    Request {
        /// The namespace.
        namespace: &'static str,
        /// The name.
        name: &'static str,
        /// The server's error.
        cause: Box<kube::Error>,
    },
    /// The response contains no usable token.
    #[error("the server sent no token for service account {namespace}/{name}")]
    Missing {
        /// The namespace.
        namespace: &'static str,
        /// The name.
        name: &'static str,
    },
}

/// The token of one account, requested when it is first needed.
pub struct AccountToken {
    client: Client,
    namespace: &'static str,
    name: &'static str,
    current: Mutex<Option<Current>>,
}

struct Current {
    header: HeaderValue,
    until: Instant,
}

impl AccountToken {
    fn new(client: Client, namespace: &'static str, name: &'static str) -> Self {
        Self { client, namespace, name, current: Mutex::default() }
    }

    /// The header with a valid token. Requests of the same account wait for one renewal.
    async fn header(&self) -> Result<HeaderValue, TokenError> {
        let mut current = self.current.lock().await;
        if let Some(known) = current.as_ref().filter(|known| known.until > Instant::now()) {
            return Ok(known.header.clone());
        }
        let fresh = self.request().await?;
        let header = fresh.header.clone();
        *current = Some(fresh);
        Ok(header)
    }

    /// Discards a token that the server rejects, for example because the account was deleted and created again.
    async fn rejected(&self, header: &HeaderValue) {
        let mut current = self.current.lock().await;
        current.take_if(|known| known.header == *header);
    }

    async fn request(&self) -> Result<Current, TokenError> {
        let (namespace, name) = (self.namespace, self.name);
        let asked = Instant::now();
        let spec = TokenRequestSpec { expiration_seconds: Some(LIFETIME), ..TokenRequestSpec::default() };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let mut answer = self.create_token(&accounts, &request).await;
        if answer.as_ref().err().is_some_and(is_not_found) {
            self.create_account(&accounts).await?;
            answer = self.create_token(&accounts, &request).await;
        }
        let answer =
            answer.map_err(|cause| TokenError::Request { namespace, name, cause: Box::new(cause) })?;
        let missing = TokenError::Missing { namespace, name };
        let token = answer.status.and_then(|status| status.token).filter(|token| !token.is_empty());
        let Some(token) = token else { return Err(missing) };
        let Ok(mut header) = HeaderValue::from_str(&format!("Bearer {token}")) else { return Err(missing) };
        header.set_sensitive(true);
        // The server may shorten the lifetime.
        let seconds = answer
            .spec
            .and_then(|spec| spec.expiration_seconds)
            .and_then(|seconds| u64::try_from(seconds).ok());
        let lifetime = Duration::from_secs(seconds.unwrap_or_default()).max(SHORTEST);
        Ok(Current { header, until: asked + lifetime * USED / 100 })
    }

    async fn create_token(
        &self,
        accounts: &Api<ServiceAccount>,
        request: &TokenRequest,
    ) -> kube::Result<TokenRequest> {
        accounts.create_subresource("token", self.name, &PostParams::default(), request).await
    }

    async fn create_account(&self, accounts: &Api<ServiceAccount>) -> Result<(), TokenError> {
        let (namespace, name) = (self.namespace, self.name);
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let account = ServiceAccount { metadata, ..ServiceAccount::default() };
        match accounts.create(&PostParams::default(), &account).await {
            Ok(_) => Ok(()),
            Err(error) if is_already_exists(&error) => Ok(()),
            Err(cause) => Err(TokenError::Account { namespace, name, cause: Box::new(cause) }),
        }
    }
}

/// Creates the client of an account from its token.
type Connects = Box<dyn Fn(Arc<AccountToken>) -> Result<Client, ConnectError> + Send + Sync>;

/// A client for each service account. Upstream: `DynamicControllerClientBuilder`.
pub struct AccountClients {
    own: Client,
    namespace: &'static str,
    connects: Connects,
}

impl AccountClients {
    /// `own` requests the tokens; `connects` creates a client that sends one.
    pub(super) fn new(
        own: Client,
        namespace: &'static str,
        connects: impl Fn(Arc<AccountToken>) -> Result<Client, ConnectError> + Send + Sync + 'static,
    ) -> Self {
        Self { own, namespace, connects: Box::new(connects) }
    }
}

impl ClientBuilder for AccountClients {
    fn client(&self, component: Component) -> Client {
        let name = match component {
            // As upstream: the caches have the credentials of the process.
            Component::ControllerManager => return self.own.clone(),
            Component::Scheduler => accounts::ORLOP_SCHEDULER,
            Component::Account(name) => name,
        };
        let token = AccountToken::new(self.own.clone(), self.namespace, name);
        (self.connects)(Arc::new(token)).unwrap_or_else(|error| {
            // The same settings were valid when the process started; since then, a file that they name was removed.
            tracing::error!(
                account = name,
                "{error}; the controller uses the credentials of the process instead of its own"
            );
            self.own.clone()
        })
    }
}

/// The origin of a client's token.
#[derive(Clone)]
pub(super) enum TokenSource {
    /// The token of a service account, which the server issues.
    Account(Arc<AccountToken>),
    /// The token in a file.
    File(Arc<TokenFile>),
}

/// Adds the token to each request; without one, it changes nothing.
pub(super) struct TokenLayer(pub(super) Option<TokenSource>);

impl<S> Layer<S> for TokenLayer {
    type Service = WithToken<S>;

    fn layer(&self, inner: S) -> WithToken<S> {
        WithToken { inner: Arc::new(Mutex::new(inner)), token: self.0.clone() }
    }
}

/// A client's service that sends a token.
pub(super) struct WithToken<S> {
    /// Locked only while a request starts, never while it waits for its token.
    inner: Arc<Mutex<S>>,
    token: Option<TokenSource>,
}

impl<S, B> Service<Request<Body>> for WithToken<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let (inner, token) = (Arc::clone(&self.inner), self.token.clone());
        Box::pin(async move {
            let header = match &token {
                Some(TokenSource::Account(token)) => Some(token.header().await?),
                Some(TokenSource::File(file)) => Some(file.header()),
                None => None,
            };
            if let Some(header) = &header {
                request.headers_mut().insert(AUTHORIZATION, header.clone());
            }
            let answer = {
                let mut inner = inner.lock().await;
                poll_fn(|context| inner.poll_ready(context)).await.map_err(Into::into)?;
                inner.call(request)
            };
            let answer = answer.await.map_err(Into::into)?;
            if answer.status() == StatusCode::UNAUTHORIZED {
                match (&token, &header) {
                    (Some(TokenSource::Account(token)), Some(header)) => token.rejected(header).await,
                    (Some(TokenSource::File(file)), _) => file.rejected(),
                    (Some(TokenSource::Account(_)) | None, _) => {}
                }
            }
            Ok(answer)
        })
    }
}

#[cfg(test)]
mod tests;
