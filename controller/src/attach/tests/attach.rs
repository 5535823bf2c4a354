//! Conditions under which volumes are attached.

use super::table::{Case, NO_CASE};

pub(super) const CASES: &[Case] = &[
    Case {
        id: "AD-002",
        about: "Pod that is not scheduled causes nothing",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 Pending claim=c-1",
        ],
        end: &["node node-1"],
        absent: &["SuccessfulAttachVolume", "FailedAttachVolume"],
        ..NO_CASE
    },
    Case {
        id: "AD-003",
        about: "Node without the controller-managed-attach-detach annotation is ignored",
        given: &[
            "node node-1 unmanaged",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        end: &["node node-1"],
        absent: &["SuccessfulAttachVolume", "FailedAttachVolume"],
        ..NO_CASE
    },
    Case {
        id: "AD-004",
        about: "Annotation value is irrelevant, presence counts",
        given: &[
            "node node-1 managed=false",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        end: &["va HP^vol-pv-1@node-1 pv=pv-1 attached", "node node-1 lists=HP^vol-pv-1"],
        events: &[
            "pod/default/p-1 Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"pv-1\" ",
        ],
        ..NO_CASE
    },
    Case {
        id: "AD-005",
        about: "Annotation added later: pods already on the node are picked up by the periodic pod listing (3 min) or by their next update",
        given: &[
            "node node-1 unmanaged",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        steps: &["settle", "manage node-1", "settle", "touch pod default/p-1", "settle"],
        end: &["va HP^vol-pv-1@node-1 pv=pv-1 attached", "node node-1 lists=HP^vol-pv-1"],
        events: &[
            "pod/default/p-1 Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"pv-1\" ",
        ],
        ..NO_CASE
    },
    Case {
        id: "AD-006",
        about: "CSIDriver.attachRequired=false: no VolumeAttachment, volumesAttached stays empty",
        given: &[
            "node node-1",
            "driver HP attach=false",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        end: &["node node-1"],
        absent: &["SuccessfulAttachVolume", "FailedAttachVolume"],
        ..NO_CASE
    },
    Case {
        id: "AD-007",
        about: "CSIDriver without an explicit attachRequired is attached (default true)",
        given: &[
            "node node-1",
            "driver HP",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        end: &["va HP^vol-pv-1@node-1 pv=pv-1 attached", "node node-1 lists=HP^vol-pv-1"],
        events: &[
            "pod/default/p-1 Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"pv-1\" ",
        ],
        ..NO_CASE
    },
    Case {
        id: "AD-008",
        about: "CSIDriver object missing: attach is still done",
        given: &[
            "node node-1",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        end: &["va HP^vol-pv-1@node-1 pv=pv-1 attached", "node node-1 lists=HP^vol-pv-1"],
        events: &[
            "pod/default/p-1 Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"pv-1\" ",
        ],
        ..NO_CASE
    },
    Case {
        id: "AD-010",
        about: "hostPath, emptyDir, configMap, projected inline volumes are never attached",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pod default/p-1 on=node-1 inline=hostPath inline=emptyDir inline=configMap inline=projected",
        ],
        end: &["node node-1"],
        absent: &["SuccessfulAttachVolume", "FailedAttachVolume"],
        ..NO_CASE
    },
    Case {
        id: "AD-011",
        about: "Local volume is never attached",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 local RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        end: &["node node-1"],
        absent: &["SuccessfulAttachVolume", "FailedAttachVolume"],
        ..NO_CASE
    },
    Case {
        id: "AD-012",
        about: "CSI inline (ephemeral) volume is never attached",
        given: &["node node-1", "driver HP attach=true", "pod default/p-1 on=node-1 inline=csi:HP"],
        end: &["node node-1"],
        absent: &["SuccessfulAttachVolume", "FailedAttachVolume"],
        ..NO_CASE
    },
    Case {
        id: "AD-013",
        about: "iSCSI volume: no VolumeAttachment object, but it is reported in volumesAttached and the pod gets the success event",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 iscsi:192.0.2.1:3260,iqn.2001-04.com.example:st,0 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        end: &["node node-1 lists=kubernetes.io/iscsi/192.0.2.1:3260:iqn.2001-04.com.example:st:0"],
        events: &[
            "pod/default/p-1 Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"pv-1\" ",
        ],
        ..NO_CASE
    },
    Case {
        id: "AD-015",
        about: "Claim is Bound but the PV object is missing: nothing",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        end: &["node node-1"],
        absent: &["SuccessfulAttachVolume", "FailedAttachVolume"],
        ..NO_CASE
    },
    Case {
        id: "AD-018",
        about: "Two pods of one node share the volume: one VolumeAttachment, event on the pods known when the attach finished",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
            "pod default/p-2 on=node-1 claim=c-1",
        ],
        end: &["va HP^vol-pv-1@node-1 pv=pv-1 attached", "node node-1 lists=HP^vol-pv-1"],
        events: &[
            "pod/default/p-1 Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"pv-1\" ",
        ],
        ..NO_CASE
    },
    Case {
        id: "AD-021",
        about: "One pod, two claims: two attachments",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pv pv-2 HP^vol-pv-2 RWO ref=default/c-2:uid-default-c-2",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pvc default/c-2 uid-default-c-2 volume=pv-2",
            "pod default/p-1 on=node-1 claim=c-1 claim=c-2",
        ],
        end: &[
            "va HP^vol-pv-1@node-1 pv=pv-1 attached",
            "va HP^vol-pv-2@node-1 pv=pv-2 attached",
            "node node-1 lists=HP^vol-pv-1,HP^vol-pv-2",
        ],
        events: &[
            "pod/default/p-1 Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"pv-1\" ",
            "pod/default/p-1 Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"pv-2\" ",
        ],
        ..NO_CASE
    },
    Case {
        id: "AD-023",
        about: "One pod mixes an attachable and a non-attachable volume",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1 inline=emptyDir",
        ],
        end: &["va HP^vol-pv-1@node-1 pv=pv-1 attached", "node node-1 lists=HP^vol-pv-1"],
        events: &[
            "pod/default/p-1 Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"pv-1\" ",
        ],
        ..NO_CASE
    },
    Case {
        id: "AD-026",
        about: "Block-mode claim is attached the same way",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1 block",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        end: &["va HP^vol-pv-1@node-1 pv=pv-1 attached", "node node-1 lists=HP^vol-pv-1"],
        events: &[
            "pod/default/p-1 Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"pv-1\" ",
        ],
        ..NO_CASE
    },
    Case {
        id: "AD-027",
        about: "Read-only use in the pod does not change the attachment object",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1,ro",
        ],
        end: &["va HP^vol-pv-1@node-1 pv=pv-1 attached", "node node-1 lists=HP^vol-pv-1"],
        events: &[
            "pod/default/p-1 Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"pv-1\" ",
        ],
        ..NO_CASE
    },
];
