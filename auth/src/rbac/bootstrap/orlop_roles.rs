//! The roles of controllers that upstream runs outside kube-controller-manager (the CSI sidecars) or does not have, and
//! the additional rights of upstream's controllers in orlop.
//!
//! The roles of the sidecars follow their published RBAC (`deploy/kubernetes/rbac.yaml` of external-provisioner,
//! external-attacher, external-resizer, external-snapshotter), without the reads of caches: the caches of all
//! controllers belong to `system:kube-controller-manager`. The names have a separate prefix, because the
//! accounts of deployed sidecars must not get these rights.

use serde_json::{Value, json};

use super::{
    APPS, BATCH, CERTIFICATES, COORDINATION, CORE, CREATE, EVENTS, GET, KUBE_SYSTEM, NETWORKING, POLICY,
    RBAC, Rule, STORAGE, Subject, metadata, role_ref, rule, rules, subjects,
};

/// The prefix of the roles and bindings.
pub const ORLOP_CONTROLLER: &str = "orlop:controller:";

const SNAPSHOT: super::Names = &["snapshot.storage.k8s.io"];
const NODE_LEASES: &str = "kube-node-lease";
const PATCH: super::Names = &["patch"];
const GET_PATCH: super::Names = &["get", "patch"];

/// A role, and the service account in `kube-system` that has it.
struct OwnRole {
    /// Follows [`ORLOP_CONTROLLER`].
    name: &'static str,
    account: &'static str,
    rules: &'static [Rule],
}

/// The cluster roles.
const CLUSTER: &[OwnRole] = &[
    OwnRole {
        name: "csi-provisioner",
        account: "orlop-csi-provisioner",
        rules: &[
            rule(&["create", "delete", "get", "patch"], CORE, &["persistentvolumes"]),
            rule(GET_PATCH, CORE, &["persistentvolumeclaims"]),
            // The credentials that a StorageClass names are in any namespace.
            rule(GET, CORE, &["secrets"]),
            rule(&["get", "list", "patch"], SNAPSHOT, &["volumesnapshots"]),
            rule(GET, SNAPSHOT, &["volumesnapshotcontents"]),
            EVENTS,
        ],
    },
    OwnRole {
        name: "csi-attacher",
        account: "orlop-csi-attacher",
        rules: &[
            rule(GET_PATCH, CORE, &["persistentvolumes"]),
            rule(GET, CORE, &["secrets"]),
            rule(GET, STORAGE, &["csinodes"]),
            rule(GET_PATCH, STORAGE, &["volumeattachments"]),
            rule(PATCH, STORAGE, &["volumeattachments/status"]),
        ],
    },
    OwnRole { name: "csi-resizer", account: "orlop-csi-resizer", rules: RESIZE },
    OwnRole { name: "csi-modifier", account: "orlop-csi-modifier", rules: RESIZE },
    OwnRole {
        name: "snapshot-controller",
        account: "orlop-snapshot-controller",
        rules: &[
            rule(GET_PATCH, CORE, &["persistentvolumeclaims"]),
            rule(GET, CORE, &["persistentvolumes"]),
            rule(&["create", "delete", "get", "patch"], SNAPSHOT, &["volumesnapshotcontents"]),
            rule(PATCH, SNAPSHOT, &["volumesnapshotcontents/status"]),
            rule(GET_PATCH, SNAPSHOT, &["volumesnapshots"]),
            rule(PATCH, SNAPSHOT, &["volumesnapshots/status"]),
            EVENTS,
        ],
    },
    OwnRole {
        name: "csi-snapshotter",
        account: "orlop-csi-snapshotter",
        rules: &[
            rule(GET, CORE, &["secrets"]),
            rule(GET_PATCH, SNAPSHOT, &["volumesnapshotcontents"]),
            rule(PATCH, SNAPSHOT, &["volumesnapshotcontents/status"]),
            EVENTS,
        ],
    },
    OwnRole {
        name: "failure-reporter",
        account: "orlop-failure-reporter",
        // The kinds of the controllers' queues, for the UIDs of failing objects.
        rules: &[
            rule(GET, &["admissionregistration.k8s.io"], &["validatingadmissionpolicies"]),
            rule(GET, APPS, &["daemonsets", "deployments", "replicasets", "statefulsets"]),
            rule(GET, BATCH, &["cronjobs", "jobs"]),
            rule(GET, CERTIFICATES, &["certificatesigningrequests"]),
            rule(
                GET,
                CORE,
                &[
                    "endpoints",
                    "namespaces",
                    "nodes",
                    "persistentvolumeclaims",
                    "persistentvolumes",
                    "pods",
                    "replicationcontrollers",
                    "resourcequotas",
                    "services",
                ],
            ),
            rule(GET, NETWORKING, &["servicecidrs"]),
            rule(GET, POLICY, &["poddisruptionbudgets"]),
            rule(GET, RBAC, &["clusterroles"]),
            rule(GET, SNAPSHOT, &["volumesnapshotcontents", "volumesnapshots"]),
            rule(GET, STORAGE, &["volumeattachments", "volumeattributesclasses"]),
            EVENTS,
        ],
    },
    OwnRole {
        name: "explainer",
        account: "orlop-explainer",
        rules: &[
            rule(&["list"], CORE, &["events"]),
            rule(GET, SNAPSHOT, &["volumesnapshotcontents", "volumesnapshots"]),
        ],
    },
    // Records the time of a forced detach on the attachment.
    OwnRole {
        name: "attachdetach-controller",
        account: "attachdetach-controller",
        rules: &[rule(PATCH, STORAGE, &["volumeattachments"])],
    },
    // Lists the events of recycler pods before it watches them, so that it misses none.
    OwnRole {
        name: "persistent-volume-binder",
        account: "persistent-volume-binder",
        rules: &[rule(&["list"], CORE, &["events"])],
    },
    // Reads the quota before it writes the usage.
    OwnRole {
        name: "resourcequota-controller",
        account: "resourcequota-controller",
        rules: &[rule(GET, CORE, &["resourcequotas"])],
    },
];

/// The rights to expand a claim, or to modify it.
const RESIZE: &[Rule] = &[
    rule(GET, CORE, &["persistentvolumeclaims"]),
    rule(PATCH, CORE, &["persistentvolumeclaims/status"]),
    rule(GET_PATCH, CORE, &["persistentvolumes"]),
    rule(GET, CORE, &["secrets"]),
    EVENTS,
];

/// The roles in one namespace.
const NAMESPACED: &[(&str, OwnRole)] = &[
    (
        KUBE_SYSTEM,
        OwnRole {
            name: "csi-provisioner",
            account: "orlop-csi-provisioner",
            rules: &[
                // The key that authenticates the provisioner's annotations of claims.
                rule(CREATE, CORE, &["secrets"]),
                rule(&["create", "delete", "list", "update"], STORAGE, &["csistoragecapacities"]),
            ],
        },
    ),
    // Reads the Lease of a silent node before it is marked as lost.
    (
        NODE_LEASES,
        OwnRole {
            name: "node-controller",
            account: "node-controller",
            rules: &[rule(GET, COORDINATION, &["leases"])],
        },
    ),
];

/// The bindings of upstream's roles to orlop's scheduler, where it runs as a service account.
const SCHEDULER: &[&str] = &["system:kube-scheduler", "system:volume-scheduler"];
const SCHEDULER_ACCOUNT: &str = "orlop-scheduler";

impl OwnRole {
    fn full_name(&self) -> String {
        format!("{ORLOP_CONTROLLER}{}", self.name)
    }

    fn role(&self, namespace: Option<&str>) -> Value {
        json!({ "metadata": metadata(&self.full_name(), namespace, None), "rules": rules(self.rules) })
    }

    fn binding(&self, namespace: Option<&str>) -> Value {
        let kind = if namespace.is_some() { "Role" } else { "ClusterRole" };
        binding(&self.full_name(), namespace, kind, &self.full_name(), self.account)
    }
}

fn binding(name: &str, namespace: Option<&str>, kind: &str, role: &str, account: &'static str) -> Value {
    json!({
        "metadata": metadata(name, namespace, None),
        "roleRef": role_ref(kind, role),
        "subjects": subjects(&[Subject::Account(account)]),
    })
}

/// The accounts that upstream does not have.
pub(super) fn own_accounts() -> impl Iterator<Item = &'static str> {
    let accounts = CLUSTER.iter().map(|role| role.account).chain([SCHEDULER_ACCOUNT]);
    accounts.filter(|account| account.starts_with("orlop-"))
}

/// The ClusterRoles.
pub(super) fn cluster_roles() -> Vec<Value> {
    CLUSTER.iter().map(|role| role.role(None)).collect()
}

/// The ClusterRoleBindings.
pub(super) fn cluster_role_bindings() -> Vec<Value> {
    let scheduler = SCHEDULER.iter().map(|role| {
        let name = format!("orlop:{}", role.trim_start_matches("system:"));
        binding(&name, None, "ClusterRole", role, SCHEDULER_ACCOUNT)
    });
    CLUSTER.iter().map(|role| role.binding(None)).chain(scheduler).collect()
}

/// The Roles, in `kube-system` and `kube-node-lease`.
pub(super) fn roles() -> Vec<Value> {
    NAMESPACED.iter().map(|(namespace, role)| role.role(Some(namespace))).collect()
}

/// The RoleBindings, in `kube-system` and `kube-node-lease`.
pub(super) fn role_bindings() -> Vec<Value> {
    NAMESPACED.iter().map(|(namespace, role)| role.binding(Some(namespace))).collect()
}
