//! The cluster roles of users, nodes and components. The roles of controllers are in `controller_roles`, the aggregated
//! roles in `aggregated_roles`.
//!
//! Upstream: `ClusterRoles` and `NodeRules` in `policy.go`.

use serde_json::Value;

use super::{
    ANY, APPS, APPS_EXTENSIONS, AUTHENTICATION, AUTHORIZATION, CERTIFICATES, COORDINATION, CORE, CREATE,
    DELETE, DISCOVERY, EVENTS, EXTENSIONS, GET, LIST_WATCH, NETWORKING, NODE, PATCH_UPDATE, POLICY, READ,
    READ_UPDATE, READ_WRITE, RESOURCE, Role, Rule, STORAGE, UPDATE, aggregated_roles, cluster_role, named,
    paths, rule,
};

/// The roles of users, before the aggregated roles.
const USERS: &[Role] = &[
    // Every permission.
    Role { name: "cluster-admin", rules: &[rule(ANY, ANY, ANY), paths(ANY, ANY)] },
    // Discovery, health and version.
    Role {
        name: "system:discovery",
        rules: &[paths(
            GET,
            &[
                "/api",
                "/api/*",
                "/apis",
                "/apis/*",
                "/healthz",
                "/livez",
                "/openapi",
                "/openapi/*",
                "/readyz",
                "/version",
                "/version/",
            ],
        )],
    },
    // Metrics and single health checks.
    Role {
        name: "system:monitoring",
        rules: &[
            paths(
                GET,
                &[
                    "/flagz",
                    "/healthz",
                    "/healthz/*",
                    "/livez",
                    "/livez/*",
                    "/metrics",
                    "/metrics/slis",
                    "/readyz",
                    "/readyz/*",
                    "/statusz",
                ],
            ),
            rule(GET, CORE, &["nodes/metrics"]),
        ],
    },
    // A user's own identity and permissions.
    Role {
        name: "system:basic-user",
        rules: &[
            rule(CREATE, AUTHORIZATION, &["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
            rule(CREATE, AUTHENTICATION, &["selfsubjectreviews"]),
        ],
    },
    // Public information, also for unauthenticated users.
    Role {
        name: "system:public-info-viewer",
        rules: &[paths(GET, &["/healthz", "/livez", "/readyz", "/version", "/version/"])],
    },
];

/// The roles of nodes and components, after the aggregated roles.
const COMPONENTS: &[Role] = &[
    Role {
        name: "system:heapster",
        rules: &[
            rule(READ, CORE, &["events", "namespaces", "nodes", "pods"]),
            rule(READ, EXTENSIONS, &["deployments"]),
        ],
    },
    Role { name: "system:node", rules: NODE_RULES },
    Role {
        name: "system:node-problem-detector",
        rules: &[rule(GET, CORE, &["nodes"]), rule(&["patch"], CORE, &["nodes/status"]), EVENTS],
    },
    // Requests a client certificate for a new node.
    Role {
        name: "system:node-bootstrapper",
        rules: &[rule(&["create", "get", "list", "watch"], CERTIFICATES, &["certificatesigningrequests"])],
    },
    // For API servers that delegate authentication and authorization.
    Role {
        name: "system:auth-delegator",
        rules: &[
            rule(CREATE, AUTHENTICATION, &["tokenreviews"]),
            rule(CREATE, AUTHORIZATION, &["subjectaccessreviews"]),
        ],
    },
    Role { name: "system:kube-aggregator", rules: &[rule(READ, CORE, &["endpoints", "services"])] },
    Role {
        name: "system:kube-controller-manager",
        rules: &[
            EVENTS,
            rule(CREATE, COORDINATION, &["leases"]),
            named(&["get", "update"], COORDINATION, &["leases"], &["kube-controller-manager"]),
            rule(CREATE, CORE, &["secrets", "serviceaccounts"]),
            rule(DELETE, CORE, &["secrets"]),
            rule(GET, CORE, &["configmaps", "namespaces", "secrets", "serviceaccounts"]),
            rule(UPDATE, CORE, &["secrets", "serviceaccounts"]),
            rule(CREATE, AUTHENTICATION, &["tokenreviews"]),
            rule(CREATE, AUTHORIZATION, &["subjectaccessreviews"]),
            // Shared informers.
            rule(LIST_WATCH, ANY, ANY),
            rule(CREATE, CORE, &["serviceaccounts/token"]),
        ],
    },
    Role { name: "system:kube-dns", rules: &[rule(LIST_WATCH, CORE, &["endpoints", "services"])] },
    // For external provisioners.
    Role {
        name: "system:persistent-volume-provisioner",
        rules: &[
            rule(&["create", "delete", "get", "list", "watch"], CORE, &["persistentvolumes"]),
            rule(&["get", "list", "update", "watch"], CORE, &["persistentvolumeclaims"]),
            rule(READ, STORAGE, &["storageclasses"]),
            rule(&["watch"], CORE, &["events"]),
            EVENTS,
        ],
    },
    Role {
        name: "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
        rules: &[rule(CREATE, CERTIFICATES, &["certificatesigningrequests/nodeclient"])],
    },
    Role {
        name: "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        rules: &[rule(CREATE, CERTIFICATES, &["certificatesigningrequests/selfnodeclient"])],
    },
    Role {
        name: "system:volume-scheduler",
        rules: &[
            rule(READ_UPDATE, CORE, &["persistentvolumes"]),
            rule(READ, STORAGE, &["storageclasses"]),
            rule(READ_UPDATE, CORE, &["persistentvolumeclaims"]),
        ],
    },
    Role {
        name: "system:certificates.k8s.io:legacy-unknown-approver",
        rules: &[named(&["approve"], CERTIFICATES, &["signers"], &["kubernetes.io/legacy-unknown"])],
    },
    Role {
        name: "system:certificates.k8s.io:kubelet-serving-approver",
        rules: &[named(&["approve"], CERTIFICATES, &["signers"], &["kubernetes.io/kubelet-serving"])],
    },
    Role {
        name: "system:certificates.k8s.io:kube-apiserver-client-approver",
        rules: &[named(&["approve"], CERTIFICATES, &["signers"], &["kubernetes.io/kube-apiserver-client"])],
    },
    Role {
        name: "system:certificates.k8s.io:kube-apiserver-client-kubelet-approver",
        rules: &[named(
            &["approve"],
            CERTIFICATES,
            &["signers"],
            &["kubernetes.io/kube-apiserver-client-kubelet"],
        )],
    },
    Role {
        name: "system:service-account-issuer-discovery",
        rules: &[paths(
            GET,
            &[
                "/.well-known/openid-configuration",
                "/.well-known/openid-configuration/",
                "/openid/v1/jwks",
                "/openid/v1/jwks/",
            ],
        )],
    },
    // Every permission on a node agent's API.
    Role {
        name: "system:kubelet-api-admin",
        rules: &[
            rule(READ, CORE, &["nodes"]),
            rule(&["proxy"], CORE, &["nodes"]),
            rule(ANY, CORE, &["nodes/log", "nodes/metrics", "nodes/proxy", "nodes/stats"]),
            rule(ANY, CORE, &["nodes/configz", "nodes/healthz", "nodes/pods"]),
        ],
    },
    Role {
        name: "system:node-proxier",
        rules: &[
            rule(LIST_WATCH, CORE, &["endpoints", "services"]),
            rule(READ, CORE, &["nodes"]),
            EVENTS,
            rule(LIST_WATCH, NETWORKING, &["servicecidrs"]),
            rule(LIST_WATCH, DISCOVERY, &["endpointslices"]),
        ],
    },
    Role { name: "system:kube-scheduler", rules: SCHEDULER },
];

/// The rules of `system:node`. Without the Node authorizer, an administrator binds this role to the nodes.
pub(super) const NODE_RULES: &[Rule] = &[
    rule(CREATE, AUTHENTICATION, &["tokenreviews"]),
    rule(CREATE, AUTHORIZATION, &["localsubjectaccessreviews", "subjectaccessreviews"]),
    rule(READ, CORE, &["services"]),
    rule(&["create", "get", "list", "watch"], CORE, &["nodes"]),
    rule(PATCH_UPDATE, CORE, &["nodes/status"]),
    rule(PATCH_UPDATE, CORE, &["nodes"]),
    EVENTS,
    rule(READ, CORE, &["pods"]),
    // Mirror pods.
    rule(&["create", "delete"], CORE, &["pods"]),
    rule(PATCH_UPDATE, CORE, &["pods/status"]),
    rule(CREATE, CORE, &["pods/eviction"]),
    rule(READ, CORE, &["configmaps", "secrets"]),
    rule(GET, CORE, &["persistentvolumeclaims", "persistentvolumes"]),
    rule(GET, CORE, &["endpoints"]),
    rule(&["create", "get", "list", "watch"], CERTIFICATES, &["certificatesigningrequests"]),
    rule(&["create", "delete", "get", "patch", "update"], COORDINATION, &["leases"]),
    rule(GET, STORAGE, &["volumeattachments"]),
    rule(CREATE, CORE, &["serviceaccounts/token"]),
    rule(&["get", "patch", "update"], CORE, &["persistentvolumeclaims/status"]),
    rule(READ, STORAGE, &["csidrivers"]),
    rule(&["create", "delete", "get", "patch", "update"], STORAGE, &["csinodes"]),
    rule(READ, NODE, &["runtimeclasses"]),
    rule(GET, RESOURCE, &["resourceclaims"]),
    rule(&["deletecollection"], RESOURCE, &["resourceslices"]),
    // Service account tokens for credential providers.
    rule(GET, CORE, &["serviceaccounts"]),
];

/// The rules of `system:kube-scheduler`.
const SCHEDULER: &[Rule] = &[
    EVENTS,
    // Leader election.
    rule(CREATE, COORDINATION, &["leases"]),
    named(&["get", "list", "update", "watch"], COORDINATION, &["leases"], &["kube-scheduler"]),
    rule(READ_WRITE, COORDINATION, &["leasecandidates"]),
    rule(READ, CORE, &["nodes"]),
    rule(&["delete", "get", "list", "watch"], CORE, &["pods"]),
    rule(CREATE, CORE, &["bindings", "pods/binding"]),
    rule(PATCH_UPDATE, CORE, &["pods/status"]),
    rule(READ, CORE, &["replicationcontrollers", "services"]),
    rule(READ, APPS_EXTENSIONS, &["replicasets"]),
    rule(READ, APPS, &["statefulsets"]),
    rule(READ, POLICY, &["poddisruptionbudgets"]),
    rule(READ, CORE, &["persistentvolumeclaims", "persistentvolumes"]),
    rule(CREATE, AUTHENTICATION, &["tokenreviews"]),
    rule(CREATE, AUTHORIZATION, &["subjectaccessreviews"]),
    // Volume limits.
    rule(READ, STORAGE, &["csinodes"]),
    rule(READ, STORAGE, &["volumeattachments"]),
    // Namespace selectors of pod affinity.
    rule(READ, CORE, &["namespaces"]),
    rule(READ, STORAGE, &["csidrivers"]),
    rule(READ, STORAGE, &["csistoragecapacities"]),
    // Dynamic resource allocation.
    rule(READ, RESOURCE, &["deviceclasses"]),
    rule(READ_UPDATE, RESOURCE, &["resourceclaims"]),
    rule(READ_UPDATE, RESOURCE, &["resourceclaims/status"]),
    rule(UPDATE, CORE, &["pods/finalizers"]),
    rule(READ, RESOURCE, &["resourceslices"]),
    rule(&["create", "delete"], RESOURCE, &["resourceclaims"]),
    rule(PATCH_UPDATE, RESOURCE, &["resourceclaims/binding"]),
];

/// All roles of this module and the aggregated roles, in upstream's order.
pub(super) fn all() -> Vec<Value> {
    let wire = |role: &Role| cluster_role(role.name, role.rules);
    let mut all: Vec<Value> = USERS.iter().map(wire).collect();
    all.extend(aggregated_roles::all());
    all.extend(COMPONENTS.iter().map(wire));
    all
}
