//! Impersonation: the user that a request wants to act as, and the rights that it needs for that.
//!
//! Upstream: apiserver `pkg/endpoints/filters/impersonation`; KEP-5284 for the verbs `impersonate-on:*` and `impersonate:*`.

use std::collections::BTreeMap;

use http::HeaderMap;
use percent_encoding::percent_decode_str;

use crate::UserInfo;
use crate::request_info::{RequestInfo, RequestTarget, ResourceTarget};
use crate::selection::Selection;
use crate::user::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// The identity that a request impersonates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impersonation {
    user: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

/// Headers that name no user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "requested groups, a UID or extra attributes without impersonating a user name; set Impersonate-User"
)]
pub struct NoUserName;

impl Impersonation {
    /// The headers of a request; `None` without any.
    ///
    /// # Errors
    /// [`NoUserName`].
    pub fn of(headers: &HeaderMap) -> Result<Option<Self>, NoUserName> {
        if !headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
            return Ok(None);
        }
        let texts = |name: &str| -> Vec<String> {
            let all = headers.get_all(name).iter();
            all.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
        };
        let first = |name: &str| texts(name).into_iter().next().unwrap_or_default();
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for name in headers.keys() {
            if let Some(key) = name.as_str().strip_prefix(EXTRA) {
                let key = percent_decode_str(key).decode_utf8_lossy().into_owned();
                extra.entry(key).or_default().extend(texts(name.as_str()));
            }
        }
        let wanted = Impersonation { user: first(USER), uid: first(UID), groups: texts(GROUP), extra };
        let has_more = !(wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty());
        match (wanted.user.is_empty(), has_more) {
            (true, true) => Err(NoUserName),
            (true, false) => Ok(None),
            (false, _) => Ok(Some(wanted)),
        }
    }

    /// Namespace and name of a service account.
    fn account(&self) -> Option<(&str, &str)> {
        let account = self.user.strip_prefix(SERVICE_ACCOUNT)?.split_once(':');
        account.filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty() && !name.contains(':'))
    }

    /// The name of the constrained mode for this user.
    fn mode(&self) -> &'static str {
        match self.user.as_str() {
            _ if self.account().is_some() => "serviceaccount",
            user if user.starts_with("system:node:") => "arbitrary-node",
            _ => "user-info",
        }
    }

    /// The right to perform a request as such a user at all.
    pub fn on(&self, request: &RequestInfo) -> RequestInfo {
        let verb = format!("impersonate-on:{}:{}", self.mode(), request.verb);
        RequestInfo { verb: verb.into(), target: request.target.clone() }
    }

    /// The further rights of the constrained mode.
    pub fn constrained(&self) -> Vec<RequestInfo> {
        let verb = format!("impersonate:{}", self.mode());
        let group = match self.mode() {
            "serviceaccount" => "",
            _ => AUTHENTICATION,
        };
        // A node is named as such, not as a user.
        let user = match self.user.strip_prefix("system:node:") {
            Some(node) => right(&verb, AUTHENTICATION, "", "nodes", "", node),
            None => self.user_right(&verb, group),
        };
        self.rights(&verb, AUTHENTICATION, user)
    }

    /// The rights of unconstrained impersonation: the verb `impersonate`.
    pub fn unconstrained(&self) -> Vec<RequestInfo> {
        self.rights("impersonate", "", self.user_right("impersonate", ""))
    }

    fn user_right(&self, verb: &str, group: &str) -> RequestInfo {
        match self.account() {
            Some((namespace, name)) => right(verb, "", namespace, "serviceaccounts", "", name),
            None => right(verb, group, "", "users", "", &self.user),
        }
    }

    fn rights(&self, verb: &str, group: &str, user: RequestInfo) -> Vec<RequestInfo> {
        let mut rights = vec![user];
        rights.extend(self.groups.iter().map(|name| right(verb, group, "", "groups", "", name)));
        if !self.uid.is_empty() {
            rights.push(right(verb, AUTHENTICATION, "", "uids", "", &self.uid));
        }
        for (key, values) in &self.extra {
            rights
                .extend(values.iter().map(|value| right(verb, AUTHENTICATION, "", "userextras", key, value)));
        }
        rights
    }

    /// The user as which the request runs.
    pub fn user(self) -> UserInfo {
        let mut groups = self.groups.clone();
        if groups.is_empty()
            && let Some((namespace, _)) = self.account()
        {
            groups = vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
        }
        let default = if self.user == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
        if !groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED) {
            groups.push(default.to_owned());
        }
        UserInfo { username: self.user, uid: self.uid, groups, extra: self.extra }
    }
}

fn right(
    verb: &str,
    group: &str,
    namespace: &str,
    resource: &str,
    subresource: &str,
    name: &str,
) -> RequestInfo {
    let text = str::to_owned;
    let target = ResourceTarget {
        group: text(group),
        version: "v1".to_owned(),
        namespace: text(namespace),
        resource: text(resource),
        subresource: text(subresource),
        name: text(name),
        selection: Selection::default(),
    };
    RequestInfo { verb: text(verb).into(), target: RequestTarget::Resource(target) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(headers: &[(&'static str, &str)]) -> Result<Option<Impersonation>, NoUserName> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().expect("a header value"));
        }
        Impersonation::of(&map)
    }

    fn shown(rights: &[RequestInfo]) -> Vec<String> {
        let shown = |right: &RequestInfo| match &right.target {
            RequestTarget::Resource(at) => {
                format!(
                    "{} {}/{}/{}/{}/{}",
                    right.verb, at.group, at.namespace, at.resource, at.subresource, at.name
                )
            }
            RequestTarget::Path(path) => format!("{} {path}", right.verb),
        };
        rights.iter().map(shown).collect()
    }

    #[test]
    fn headers_name_the_user() {
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&[("impersonate-group", "g")]), Err(NoUserName));
        assert_eq!(of(&[("impersonate-uid", "u")]), Err(NoUserName));
        let headers = [
            ("impersonate-user", "bob"),
            ("impersonate-group", "a"),
            ("impersonate-group", "b"),
            ("impersonate-uid", "u"),
            ("impersonate-extra-acme.com%2fscope", "x"),
            ("impersonate-extra-acme.com%2fscope", "y"),
        ];
        let bob = of(&headers).expect("a user").expect("a user");
        assert_eq!(
            shown(&bob.unconstrained()),
            [
                "impersonate //users//bob",
                "impersonate //groups//a",
                "impersonate //groups//b",
                "impersonate authentication.k8s.io//uids//u",
                "impersonate authentication.k8s.io//userextras/acme.com/scope/x",
                "impersonate authentication.k8s.io//userextras/acme.com/scope/y",
            ]
        );
        let user = bob.user();
        assert_eq!((user.username.as_str(), user.uid.as_str()), ("bob", "u"));
        assert_eq!(user.groups, ["a", "b", "system:authenticated"]);
        assert_eq!(user.extra["acme.com/scope"], ["x", "y"]);
    }

    #[test]
    fn users_get_the_groups_of_their_kind() {
        for (name, groups) in [
            ("bob", &["system:authenticated"][..]),
            ("system:anonymous", &["system:unauthenticated"]),
            (
                "system:serviceaccount:n:robot",
                &["system:serviceaccounts", "system:serviceaccounts:n", "system:authenticated"],
            ),
        ] {
            let wanted = of(&[("impersonate-user", name)]).expect("a user").expect("a user");
            assert_eq!(wanted.user().groups, groups, "{name}");
        }
    }

    #[test]
    fn constrained_rights_depend_on_the_kind_of_user() {
        let list = RequestInfo {
            verb: "list".into(),
            target: RequestTarget::Resource(ResourceTarget {
                resource: "pods".to_owned(),
                ..ResourceTarget::default()
            }),
        };
        for (name, on, user) in [
            (
                "bob",
                "impersonate-on:user-info:list",
                "impersonate:user-info authentication.k8s.io//users//bob",
            ),
            (
                "system:node:n1",
                "impersonate-on:arbitrary-node:list",
                "impersonate:arbitrary-node authentication.k8s.io//nodes//n1",
            ),
            (
                "system:serviceaccount:n:robot",
                "impersonate-on:serviceaccount:list",
                "impersonate:serviceaccount /n/serviceaccounts//robot",
            ),
        ] {
            let wanted = of(&[("impersonate-user", name)]).expect("a user").expect("a user");
            assert_eq!(wanted.on(&list).verb, on);
            assert_eq!(shown(&wanted.constrained()), [user]);
        }
    }
}
