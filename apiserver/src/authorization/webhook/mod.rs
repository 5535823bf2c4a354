//! The mode Webhook: sends SubjectAccessReviews to another server.
//!
//! [`match_conditions`] decides whether a request needs a call, and [`answer_cache`] caches the answers.
//!
//! Upstream: apiserver `plugin/pkg/authorizer/webhook/webhook.go`.

mod answer_cache;
mod match_conditions;

use std::sync::{Arc, mpsc};

use orlop_auth::UserInfo;
use orlop_auth::access_review::{self, ReviewAnswer};
use orlop_auth::request_info::{RequestInfo, RequestTarget};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::runtime::{Handle, RuntimeFlavor};

use super::options::WebhookSettings;
use crate::admission::policy::conditions::Conditions;
use crate::webhook_client::{ReviewClient, WebhookPost};
use answer_cache::{AnswerCache, AnswerKey};

/// Maximum size of the attributes of a request whose answer is cached, bytes, as upstream.
const MAX_CACHED_ATTRIBUTES: usize = 10_000;

/// A connected authorization webhook.
#[derive(Clone)]
pub struct AuthorizationWebhookConfig {
    /// Sends a review.
    pub post: WebhookPost,
    /// The settings of the calls.
    pub settings: WebhookSettings,
}

/// The opinion of a webhook about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Opinion {
    pub(super) verdict: Verdict,
    /// The webhook's reason.
    pub(super) reason: String,
    /// Why there is no valid answer.
    pub(super) error: Option<String>,
}

/// The verdict of an authorizer that can also reject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The request is permitted.
    Allow,
    /// The request is rejected; no other mode can permit it.
    Deny,
    /// Other modes decide.
    NoOpinion,
}

/// An authorization webhook.
pub(super) struct AuthorizationWebhook {
    client: ReviewClient,
    settings: WebhookSettings,
    conditions: Conditions,
    cache: Mutex<AnswerCache>,
    /// The runtime of the calls that another thread waits for.
    runtime: Handle,
}

impl AuthorizationWebhook {
    /// A webhook whose calls run on the current runtime.
    pub(super) fn new(config: AuthorizationWebhookConfig) -> Self {
        let AuthorizationWebhookConfig { post, settings } = config;
        AuthorizationWebhook {
            client: ReviewClient::new(post, settings.timeout),
            conditions: match_conditions::compiled(&settings.match_conditions),
            settings,
            cache: Mutex::default(),
            runtime: Handle::current(),
        }
    }

    fn failed(&self, error: String) -> Opinion {
        let verdict = if self.settings.denies_on_failure { Verdict::Deny } else { Verdict::NoOpinion };
        Opinion { verdict, reason: String::new(), error: Some(error) }
    }

    /// The opinion without a call, or the review to send and the key of its answer.
    fn prepare(&self, user: &UserInfo, request: &RequestInfo) -> Result<Question, Opinion> {
        let spec = access_review::spec(user, request);
        match match_conditions::match_review(&self.conditions, &spec) {
            Ok(true) => {}
            Ok(false) => return Err(opinion(ReviewAnswer::default())),
            Err(error) => return Err(self.failed(error)),
        }
        let review = access_review::document(self.settings.version, spec);
        let key = may_cache(request).then(|| answer_cache::key(&review));
        match key.and_then(|key| self.cache.lock().get(key)) {
            Some(answer) => Err(opinion(answer)),
            None => Ok(Question { review, key }),
        }
    }

    /// Decides about a request.
    pub(super) async fn decide(&self, user: &UserInfo, request: &RequestInfo) -> Opinion {
        match self.prepare(user, request) {
            Ok(question) => self.ask(question).await,
            Err(opinion) => opinion,
        }
    }

    async fn ask(&self, Question { review, key }: Question) -> Opinion {
        let answer = self.client.review(&review).await.map_err(|error| error.to_string());
        match answer.and_then(|answer| ReviewAnswer::of(&answer, self.settings.version)) {
            Ok(answer) => {
                let WebhookSettings { authorized_ttl, unauthorized_ttl, .. } = self.settings;
                let ttl = if answer.allowed { authorized_ttl } else { unauthorized_ttl };
                if let Some(key) = key.filter(|_| !ttl.is_zero()) {
                    self.cache.lock().put(key, answer.clone(), ttl);
                }
                opinion(answer)
            }
            Err(error) => {
                tracing::error!(error, "the authorization webhook did not answer");
                self.failed(error)
            }
        }
    }

    /// Decides about a request on a thread that cannot wait for a future. The runtime replaces the thread meanwhile.
    pub(super) fn decide_blocking(self: &Arc<Self>, user: &UserInfo, request: &RequestInfo) -> Opinion {
        let question = match self.prepare(user, request) {
            Ok(question) => question,
            Err(opinion) => return opinion,
        };
        let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor()).ok();
        if flavor == Some(RuntimeFlavor::CurrentThread) {
            return self.failed("no other thread can call the authorization webhook".to_owned());
        }
        let (sender, receiver) = mpsc::sync_channel(1);
        let webhook = self.clone();
        self.runtime.spawn(async move {
            // The receiver was dropped if the server shuts down.
            let _ = sender.send(webhook.ask(question).await);
        });
        let wait = || receiver.recv();
        let opinion = if flavor.is_some() { tokio::task::block_in_place(wait) } else { wait() };
        opinion.unwrap_or_else(|_| self.failed("the server is shutting down".to_owned()))
    }
}

/// A review that must be sent.
struct Question {
    review: Value,
    /// The key of the answer, if it is cached.
    key: Option<AnswerKey>,
}

/// Checks that a match condition compiles.
///
/// # Errors
/// The compile error.
pub(super) fn check_condition(expression: &str) -> Result<(), String> {
    match_conditions::check(expression)
}

/// Whether the answer about a request is cached.
fn may_cache(request: &RequestInfo) -> bool {
    let size = match &request.target {
        RequestTarget::Path(path) => path.len(),
        RequestTarget::Resource(at) => {
            let parts = [&at.group, &at.version, &at.namespace, &at.resource, &at.subresource, &at.name];
            parts.into_iter().map(String::len).sum()
        }
    };
    size + request.verb.len() < MAX_CACHED_ATTRIBUTES
}

fn opinion(answer: ReviewAnswer) -> Opinion {
    let both = "webhook subject access review returned both allow and deny response";
    let (verdict, error) = match (answer.denied, answer.allowed) {
        (true, true) => (Verdict::Deny, Some(both.to_owned())),
        (true, false) => (Verdict::Deny, None),
        (false, true) => (Verdict::Allow, None),
        (false, false) => (Verdict::NoOpinion, None),
    };
    Opinion { verdict, reason: answer.reason, error }
}

#[cfg(test)]
pub(super) mod tests;
