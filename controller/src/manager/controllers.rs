//! The controllers, their names, their users and their bodies.

use orlop_client::component::{Component, accounts};
use orlop_client::names::controller;

use crate::context::Run;
use crate::csi::{attacher, modifier, provisioner, resizer, snapshotter};
use crate::gc;
use crate::workload::{cron_job, daemon_set, deployment, job, replicas, stateful_set, ttl_after_finished};
use crate::{
    account_tokens, attach, bootstrap, certificates, disruption, endpoints, ephemeral, expand,
    namespace_defaults, node_lifecycle, policy_status, protection, pv, quota, resource_claim,
    role_aggregation, scheduler, service_cidr, ttl,
};

/// A controller that can be started.
pub struct ControllerEntry {
    /// The name for `--controllers`.
    pub name: &'static str,
    /// The older name, which upstream accepts too.
    pub alias: Option<&'static str>,
    /// The user of its requests.
    pub component: Component,
    /// The body.
    pub run: Run,
}

/// All controllers. Upstream's taint eviction uses the account of the node lifecycle controller too.
pub const CONTROLLERS: &[ControllerEntry] = &[
    ControllerEntry {
        name: controller::PV_BINDER,
        alias: Some("persistentvolume-binder"),
        component: Component::Account(accounts::PV_BINDER),
        run: pv::run,
    },
    ControllerEntry {
        name: controller::PV_PROTECTION,
        alias: Some("pv-protection"),
        component: Component::Account(accounts::PV_PROTECTION),
        run: protection::volume::run,
    },
    ControllerEntry {
        name: controller::PVC_PROTECTION,
        alias: Some("pvc-protection"),
        component: Component::Account(accounts::PVC_PROTECTION),
        run: protection::claim::run,
    },
    ControllerEntry {
        name: controller::VAC_PROTECTION,
        alias: None,
        component: Component::Account(accounts::VAC_PROTECTION),
        run: protection::attributes_class::run,
    },
    ControllerEntry {
        name: controller::EPHEMERAL,
        alias: Some("ephemeral-volume"),
        component: Component::Account(accounts::EPHEMERAL),
        run: ephemeral::run,
    },
    ControllerEntry {
        name: controller::EXPANDER,
        alias: Some("persistentvolume-expander"),
        component: Component::Account(accounts::EXPANDER),
        run: expand::run,
    },
    ControllerEntry {
        name: controller::ATTACH_DETACH,
        alias: Some("attachdetach"),
        component: Component::Account(accounts::ATTACH_DETACH),
        run: attach::run,
    },
    ControllerEntry {
        name: controller::CSI_PROVISIONER,
        alias: Some("csi-provisioner"),
        component: Component::Account(accounts::ORLOP_CSI_PROVISIONER),
        run: provisioner::run,
    },
    ControllerEntry {
        name: controller::POD_GC,
        alias: Some("podgc"),
        component: Component::Account(accounts::POD_GC),
        run: gc::pods::run,
    },
    ControllerEntry {
        name: controller::NODE_LIFECYCLE,
        alias: Some("nodelifecycle"),
        component: Component::Account(accounts::NODE),
        run: node_lifecycle::run,
    },
    ControllerEntry {
        name: controller::TAINT_EVICTION,
        alias: None,
        component: Component::Account(accounts::NODE),
        run: node_lifecycle::eviction::run,
    },
    ControllerEntry {
        name: controller::TTL,
        alias: Some("ttl"),
        component: Component::Account(accounts::TTL),
        run: ttl::run,
    },
    ControllerEntry {
        name: controller::NAMESPACE,
        alias: Some("namespace"),
        component: Component::Account(accounts::NAMESPACE_CONTROLLER),
        run: gc::namespace::run,
    },
    ControllerEntry {
        name: controller::REPLICATION,
        alias: Some("replicationcontroller"),
        component: Component::Account(accounts::REPLICATION),
        run: replicas::replication_controllers,
    },
    ControllerEntry {
        name: controller::REPLICA_SET,
        alias: Some("replicaset"),
        component: Component::Account(accounts::REPLICA_SET),
        run: replicas::replica_sets,
    },
    ControllerEntry {
        name: controller::DEPLOYMENT,
        alias: Some("deployment"),
        component: Component::Account(accounts::DEPLOYMENT),
        run: deployment::run,
    },
    ControllerEntry {
        name: controller::STATEFUL_SET,
        alias: Some("statefulset"),
        component: Component::Account(accounts::STATEFUL_SET),
        run: stateful_set::run,
    },
    ControllerEntry {
        name: controller::ENDPOINTS,
        alias: Some("endpoint"),
        component: Component::Account(accounts::ENDPOINTS),
        run: endpoints::legacy::run,
    },
    ControllerEntry {
        name: controller::ENDPOINT_SLICES,
        alias: Some("endpointslice"),
        component: Component::Account(accounts::ENDPOINT_SLICES),
        run: endpoints::slices::run,
    },
    ControllerEntry {
        name: controller::SLICE_MIRRORING,
        alias: Some("endpointslicemirroring"),
        component: Component::Account(accounts::SLICE_MIRRORING),
        run: endpoints::mirroring::run,
    },
    ControllerEntry {
        name: controller::DAEMON_SET,
        alias: Some("daemonset"),
        component: Component::Account(accounts::DAEMON_SET),
        run: daemon_set::run,
    },
    ControllerEntry {
        name: controller::JOB,
        alias: Some("job"),
        component: Component::Account(accounts::JOB),
        run: job::run,
    },
    ControllerEntry {
        name: controller::CRON_JOB,
        alias: Some("cronjob"),
        component: Component::Account(accounts::CRON_JOB),
        run: cron_job::run,
    },
    ControllerEntry {
        name: controller::TTL_AFTER_FINISHED,
        alias: Some("ttl-after-finished"),
        component: Component::Account(accounts::TTL_AFTER_FINISHED),
        run: ttl_after_finished::run,
    },
    ControllerEntry {
        name: controller::SCHEDULER,
        alias: Some("kube-scheduler"),
        component: Component::Scheduler,
        run: scheduler::run,
    },
    ControllerEntry {
        name: controller::GARBAGE_COLLECTOR,
        alias: Some("garbagecollector"),
        component: Component::Account(accounts::GARBAGE_COLLECTOR),
        run: gc::owners::run,
    },
    ControllerEntry {
        name: controller::RESOURCE_QUOTA,
        alias: Some("resourcequota"),
        component: Component::Account(accounts::RESOURCE_QUOTA),
        run: quota::run,
    },
    ControllerEntry {
        name: controller::SERVICE_ACCOUNT,
        alias: Some("serviceaccount"),
        component: Component::Account(accounts::SERVICE_ACCOUNT),
        run: namespace_defaults::service_accounts::run,
    },
    ControllerEntry {
        name: controller::ROOT_CA_PUBLISHER,
        alias: Some("root-ca-cert-publisher"),
        component: Component::Account(accounts::ROOT_CA_PUBLISHER),
        run: namespace_defaults::root_ca::run,
    },
    ControllerEntry {
        name: controller::ROLE_AGGREGATION,
        alias: Some("clusterrole-aggregation"),
        component: Component::Account(accounts::ROLE_AGGREGATION),
        run: role_aggregation::run,
    },
    ControllerEntry {
        name: controller::CSR_SIGNING,
        alias: Some("csrsigning"),
        component: Component::Account(accounts::CERTIFICATE),
        run: certificates::signing::run,
    },
    ControllerEntry {
        name: controller::CSR_APPROVING,
        alias: Some("csrapproving"),
        component: Component::Account(accounts::CERTIFICATE),
        run: certificates::approving::run,
    },
    ControllerEntry {
        name: controller::CSR_CLEANER,
        alias: Some("csrcleaner"),
        component: Component::Account(accounts::CERTIFICATE),
        run: certificates::cleaner::run,
    },
    ControllerEntry {
        name: controller::TOKEN_CLEANER,
        alias: Some("tokencleaner"),
        component: Component::Account(accounts::TOKEN_CLEANER),
        run: bootstrap::token_cleaner::run,
    },
    ControllerEntry {
        name: controller::BOOTSTRAP_SIGNER,
        alias: Some("bootstrapsigner"),
        component: Component::Account(accounts::BOOTSTRAP_SIGNER),
        run: bootstrap::signer::run,
    },
    ControllerEntry {
        name: controller::DISRUPTION,
        alias: Some("disruption"),
        component: Component::Account(accounts::DISRUPTION),
        run: disruption::run,
    },
    ControllerEntry {
        name: controller::SERVICE_ACCOUNT_TOKEN,
        alias: Some("serviceaccount-token"),
        // As upstream: its role does not permit a service account of its own.
        component: Component::ControllerManager,
        run: account_tokens::secrets::run,
    },
    ControllerEntry {
        name: controller::LEGACY_TOKEN_CLEANER,
        alias: Some("legacy-service-account-token-cleaner"),
        component: Component::Account(accounts::LEGACY_TOKEN_CLEANER),
        run: account_tokens::cleaner::run,
    },
    ControllerEntry {
        name: controller::SERVICE_CIDR,
        alias: None,
        component: Component::Account(accounts::SERVICE_CIDR),
        run: service_cidr::run,
    },
    ControllerEntry {
        name: controller::RESOURCE_CLAIM,
        alias: Some("resource-claim-controller"),
        component: Component::Account(accounts::RESOURCE_CLAIM),
        run: resource_claim::run,
    },
    ControllerEntry {
        name: controller::POLICY_STATUS,
        alias: None,
        component: Component::Account(accounts::POLICY_STATUS),
        run: policy_status::run,
    },
    ControllerEntry {
        name: controller::CSI_ATTACHER,
        alias: None,
        component: Component::Account(accounts::ORLOP_CSI_ATTACHER),
        run: attacher::run,
    },
    ControllerEntry {
        name: controller::CSI_RESIZER,
        alias: None,
        component: Component::Account(accounts::ORLOP_CSI_RESIZER),
        run: resizer::run,
    },
    ControllerEntry {
        name: controller::CSI_MODIFIER,
        alias: None,
        component: Component::Account(accounts::ORLOP_CSI_MODIFIER),
        run: modifier::run,
    },
    ControllerEntry {
        name: controller::SNAPSHOT,
        alias: None,
        component: Component::Account(accounts::ORLOP_SNAPSHOT),
        run: snapshotter::common::run,
    },
    ControllerEntry {
        name: controller::CSI_SNAPSHOTTER,
        alias: None,
        component: Component::Account(accounts::ORLOP_CSI_SNAPSHOTTER),
        run: snapshotter::driver_queue::run,
    },
];
