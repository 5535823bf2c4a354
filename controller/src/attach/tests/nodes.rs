//! Nodes that are not ready, out of service, or deleted.

use super::table::{Case, NO_CASE};

pub(super) const CASES: &[Case] = &[
    Case {
        id: "AD-067",
        about: "... then force-detached",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        steps: &[
            "settle",
            "uses node-1 HP^vol-pv-1",
            "settle",
            "ready node-1 false",
            "settle",
            "delete pod default/p-1",
            "settle",
            "wait 370",
        ],
        end: &["node node-1"],
        ..NO_CASE
    },
    Case {
        id: "AD-069",
        about: "NotReady node that does not list the volume in use: detached at once",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        steps: &["settle", "ready node-1 false", "settle", "delete pod default/p-1", "settle"],
        end: &["node node-1"],
        ..NO_CASE
    },
    Case {
        id: "AD-070",
        about: "NotReady node with out-of-service taint, volume in use, pod deleted: detached at once",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        steps: &[
            "settle",
            "uses node-1 HP^vol-pv-1",
            "settle",
            "ready node-1 false",
            "settle",
            "taint node-1 node.kubernetes.io/out-of-service",
            "settle",
            "delete pod default/p-1",
            "settle",
        ],
        end: &["node node-1"],
        ..NO_CASE
    },
    Case {
        id: "AD-071",
        about: "Out-of-service taint alone (node Ready) is enough for the attach/detach controller",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        steps: &[
            "settle",
            "uses node-1 HP^vol-pv-1",
            "settle",
            "taint node-1 node.kubernetes.io/out-of-service",
            "settle",
            "delete pod default/p-1",
            "settle",
        ],
        end: &["node node-1"],
        ..NO_CASE
    },
    Case {
        id: "AD-073",
        about: "Out-of-service taint while the pod still exists and runs: nothing is detached",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 containers=running claim=c-1",
        ],
        steps: &[
            "settle",
            "uses node-1 HP^vol-pv-1",
            "settle",
            "ready node-1 false",
            "settle",
            "taint node-1 node.kubernetes.io/out-of-service",
            "settle",
        ],
        end: &["va HP^vol-pv-1@node-1 pv=pv-1 attached", "node node-1 lists=HP^vol-pv-1"],
        ..NO_CASE
    },
    Case {
        id: "AD-074",
        about: "Non-graceful shutdown: NotReady + taint + terminating pod: pod GC force-deletes the pod, volume moves on",
        given: &[
            "node node-1",
            "node node-2",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 containers=running claim=c-1",
        ],
        pod_gc: true,
        steps: &[
            "settle",
            "uses node-1 HP^vol-pv-1",
            "settle",
            "terminate pod default/p-1",
            "settle",
            "ready node-1 false",
            "settle",
            "taint node-1 node.kubernetes.io/out-of-service",
            "settle",
            "wait 25",
            "create pod default/p-2 on=node-2 claim=c-1",
            "settle",
        ],
        end: &["va HP^vol-pv-1@node-2 pv=pv-1 attached", "node node-1", "node node-2 lists=HP^vol-pv-1"],
        events: &[
            "pod/default/p-2 Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"pv-1\" ",
        ],
        ..NO_CASE
    },
    Case {
        id: "AD-075",
        about: "Other taints (unreachable, not-ready) have no influence",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        steps: &[
            "settle",
            "uses node-1 HP^vol-pv-1",
            "settle",
            "ready node-1 false",
            "settle",
            "taint node-1 node.kubernetes.io/unreachable",
            "settle",
            "delete pod default/p-1",
            "settle",
            "wait 10",
        ],
        end: &["va HP^vol-pv-1@node-1 pv=pv-1 attached", "node node-1 lists=HP^vol-pv-1"],
        ..NO_CASE
    },
    Case {
        id: "AD-078",
        about: "Node object deleted, volume not in use, pod deleted: VolumeAttachment removed",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        steps: &["settle", "delete node node-1", "settle", "delete pod default/p-1", "settle"],
        end: &[],
        ..NO_CASE
    },
    Case {
        id: "AD-080",
        about: "... and force-detached afterwards",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        steps: &[
            "settle",
            "uses node-1 HP^vol-pv-1",
            "settle",
            "delete node node-1",
            "settle",
            "delete pod default/p-1",
            "settle",
            "wait 370",
        ],
        end: &[],
        ..NO_CASE
    },
    Case {
        id: "AD-081",
        about: "Node object deleted while the pod still exists: attachment stays",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        steps: &["settle", "delete node node-1", "settle"],
        end: &["va HP^vol-pv-1@node-1 pv=pv-1 attached"],
        ..NO_CASE
    },
    Case {
        id: "AD-082",
        about: "Node re-created: volumesAttached is reported again",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        steps: &["settle", "delete node node-1", "settle", "create node node-1", "settle"],
        end: &["va HP^vol-pv-1@node-1 pv=pv-1 attached", "node node-1 lists=HP^vol-pv-1"],
        ..NO_CASE
    },
];
