//! Cases that differ from upstream.

use super::table::{Case, NO_CASE};

const ONE: &[&str] = &[
    "node node-1",
    "driver HP attach=true",
    "pv pv-1 HP^v RWO ref=default/c-1:uid-c-1",
    "pvc default/c-1 uid-c-1 volume=pv-1",
    "pod default/p-1 on=node-1 claim=c-1",
];

const TWO: &[&str] = &[
    "node node-1",
    "node node-2",
    "driver HP attach=true",
    "pv pv-1 HP^v RWO ref=default/c-1:uid-c-1",
    "pvc default/c-1 uid-c-1 volume=pv-1",
    "pod default/p-1 on=node-1 claim=c-1",
];

/// The node is deleted while it uses the volume, and then its pod.
const AWAY: &[&str] =
    &["uses node-1 HP^v", "ready node-1 false", "settle", "delete pod default/p-1", "wait 1000"];

/// A node uses the volume although no pod needs it there, and its VolumeAttachment is no longer attached; then another node needs it.
const TURNED: &[&str] = &[
    "uses node-1 HP^v",
    "delete pod default/p-1",
    "settle",
    "not-attached va HP^v@node-1",
    "create pod default/p-2 on=node-2 claim=c-1",
];

const STAYS: &[&str] = &["node node-1 lists=HP^v", "va HP^v@node-1 pv=pv-1 attached"];

pub(super) const CASES: &[Case] = &[
    Case {
        id: "NEW-AD-NEVER",
        about: "A volume that is never taken by force stays with a node that does not come back",
        given: &[
            "node node-1",
            "pv pv-1 HP^v RWO ref=default/c-1:uid-c-1 force-after=never",
            "pvc default/c-1 uid-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        steps: AWAY,
        end: STAYS,
        ..NO_CASE
    },
    Case {
        id: "NEW-AD-NEVER-FLAG",
        about: "The same by flag",
        given: ONE,
        flags: &["disable-force-detach-on-timeout=true"],
        steps: AWAY,
        end: STAYS,
        ..NO_CASE
    },
    Case {
        id: "NEW-AD-NODE-WINS",
        about: "The node's word wins over the volume's and the class's, and over the flag",
        given: &[
            "node node-1 force-after=30s",
            "class c force-after=never",
            "pv pv-1 HP^v RWO ref=default/c-1:uid-c-1 class=c force-after=1h",
            "pvc default/c-1 uid-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        flags: &["disable-force-detach-on-timeout=true"],
        steps: &["uses node-1 HP^v", "ready node-1 false", "settle", "delete pod default/p-1", "wait 40"],
        end: &["node node-1"],
        events: &[
            "volumeattachment/csi-f810b2f083c553ff88b27556673795bebfaa525267550a13ff047511af903ff3 Warning \
             ForcedDetachVolume volume \"pv-1\" is detached from node node-1 by force: node node-1 is not ready*",
        ],
        ..NO_CASE
    },
    Case {
        id: "NEW-AD-CLASS",
        about: "Without any other word the class's holds",
        given: &[
            "node node-1",
            "class c force-after=never",
            "pv pv-1 HP^v RWO ref=default/c-1:uid-c-1 class=c",
            "pvc default/c-1 uid-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        steps: AWAY,
        end: STAYS,
        ..NO_CASE
    },
    Case {
        id: "NEW-AD-HELD",
        about: "A refused pod's event names the user of the volume, since when, and when it will be released",
        given: TWO,
        steps: &["create pod default/p-2 on=node-2 claim=c-1"],
        end: &["node node-1 lists=HP^v", "node node-2", "va HP^v@node-1 pv=pv-1 attached"],
        events: &[
            "pod/default/p-2 Warning FailedAttachVolume Multi-Attach error for volume \"pv-1\" Volume is already used by pod(s) p-1",
            "pod/default/p-2 Warning FailedAttachVolume Multi-Attach error for volume \"pv-1\": used by pod default/p-1 on node \
             node-1 through attachment csi-f810b2f083c553ff88b27556673795bebfaa525267550a13ff047511af903ff3, since *",
        ],
        ..NO_CASE
    },
    Case {
        id: "NEW-AD-RWOP",
        about: "ReadWriteOncePod is for one node as ReadWriteOnce is",
        given: &[
            "node node-1",
            "node node-2",
            "pv pv-1 HP^v RWOP ref=default/c-1:uid-c-1",
            "pvc default/c-1 uid-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        steps: &["create pod default/p-2 on=node-2 claim=c-1"],
        end: &["node node-1 lists=HP^v", "node node-2", "va HP^v@node-1 pv=pv-1 attached"],
        events: &["pod/default/p-2 Warning FailedAttachVolume Multi-Attach error for volume \"pv-1\" *"],
        ..NO_CASE
    },
    Case {
        id: "NEW-AD-UNANSWERED",
        about: "A VolumeAttachment whose attacher has not answered blocks other nodes, also after two minutes",
        given: TWO,
        attacher: &["node-1=attachNever"],
        steps: &["create pod default/p-2 on=node-2 claim=c-1", "wait 200"],
        end: &["node node-1", "node node-2", "va HP^v@node-1 pv=pv-1"],
        events: &[
            "pod/default/p-1 Warning FailedAttachVolume AttachVolume.Attach failed for volume \"pv-1\" : timed out waiting for \
             external-attacher of hostpath.csi.k8s.io CSI driver to attach volume v",
        ],
        ..NO_CASE
    },
    Case {
        id: "NEW-AD-BUSY",
        about: "While a volume is being detached the next node waits without an event",
        given: TWO,
        attacher: &["node-1=detachNever"],
        steps: &["delete pod default/p-1", "settle", "create pod default/p-2 on=node-2 claim=c-1", "settle"],
        end: &["node node-1", "node node-2", "va HP^v@node-1 pv=pv-1 attached deleting"],
        absent: &["FailedAttachVolume"],
        ..NO_CASE
    },
    Case {
        id: "NEW-AD-MOVED",
        about: "A pod that is gone and there again on another node in the same instant is not refused",
        given: TWO,
        steps: &["delete pod default/p-1", "create pod default/p-1 on=node-2 claim=c-1"],
        end: &["node node-1", "node node-2 lists=HP^v", "va HP^v@node-2 pv=pv-1 attached"],
        absent: &["FailedAttachVolume"],
        ..NO_CASE
    },
    Case {
        id: "NEW-AD-LEFT",
        about: "A VolumeAttachment that no node status lists, found at the start, goes before another node gets the volume",
        given: &[
            "node node-1",
            "node node-2",
            "pv pv-1 HP^v RWO ref=default/c-1:uid-c-1",
            "pvc default/c-1 uid-c-1 volume=pv-1",
            "pod default/p-2 on=node-2 claim=c-1",
            "va HP^v@node-1 pv=pv-1 attached",
        ],
        end: &["node node-1", "node node-2 lists=HP^v", "va HP^v@node-2 pv=pv-1 attached"],
        absent: &["FailedAttachVolume"],
        ..NO_CASE
    },
    Case {
        id: "NEW-AD-TURNED",
        about: "An attachment that says that it is attached no more keeps the volume from other nodes as long as it is there",
        given: TWO,
        attacher: &["node-1=attachOnce"],
        steps: TURNED,
        end: &["node node-1", "node node-2", "va HP^v@node-1 pv=pv-1"],
        events: &["pod/default/p-2 Warning FailedAttachVolume Multi-Attach error for volume \"pv-1\" *"],
        ..NO_CASE
    },
    Case {
        id: "NEW-AD-TURNED-FREE",
        about: "... until the node has unmounted it and it is detached",
        given: TWO,
        attacher: &["node-1=attachOnce"],
        steps: &[TURNED[0], TURNED[1], TURNED[2], TURNED[3], TURNED[4], "settle", "uses node-1 -"],
        end: &["node node-1", "node node-2 lists=HP^v", "va HP^v@node-2 pv=pv-1 attached"],
        ..NO_CASE
    },
    Case {
        id: "NEW-AD-TURNED-LEFT",
        about: "An unwanted attachment that is not in use is detached, not forgotten",
        given: &["node node-1 lists=HP^v", "node node-2", TWO[3], TWO[4], "va HP^v@node-1 pv=pv-1"],
        attacher: &["node-1=attachNever"],
        end: &["node node-1", "node node-2"],
        ..NO_CASE
    },
    Case {
        id: "NEW-AD-TURNED-FAILED",
        about: "The same when it has failed to attach it again: what the node has in use was attached",
        given: TWO,
        attacher: &["node-1=attachOnce"],
        steps: &[TURNED[0], TURNED[1], TURNED[2], "not-attached va HP^v@node-1 attachError", TURNED[4]],
        end: &["node node-1", "node node-2", "va HP^v@node-1 pv=pv-1 attachError"],
        events: &["pod/default/p-2 Warning FailedAttachVolume Multi-Attach error for volume \"pv-1\" *"],
        ..NO_CASE
    },
    Case {
        id: "NEW-AD-TAKEN-AWAY",
        about: "A VolumeAttachment that is taken away while its attacher works is missed at once, and made again",
        given: ONE,
        attacher: &["*=attachNever"],
        steps: &["force-delete va HP^v@node-1", "settle"],
        end: &["node node-1", "va HP^v@node-1 pv=pv-1"],
        events: &[
            "pod/default/p-1 Warning FailedAttachVolume AttachVolume.Attach failed for volume \"pv-1\" : volume attachment was \
             deleted before the volume was attached",
        ],
        ..NO_CASE
    },
    Case {
        id: "NEW-AD-LEAVING",
        about: "A VolumeAttachment that is on its way out is made again as soon as it is gone",
        given: &[
            "node node-1",
            "pv pv-1 HP^v RWO ref=default/c-1:uid-c-1",
            "pvc default/c-1 uid-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
            "va HP^v@node-1 pv=pv-1 deleting",
        ],
        attacher: &["*=detachNever"],
        steps: &["wait 100", "attacher ok"],
        end: STAYS,
        events: &[
            "pod/default/p-1 Warning FailedAttachVolume AttachVolume.Attach failed for volume \"pv-1\" : volume attachment is being deleted",
        ],
        ..NO_CASE
    },
    Case {
        id: "NEW-AD-GIVEN-UP",
        about: "An attach without a waiting pod is not waited for",
        given: ONE,
        attacher: &["*=attachNever"],
        steps: &["delete pod default/p-1"],
        end: &["node node-1"],
        absent: &["FailedAttachVolume"],
        ..NO_CASE
    },
    Case {
        id: "NEW-AD-LATE-CLAIM",
        about: "A pod that was there before its volume and its claim",
        given: &["node node-1", "pod default/p-1 on=node-1 claim=c-1"],
        steps: &[
            "create pvc default/c-1 uid-c-1 volume=pv-1",
            "settle",
            "create pv pv-1 HP^v RWO ref=default/c-1:uid-c-1",
        ],
        end: STAYS,
        ..NO_CASE
    },
    Case {
        id: "NEW-AD-CLAIM-GONE",
        about: "What a pod has it keeps, also when the claim is gone",
        given: ONE,
        steps: &["delete pvc default/c-1", "touch pod default/p-1"],
        end: STAYS,
        ..NO_CASE
    },
];
