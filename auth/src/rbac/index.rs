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
    /// The bindings of a subject. A user has few, and a server has many.
    of_subject: HashMap<SubjectKey, BTreeSet<ObjectKey>>,
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
                for subject in binding.subjects.iter().filter_map(|subject| subject.key(namespace)) {
                    self.of_subject.entry(subject).or_default().insert(key.clone());
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

    /// All rules of a user in a namespace, or in the cluster if it is empty, and the roles that do not exist.
    pub fn rules(&self, user: &UserInfo, namespace: &str) -> (Vec<Rule>, Vec<String>) {
        let (mut rules, mut missing) = (Vec::new(), Vec::new());
        for granted in self.granted(user, namespace) {
            match granted.rules {
                Ok(more) => rules.extend_from_slice(more),
                Err(name) => missing.push(name),
            }
        }
        (rules, missing)
    }

    /// The rules of a role; `None` if it does not exist.
    pub fn role(&self, namespace: &str, name: &str) -> Option<&[Rule]> {
        self.roles.get(&(namespace.to_owned(), name.to_owned())).map(Vec::as_slice)
    }

    /// What bindings grant to a user: first those of the cluster, then those of the namespace.
    fn granted<'i>(&'i self, user: &UserInfo, namespace: &str) -> impl Iterator<Item = Granted<'i>> {
        let keys: Vec<SubjectKey> =
            SubjectKey::of(user).filter(|key| self.of_subject.contains_key(key)).collect();
        let namespaces = [String::new(), namespace.to_owned()];
        let count = if namespace.is_empty() { 1 } else { 2 };
        let mut found: Vec<(&ObjectKey, SubjectKey)> = Vec::new();
        for namespace in namespaces.iter().take(count) {
            for key in &keys {
                let bindings = self.of_subject.get(key).into_iter();
                let here = bindings.flat_map(|all| all.range((namespace.clone(), String::new())..));
                let here = here.take_while(|(found, _)| found == namespace);
                found.extend(here.map(|binding| (binding, key.clone())));
            }
        }
        found.into_iter().filter_map(|(key, subject)| self.grant(key, &subject))
    }

    fn grant<'i>(&'i self, key: &'i ObjectKey, wanted: &SubjectKey) -> Option<Granted<'i>> {
        let binding = self.bindings.get(key)?;
        let subject = binding.subjects.iter().find(|subject| subject.key(&key.0).as_ref() == Some(wanted))?;
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
