//! The scheduler's data of a pod on a node, or about to be on one: its resources there, and its constraints on other pods.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod, Volume};

use super::amounts::{self, Amounts};
use super::terms::{Labels, Term};
use orlop_client::informer::key_of;
use orlop_client::pods;

/// Upstream's scheduler name; pods with another one are ignored.
pub const SCHEDULER_NAME: &str = "default-scheduler";

/// A host port that a pod uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// The address; `0.0.0.0` for all.
    pub ip: String,
    /// TCP, UDP or SCTP.
    pub protocol: String,
    /// The port.
    pub port: i32,
}

impl HostPort {
    /// Whether the two ports cannot be used together.
    pub fn conflicts(&self, other: &Self) -> bool {
        let all = "0.0.0.0";
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || self.ip == all || other.ip == all)
    }
}

/// An inline disk of a pod, of a kind that pods cannot always share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disk {
    /// A GCE persistent disk: shared only by readers.
    Gce {
        /// Name of the disk.
        name: String,
        /// It is used read-only.
        read_only: bool,
    },
    /// An EBS volume: for one pod per node.
    Aws {
        /// The volume.
        id: String,
    },
    /// An iSCSI target: shared only by readers.
    Iscsi {
        /// Its name.
        iqn: String,
        /// It is used read-only.
        read_only: bool,
    },
    /// A Ceph image: shared only by readers.
    Rbd {
        /// Monitors; one in common means the same cluster.
        monitors: Vec<String>,
        /// Pool of the image.
        pool: String,
        /// The image.
        image: String,
        /// It is used read-only.
        read_only: bool,
    },
}

impl Disk {
    fn of(volume: &Volume) -> Option<Self> {
        if let Some(gce) = &volume.gce_persistent_disk {
            return Some(Self::Gce { name: gce.pd_name.clone(), read_only: gce.read_only == Some(true) });
        }
        if let Some(aws) = &volume.aws_elastic_block_store {
            return Some(Self::Aws { id: aws.volume_id.clone() });
        }
        if let Some(iscsi) = &volume.iscsi {
            return Some(Self::Iscsi { iqn: iscsi.iqn.clone(), read_only: iscsi.read_only == Some(true) });
        }
        let rbd = volume.rbd.as_ref()?;
        Some(Self::Rbd {
            monitors: rbd.monitors.clone(),
            pool: rbd.pool.clone().unwrap_or_else(|| "rbd".to_owned()),
            image: rbd.image.clone(),
            read_only: rbd.read_only == Some(true),
        })
    }

    /// Whether two pods on one node cannot use the disks together.
    pub fn conflicts(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Gce { name: a, read_only: ra }, Self::Gce { name: b, read_only: rb })
            | (Self::Iscsi { iqn: a, read_only: ra }, Self::Iscsi { iqn: b, read_only: rb }) => {
                a == b && !(*ra && *rb)
            }
            (Self::Aws { id: a }, Self::Aws { id: b }) => a == b,
            (
                Self::Rbd { monitors, pool, image, read_only },
                Self::Rbd { monitors: of, pool: other_pool, image: other_image, read_only: other_reads },
            ) => {
                monitors.iter().any(|monitor| of.contains(monitor))
                    && pool == other_pool
                    && image == other_image
                    && !(*read_only && *other_reads)
            }
            (Self::Gce { .. } | Self::Aws { .. } | Self::Iscsi { .. } | Self::Rbd { .. }, _) => false,
        }
    }
}

/// The properties of a pod that matter to other pods.
#[derive(Clone, Debug)]
pub struct PodFacts {
    /// `namespace/name`.
    pub key: Arc<str>,
    /// Its namespace.
    pub namespace: String,
    /// Its UID.
    pub uid: String,
    /// Its labels.
    pub labels: Labels,
    /// Higher priorities are scheduled first.
    pub priority: i32,
    /// It is being deleted.
    pub terminating: bool,
    /// Its resource requests.
    pub requests: Amounts,
    /// Its host ports.
    pub ports: Vec<HostPort>,
    /// Keys of the claims that it names.
    pub claims: Vec<String>,
    /// Its inline disks.
    pub disks: Vec<Disk>,
    /// Its required affinity terms.
    pub affinity: Vec<Term>,
    /// Its required anti-affinity terms.
    pub anti_affinity: Vec<Term>,
}

impl PodFacts {
    /// Reads a pod.
    pub fn of(pod: &Pod) -> Self {
        let spec = pod.spec.as_ref();
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        let labels = pod.metadata.labels.clone().unwrap_or_default();
        let affinity = spec.and_then(|spec| spec.affinity.as_ref());
        let with = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
        let with = with.and_then(|with| with.required_during_scheduling_ignored_during_execution.as_ref());
        let apart = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
        let apart =
            apart.and_then(|apart| apart.required_during_scheduling_ignored_during_execution.as_ref());
        let read = |term| Term::read(term, &namespace, &labels);
        Self {
            key: key_of(pod).into(),
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            priority: spec.and_then(|spec| spec.priority).unwrap_or(0),
            terminating: pod.metadata.deletion_timestamp.is_some(),
            requests: amounts::requests_of(pod),
            ports: ports_of(pod),
            claims: pods::claim_keys(pod),
            disks: spec.iter().flat_map(|spec| spec.volumes.iter().flatten()).filter_map(Disk::of).collect(),
            affinity: with.into_iter().flatten().map(read).collect(),
            anti_affinity: apart.into_iter().flatten().map(read).collect(),
            namespace,
            labels,
        }
    }
}

fn ports_of(pod: &Pod) -> Vec<HostPort> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let beside = spec.init_containers.iter().flatten().filter(|container| amounts::is_sidecar(container));
    let ports = |container: &Container| container.ports.clone().unwrap_or_default();
    let ports = spec.containers.iter().chain(beside).flat_map(ports);
    ports
        .filter_map(|port| {
            let or = |text: Option<String>, default: &str| {
                text.filter(|text| !text.is_empty()).unwrap_or_else(|| default.to_owned())
            };
            Some(HostPort {
                port: port.host_port.filter(|port| *port > 0)?,
                ip: or(port.host_ip, "0.0.0.0"),
                protocol: or(port.protocol, "TCP"),
            })
        })
        .collect()
}

/// Whether the pod waits for this scheduler: it has no node, names no other scheduler, is neither finished nor being deleted,
/// and has no scheduling gates.
pub fn waits_for_us(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let ours = spec.scheduler_name.as_deref().is_none_or(|name| name == SCHEDULER_NAME);
    let gated = spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
    ours && !gated
        && pods::node_name(pod).is_none()
        && pod.metadata.deletion_timestamp.is_none()
        && !pods::is_finished(pod)
}
