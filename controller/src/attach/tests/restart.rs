//! The state that a controller finds when it starts, and deletions by other clients.

use super::table::{Case, NO_CASE};

pub(super) const CASES: &[Case] = &[
    Case {
        id: "AD-086",
        about: "Restart: pod was deleted meanwhile and the volume is not in use: detached",
        given: &[
            "node node-1 lists=HP^vol-pv-1",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "va HP^vol-pv-1@node-1 pv=pv-1 attached",
        ],
        end: &["node node-1"],
        ..NO_CASE
    },
    Case {
        id: "AD-087",
        about: "Restart: pod was deleted meanwhile but the node still uses the volume: kept",
        given: &[
            "node node-1 lists=HP^vol-pv-1 uses=HP^vol-pv-1",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "va HP^vol-pv-1@node-1 pv=pv-1 attached",
        ],
        end: &["va HP^vol-pv-1@node-1 pv=pv-1 attached", "node node-1 lists=HP^vol-pv-1"],
        ..NO_CASE
    },
    Case {
        id: "AD-088",
        about: "Restart: PV and claim are gone too, only the node status and the VolumeAttachment remain: detached by name",
        given: &[
            "node node-1 lists=HP^vol-pv-1",
            "driver HP attach=true",
            "va HP^vol-pv-1@node-1 pv=pv-1 attached",
        ],
        end: &["node node-1"],
        ..NO_CASE
    },
    Case {
        id: "AD-089",
        about: "Restart: attached object exists, node status does not list it, no pod: treated as uncertain and detached",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "va HP^vol-pv-1@node-1 pv=pv-1 attached",
        ],
        steps: &["settle", "touch node node-1", "settle"],
        end: &["node node-1"],
        ..NO_CASE
    },
    Case {
        id: "AD-091",
        about: "Restart: attached object exists, node status does not list it, pod present: adopted and reported",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
            "va HP^vol-pv-1@node-1 pv=pv-1 attached",
        ],
        end: &["va HP^vol-pv-1@node-1 pv=pv-1 attached", "node node-1 lists=HP^vol-pv-1"],
        events: &[
            "pod/default/p-1 Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"pv-1\" ",
        ],
        ..NO_CASE
    },
    Case {
        id: "AD-092",
        about: "Restart in the middle of an attach (object unattached, pod present): waits for the attacher and finishes",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
            "va HP^vol-pv-1@node-1 pv=pv-1",
        ],
        end: &["va HP^vol-pv-1@node-1 pv=pv-1 attached", "node node-1 lists=HP^vol-pv-1"],
        events: &[
            "pod/default/p-1 Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"pv-1\" ",
        ],
        ..NO_CASE
    },
    Case {
        id: "AD-093",
        about: "Restart: VolumeAttachment of a missing PV that no node status mentions is left alone",
        given: &["node node-1", "driver HP attach=true", "va HP^vol-x@node-1 pv=pv-x attached"],
        end: &["va HP^vol-x@node-1 pv=pv-x attached", "node node-1"],
        ..NO_CASE
    },
    Case {
        id: "AD-094",
        about: "Restart: VolumeAttachment with an inline volume spec that no node status mentions is left alone",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "va HP=csi-d8c1d0d974be62bd732152afe6e03390ae6a4c2f50f7632027f8c28156db3262@node-1 inline attached",
        ],
        end: &[
            "va HP=csi-d8c1d0d974be62bd732152afe6e03390ae6a4c2f50f7632027f8c28156db3262@node-1 inline attached",
            "node node-1",
        ],
        ..NO_CASE
    },
    Case {
        id: "AD-095",
        about: "Restart, RWO, two nodes: volume attached to node-1 by status, pod only on node-2: detached from node-1, then attached to node-2",
        given: &[
            "node node-1 lists=HP^vol-pv-1",
            "node node-2",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-2 on=node-2 claim=c-1",
            "va HP^vol-pv-1@node-1 pv=pv-1 attached",
        ],
        end: &["va HP^vol-pv-1@node-2 pv=pv-1 attached", "node node-1", "node node-2 lists=HP^vol-pv-1"],
        events: &[
            "pod/default/p-2 Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"pv-1\" ",
        ],
        ..NO_CASE
    },
    Case {
        id: "AD-096",
        about: "Restart while a detach is in progress (object terminating): waits for it to disappear",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "va HP^vol-pv-1@node-1 pv=pv-1 attached deleting",
        ],
        steps: &["settle", "touch node node-1", "settle"],
        end: &["node node-1"],
        ..NO_CASE
    },
    Case {
        id: "AD-097",
        about: "VolumeAttachment removed behind the back of the controller: re-created within the 1 min verification period",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        steps: &["settle", "force-delete va HP^vol-pv-1@node-1", "settle", "wait 75"],
        end: &["va HP^vol-pv-1@node-1 pv=pv-1 attached", "node node-1 lists=HP^vol-pv-1"],
        ..NO_CASE
    },
    Case {
        id: "AD-098",
        about: "status.attached flipped to false: volume leaves volumesAttached at the next verification and the attach is waited for again",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        attacher: &["*=attachOnce"],
        steps: &["settle", "not-attached va HP^vol-pv-1@node-1", "settle", "wait 75"],
        end: &["va HP^vol-pv-1@node-1 pv=pv-1", "node node-1"],
        ..NO_CASE
    },
    Case {
        id: "AD-099",
        about: "Verification can be switched off: nothing is noticed",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        flags: &["disable-attach-detach-reconcile-sync=true"],
        steps: &["settle", "force-delete va HP^vol-pv-1@node-1", "settle", "wait 75"],
        end: &["node node-1 lists=HP^vol-pv-1"],
        ..NO_CASE
    },
    Case {
        id: "AD-100",
        about: "Driver becomes non-attachable (CSIDriver re-created with attachRequired=false): within 1 min the volume is detached",
        given: &[
            "node node-1",
            "driver HP attach=true",
            "pv pv-1 HP^vol-pv-1 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        steps: &["settle", "replace driver HP attach=false", "settle", "wait 75"],
        end: &["node node-1"],
        ..NO_CASE
    },
    Case {
        id: "AD-101",
        about: "Object name is csi- plus the lower-case hex SHA-256 of handle, driver and node name joined without separators",
        given: &[
            "node node-1",
            "driver b.example.org attach=true",
            "pv pv-1 b.example.org^h/1%202 RWO ref=default/c-1:uid-default-c-1",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        end: &["va b.example.org^h/1%202@node-1 pv=pv-1 attached", "node node-1 lists=b.example.org^h/1%202"],
        events: &[
            "pod/default/p-1 Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"pv-1\" ",
        ],
        ..NO_CASE
    },
    Case {
        id: "AD-103",
        about: "Migrated in-tree volume (GCE PD with a zone label): VolumeAttachment of the CSI driver with the PV name; handle derived from zone and disk name",
        given: &[
            "node node-1",
            "driver pd.csi.storage.gke.io attach=true",
            "pv pv-1 gce:disk-1 RWO ref=default/c-1:uid-default-c-1 zone=us-central1-a",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        end: &[
            "va pd.csi.storage.gke.io^projects/UNSPECIFIED/zones/us-central1-a/disks/disk-1@node-1 pv=pv-1 attached",
            "node node-1 lists=pd.csi.storage.gke.io^projects/UNSPECIFIED/zones/us-central1-a/disks/disk-1",
        ],
        events: &[
            "pod/default/p-1 Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"pv-1\" ",
        ],
        ..NO_CASE
    },
    Case {
        id: "AD-104",
        about: "Migration is complete for this plugin: it applies even when the CSINode does not list it",
        given: &[
            "node node-1",
            "driver pd.csi.storage.gke.io attach=true",
            "pv pv-1 gce:disk-1 RWO ref=default/c-1:uid-default-c-1 zone=us-central1-a",
            "pvc default/c-1 uid-default-c-1 volume=pv-1",
            "pod default/p-1 on=node-1 claim=c-1",
        ],
        end: &[
            "va pd.csi.storage.gke.io^projects/UNSPECIFIED/zones/us-central1-a/disks/disk-1@node-1 pv=pv-1 attached",
            "node node-1 lists=pd.csi.storage.gke.io^projects/UNSPECIFIED/zones/us-central1-a/disks/disk-1",
        ],
        events: &[
            "pod/default/p-1 Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"pv-1\" ",
        ],
        ..NO_CASE
    },
];
