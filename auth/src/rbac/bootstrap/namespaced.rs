//! The roles and role bindings in `kube-system` and `kube-public`.
//!
//! Upstream: `init` in `namespace_policy.go`.

use serde_json::{Value, json};

use super::{
    BOOTSTRAP_SIGNER, COORDINATION, CORE, EVENTS, KUBE_PUBLIC, KUBE_SYSTEM, READ, Role, Rule, Subject,
    TOKEN_CLEANER, UPDATE, metadata, named, role_ref, rule, rules, subjects,
};

/// The roles in `kube-system`.
const SYSTEM_ROLES: &[Role] = &[
    // The configuration of authentication, for extension API servers.
    Role {
        name: "extension-apiserver-authentication-reader",
        rules: &[named(READ, CORE, &["configmaps"], &["extension-apiserver-authentication"])],
    },
    Role { name: "system:controller:bootstrap-signer", rules: &[rule(READ, CORE, &["secrets"])] },
    Role {
        name: "system:controller:cloud-provider",
        rules: &[rule(&["create", "get", "list", "watch"], CORE, &["configmaps"])],
    },
    Role {
        name: "system:controller:token-cleaner",
        rules: &[rule(&["delete", "get", "list", "watch"], CORE, &["secrets"]), EVENTS],
    },
    Role { name: "system::leader-locking-kube-controller-manager", rules: LEADER_ELECTION },
    Role { name: "system::leader-locking-kube-scheduler", rules: LEADER_ELECTION },
];

const LEADER_ELECTION: &[Rule] = &[
    rule(&["create", "get", "list", "update", "watch"], COORDINATION, &["leases"]),
    rule(&["create", "get", "list", "update", "watch"], COORDINATION, &["leasecandidates"]),
];

/// The roles in `kube-public`.
const PUBLIC_ROLES: &[Role] = &[Role {
    name: "system:controller:bootstrap-signer",
    rules: &[
        rule(READ, CORE, &["configmaps"]),
        named(UPDATE, CORE, &["configmaps"], &["cluster-info"]),
        EVENTS,
    ],
}];

/// A binding of a role in its namespace.
struct Binding {
    name: &'static str,
    role: &'static str,
    subjects: &'static [Subject],
}

/// The bindings in `kube-system`.
const SYSTEM_BINDINGS: &[Binding] = &[
    Binding {
        name: "system::extension-apiserver-authentication-reader",
        role: "extension-apiserver-authentication-reader",
        subjects: &[Subject::User("system:kube-controller-manager"), Subject::User("system:kube-scheduler")],
    },
    Binding {
        name: "system::leader-locking-kube-controller-manager",
        role: "system::leader-locking-kube-controller-manager",
        subjects: &[
            Subject::User("system:kube-controller-manager"),
            Subject::Account("kube-controller-manager"),
            Subject::Account("leader-election-controller"),
        ],
    },
    Binding {
        name: "system::leader-locking-kube-scheduler",
        role: "system::leader-locking-kube-scheduler",
        subjects: &[Subject::User("system:kube-scheduler"), Subject::Account("kube-scheduler")],
    },
    Binding {
        name: "system:controller:bootstrap-signer",
        role: "system:controller:bootstrap-signer",
        subjects: &[Subject::Account(BOOTSTRAP_SIGNER)],
    },
    Binding {
        name: "system:controller:cloud-provider",
        role: "system:controller:cloud-provider",
        subjects: &[Subject::Account("cloud-provider")],
    },
    Binding {
        name: "system:controller:token-cleaner",
        role: "system:controller:token-cleaner",
        subjects: &[Subject::Account(TOKEN_CLEANER)],
    },
];

/// The bindings in `kube-public`.
const PUBLIC_BINDINGS: &[Binding] = &[Binding {
    name: "system:controller:bootstrap-signer",
    role: "system:controller:bootstrap-signer",
    subjects: &[Subject::Account(BOOTSTRAP_SIGNER)],
}];

/// All roles.
pub(super) fn roles() -> Vec<Value> {
    let system = SYSTEM_ROLES.iter().map(|role| role_in(KUBE_SYSTEM, role));
    system.chain(PUBLIC_ROLES.iter().map(|role| role_in(KUBE_PUBLIC, role))).collect()
}

/// A role's wire form.
fn role_in(namespace: &str, role: &Role) -> Value {
    json!({ "metadata": metadata(role.name, Some(namespace), None), "rules": rules(role.rules) })
}

/// All bindings.
pub(super) fn bindings() -> Vec<Value> {
    let system = SYSTEM_BINDINGS.iter().map(|binding| binding_in(KUBE_SYSTEM, binding));
    system.chain(PUBLIC_BINDINGS.iter().map(|binding| binding_in(KUBE_PUBLIC, binding))).collect()
}

/// A binding's wire form.
fn binding_in(namespace: &str, binding: &Binding) -> Value {
    json!({
        "metadata": metadata(binding.name, Some(namespace), None),
        "roleRef": role_ref("Role", binding.role),
        "subjects": subjects(binding.subjects),
    })
}
