//! Tokens with which this server shows itself to the agents of nodes. Each is for one node and for one minute, and it is worth nothing
//! anywhere else: requests to this server are not believed with it. The agent asks a TokenReview whose it is.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::hmac;
use ring::rand::SystemRandom;

use super::user::UserInfo;

/// What such a token begins with.
const PREFIX: &str = "orlop-node.";
/// What this server calls itself.
const USER: &str = "system:kube-apiserver";
/// Before the node's name it is whom the token is for.
const AUDIENCE: &str = "orlop.dev/node/";
/// How long a token holds, seconds.
const SECONDS: i64 = 60;

/// Makes such tokens and knows them again. The key is made at the start and is nowhere else.
#[derive(Clone)]
pub struct KubeletTokens(Arc<hmac::Key>);

impl KubeletTokens {
    /// With a fresh key; `None` when the system gives no random numbers.
    pub fn new() -> Option<Self> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).ok()?;
        Some(KubeletTokens(Arc::new(key)))
    }

    /// A token for the agent of a node.
    pub fn issue(&self, node: &str, now: Timestamp) -> String {
        let claim = format!("{}.{node}", now.as_second().saturating_add(SECONDS));
        let tag = hmac::sign(&self.0, claim.as_bytes());
        format!("{PREFIX}{}.{}", URL_SAFE_NO_PAD.encode(&claim), URL_SAFE_NO_PAD.encode(tag))
    }

    /// Whose token this is, and for whom; `None` when it is another kind of token.
    pub fn whose(
        &self,
        token: &str,
        audiences: &[String],
        now: Timestamp,
    ) -> Option<Result<(UserInfo, Vec<String>), String>> {
        let token = token.strip_prefix(PREFIX)?;
        let invalid = || "invalid bearer token".to_owned();
        let Some(node) = self.node_of(token, now) else { return Some(Err(invalid())) };
        let audience = format!("{AUDIENCE}{node}");
        // Who does not ask for this audience would take it for a token of this server.
        if !audiences.contains(&audience) {
            return Some(Err(invalid()));
        }
        Some(Ok((UserInfo::new(USER, []), vec![audience])))
    }

    /// The node that a good token is for.
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
    fn a_token_is_good_for_one_node_and_one_minute() {
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
            let got = tokens.whose(token, &audiences, at(now));
            assert_eq!(got.as_ref().map(Result::is_ok), want, "{name}");
            if let Some(Ok((user, audiences))) = got {
                assert_eq!((user.username.as_str(), audiences), (USER, vec![own.to_owned()]), "{name}");
            }
        }
    }
}
