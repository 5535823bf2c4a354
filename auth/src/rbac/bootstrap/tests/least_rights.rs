//! The roles of orlop's controllers grant the rights that their requests need, and no others.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::orlop_roles::{cluster_role_bindings, cluster_roles, role_bindings, roles};
use super::super::{CONTROLLER, ORLOP_CONTROLLER, controller_accounts};
use super::{key, strings};

/// The rights of a role, one `GROUP/RESOURCE: VERBS` for each resource.
fn rights(role: &Value) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for rule in role["rules"].as_array().expect("rules") {
        let verbs = strings(&rule["verbs"]).join(",");
        for group in strings(&rule["apiGroups"]) {
            for resource in strings(&rule["resources"]) {
                all.insert(format!("{group}/{resource}: {verbs}"));
            }
        }
        assert_eq!((&rule["nonResourceURLs"], &rule["resourceNames"]), (&Value::Null, &Value::Null));
    }
    all
}

#[test]
fn roles_have_exactly_these_rights() {
    const EVENTS: [&str; 2] = ["/events: create,patch,update", "events.k8s.io/events: create,patch,update"];
    const RESIZE: &[&str] = &[
        "/persistentvolumeclaims: get",
        "/persistentvolumeclaims/status: patch",
        "/persistentvolumes: get,patch",
        "/secrets: get",
    ];
    // The namespace, the role, whether it writes events, and its other rights.
    type Case<'a> = (Option<&'a str>, &'a str, bool, &'a [&'a str]);
    let cases: [Case<'_>; 13] = [
        (
            None,
            "csi-provisioner",
            true,
            &[
                "/persistentvolumes: create,delete,get,patch",
                "/persistentvolumeclaims: get,patch",
                "/secrets: get",
                "snapshot.storage.k8s.io/volumesnapshots: get,list,patch",
                "snapshot.storage.k8s.io/volumesnapshotcontents: get",
            ],
        ),
        (
            None,
            "csi-attacher",
            false,
            &[
                "/persistentvolumes: get,patch",
                "/secrets: get",
                "storage.k8s.io/csinodes: get",
                "storage.k8s.io/volumeattachments: get,patch",
                "storage.k8s.io/volumeattachments/status: patch",
            ],
        ),
        (None, "csi-resizer", true, RESIZE),
        (None, "csi-modifier", true, RESIZE),
        (
            None,
            "snapshot-controller",
            true,
            &[
                "/persistentvolumeclaims: get,patch",
                "/persistentvolumes: get",
                "snapshot.storage.k8s.io/volumesnapshotcontents: create,delete,get,patch",
                "snapshot.storage.k8s.io/volumesnapshotcontents/status: patch",
                "snapshot.storage.k8s.io/volumesnapshots: get,patch",
                "snapshot.storage.k8s.io/volumesnapshots/status: patch",
            ],
        ),
        (
            None,
            "csi-snapshotter",
            true,
            &[
                "/secrets: get",
                "snapshot.storage.k8s.io/volumesnapshotcontents: get,patch",
                "snapshot.storage.k8s.io/volumesnapshotcontents/status: patch",
            ],
        ),
        (
            None,
            "failure-reporter",
            true,
            &[
                "/endpoints: get",
                "/namespaces: get",
                "/nodes: get",
                "/persistentvolumeclaims: get",
                "/persistentvolumes: get",
                "/pods: get",
                "/replicationcontrollers: get",
                "/resourcequotas: get",
                "/services: get",
                "admissionregistration.k8s.io/validatingadmissionpolicies: get",
                "apps/daemonsets: get",
                "apps/deployments: get",
                "apps/replicasets: get",
                "apps/statefulsets: get",
                "batch/cronjobs: get",
                "batch/jobs: get",
                "certificates.k8s.io/certificatesigningrequests: get",
                "networking.k8s.io/servicecidrs: get",
                "policy/poddisruptionbudgets: get",
                "rbac.authorization.k8s.io/clusterroles: get",
                "snapshot.storage.k8s.io/volumesnapshotcontents: get",
                "snapshot.storage.k8s.io/volumesnapshots: get",
                "storage.k8s.io/volumeattachments: get",
                "storage.k8s.io/volumeattributesclasses: get",
            ],
        ),
        (
            None,
            "explainer",
            false,
            &[
                "/events: list",
                "snapshot.storage.k8s.io/volumesnapshotcontents: get",
                "snapshot.storage.k8s.io/volumesnapshots: get",
            ],
        ),
        (None, "attachdetach-controller", false, &["storage.k8s.io/volumeattachments: patch"]),
        (None, "persistent-volume-binder", false, &["/events: list"]),
        (None, "resourcequota-controller", false, &["/resourcequotas: get"]),
        (
            Some("kube-system"),
            "csi-provisioner",
            false,
            &["/secrets: create", "storage.k8s.io/csistoragecapacities: create,delete,list,update"],
        ),
        (Some("kube-node-lease"), "node-controller", false, &["coordination.k8s.io/leases: get"]),
    ];
    let all: Vec<Value> = cluster_roles().into_iter().chain(roles()).collect();
    assert_eq!(all.len(), cases.len());
    for (namespace, name, writes_events, others) in cases {
        let full = format!("{ORLOP_CONTROLLER}{name}");
        let role = all.iter().find(|role| key(role) == (namespace, full.as_str())).expect(name);
        let events = EVENTS.into_iter().filter(|_| writes_events);
        let want: BTreeSet<String> = events.chain(others.iter().copied()).map(str::to_owned).collect();
        assert_eq!(rights(role), want, "{name} in {namespace:?}");
    }
}

#[test]
fn each_role_has_one_account_and_no_account_has_everything() {
    let bindings: Vec<Value> = cluster_role_bindings().into_iter().chain(role_bindings()).collect();
    let mut roles: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for binding in &bindings {
        let subjects = binding["subjects"].as_array().expect("subjects");
        assert_eq!(subjects.len(), 1, "{binding}");
        let account = subjects[0]["name"].as_str().expect("a name");
        assert_eq!(
            (&subjects[0]["kind"], &subjects[0]["namespace"]),
            (&"ServiceAccount".into(), &"kube-system".into())
        );
        roles.entry(account).or_default().insert(binding["roleRef"]["name"].as_str().expect("a role"));
    }
    for (account, roles) in &roles {
        assert!(controller_accounts().any(|known| known == *account), "{account}");
        let known = |role: &&str| {
            role.strip_prefix(ORLOP_CONTROLLER).is_some_and(|name| account.ends_with(name))
                || matches!(*role, "system:kube-scheduler" | "system:volume-scheduler")
        };
        assert!(roles.iter().all(known), "{account}: {roles:?}");
    }
    let accounts: Vec<&str> = controller_accounts().collect();
    assert_eq!(accounts.iter().collect::<BTreeSet<_>>().len(), accounts.len(), "each account once");
    assert!(accounts.iter().all(|account| !account.starts_with(CONTROLLER)));
}
