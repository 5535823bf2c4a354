//! Roles and bindings, by the keys that decisions need.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::recent::{GRANTS_OF_USER, KnownGrant, RecentUsers, UserGrants};
use super::rule::Rule;
use super::subject::{Subject, SubjectKey};
use crate::UserInfo;
use crate::request_info::{RequestInfo, RequestTarget};

/// The kinds that the index contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RbacKind {
    /// Rules in a namespace.
    Role,
    /// Rules in the cluster, or in the namespace of a binding.
    ClusterRole,
    /// Grants a role in a namespace.
    RoleBinding,
    /// Grants a cluster role in the cluster.
    ClusterRoleBinding,
}

/// Namespace and name; no namespace for cluster-wide objects.
type ObjectKey = (String, String);

/// The roles and bindings of a server.
#[derive(Clone, Debug, Default)]
pub struct RbacIndex {
    roles: BTreeMap<ObjectKey, Arc<[Rule]>>,
    bindings: BTreeMap<ObjectKey, Binding>,
    /// The bindings of a subject, and its position in each. A user has few bindings, and a server has many.
    of_subject: HashMap<SubjectKey, BTreeMap<ObjectKey, usize>>,
    recent: RecentUsers,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Binding {
    role_ref: RoleRef,
    subjects: Vec<Subject>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RoleRef {
    kind: String,
    name: String,
}

/// A rule that a user has, and why.
struct Granted<'i> {
    binding: &'i ObjectKey,
    role: &'i RoleRef,
    subject: &'i Subject,
    /// Or the name of the role that does not exist.
    rules: Result<&'i Arc<[Rule]>, String>,
}

/// The rules that roles grant to a user.
#[derive(Clone, Debug, Default)]
pub struct GrantedRules {
    /// The rules.
    pub rules: Vec<Rule>,
    /// The roles that do not exist, in upstream's words.
    pub missing: Vec<String>,
    /// There are more rules.
    pub is_cut: bool,
}

/// A binding costs about as much as this many items: it is looked up, and so is its role.
const ITEMS_PER_BINDING: usize = 20;

/// Whether roles permit a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermittedBy {
    /// A binding permits it; upstream's reason.
    Binding(String),
    /// No binding permits it; upstream's reason if roles are missing, otherwise empty.
    None(String),
    /// The decision compares more items than the caller permits.
    TooLong,
}

impl RbacIndex {
    /// Adds or replaces an object; `None` removes it.
    pub fn set(&mut self, kind: RbacKind, namespace: &str, name: &str, object: Option<&Value>) {
        self.recent.forget();
        let key = (namespace.to_owned(), name.to_owned());
        match kind {
            RbacKind::Role | RbacKind::ClusterRole => {
                // The API validates roles, so only an object that was stored otherwise has no rules.
                let rules = object.map(|role| Vec::<Rule>::deserialize(&role["rules"]).unwrap_or_default());
                match rules {
                    Some(rules) => drop(self.roles.insert(key, rules.into())),
                    None => drop(self.roles.remove(&key)),
                }
            }
            RbacKind::RoleBinding | RbacKind::ClusterRoleBinding => {
                if let Some(old) = self.bindings.remove(&key) {
                    for subject in old.subjects.iter().filter_map(|subject| subject.key(namespace)) {
                        if let Some(bindings) = self.of_subject.get_mut(&subject) {
                            bindings.remove(&key);
                        }
                    }
                }
                let Some(binding) = object.map(|binding| Binding::deserialize(binding).unwrap_or_default())
                else {
                    return self.of_subject.retain(|_, bindings| !bindings.is_empty());
                };
                for (at, subject) in binding.subjects.iter().enumerate() {
                    if let Some(subject) = subject.key(namespace) {
                        self.of_subject.entry(subject).or_default().entry(key.clone()).or_insert(at);
                    }
                }
                self.bindings.insert(key, binding);
            }
        }
    }

    /// Whether roles permit a request of a user. The decision compares the request with at most about `most` items in the lists of rules;
    /// a binding of a user with many bindings counts as 20.
    pub fn permits(&self, user: &UserInfo, request: &RequestInfo, most: usize) -> PermittedBy {
        let namespace = match &request.target {
            RequestTarget::Resource(at) => at.namespace.as_str(),
            RequestTarget::Path(_) => "",
        };
        match self.known(user) {
            Some(known) => {
                let here = if namespace.is_empty() { &[] } else { known.in_namespace(namespace) };
                let grants = known.in_cluster().iter().chain(here);
                decide(grants, request, most, |grant| grant.rules.as_deref(), |grant| grant.reason.clone())
            }
            None if self.count_bindings(user, namespace, most / ITEMS_PER_BINDING)
                > most / ITEMS_PER_BINDING =>
            {
                PermittedBy::TooLong
            }
            None => {
                let grants = distinct(self.granted(user, Some(namespace)));
                decide(
                    grants,
                    request,
                    most,
                    |grant| grant.rules.as_deref().map(AsRef::as_ref),
                    Granted::reason,
                )
            }
        }
    }

    /// The number of bindings that apply to a user in a namespace and in the cluster, at most about `most`.
    fn count_bindings(&self, user: &UserInfo, namespace: &str, most: usize) -> usize {
        let of_subject = SubjectKey::of(user).filter_map(|key| self.of_subject.get(&key));
        let count = |bindings: &BTreeMap<ObjectKey, usize>, namespace: &str| {
            let here = bindings.range((namespace.to_owned(), String::new())..);
            here.take_while(|((found, _), _)| found == namespace).take(most.saturating_add(1)).count()
        };
        let of_both = |bindings| match namespace {
            "" => count(bindings, ""),
            _ => count(bindings, "").saturating_add(count(bindings, namespace)),
        };
        of_subject.map(of_both).fold(0, usize::saturating_add)
    }

    /// The grants of a user in all namespaces; `None` if these are too many to remember.
    fn known(&self, user: &UserInfo) -> Option<Arc<UserGrants>> {
        if let Some(known) = self.recent.get(user) {
            return Some(known);
        }
        let count = |key: SubjectKey| self.of_subject.get(&key).map_or(0, BTreeMap::len);
        if SubjectKey::of(user).map(count).sum::<usize>() > GRANTS_OF_USER {
            return None;
        }
        let known = Arc::new(UserGrants::new(
            distinct(self.granted(user, None)).map(|granted| granted.known()).collect(),
        ));
        self.recent.add(user, known.clone());
        Some(known)
    }

    /// The rules of a user in a namespace, or in the cluster if it is empty, with at most about `most` items in their lists.
    pub fn rules(&self, user: &UserInfo, namespace: &str, most: usize) -> GrantedRules {
        let mut found = GrantedRules::default();
        let mut items = 0_usize;
        for granted in self.granted(user, Some(namespace)) {
            let rules = match granted.rules {
                Ok(rules) => rules,
                Err(name) => {
                    found.missing.push(name);
                    continue;
                }
            };
            for rule in rules.iter() {
                items = items.saturating_add(rule.count_items());
                if items > most {
                    found.is_cut = true;
                    return found;
                }
                found.rules.push(rule.clone());
            }
        }
        found
    }

    /// The rules of a role; `None` if it does not exist.
    pub fn role(&self, namespace: &str, name: &str) -> Option<&[Rule]> {
        self.rules_of_role(namespace, name).map(AsRef::as_ref)
    }

    fn rules_of_role(&self, namespace: &str, name: &str) -> Option<&Arc<[Rule]>> {
        self.roles.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// The rules that bindings grant to a user, each once: first those of the cluster, then those of the namespace, or of all
    /// namespaces if it is `None`.
    fn granted<'i>(&'i self, user: &UserInfo, namespace: Option<&str>) -> impl Iterator<Item = Granted<'i>> {
        let mut found: BTreeMap<&ObjectKey, usize> = BTreeMap::new();
        for bindings in SubjectKey::of(user).filter_map(|key| self.of_subject.get(&key)) {
            let mut add = |(key, at): (&'i ObjectKey, &usize)| {
                found.entry(key).or_insert(*at);
            };
            let Some(namespace) = namespace else {
                bindings.iter().for_each(add);
                continue;
            };
            let mut of = |namespace: &str| {
                let here = bindings.range((namespace.to_owned(), String::new())..);
                here.take_while(|((found, _), _)| found == namespace).for_each(&mut add);
            };
            of("");
            if !namespace.is_empty() {
                of(namespace);
            }
        }
        found.into_iter().filter_map(|(key, at)| self.grant(key, at))
    }

    fn grant<'i>(&'i self, key: &'i ObjectKey, at: usize) -> Option<Granted<'i>> {
        let binding = self.bindings.get(key)?;
        let subject = binding.subjects.get(at)?;
        let role = &binding.role_ref;
        let of_cluster = role.kind == "ClusterRole";
        let rules = self.rules_of_role(if of_cluster { "" } else { &key.0 }, &role.name);
        let rules = rules.ok_or_else(|| {
            let resource = if of_cluster { "clusterrole" } else { "role" };
            format!("{resource}.rbac.authorization.k8s.io {:?} not found", role.name)
        });
        Some(Granted { binding: key, role, subject, rules })
    }
}

/// The grants without those of a role that an earlier binding of the same namespace grants: thousands of bindings may grant one large
/// role.
fn distinct<'i>(grants: impl Iterator<Item = Granted<'i>>) -> impl Iterator<Item = Granted<'i>> {
    let mut found = HashSet::new();
    grants.filter(move |grant| {
        let role = (grant.role.kind == "ClusterRole", grant.role.name.as_str());
        found.insert((grant.binding.0.as_str(), role))
    })
}

/// Whether one of these grants permits a request. Only the reason of that grant is used.
fn decide<G>(
    grants: impl Iterator<Item = G>,
    request: &RequestInfo,
    most: usize,
    rules: impl Fn(&G) -> Result<&[Rule], &String>,
    reason: impl Fn(&G) -> String,
) -> PermittedBy {
    let mut missing = BTreeSet::new();
    let mut compared = 0_usize;
    for grant in grants {
        let rules = match rules(&grant) {
            Ok(rules) => rules,
            Err(name) => {
                missing.insert(name.clone());
                continue;
            }
        };
        for rule in rules {
            compared = compared.saturating_add(rule.count_items());
            if compared > most {
                return PermittedBy::TooLong;
            }
            if rule.permits(request) {
                return PermittedBy::Binding(reason(&grant));
            }
        }
    }
    PermittedBy::None(match missing.len() {
        0 => String::new(),
        1 => format!("RBAC: {}", missing.into_iter().collect::<String>()),
        _ => format!("RBAC: [{}]", missing.into_iter().collect::<Vec<_>>().join(", ")),
    })
}

impl Granted<'_> {
    fn known(&self) -> KnownGrant {
        KnownGrant {
            namespace: self.binding.0.clone(),
            reason: self.reason(),
            rules: self.rules.clone().cloned(),
        }
    }

    fn reason(&self) -> String {
        let Granted { binding: (namespace, name), role, subject, .. } = self;
        let subject = subject.described(namespace);
        match namespace.as_str() {
            "" => format!(
                "RBAC: allowed by ClusterRoleBinding {name:?} of {} {:?} to {subject}",
                role.kind, role.name
            ),
            _ => format!(
                "RBAC: allowed by RoleBinding \"{name}/{namespace}\" of {} {:?} to {subject}",
                role.kind, role.name
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Method;
    use orlop_api::query::Query;
    use serde_json::json;

    use super::*;

    fn get(path: &str) -> RequestInfo {
        RequestInfo::of(&Method::GET, path, &Query::parse(None))
    }

    fn role(resource: &str) -> Value {
        json!({"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": [resource]}]})
    }

    fn binding(role: &str, user: &str) -> Value {
        json!({"roleRef": {"kind": "Role", "name": role}, "subjects": [{"kind": "User", "name": user}]})
    }

    fn permits(index: &RbacIndex, user: &UserInfo, path: &str) -> bool {
        matches!(index.permits(user, &get(path), usize::MAX), PermittedBy::Binding(_))
    }

    #[test]
    fn decision_follows_each_change_of_roles_and_bindings() {
        let mut index = RbacIndex::default();
        let ann = UserInfo::new("ann", []);
        let pods = "/api/v1/namespaces/a/pods/p";
        let secrets = "/api/v1/namespaces/a/secrets/s";
        for (case, kind, name, object, may_pods, may_secrets) in [
            ("1 role without binding", RbacKind::Role, "r", Some(role("pods")), false, false),
            ("2 bound", RbacKind::RoleBinding, "b", Some(binding("r", "ann")), true, false),
            ("3 role changes", RbacKind::Role, "r", Some(role("secrets")), false, true),
            ("4 role is deleted", RbacKind::Role, "r", None, false, false),
            ("5 role is created again", RbacKind::Role, "r", Some(role("pods")), true, false),
            ("6 other subject", RbacKind::RoleBinding, "b", Some(binding("r", "bob")), false, false),
        ] {
            index.set(kind, "a", name, object.as_ref());
            for round in ["first", "remembered"] {
                let found = (permits(&index, &ann, pods), permits(&index, &ann, secrets));
                assert_eq!(found, (may_pods, may_secrets), "{case}, {round}");
                assert!(!permits(&index, &ann, "/api/v1/namespaces/b/pods/p"), "{case}, other namespace");
            }
            assert_eq!(index.recent.count(), 1, "{case}");
        }
    }

    #[test]
    fn groups_distinguish_users_of_the_same_name() {
        let mut index = RbacIndex::default();
        index.set(RbacKind::Role, "a", "r", Some(&role("pods")));
        let bound =
            json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "Group", "name": "g"}]});
        index.set(RbacKind::RoleBinding, "a", "b", Some(&bound));
        let member = UserInfo::new("ann", ["g".to_owned()]);
        let other = UserInfo::new("ann", ["h".to_owned()]);
        for _ in 0..2 {
            assert!(permits(&index, &member, "/api/v1/namespaces/a/pods/p"));
            assert!(!permits(&index, &other, "/api/v1/namespaces/a/pods/p"));
        }
    }

    #[test]
    fn user_with_many_bindings_is_not_remembered() {
        let mut index = RbacIndex::default();
        index.set(RbacKind::Role, "n7", "r", Some(&role("pods")));
        for number in 0..=GRANTS_OF_USER {
            index.set(RbacKind::RoleBinding, &format!("n{number}"), "b", Some(&binding("r", "ann")));
        }
        let ann = UserInfo::new("ann", []);
        assert!(permits(&index, &ann, "/api/v1/namespaces/n7/pods/p"));
        let missing = PermittedBy::None("RBAC: role.rbac.authorization.k8s.io \"r\" not found".to_owned());
        assert_eq!(index.permits(&ann, &get("/api/v1/namespaces/n8/pods/p"), usize::MAX), missing);
        assert_eq!(index.recent.count(), 0);
    }

    /// A user who may create roles can grant many large ones to another user.
    #[test]
    fn long_decisions_are_left_to_the_caller() {
        let names: Vec<String> = (0..5000).map(|number| format!("p{number}")).collect();
        let rule =
            json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": names});
        let large = json!({"rules": [rule]});
        for (case, roles, bindings, bindings_elsewhere, want) in [
            ("1 one large role", 1, 1, 0, PermittedBy::None(String::new())),
            ("2 several large roles", 3, 1, 0, PermittedBy::TooLong),
            ("3 many bindings of one large role", 1, 100, 0, PermittedBy::None(String::new())),
            (
                "4 more bindings of one large role than are remembered",
                1,
                300,
                0,
                PermittedBy::None(String::new()),
            ),
            ("5 very many bindings of one large role", 1, 600, 0, PermittedBy::TooLong),
            ("6 very many bindings elsewhere", 1, 1, 600, PermittedBy::None(String::new())),
        ] {
            let mut index = RbacIndex::default();
            for role in 0..roles {
                index.set(RbacKind::Role, "a", &format!("r{role}"), Some(&large));
                for number in 0..bindings {
                    let name = format!("b{role}-{number}");
                    index.set(RbacKind::RoleBinding, "a", &name, Some(&binding(&format!("r{role}"), "ann")));
                }
            }
            for number in 0..bindings_elsewhere {
                index.set(RbacKind::RoleBinding, "b", &format!("b{number}"), Some(&binding("r0", "ann")));
            }
            let ann = UserInfo::new("ann", []);
            let other_name = get("/api/v1/namespaces/a/pods/x");
            assert_eq!(index.permits(&ann, &other_name, 10_000), want, "{case}");
            assert_eq!(
                index.permits(&ann, &other_name, usize::MAX),
                PermittedBy::None(String::new()),
                "{case}"
            );
            assert!(permits(&index, &ann, "/api/v1/namespaces/a/pods/p7"), "{case}");
        }
    }

    #[test]
    fn remembered_users_are_bounded() {
        let index = RbacIndex::default();
        for number in 0..50_000 {
            permits(&index, &UserInfo::new(format!("u{number}"), []), "/api");
        }
        assert!((1..=20_001).contains(&index.recent.count()), "{}", index.recent.count());
        let index = RbacIndex::default();
        for number in 0..100 {
            permits(&index, &UserInfo::new("ann", [format!("g{number}")]), "/api");
        }
        assert!((1..=8).contains(&index.recent.count()), "{}", index.recent.count());
    }
}
