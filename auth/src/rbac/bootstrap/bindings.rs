//! The cluster role bindings. A binding has the name of its role.
//!
//! Upstream: `ClusterRoleBindings` in `policy.go` and `buildControllerRoles` in `controller_policy.go`.

use serde_json::{Value, json};

use super::{Subject, controller_name, controller_roles, metadata, role_ref, subjects};

/// A binding of a cluster role.
struct Binding {
    /// The name of the binding and of its role.
    name: &'static str,
    subjects: &'static [Subject],
}

const BINDINGS: &[Binding] = &[
    Binding { name: "cluster-admin", subjects: &[Subject::Group("system:masters")] },
    Binding { name: "system:monitoring", subjects: &[Subject::Group("system:monitoring")] },
    Binding { name: "system:discovery", subjects: &[Subject::Group("system:authenticated")] },
    Binding { name: "system:basic-user", subjects: &[Subject::Group("system:authenticated")] },
    Binding {
        name: "system:public-info-viewer",
        subjects: &[Subject::Group("system:authenticated"), Subject::Group("system:unauthenticated")],
    },
    Binding { name: "system:node-proxier", subjects: &[Subject::User("system:kube-proxy")] },
    Binding {
        name: "system:kube-controller-manager",
        subjects: &[Subject::User("system:kube-controller-manager")],
    },
    Binding { name: "system:kube-dns", subjects: &[Subject::Account("kube-dns")] },
    Binding { name: "system:kube-scheduler", subjects: &[Subject::User("system:kube-scheduler")] },
    Binding { name: "system:volume-scheduler", subjects: &[Subject::User("system:kube-scheduler")] },
    // The Node authorizer replaced this binding's subject, `system:nodes`.
    Binding { name: "system:node", subjects: &[] },
    Binding {
        name: "system:service-account-issuer-discovery",
        subjects: &[Subject::Group("system:serviceaccounts")],
    },
];

/// A binding's wire form. Without subjects, the field is absent.
fn wire(name: &str, list: &[Subject]) -> Value {
    let mut binding =
        json!({ "metadata": metadata(name, None, None), "roleRef": role_ref("ClusterRole", name) });
    if !list.is_empty() {
        binding["subjects"] = subjects(list);
    }
    binding
}

/// All bindings: those of the table, and one for each controller's service account.
pub(super) fn all() -> Vec<Value> {
    let table = BINDINGS.iter().map(|binding| wire(binding.name, binding.subjects));
    let controllers = controller_roles::ROLES
        .iter()
        .map(|role| wire(&controller_name(role.name), &[Subject::Account(role.name)]));
    table.chain(controllers).collect()
}
