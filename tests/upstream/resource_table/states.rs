//! What orlop does with each resource: the last two columns of docs/api.md.

/// What orlop does with a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Served,
    /// Upstream has a component that acts on the resource, and orlop lacks it.
    NoController,
    /// No component of orlop uses the content.
    StoredOnly,
}

impl State {
    /// As in the first table of docs/api.md.
    pub(super) fn text(self) -> &'static str {
        match self {
            State::Served => "served",
            State::NoController => "no controller",
            State::StoredOnly => "stored only",
        }
    }
}

use State::{NoController, Served, StoredOnly};

/// `GROUP/RESOURCE`, without a group for the core group, the state, and a note. A subresource without a line has the
/// state of its resource.
pub(super) const STATES: &[(&str, State, &str)] = &[
    ("bindings", Served, "assigns a pod to a node"),
    ("componentstatuses", Served, "[Supported API](supported-api.md#kinds)"),
    ("configmaps", Served, ""),
    ("endpoints", Served, "[Endpoints of Services](service-endpoints.md)"),
    ("events", Served, "deleted after `--event-ttl`"),
    ("limitranges", Served, "[Namespaces and quotas](quota.md)"),
    ("namespaces", Served, "[Namespaces and quotas](quota.md)"),
    ("nodes", Served, "[The node agent](node.md)"),
    ("nodes/proxy", Served, "[Proxies](run-a-node.md#proxies)"),
    ("persistentvolumeclaims", Served, "[Binding](binding.md)"),
    ("persistentvolumes", Served, "[Binding](binding.md)"),
    ("pods", Served, "[Scheduling](scheduling.md), [The node agent](node.md)"),
    ("pods/attach", Served, "of pods on kubelets, over HTTP/1.1"),
    ("pods/binding", Served, "assigns the pod to a node"),
    ("pods/ephemeralcontainers", NoController, "the node agent does not start ephemeral containers"),
    ("pods/eviction", Served, "respects PodDisruptionBudgets"),
    ("pods/exec", Served, "of pods on kubelets, over HTTP/1.1"),
    ("pods/log", Served, ""),
    ("pods/portforward", Served, "of pods on kubelets, over HTTP/1.1"),
    ("pods/proxy", Served, "[Proxies](run-a-node.md#proxies)"),
    ("pods/resize", NoController, "the node agent does not apply new resources"),
    ("podtemplates", StoredOnly, "as in Kubernetes"),
    ("replicationcontrollers", Served, "[Workloads](workloads.md)"),
    ("resourcequotas", Served, "[Namespaces and quotas](quota.md)"),
    ("secrets", Served, ""),
    ("serviceaccounts", Served, "[Authenticate users](authenticate-users.md#tokens-in-secrets)"),
    ("services", Served, "addresses, node ports and endpoints; no component routes traffic"),
    ("services/proxy", Served, "[Proxies](run-a-node.md#proxies)"),
    ("admissionregistration.k8s.io/mutatingadmissionpolicies", Served, "[Admission](admission.md)"),
    ("admissionregistration.k8s.io/mutatingadmissionpolicybindings", Served, "[Admission](admission.md)"),
    (
        "admissionregistration.k8s.io/mutatingwebhookconfigurations",
        Served,
        "[Admission](admission.md#webhooks)",
    ),
    ("admissionregistration.k8s.io/validatingadmissionpolicies", Served, "[Admission](admission.md)"),
    ("admissionregistration.k8s.io/validatingadmissionpolicybindings", Served, "[Admission](admission.md)"),
    (
        "admissionregistration.k8s.io/validatingwebhookconfigurations",
        Served,
        "[Admission](admission.md#webhooks)",
    ),
    ("apiextensions.k8s.io/customresourcedefinitions", Served, "[Custom resources](custom-resources.md)"),
    ("apiregistration.k8s.io/apiservices", Served, "[Aggregated API servers](aggregated-servers.md)"),
    ("apps/controllerrevisions", Served, "the history of DaemonSets and StatefulSets"),
    ("apps/daemonsets", Served, "[Workloads](workloads.md)"),
    ("apps/deployments", Served, "[Workloads](workloads.md)"),
    ("apps/replicasets", Served, "[Workloads](workloads.md)"),
    ("apps/statefulsets", Served, "[Workloads](workloads.md)"),
    ("authentication.k8s.io/selfsubjectreviews", Served, "`kubectl auth whoami`"),
    ("authentication.k8s.io/tokenreviews", Served, ""),
    ("authorization.k8s.io/localsubjectaccessreviews", Served, ""),
    ("authorization.k8s.io/selfsubjectaccessreviews", Served, "`kubectl auth can-i`"),
    ("authorization.k8s.io/selfsubjectrulesreviews", Served, "`kubectl auth can-i --list`"),
    ("authorization.k8s.io/subjectaccessreviews", Served, ""),
    ("autoscaling/horizontalpodautoscalers", NoController, "no controller scales workloads"),
    ("batch/cronjobs", Served, "[Workloads](workloads.md#cronjob)"),
    ("batch/jobs", Served, "[Workloads](workloads.md#job)"),
    (
        "certificates.k8s.io/certificatesigningrequests",
        Served,
        "[Secure connections with TLS](tls.md#certificate-requests)",
    ),
    ("coordination.k8s.io/leases", Served, "heartbeats of nodes"),
    ("discovery.k8s.io/endpointslices", Served, "[Endpoints of Services](service-endpoints.md)"),
    ("events.k8s.io/events", Served, "deleted after `--event-ttl`"),
    (
        "flowcontrol.apiserver.k8s.io/flowschemas",
        Served,
        "assigns requests to priority levels: [Overload](overload.md#priority-levels)",
    ),
    (
        "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations",
        Served,
        "divides the permits of requests: [Overload](overload.md#priority-levels)",
    ),
    (
        "groupsnapshot.storage.k8s.io/volumegroupsnapshotclasses",
        NoController,
        "[Snapshots and resize](snapshots-and-resize.md#group-snapshots)",
    ),
    (
        "groupsnapshot.storage.k8s.io/volumegroupsnapshotcontents",
        NoController,
        "[Snapshots and resize](snapshots-and-resize.md#group-snapshots)",
    ),
    (
        "groupsnapshot.storage.k8s.io/volumegroupsnapshots",
        NoController,
        "[Snapshots and resize](snapshots-and-resize.md#group-snapshots)",
    ),
    ("networking.k8s.io/ingressclasses", Served, "admission sets the default class of an Ingress"),
    (
        "networking.k8s.io/ingresses",
        StoredOnly,
        "as in Kubernetes; an Ingress controller is a separate program",
    ),
    ("networking.k8s.io/ipaddresses", Served, "reserves the cluster IPs of Services"),
    (
        "networking.k8s.io/networkpolicies",
        StoredOnly,
        "as in Kubernetes; a network plugin is a separate program",
    ),
    ("networking.k8s.io/servicecidrs", Served, "cluster IPs only of the IP family of the server"),
    ("node.k8s.io/runtimeclasses", Served, "[Admission](admission.md)"),
    ("orlop.dev/capture", Served, "[Explain, history and plans](insight.md)"),
    ("orlop.dev/revisions", Served, "[Explain, history and plans](insight.md)"),
    ("orlop.dev/stream", Served, "[Explain, history and plans](insight.md)"),
    ("orlop.dev/timeline", Served, "[Explain, history and plans](insight.md)"),
    ("policy/poddisruptionbudgets", Served, "[Workloads](workloads.md#poddisruptionbudget)"),
    ("rbac.authorization.k8s.io/clusterrolebindings", Served, "[Authorize users](authorize-users.md)"),
    ("rbac.authorization.k8s.io/clusterroles", Served, "[Authorize users](authorize-users.md)"),
    ("rbac.authorization.k8s.io/rolebindings", Served, "[Authorize users](authorize-users.md)"),
    ("rbac.authorization.k8s.io/roles", Served, "[Authorize users](authorize-users.md)"),
    ("resource.k8s.io/deviceclasses", StoredOnly, "the scheduler does not allocate devices"),
    (
        "resource.k8s.io/resourceclaims",
        NoController,
        "no component allocates devices, but `resourceclaim-controller` creates claims from templates, and reserves and releases claims",
    ),
    ("resource.k8s.io/resourceclaimtemplates", Served, ""),
    ("resource.k8s.io/resourceslices", StoredOnly, "the scheduler does not allocate devices"),
    ("scheduling.k8s.io/priorityclasses", Served, "the order of scheduling; no preemption"),
    (
        "snapshot.storage.k8s.io/volumesnapshotclasses",
        Served,
        "[Snapshots and resize](snapshots-and-resize.md)",
    ),
    (
        "snapshot.storage.k8s.io/volumesnapshotcontents",
        Served,
        "[Snapshots and resize](snapshots-and-resize.md)",
    ),
    ("snapshot.storage.k8s.io/volumesnapshots", Served, "[Snapshots and resize](snapshots-and-resize.md)"),
    ("storage.k8s.io/csidrivers", Served, "[CSI](csi.md)"),
    ("storage.k8s.io/csinodes", Served, "[CSI](csi.md)"),
    ("storage.k8s.io/csistoragecapacities", Served, "[Scheduling](scheduling.md)"),
    ("storage.k8s.io/storageclasses", Served, "[Binding](binding.md)"),
    ("storage.k8s.io/volumeattachments", Served, "[Attach and detach](attach-detach.md)"),
    ("storage.k8s.io/volumeattributesclasses", Served, "[Snapshots and resize](snapshots-and-resize.md)"),
];
