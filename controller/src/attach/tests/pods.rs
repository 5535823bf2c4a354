//! Pods that end, and detaching after them.

use super::table::{Case, NO_CASE};

pub(super) const CASES: &[Case] = &[
    Case {
        id: "AD-029",
        about: "Pod that is already Succeeded is ignored",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 Succeeded claim=c-1",
        ],
        end: &["node node-1"],
        absent: &["SuccessfulAttachVolume", "FailedAttachVolume"],
        ..NO_CASE
    },
    Case {
        id: "AD-030",
        about: "Pod that is already Failed is ignored",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 Failed claim=c-1",
        ],
        end: &["node node-1"],
        absent: &["SuccessfulAttachVolume", "FailedAttachVolume"],
        ..NO_CASE
    },
    Case {
        id: "AD-031",
        about: "Pod turns Succeeded and the node does not use the volume: detached although the pod object exists",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        steps: &["settle", "phase default/p-1 Succeeded", "settle"],
        end: &["node node-1"],
        ..NO_CASE
    },
    Case {
        id: "AD-035",
        about: "Terminating pod without container statuses counts as finished: detached",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 Pending claim=c-1",
        ],
        steps: &["settle", "terminate pod default/p-1", "settle"],
        end: &["node node-1"],
        ..NO_CASE
    },
    Case {
        id: "AD-038",
        about: "Pod deleted while the volume is in use by the node: kept",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        steps: &["settle", "uses node-1 HP^vol-pv-1", "settle", "delete pod default/p-1", "settle"],
        end: &["va HP^vol-pv-1@node-1 pv=pv-1 attached", "node node-1 lists=HP^vol-pv-1"],
        ..NO_CASE
    },
    Case {
        id: "AD-039",
        about: "... and detached as soon as the node removes it from volumesInUse",
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
            "delete pod default/p-1",
            "settle",
            "uses node-1 -",
            "settle",
        ],
        end: &["node node-1"],
        ..NO_CASE
    },
    Case {
        id: "AD-040",
        about: "Pod replaced by one of the same name on another node: first node detached, second attached",
        given: &[
            "node node-1",
            "node node-2",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        steps: &[
            "settle",
            "delete pod default/p-1",
            "settle",
            "create pod default/p-1 on=node-2 claim=c-1",
            "settle",
        ],
        end: &["va HP^vol-pv-1@node-2 pv=pv-1 attached", "node node-1", "node node-2 lists=HP^vol-pv-1"],
        events: &[
            "pod/default/p-1 Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"pv-1\" ",
        ],
        ..NO_CASE
    },
    Case {
        id: "AD-042",
        about: "Order on detach: the volume leaves node.status.volumesAttached before the VolumeAttachment gets its deletionTimestamp",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        attacher: &["*=detachNever"],
        steps: &["settle", "delete pod default/p-1", "settle"],
        end: &["va HP^vol-pv-1@node-1 pv=pv-1 attached deleting", "node node-1"],
        ..NO_CASE
    },
];
