//! Volumes that several nodes need, and attachers that fail.

use super::table::{Case, NO_CASE};

pub(super) const CASES: &[Case] = &[
    Case {
        id: "AD-043",
        about: "ReadWriteOnce on two nodes: second node is refused with the name of the using pod",
        given: &[
            "node node-1",
            "node node-2",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        steps: &["settle", "create pod default/p-2 on=node-2 claim=c-1", "settle"],
        end: &["va HP^vol-pv-1@node-1 pv=pv-1 attached", "node node-1 lists=HP^vol-pv-1", "node node-2"],
        events: &[
            "pod/default/p-1 Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"pv-1\" ",
            "pod/default/p-2 Warning FailedAttachVolume Multi-Attach error for volume \"pv-1\" Volume is already used by pod(s) p-1",
        ],
        ..NO_CASE
    },
    Case {
        id: "AD-047",
        about: "ReadWriteMany on two nodes: two attachments",
        given: &[
            "node node-1",
            "node node-2",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWX ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
            "pod default/p-2 on=node-2 claim=c-1",
        ],
        end: &[
            "va HP^vol-pv-1@node-1 pv=pv-1 attached",
            "va HP^vol-pv-1@node-2 pv=pv-1 attached",
            "node node-1 lists=HP^vol-pv-1",
            "node node-2 lists=HP^vol-pv-1",
        ],
        events: &[
            "pod/default/p-1 Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"pv-1\" ",
            "pod/default/p-2 Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"pv-1\" ",
        ],
        ..NO_CASE
    },
    Case {
        id: "AD-048",
        about: "ReadOnlyMany on two nodes: two attachments",
        given: &[
            "node node-1",
            "node node-2",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 ROX ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
            "pod default/p-2 on=node-2 claim=c-1",
        ],
        end: &[
            "va HP^vol-pv-1@node-1 pv=pv-1 attached",
            "va HP^vol-pv-1@node-2 pv=pv-1 attached",
            "node node-1 lists=HP^vol-pv-1",
            "node node-2 lists=HP^vol-pv-1",
        ],
        events: &[
            "pod/default/p-1 Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"pv-1\" ",
            "pod/default/p-2 Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"pv-1\" ",
        ],
        ..NO_CASE
    },
    Case {
        id: "AD-049",
        about: "The PV decides: PV RWO+ROX with an RWO claim may be attached to two nodes",
        given: &[
            "node node-1",
            "node node-2",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO,ROX ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
            "pod default/p-2 on=node-2 claim=c-1",
        ],
        end: &[
            "va HP^vol-pv-1@node-1 pv=pv-1 attached",
            "va HP^vol-pv-1@node-2 pv=pv-1 attached",
            "node node-1 lists=HP^vol-pv-1",
            "node node-2 lists=HP^vol-pv-1",
        ],
        events: &[
            "pod/default/p-1 Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"pv-1\" ",
            "pod/default/p-2 Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"pv-1\" ",
        ],
        ..NO_CASE
    },
    Case {
        id: "AD-051",
        about: "Two PVs with the same driver and handle in two namespaces are one volume: text counts pods of other namespaces",
        given: &[
            "node node-1",
            "node node-2",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pv pv-2 HP^vol-pv-1 RWO ref=other/c-1:uid-other-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pvc other/c-1 uid-other-c-1 volume=pv-2",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        steps: &["settle", "create pod other/p-2 on=node-2 claim=c-1", "settle"],
        end: &["va HP^vol-pv-1@node-1 pv=pv-1 attached", "node node-1 lists=HP^vol-pv-1", "node node-2"],
        events: &[
            "pod/other/p-2 Warning FailedAttachVolume Multi-Attach error for volume \"pv-2\" Volume is already used by 1 pod(s) in different namespaces",
        ],
        ..NO_CASE
    },
    Case {
        id: "AD-052",
        about: "Multi-attach warning is emitted once per volume and node: a further pod on the refused node gets none",
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
            "create pod default/p-2 on=node-2 claim=c-1",
            "settle",
            "create pod default/p-3 on=node-2 claim=c-1",
            "settle",
        ],
        end: &["va HP^vol-pv-1@node-1 pv=pv-1 attached", "node node-1 lists=HP^vol-pv-1", "node node-2"],
        events: &[
            "pod/default/p-2 Warning FailedAttachVolume Multi-Attach error for volume \"pv-1\" Volume is already used by pod(s) p-1",
        ],
        absent: &["FailedAttachVolume on pod/default/p-3"],
        ..NO_CASE
    },
    Case {
        id: "AD-054",
        about: "Several pods on the first node: all local names are listed (any order)",
        given: &[
            "node node-1",
            "node node-2",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
            "pod default/p-2 on=node-1 claim=c-1",
        ],
        steps: &["settle", "create pod default/p-9 on=node-2 claim=c-1", "settle"],
        end: &["va HP^vol-pv-1@node-1 pv=pv-1 attached", "node node-1 lists=HP^vol-pv-1", "node node-2"],
        events: &[
            "pod/default/p-9 Warning FailedAttachVolume Multi-Attach error for volume \"pv-1\" Volume is already used by pod(s) *",
        ],
        ..NO_CASE
    },
    Case {
        id: "AD-055",
        about: "RWO, attach to the first node fails for good: an unconfirmed attachment does not block the second node",
        given: &[
            "node node-1",
            "node node-2",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        attacher: &["node-1=attachError: injected attach failure", "node-2=ok"],
        steps: &["settle", "create pod default/p-2 on=node-2 claim=c-1", "settle", "wait 60"],
        end: &[
            "va HP^vol-pv-1@node-1 pv=pv-1 attachError",
            "va HP^vol-pv-1@node-2 pv=pv-1 attached",
            "node node-1",
            "node node-2 lists=HP^vol-pv-1",
        ],
        events: &[
            "pod/default/p-1 Warning FailedAttachVolume AttachVolume.Attach failed for volume \"pv-1\" : injected attach failure*",
            "pod/default/p-2 Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"pv-1\" ",
        ],
        ..NO_CASE
    },
    Case {
        id: "AD-056",
        about: "Attacher reports attachError: warning on the pod, object stays unattached, node status stays empty, retry goes on",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        attacher: &["*=attachError: injected attach failure"],
        end: &["va HP^vol-pv-1@node-1 pv=pv-1 attachError", "node node-1"],
        events: &[
            "pod/default/p-1 Warning FailedAttachVolume AttachVolume.Attach failed for volume \"pv-1\" : injected attach failure*",
        ],
        ..NO_CASE
    },
    Case {
        id: "AD-057",
        about: "Attacher recovers: attach succeeds on a retry with the same object",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        attacher: &["*=attachError: injected attach failure"],
        steps: &["settle", "attacher ok", "settle", "wait 10"],
        end: &["va HP^vol-pv-1@node-1 pv=pv-1 attached", "node node-1 lists=HP^vol-pv-1"],
        events: &[
            "pod/default/p-1 Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"pv-1\" ",
        ],
        ..NO_CASE
    },
    Case {
        id: "AD-058",
        about: "Attach failed and the pod is deleted: the leftover VolumeAttachment is removed",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        attacher: &["*=attachError: injected attach failure"],
        steps: &["settle", "delete pod default/p-1", "settle", "touch node node-1", "settle", "wait 10"],
        end: &["node node-1"],
        ..NO_CASE
    },
    Case {
        id: "AD-064",
        about: "RWO, detach from the first node hangs: second node is not blocked any more once the first is only uncertain and the operation key is free",
        given: &[
            "node node-1",
            "node node-2",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        attacher: &["node-1=detachError: injected detach failure", "node-2=ok"],
        steps: &[
            "settle",
            "delete pod default/p-1",
            "settle",
            "create pod default/p-2 on=node-2 claim=c-1",
            "settle",
            "wait 30",
        ],
        end: &[
            "va HP^vol-pv-1@node-1 pv=pv-1 attached deleting detachError",
            "va HP^vol-pv-1@node-2 pv=pv-1 attached",
            "node node-1",
            "node node-2 lists=HP^vol-pv-1",
        ],
        events: &[
            "pod/default/p-2 Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"pv-1\" ",
        ],
        ..NO_CASE
    },
    Case {
        id: "AD-065",
        about: "Volume handle containing the separator ^: attach works, detach never does",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 HP^a^b RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        steps: &["settle", "delete pod default/p-1", "settle", "wait 5"],
        end: &["va HP^a^b@node-1 pv=pv-1 attached", "node node-1"],
        ..NO_CASE
    },
];
