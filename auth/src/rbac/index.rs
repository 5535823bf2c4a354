//! Roles and bindings, by the keys that decisions need.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Deserialize;
use serde_json::Value;

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
    roles: BTreeMap<ObjectKey, Vec<Rule>>,
    bindings: BTreeMap<ObjectKey, Binding>,
    /// The bindings of a subject, and its position in each. A user has few bindings, and a server has many.
    of_subject: HashMap<SubjectKey, BTreeMap<ObjectKey, usize>>,
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
    rules: Result<&'i [Rule], String>,
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

/// Whether roles permit a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermittedBy {
    /// A binding permits it; upstream's reason.
    Binding(String),
    /// No binding permits it; upstream's reason if roles are missing, otherwise empty.
    None(String),
}

impl RbacIndex {
    /// Adds or replaces an object; `None` removes it.
    pub fn set(&mut self, kind: RbacKind, namespace: &str, name: &str, object: Option<&Value>) {
        let key = (namespace.to_owned(), name.to_owned());
        match kind {
            RbacKind::Role | RbacKind::ClusterRole => {
                // The API validates roles, so only an object that was stored otherwise has no rules.
                let rules = object.map(|role| Vec::deserialize(&role["rules"]).unwrap_or_default());
                match rules {
                    Some(rules) => drop(self.roles.insert(key, rules)),
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

    /// Whether roles permit a request of a user.
    pub fn permits(&self, user: &UserInfo, request: &RequestInfo) -> PermittedBy {
        let namespace = match &request.target {
            RequestTarget::Resource(at) => at.namespace.as_str(),
            RequestTarget::Path(_) => "",
        };
        let mut missing = BTreeSet::new();
        for granted in self.granted(user, namespace) {
            match granted.rules {
                Ok(rules) if rules.iter().any(|rule| rule.permits(request)) => {
                    return PermittedBy::Binding(granted.reason());
                }
                Ok(_) => {}
                Err(name) => drop(missing.insert(name)),
            }
        }
        PermittedBy::None(match missing.len() {
            0 => String::new(),
            1 => format!("RBAC: {}", missing.into_iter().collect::<String>()),
            _ => format!("RBAC: [{}]", missing.into_iter().collect::<Vec<_>>().join(", ")),
        })
    }

    /// The rules of a user in a namespace, or in the cluster if it is empty, with at most about `most` items in their lists.
    pub fn rules(&self, user: &UserInfo, namespace: &str, most: usize) -> GrantedRules {
        let mut found = GrantedRules::default();
        let mut items = 0_usize;
        for granted in self.granted(user, namespace) {
            let rules = match granted.rules {
                Ok(rules) => rules,
                Err(name) => {
                    found.missing.push(name);
                    continue;
                }
            };
            for rule in rules {
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
        self.roles.get(&(namespace.to_owned(), name.to_owned())).map(Vec::as_slice)
    }

    /// The rules that bindings grant to a user, each once: first those of the cluster, then those of the namespace.
    fn granted<'i>(&'i self, user: &UserInfo, namespace: &str) -> impl Iterator<Item = Granted<'i>> {
        let mut found: BTreeMap<&ObjectKey, usize> = BTreeMap::new();
        for bindings in SubjectKey::of(user).filter_map(|key| self.of_subject.get(&key)) {
            let mut of = |namespace: &str| {
                let here = bindings.range((namespace.to_owned(), String::new())..);
                for (key, at) in here.take_while(|((found, _), _)| found == namespace) {
                    found.entry(key).or_insert(*at);
                }
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
        let rules = self.role(if of_cluster { "" } else { &key.0 }, &role.name);
        let rules = rules.ok_or_else(|| {
            let resource = if of_cluster { "clusterrole" } else { "role" };
            format!("{resource}.rbac.authorization.k8s.io {:?} not found", role.name)
        });
        Some(Granted { binding: key, role, subject, rules })
    }
}

impl Granted<'_> {
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
