//! The cluster roles of the controllers. A role's name is the prefix `system:controller:` and the name of the controller's
//! service account in `kube-system`.
//!
//! Upstream: `buildControllerRoles` in `controller_policy.go`.

use super::{
    ANY, APPS, APPS_EXTENSIONS, AUTHORIZATION, AUTOSCALING, BATCH, CERTIFICATES, CORE, CREATE, DISCOVERY,
    EVENTS, GET, LIST_WATCH, NETWORKING, PATCH_UPDATE, POLICY, RBAC, READ, RESOURCE, Role, STORAGE, UPDATE,
    named, rule,
};

/// The roles, named by service account, in upstream's order.
pub(super) const ROLES: &[Role] = &[
    Role {
        name: "attachdetach-controller",
        rules: &[
            rule(LIST_WATCH, CORE, &["persistentvolumeclaims", "persistentvolumes"]),
            rule(READ, CORE, &["nodes"]),
            rule(PATCH_UPDATE, CORE, &["nodes/status"]),
            rule(LIST_WATCH, CORE, &["pods"]),
            EVENTS,
            rule(&["create", "delete", "get", "list", "watch"], STORAGE, &["volumeattachments"]),
            rule(READ, STORAGE, &["csidrivers"]),
            rule(READ, STORAGE, &["csinodes"]),
        ],
    },
    Role {
        name: "clusterrole-aggregation-controller",
        // The controller writes rules that it lacks itself.
        rules: &[rule(&["escalate", "get", "list", "patch", "update", "watch"], RBAC, &["clusterroles"])],
    },
    Role {
        name: "cronjob-controller",
        rules: &[
            rule(&["get", "list", "update", "watch"], BATCH, &["cronjobs"]),
            rule(&["create", "delete", "get", "list", "patch", "update", "watch"], BATCH, &["jobs"]),
            rule(UPDATE, BATCH, &["cronjobs/status"]),
            rule(UPDATE, BATCH, &["cronjobs/finalizers"]),
            rule(&["delete", "list", "watch"], CORE, &["pods"]),
            EVENTS,
        ],
    },
    Role {
        name: "daemon-set-controller",
        rules: &[
            rule(READ, APPS_EXTENSIONS, &["daemonsets"]),
            rule(UPDATE, APPS_EXTENSIONS, &["daemonsets/status"]),
            rule(UPDATE, APPS_EXTENSIONS, &["daemonsets/finalizers"]),
            rule(LIST_WATCH, CORE, &["nodes"]),
            rule(&["create", "delete", "list", "patch", "watch"], CORE, &["pods"]),
            rule(CREATE, CORE, &["pods/binding"]),
            rule(
                &["create", "delete", "get", "list", "patch", "update", "watch"],
                APPS,
                &["controllerrevisions"],
            ),
            EVENTS,
        ],
    },
    Role {
        name: "deployment-controller",
        rules: &[
            rule(&["get", "list", "update", "watch"], APPS_EXTENSIONS, &["deployments"]),
            rule(UPDATE, APPS_EXTENSIONS, &["deployments/status"]),
            rule(UPDATE, APPS_EXTENSIONS, &["deployments/finalizers"]),
            rule(
                &["create", "delete", "get", "list", "patch", "update", "watch"],
                APPS_EXTENSIONS,
                &["replicasets"],
            ),
            rule(&["get", "list", "update", "watch"], CORE, &["pods"]),
            EVENTS,
        ],
    },
    Role {
        name: "disruption-controller",
        rules: &[
            rule(READ, APPS_EXTENSIONS, &["deployments"]),
            rule(READ, APPS_EXTENSIONS, &["replicasets"]),
            rule(READ, CORE, &["replicationcontrollers"]),
            rule(READ, POLICY, &["poddisruptionbudgets"]),
            rule(READ, APPS, &["statefulsets"]),
            rule(UPDATE, POLICY, &["poddisruptionbudgets/status"]),
            rule(PATCH_UPDATE, CORE, &["pods/status"]),
            rule(GET, ANY, &["*/scale"]),
            EVENTS,
        ],
    },
    Role {
        name: "endpoint-controller",
        rules: &[
            rule(READ, CORE, &["pods", "services"]),
            rule(&["create", "delete", "get", "list", "update", "watch"], CORE, &["endpoints"]),
            rule(CREATE, CORE, &["endpoints/restricted"]),
            EVENTS,
        ],
    },
    Role {
        name: "endpointslice-controller",
        rules: &[
            rule(READ, CORE, &["nodes", "pods", "services"]),
            // An owner reference with `blockOwnerDeletion` needs this permission on the owner.
            rule(UPDATE, CORE, &["services/finalizers"]),
            rule(&["create", "delete", "get", "list", "update", "watch"], DISCOVERY, &["endpointslices"]),
            rule(CREATE, DISCOVERY, &["endpointslices/restricted"]),
            EVENTS,
        ],
    },
    Role {
        name: "endpointslicemirroring-controller",
        rules: &[
            rule(READ, CORE, &["endpoints", "services"]),
            rule(UPDATE, CORE, &["services/finalizers"]),
            rule(UPDATE, CORE, &["endpoints/finalizers"]),
            rule(&["create", "delete", "get", "list", "update", "watch"], DISCOVERY, &["endpointslices"]),
            rule(CREATE, DISCOVERY, &["endpointslices/restricted"]),
            EVENTS,
        ],
    },
    Role {
        name: "expand-controller",
        rules: &[
            rule(&["get", "list", "patch", "update", "watch"], CORE, &["persistentvolumes"]),
            rule(PATCH_UPDATE, CORE, &["persistentvolumeclaims/status"]),
            rule(READ, CORE, &["persistentvolumeclaims"]),
            EVENTS,
        ],
    },
    Role {
        name: "ephemeral-volume-controller",
        rules: &[
            rule(READ, CORE, &["pods"]),
            rule(UPDATE, CORE, &["pods/finalizers"]),
            rule(&["create", "get", "list", "watch"], CORE, &["persistentvolumeclaims"]),
            EVENTS,
        ],
    },
    Role {
        name: "resource-claim-controller",
        rules: &[
            rule(READ, CORE, &["pods"]),
            rule(UPDATE, CORE, &["pods/finalizers"]),
            rule(&["create", "delete", "get", "list", "watch"], RESOURCE, &["resourceclaims"]),
            rule(PATCH_UPDATE, RESOURCE, &["resourceclaims", "resourceclaims/status"]),
            rule(PATCH_UPDATE, CORE, &["pods/status"]),
            EVENTS,
            rule(PATCH_UPDATE, RESOURCE, &["resourceclaims/binding"]),
        ],
    },
    Role {
        name: "device-taint-eviction-controller",
        rules: &[
            rule(&["delete", "get", "list", "watch"], CORE, &["pods"]),
            rule(PATCH_UPDATE, CORE, &["pods/status"]),
            rule(READ, RESOURCE, &["resourceclaims"]),
            rule(READ, RESOURCE, &["resourceslices"]),
            rule(READ, RESOURCE, &["deviceclasses"]),
            EVENTS,
        ],
    },
    Role {
        name: "generic-garbage-collector",
        rules: &[rule(&["delete", "get", "list", "patch", "update", "watch"], ANY, ANY), EVENTS],
    },
    Role {
        name: "horizontal-pod-autoscaler",
        rules: &[
            rule(READ, AUTOSCALING, &["horizontalpodautoscalers"]),
            rule(UPDATE, AUTOSCALING, &["horizontalpodautoscalers/status"]),
            rule(&["get", "update"], ANY, &["*/scale"]),
            rule(LIST_WATCH, CORE, &["pods"]),
            rule(LIST_WATCH, &["metrics.k8s.io"], &["pods"]),
            rule(READ, &["custom.metrics.k8s.io"], ANY),
            rule(READ, &["external.metrics.k8s.io"], ANY),
            EVENTS,
        ],
    },
    Role {
        name: "job-controller",
        rules: &[
            rule(&["get", "list", "patch", "update", "watch"], BATCH, &["jobs"]),
            rule(UPDATE, BATCH, &["jobs/status"]),
            rule(UPDATE, BATCH, &["jobs/finalizers"]),
            rule(&["create", "delete", "list", "patch", "watch"], CORE, &["pods"]),
            EVENTS,
        ],
    },
    Role {
        name: "namespace-controller",
        rules: &[
            rule(&["delete", "get", "list", "watch"], CORE, &["namespaces"]),
            rule(UPDATE, CORE, &["namespaces/finalize", "namespaces/status"]),
            rule(&["delete", "deletecollection", "get", "list", "watch"], ANY, ANY),
        ],
    },
    Role {
        name: "node-controller",
        rules: &[
            rule(&["delete", "get", "list", "patch", "update", "watch"], CORE, &["nodes"]),
            rule(PATCH_UPDATE, CORE, &["nodes/status"]),
            rule(PATCH_UPDATE, CORE, &["pods/status"]),
            rule(&["delete", "get", "list", "watch"], CORE, &["pods"]),
            EVENTS,
        ],
    },
    Role {
        name: "persistent-volume-binder",
        rules: &[
            rule(&["create", "delete", "get", "list", "update", "watch"], CORE, &["persistentvolumes"]),
            rule(UPDATE, CORE, &["persistentvolumes/status"]),
            rule(&["get", "list", "update", "watch"], CORE, &["persistentvolumeclaims"]),
            rule(UPDATE, CORE, &["persistentvolumeclaims/status"]),
            rule(&["create", "delete", "get", "list", "watch"], CORE, &["pods"]),
            rule(READ, STORAGE, &["storageclasses"]),
            rule(LIST_WATCH, CORE, &["nodes"]),
            EVENTS,
            // Events of recycler pods.
            rule(&["watch"], CORE, &["events"]),
        ],
    },
    Role {
        name: "pod-garbage-collector",
        rules: &[
            rule(&["delete", "list", "watch"], CORE, &["pods"]),
            rule(READ, CORE, &["nodes"]),
            rule(&["patch"], CORE, &["pods/status"]),
        ],
    },
    Role {
        name: "replicaset-controller",
        rules: &[
            rule(&["get", "list", "update", "watch"], APPS_EXTENSIONS, &["replicasets"]),
            rule(UPDATE, APPS_EXTENSIONS, &["replicasets/status"]),
            rule(UPDATE, APPS_EXTENSIONS, &["replicasets/finalizers"]),
            rule(&["create", "delete", "list", "patch", "watch"], CORE, &["pods"]),
            EVENTS,
        ],
    },
    Role {
        name: "replication-controller",
        rules: &[
            rule(&["get", "list", "update", "watch"], CORE, &["replicationcontrollers"]),
            rule(UPDATE, CORE, &["replicationcontrollers/status"]),
            rule(UPDATE, CORE, &["replicationcontrollers/finalizers"]),
            rule(&["create", "delete", "list", "patch", "watch"], CORE, &["pods"]),
            EVENTS,
        ],
    },
    Role {
        name: "resourcequota-controller",
        rules: &[rule(LIST_WATCH, ANY, ANY), rule(UPDATE, CORE, &["resourcequotas/status"]), EVENTS],
    },
    Role {
        name: "route-controller",
        rules: &[rule(LIST_WATCH, CORE, &["nodes"]), rule(&["patch"], CORE, &["nodes/status"]), EVENTS],
    },
    Role { name: "service-account-controller", rules: &[rule(CREATE, CORE, &["serviceaccounts"]), EVENTS] },
    Role {
        name: "service-controller",
        rules: &[
            rule(READ, CORE, &["services"]),
            rule(PATCH_UPDATE, CORE, &["services/status"]),
            rule(LIST_WATCH, CORE, &["nodes"]),
            EVENTS,
        ],
    },
    Role {
        name: "service-cidrs-controller",
        rules: &[
            rule(&["get", "list", "patch", "update", "watch"], NETWORKING, &["servicecidrs"]),
            rule(PATCH_UPDATE, NETWORKING, &["servicecidrs/finalizers"]),
            rule(PATCH_UPDATE, NETWORKING, &["servicecidrs/status"]),
            rule(READ, NETWORKING, &["ipaddresses"]),
            EVENTS,
        ],
    },
    Role {
        name: "statefulset-controller",
        rules: &[
            rule(LIST_WATCH, CORE, &["pods"]),
            rule(READ, APPS, &["statefulsets"]),
            rule(UPDATE, APPS, &["statefulsets/status"]),
            rule(UPDATE, APPS, &["statefulsets/finalizers"]),
            rule(&["create", "delete", "get", "patch", "update"], CORE, &["pods"]),
            rule(
                &["create", "delete", "get", "list", "patch", "update", "watch"],
                APPS,
                &["controllerrevisions"],
            ),
            rule(&["create", "get", "list", "watch"], CORE, &["persistentvolumeclaims"]),
            rule(&["delete", "update"], CORE, &["persistentvolumeclaims"]),
            rule(UPDATE, CORE, &["pods/finalizers"]),
            EVENTS,
        ],
    },
    Role {
        name: "ttl-controller",
        rules: &[rule(&["list", "patch", "update", "watch"], CORE, &["nodes"]), EVENTS],
    },
    Role {
        name: "certificate-controller",
        rules: &[
            rule(&["delete", "get", "list", "watch"], CERTIFICATES, &["certificatesigningrequests"]),
            rule(
                UPDATE,
                CERTIFICATES,
                &["certificatesigningrequests/approval", "certificatesigningrequests/status"],
            ),
            named(&["approve"], CERTIFICATES, &["signers"], &["kubernetes.io/kube-apiserver-client-kubelet"]),
            named(
                &["sign"],
                CERTIFICATES,
                &["signers"],
                &[
                    "kubernetes.io/kube-apiserver-client",
                    "kubernetes.io/kube-apiserver-client-kubelet",
                    "kubernetes.io/kubelet-serving",
                    "kubernetes.io/legacy-unknown",
                ],
            ),
            rule(CREATE, AUTHORIZATION, &["subjectaccessreviews"]),
            EVENTS,
        ],
    },
    Role {
        name: "pvc-protection-controller",
        rules: &[
            rule(&["get", "list", "update", "watch"], CORE, &["persistentvolumeclaims"]),
            rule(UPDATE, CORE, &["persistentvolumeclaims/status"]),
            rule(READ, CORE, &["pods"]),
            EVENTS,
        ],
    },
    Role {
        name: "pv-protection-controller",
        rules: &[rule(&["get", "list", "update", "watch"], CORE, &["persistentvolumes"]), EVENTS],
    },
    Role {
        name: "volumeattributesclass-protection-controller",
        rules: &[
            rule(READ, CORE, &["persistentvolumeclaims"]),
            rule(READ, CORE, &["persistentvolumes"]),
            rule(&["get", "list", "update", "watch"], STORAGE, &["volumeattributesclasses"]),
            EVENTS,
        ],
    },
    Role {
        name: "ttl-after-finished-controller",
        rules: &[rule(&["delete", "get", "list", "watch"], BATCH, &["jobs"]), EVENTS],
    },
    Role {
        name: "root-ca-cert-publisher",
        rules: &[rule(&["create", "update"], CORE, &["configmaps"]), EVENTS],
    },
    Role {
        name: "validatingadmissionpolicy-status-controller",
        rules: &[
            rule(READ, &["admissionregistration.k8s.io"], &["validatingadmissionpolicies"]),
            rule(
                &["get", "patch", "update"],
                &["admissionregistration.k8s.io"],
                &["validatingadmissionpolicies/status"],
            ),
            EVENTS,
        ],
    },
    Role {
        name: "legacy-service-account-token-cleaner",
        rules: &[
            named(GET, CORE, &["configmaps"], &["kube-apiserver-legacy-service-account-token-tracking"]),
            rule(&["delete", "patch"], CORE, &["secrets"]),
        ],
    },
    Role {
        name: "selinux-warning-controller",
        rules: &[
            EVENTS,
            rule(READ, CORE, &["persistentvolumes"]),
            rule(READ, CORE, &["persistentvolumeclaims"]),
            rule(READ, CORE, &["pods"]),
            rule(READ, STORAGE, &["csidrivers"]),
        ],
    },
];
