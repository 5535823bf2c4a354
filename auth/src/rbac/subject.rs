//! Subjects of bindings.

use std::fmt;

use serde::Deserialize;

use crate::UserInfo;

/// A user, a group or a service account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Subject {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) namespace: String,
}

/// A subject as bindings are found by it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum SubjectKey {
    User(String),
    Group(String),
}

impl SubjectKey {
    /// The keys of all subjects that a user is.
    pub(super) fn of(user: &UserInfo) -> impl Iterator<Item = SubjectKey> {
        let groups = user.groups.iter().cloned().map(SubjectKey::Group);
        std::iter::once(SubjectKey::User(user.username.clone())).chain(groups)
    }
}

impl Subject {
    /// The key of the subject. A service account without a namespace is in that of its binding. `None` for an unknown kind.
    pub(super) fn key(&self, namespace: &str) -> Option<SubjectKey> {
        match self.kind.as_str() {
            "User" => Some(SubjectKey::User(self.name.clone())),
            "Group" => Some(SubjectKey::Group(self.name.clone())),
            "ServiceAccount" => {
                let namespace = if self.namespace.is_empty() { namespace } else { &self.namespace };
                (!namespace.is_empty())
                    .then(|| SubjectKey::User(format!("system:serviceaccount:{namespace}:{}", self.name)))
            }
            _ => None,
        }
    }

    /// The subject as in the reason of a decision.
    pub(super) fn described<'s>(&'s self, namespace: &'s str) -> impl fmt::Display + 's {
        DescribedSubject { subject: self, namespace }
    }
}

struct DescribedSubject<'s> {
    subject: &'s Subject,
    namespace: &'s str,
}

impl fmt::Display for DescribedSubject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Subject { kind, name, namespace } = self.subject;
        if kind != "ServiceAccount" {
            return write!(f, "{kind} {name:?}");
        }
        let namespace = if namespace.is_empty() { self.namespace } else { namespace };
        write!(f, "{kind} \"{name}/{namespace}\"")
    }
}
