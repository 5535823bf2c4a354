//! Tokens that authenticate this server to node agents. Each is valid for one node and one minute, and does not authenticate requests to
//! this server. The agent verifies it with a TokenReview.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::hmac;
use ring::rand::SystemRandom;

use super::user::UserInfo;

/// Prefix of these tokens.
const PREFIX: &str = "orlop-node.";
/// The user name of this server.
const USER: &str = "system:kube-apiserver";
/// Prefix of the audience; the node's name follows.
const AUDIENCE: &str = "orlop.dev/node/";
/// Validity in seconds.
const SECONDS: i64 = 60;

/// Issues and verifies these tokens. The key is generated at the start and only in memory.
#[derive(Clone)]
pub struct KubeletTokens(Arc<hmac::Key>);

impl KubeletTokens {
    /// With a fresh key; `None` if the system has no random numbers.
    pub fn new() -> Option<Self> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).ok()?;
        Some(KubeletTokens(Arc::new(key)))
    }

    /// Issues a token for the agent of a node.
    pub fn issue(&self, node: &str, now: Timestamp) -> String {
        let claim = format!("{}.{node}", now.as_second().saturating_add(SECONDS));
        let tag = hmac::sign(&self.0, claim.as_bytes());
        format!("{PREFIX}{}.{}", URL_SAFE_NO_PAD.encode(&claim), URL_SAFE_NO_PAD.encode(tag))
    }

    /// The user and the audiences of a token; none for another kind of token.
    pub fn user_of(
        &self,
        token: &str,
        audiences: &[String],
        now: Timestamp,
    ) -> Option<Result<(UserInfo, Vec<String>), String>> {
        let token = token.strip_prefix(PREFIX)?;
        let invalid = || "invalid bearer token".to_owned();
        let Some(node) = self.node_of(token, now) else { return Some(Err(invalid())) };
        let audience = format!("{AUDIENCE}{node}");
        // Without this audience the caller would accept it as a token for this server.
        if !audiences.contains(&audience) {
            return Some(Err(invalid()));
        }
        Some(Ok((UserInfo::new(USER, []), vec![audience])))
    }

    /// The node of a valid token.
    fn node_of(&self, token: &str, now: Timestamp) -> Option<String> {
        let (claim, tag) = token.split_once('.')?;
        let claim = URL_SAFE_NO_PAD.decode(claim).ok()?;
        let tag = URL_SAFE_NO_PAD.decode(tag).ok()?;
        hmac::verify(&self.0, &claim, &tag).ok()?;
        let claim = String::from_utf8(claim).ok()?;
        let (until, node) = claim.split_once('.')?;
        (now.as_second() < until.parse().ok()?).then(|| node.to_owned())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn token_is_valid_for_one_node_and_one_minute() {
        let tokens = KubeletTokens::new().unwrap();
        let at = |second| Timestamp::from_second(second).unwrap();
        let token = tokens.issue("n.example", at(100));
        let other = KubeletTokens::new().unwrap().issue("n.example", at(100));
        let cut = &token[..token.len() - 2];
        let own = "orlop.dev/node/n.example";
        for (name, token, audiences, now, want) in [
            ("good", token.as_str(), &[own][..], 159, Some(true)),
            ("one of several", &token, &["x", own], 100, Some(true)),
            ("too late", &token, &[own], 160, Some(false)),
            ("another node", &token, &["orlop.dev/node/m"], 100, Some(false)),
            ("for this server", &token, &[], 100, Some(false)),
            ("another server's", &other, &[own], 100, Some(false)),
            ("cut", cut, &[own], 100, Some(false)),
            ("empty", "orlop-node.", &[own], 100, Some(false)),
            ("another kind", "abc", &[own], 100, None),
        ] {
            let audiences: Vec<String> = audiences.iter().map(|one| (*one).to_owned()).collect();
            let got = tokens.user_of(token, &audiences, at(now));
            assert_eq!(got.as_ref().map(Result::is_ok), want, "{name}");
            if let Some(Ok((user, audiences))) = got {
                assert_eq!((user.username.as_str(), audiences), (USER, vec![own.to_owned()]), "{name}");
            }
        }
    }
}
