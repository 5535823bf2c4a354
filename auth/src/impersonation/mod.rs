//! Impersonation: the user that a request wants to act as, and the rights that it needs for that.
//!
//! Upstream: apiserver `pkg/endpoints/filters/impersonation`; KEP-5284 for the verbs `impersonate-on:*` and `impersonate:*`.

mod mode;

use std::collections::BTreeMap;

use http::HeaderMap;
use percent_encoding::percent_decode_str;

pub use self::mode::Mode;
use self::mode::{Refusal, node_name, service_account};
use crate::UserInfo;
use crate::request_info::{RequestInfo, RequestTarget, ResourceTarget};
use crate::selection::Selection;
use crate::user::{ANONYMOUS, AUTHENTICATED, NODES, UNAUTHENTICATED};

/// The header with the name of the user, without which a request impersonates no user.
pub const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";
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
        match (wanted.user.is_empty(), wanted.has_only_name()) {
            (true, false) => Err(NoUserName),
            (true, true) => Ok(None),
            (false, _) => Ok(Some(wanted)),
        }
    }

    /// Whether it has no groups, UID and extra attributes.
    fn has_only_name(&self) -> bool {
        self.uid.is_empty() && self.groups.is_empty() && self.extra.is_empty()
    }

    /// The attempts of a request of a user to run as this user, in order: the first one whose checks all succeed decides. As upstream,
    /// the error of the first attempt is the response if none succeeds.
    pub fn attempts(&self, requester: &UserInfo, request: &RequestInfo) -> Vec<Attempt> {
        let modes = Mode::all(&self.user, self.has_only_name(), requester);
        modes
            .into_iter()
            .map(|mode| Attempt {
                mode,
                requester: mode.requester(requester),
                checks: match mode.name() {
                    None => self.checks("impersonate", "", self.user_right("impersonate", "")),
                    Some(name) => self.constrained(mode, name, request),
                },
                user: self.impersonated(mode),
            })
            .collect()
    }

    fn constrained(&self, mode: Mode, name: &str, request: &RequestInfo) -> Vec<Check> {
        let on = format!("impersonate-on:{name}:{}", request.verb);
        let verb = mode.constraint();
        let user = match node_name(&self.user) {
            // The right covers each node on which the account runs.
            Some(_) if mode == Mode::AssociatedNode => right(&verb, AUTHENTICATION, "", "nodes", "", "*"),
            // A node is named as such, not as a user.
            Some(node) => right(&verb, AUTHENTICATION, "", "nodes", "", node),
            None => self.user_right(&verb, AUTHENTICATION),
        };
        let mut checks = vec![Check::right(RequestInfo { verb: on.into(), target: request.target.clone() })];
        checks.extend(self.checks(&verb, AUTHENTICATION, user));
        for Refusal { resource, name, why } in mode::refusals(&self.groups, &self.extra) {
            let at = checks.iter().position(|check| check.resource() == resource);
            let right = right(&verb, AUTHENTICATION, "", resource, "", name);
            checks.insert(at.unwrap_or(checks.len()), Check { right, refused: Some(why) });
        }
        checks
    }

    fn user_right(&self, verb: &str, group: &str) -> RequestInfo {
        match service_account(&self.user) {
            Some((namespace, name)) => right(verb, group, namespace, "serviceaccounts", "", name),
            None => right(verb, group, "", "users", "", &self.user),
        }
    }

    fn checks(&self, verb: &str, group: &str, user: RequestInfo) -> Vec<Check> {
        let mut rights = vec![user];
        if !self.uid.is_empty() {
            rights.push(right(verb, AUTHENTICATION, "", "uids", "", &self.uid));
        }
        rights.extend(self.groups.iter().map(|name| right(verb, group, "", "groups", "", name)));
        for (key, values) in &self.extra {
            rights
                .extend(values.iter().map(|value| right(verb, AUTHENTICATION, "", "userextras", key, value)));
        }
        rights.into_iter().map(Check::right).collect()
    }

    /// The user as which the request runs if the attempt in this mode succeeds.
    fn impersonated(&self, mode: Mode) -> UserInfo {
        let mut groups = self.groups.clone();
        if mode.is_of_nodes() {
            groups.push(NODES.to_owned());
        } else if groups.is_empty()
            && let Some((namespace, _)) = service_account(&self.user)
        {
            groups = vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
        }
        let has = |groups: &[String], group: &str| groups.iter().any(|one| one == group);
        if self.user == ANONYMOUS {
            if !has(&groups, UNAUTHENTICATED) {
                groups.push(UNAUTHENTICATED.to_owned());
            }
        } else if !has(&groups, UNAUTHENTICATED) && !has(&groups, AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        UserInfo { username: self.user.clone(), uid: self.uid.clone(), groups, extra: self.extra.clone() }
    }
}

/// One of the ways to impersonate a user.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The mode.
    pub mode: Mode,
    /// The user that needs the rights of the checks.
    pub requester: UserInfo,
    /// All of them must succeed, in order.
    pub checks: Vec<Check>,
    /// The user as which the request runs then.
    pub user: UserInfo,
}

/// A condition of an attempt.
#[derive(Clone, Debug)]
pub struct Check {
    /// The right that the requesting user needs.
    pub right: RequestInfo,
    /// The reason why no user has it.
    pub refused: Option<String>,
}

impl Check {
    fn right(right: RequestInfo) -> Self {
        Check { right, refused: None }
    }

    /// The resource of the right; empty for a path.
    fn resource(&self) -> &str {
        match &self.right.target {
            RequestTarget::Resource(at) => &at.resource,
            RequestTarget::Path(_) => "",
        }
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

    fn shown(checks: &[Check]) -> Vec<String> {
        let shown = |check: &Check| {
            let right = match &check.right.target {
                RequestTarget::Resource(at) => format!(
                    "{} {}/{}/{}/{}/{}",
                    check.right.verb, at.group, at.namespace, at.resource, at.subresource, at.name
                ),
                RequestTarget::Path(path) => format!("{} {path}", check.right.verb),
            };
            match &check.refused {
                Some(why) => format!("{right}: {why}"),
                None => right,
            }
        };
        checks.iter().map(shown).collect()
    }

    fn list() -> RequestInfo {
        let pods = ResourceTarget { resource: "pods".to_owned(), ..ResourceTarget::default() };
        RequestInfo { verb: "list".into(), target: RequestTarget::Resource(pods) }
    }

    fn attempts(headers: &[(&'static str, &str)]) -> Vec<Attempt> {
        attempts_of(&UserInfo::new("ann", []), headers)
    }

    fn attempts_of(requester: &UserInfo, headers: &[(&'static str, &str)]) -> Vec<Attempt> {
        of(headers).expect("a user").expect("a user").attempts(requester, &list())
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
        let [constrained, legacy] = <[Attempt; 2]>::try_from(attempts(&headers)).expect("two modes");
        assert_eq!(
            shown(&legacy.checks),
            [
                "impersonate //users//bob",
                "impersonate authentication.k8s.io//uids//u",
                "impersonate //groups//a",
                "impersonate //groups//b",
                "impersonate authentication.k8s.io//userextras/acme.com/scope/x",
                "impersonate authentication.k8s.io//userextras/acme.com/scope/y",
            ]
        );
        assert_eq!(
            shown(&constrained.checks)[..4],
            [
                "impersonate-on:user-info:list //pods//",
                "impersonate:user-info authentication.k8s.io//users//bob",
                "impersonate:user-info authentication.k8s.io//uids//u",
                "impersonate:user-info authentication.k8s.io//groups//a",
            ]
        );
        let user = legacy.user;
        assert_eq!((user.username.as_str(), user.uid.as_str()), ("bob", "u"));
        assert_eq!(user.groups, ["a", "b", "system:authenticated"]);
        assert_eq!(user.extra["acme.com/scope"], ["x", "y"]);
        assert_eq!(constrained.user, user);
    }

    #[test]
    fn users_get_the_groups_of_their_kind() {
        let account = ["system:serviceaccounts", "system:serviceaccounts:n", "system:authenticated"];
        for (name, constrained, legacy) in [
            ("bob", &["system:authenticated"][..], &["system:authenticated"][..]),
            ("system:anonymous", &["system:unauthenticated"], &["system:unauthenticated"]),
            ("system:serviceaccount:n:robot", &account, &account),
            ("system:node:n1", &["system:nodes", "system:authenticated"], &["system:authenticated"]),
        ] {
            let found = attempts(&[("impersonate-user", name)]);
            assert_eq!(found[0].user.groups, constrained, "{name}");
            assert_eq!(found[1].user.groups, legacy, "{name}");
        }
    }

    #[test]
    fn service_account_impersonates_the_node_on_which_it_runs() {
        let requester = |name: &str, nodes: &[&str]| {
            let mut user = UserInfo::new(name, []);
            let nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
            user.extra.insert("authentication.kubernetes.io/node-name".to_owned(), nodes);
            user.extra.insert("authentication.kubernetes.io/pod-name".to_owned(), vec!["p".to_owned()]);
            user
        };
        let account = "system:serviceaccount:n:agent";
        let node = ("impersonate-user", "system:node:n1");
        let [associated, arbitrary, legacy] = [Mode::AssociatedNode, Mode::ArbitraryNode, Mode::Legacy];
        for (case, user, headers, want) in [
            ("1 its node", requester(account, &["n1"]), vec![node], vec![associated, arbitrary, legacy]),
            ("2 another node", requester(account, &["n2"]), vec![node], vec![arbitrary, legacy]),
            ("3 two nodes", requester(account, &["n1", "n1"]), vec![node], vec![arbitrary, legacy]),
            ("4 another user", requester("ann", &["n1"]), vec![node], vec![arbitrary, legacy]),
            (
                "5 with a group",
                requester(account, &["n1"]),
                vec![node, ("impersonate-group", "g")],
                vec![legacy],
            ),
        ] {
            let modes: Vec<Mode> = attempts_of(&user, &headers).iter().map(|one| one.mode).collect();
            assert_eq!(modes, want, "{case}");
        }
        let user = requester(account, &["n1"]);
        let found = attempts_of(&user, &[node]).remove(0);
        assert_eq!(
            shown(&found.checks),
            [
                "impersonate-on:associated-node:list //pods//",
                "impersonate:associated-node authentication.k8s.io//nodes//*",
            ]
        );
        assert_eq!(found.user.groups, ["system:nodes", "system:authenticated"]);
        let keys = ["authentication.kubernetes.io/node-name", "authentication.kubernetes.io/pod-name"];
        let extra = BTreeMap::from([(
            "authentication.kubernetes.io/associated-node-keys".to_owned(),
            keys.map(str::to_owned).to_vec(),
        )]);
        assert_eq!(found.requester, UserInfo { extra, ..user.clone() });
        assert!(attempts_of(&user, &[node])[1..].iter().all(|one| one.requester == user));
    }

    /// Upstream's table: pkg/endpoints/filters/impersonation/mode.go.
    #[test]
    fn constrained_modes_limit_the_identity() {
        let on_user = "impersonate-on:user-info:list //pods//";
        let user = |name: &str| format!("impersonate:user-info authentication.k8s.io//users//{name}");
        let masters = "impersonate:user-info authentication.k8s.io//groups//system:masters: impersonating the \
                       system:masters group is not allowed";
        let group = |name: &str| format!("impersonate:user-info authentication.k8s.io//groups//{name}");
        let extra = |key: &str, value: &str| {
            format!("impersonate:user-info authentication.k8s.io//userextras/{key}/{value}")
        };
        let refused_extra = |why: &str| format!("{}: impersonating {why}", extra("", ""));
        let not_prefixed = "an invalid key in extra is not allowed: extra.key: Invalid value: \"scope\": must be a \
                            domain-prefixed path (such as \"acme.io/foo\")";
        let account = ("impersonate-user", "system:serviceaccount:n:robot");
        let node = ("impersonate-user", "system:node:n1");
        let bob = ("impersonate-user", "bob");
        for (case, headers, want) in [
            ("1 a user", vec![bob], Some(vec![on_user.to_owned(), user("bob")])),
            (
                "2 a node",
                vec![node],
                Some(vec![
                    "impersonate-on:arbitrary-node:list //pods//".to_owned(),
                    "impersonate:arbitrary-node authentication.k8s.io//nodes//n1".to_owned(),
                ]),
            ),
            (
                "3 a service account",
                vec![account],
                Some(vec![
                    "impersonate-on:serviceaccount:list //pods//".to_owned(),
                    "impersonate:serviceaccount authentication.k8s.io/n/serviceaccounts//robot".to_owned(),
                ]),
            ),
            ("4 an account with a group", vec![account, ("impersonate-group", "system:masters")], None),
            ("5 an account with a UID", vec![account, ("impersonate-uid", "u")], None),
            ("6 an account with extra", vec![account, ("impersonate-extra-a.b%2fc", "d")], None),
            ("7 a node with a group", vec![node, ("impersonate-group", "system:masters")], None),
            ("8 a node with a UID", vec![node, ("impersonate-uid", "u")], None),
            ("9 a node with extra", vec![node, ("impersonate-extra-a.b%2fc", "d")], None),
            (
                "10 no node's name",
                vec![("impersonate-user", "system:node:BAD_"), ("impersonate-group", "system:masters")],
                Some(vec![
                    on_user.to_owned(),
                    user("system:node:BAD_"),
                    masters.to_owned(),
                    group("system:masters"),
                ]),
            ),
            (
                "11 no account's name",
                vec![("impersonate-user", "system:serviceaccount:N:robot")],
                Some(vec![on_user.to_owned(), user("system:serviceaccount:N:robot")]),
            ),
            (
                "12 masters",
                vec![bob, ("impersonate-group", "a"), ("impersonate-group", "system:masters")],
                Some(vec![
                    on_user.to_owned(),
                    user("bob"),
                    masters.to_owned(),
                    group("a"),
                    group("system:masters"),
                ]),
            ),
            (
                "13 the empty group",
                vec![bob, ("impersonate-group", "")],
                Some(vec![
                    on_user.to_owned(),
                    user("bob"),
                    format!("{}: impersonating the empty string group is not allowed", group("")),
                    group(""),
                ]),
            ),
            (
                "14 a key without a domain",
                vec![bob, ("impersonate-extra-scope", "x")],
                Some(vec![on_user.to_owned(), user("bob"), refused_extra(not_prefixed), extra("scope", "x")]),
            ),
            (
                "15 an upper-case key",
                vec![bob, ("impersonate-extra-a.b%2f%43", "x")],
                Some(vec![
                    on_user.to_owned(),
                    user("bob"),
                    refused_extra("a non-lowercase key in extra is not allowed: \"a.b/C\""),
                    extra("a.b/C", "x"),
                ]),
            ),
            (
                "16 an empty value",
                vec![bob, ("impersonate-extra-a.b%2fc", "")],
                Some(vec![
                    on_user.to_owned(),
                    user("bob"),
                    refused_extra("the empty string value in extra is not allowed"),
                    extra("a.b/c", ""),
                ]),
            ),
            (
                "17 an empty key",
                vec![bob, ("impersonate-extra-", "x")],
                Some(vec![
                    on_user.to_owned(),
                    user("bob"),
                    refused_extra("the empty string key in extra is not allowed"),
                    extra("", "x"),
                ]),
            ),
        ] {
            let found = attempts(&headers);
            assert_eq!(found.len(), 1 + usize::from(want.is_some()), "{case}");
            let got = want.is_some().then(|| shown(&found[0].checks));
            assert_eq!(found.last().map(|last| last.mode), Some(Mode::Legacy), "{case}");
            assert_eq!(got, want, "{case}");
            // Only the unconstrained verb permits everything.
            assert!(found.last().is_some_and(|legacy| legacy.checks.iter().all(|one| one.refused.is_none())));
        }
    }
}
