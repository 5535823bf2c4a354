//! Service account tokens for pods (upstream: pkg/kubelet/token). A token is requested when a volume is set up,
//! and again after 80 % of its lifetime or a day. It is valid for one pod only: the server binds it to the pod.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount, ServiceAccountTokenProjection};
use kube::Client;
use kube::api::PostParams;
use orlop_client::api::Api;
use orlop_client::client::message_of;

/// The longest time that a token is used.
const MOST: SignedDuration = SignedDuration::from_hours(24);
/// Default lifetime of a token in seconds. The server has the same default.
const SECONDS: i64 = 3600;
/// Jitter of the renewal in seconds, so that tokens that were issued together are renewed at different times.
const SPREAD: f64 = 10.0;

/// The identity of a token: audience and lifetime.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct TokenKey {
    audience: Option<String>,
    seconds: i64,
}

/// A token.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Token {
    /// The token as text, which is secret.
    pub(super) text: String,
    made: Timestamp,
    expires: Timestamp,
    spread: SignedDuration,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "token until {}", self.expires)
    }
}

impl TokenKey {
    /// The token that a volume requests.
    pub(super) fn of(projection: &ServiceAccountTokenProjection) -> Self {
        let audience = projection.audience.clone().filter(|audience| !audience.is_empty());
        Self { audience, seconds: projection.expiration_seconds.unwrap_or(SECONDS) }
    }
}

impl Token {
    fn new(text: String, expires: Timestamp, seconds: i64, spread: f64) -> Self {
        let life = SignedDuration::from_secs(seconds.clamp(0, 1 << 33));
        Self {
            text,
            made: expires.saturating_sub(life).unwrap_or(Timestamp::MIN),
            expires,
            spread: SignedDuration::from_millis(millis(spread)),
        }
    }

    /// The time of the renewal.
    pub(super) fn renewal(&self) -> Timestamp {
        let life = self.expires.duration_since(self.made);
        let early = self.expires.saturating_sub(life / 5).unwrap_or(self.made);
        let day = self.made.saturating_add(MOST).unwrap_or(Timestamp::MAX);
        early.min(day).saturating_sub(self.spread).unwrap_or(self.made)
    }

    /// Whether it must be renewed. A token issued in the future was issued before the clock was changed.
    pub(super) fn is_old(&self, now: Timestamp) -> bool {
        now > self.renewal() || now < self.made
    }

    fn is_expired(&self, now: Timestamp) -> bool {
        now > self.expires
    }
}

#[expect(clippy::cast_possible_truncation, reason = "between 0 and 10000")]
fn millis(spread: f64) -> i64 {
    (spread * SPREAD * 1000.0) as i64
}

/// A token of the pod's account: the cached one until its renewal, then a new one; if none is issued, the cached
/// one until it expires.
///
/// # Errors
/// There is no valid token. The text is upstream's.
pub(super) async fn fetch(
    client: &Client,
    pod: &Pod,
    key: &TokenKey,
    at_hand: Option<&Token>,
    now: Timestamp,
) -> Result<Token, String> {
    if let Some(token) = at_hand.filter(|token| !token.is_old(now)) {
        return Ok(token.clone());
    }
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref());
    let account = account.filter(|account| !account.is_empty()).unwrap_or("default");
    match request(client, pod, namespace, account, key).await {
        Ok(token) => Ok(token),
        Err(error) => match at_hand {
            None => Err(format!("failed to fetch token: {error}")),
            Some(token) if token.is_expired(now) => Err(format!(
                "token of service account {namespace}/{account} expired and refresh failed: {error}"
            )),
            Some(token) => {
                tracing::warn!(
                    namespace,
                    account,
                    error,
                    "a token is not renewed; the old one is still good"
                );
                Ok(token.clone())
            }
        },
    }
}

async fn request(
    client: &Client,
    pod: &Pod,
    namespace: &str,
    account: &str,
    key: &TokenKey,
) -> Result<Token, String> {
    let bound = BoundObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
    };
    let spec = TokenRequestSpec {
        audiences: Some(key.audience.iter().cloned().collect()),
        bound_object_ref: Some(bound),
        expiration_seconds: Some(key.seconds),
    };
    let wanted = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    let api: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let answer = api.create_subresource("token", account, &PostParams::default(), &wanted).await;
    let answer: TokenRequest = answer.map_err(|error| message_of(&error))?;
    let seconds = answer.spec.and_then(|spec| spec.expiration_seconds).unwrap_or(key.seconds);
    let status = answer.status.unwrap_or_default();
    match (status.token.filter(|token| !token.is_empty()), status.expiration_timestamp) {
        (Some(text), Some(expires)) => Ok(Token::new(text, expires.0, seconds, rand::random())),
        _ => Err("the server answered without a token".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn tokens_are_renewed_at_four_fifths_or_after_a_day() {
        let start = Timestamp::from_second(1_000_000).unwrap();
        let at = |seconds: i64| Timestamp::from_second(1_000_000 + seconds).unwrap();
        for (life, spread, renewal) in [
            (600, 0.0, 480),
            (3600, 0.0, 2880),
            (3600, 0.5, 2875),
            (3607, 1.0, 2875),
            (86_400, 0.0, 69_120),
            (200_000, 0.0, 86_400),
            (200_000, 1.0, 86_390),
        ] {
            let token = Token::new("geheim".to_owned(), at(life), life, spread);
            assert_eq!(token.made, start);
            let early = token.renewal().duration_since(start).as_secs();
            assert_eq!(early, renewal, "{life} {spread}");
            assert!(!token.is_old(token.renewal()), "{life}");
            assert!(token.is_old(at(renewal + 1)), "{life}");
            assert!(token.is_old(at(-1)), "the clock was set back");
            assert!(!token.is_expired(at(life)) && token.is_expired(at(life + 1)));
            assert!(!format!("{token:?}").contains("geheim"));
        }
    }
}
