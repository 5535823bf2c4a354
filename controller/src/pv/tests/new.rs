//! Cases beyond the verified ones: situations that those omit, and deliberate improvements over upstream.

use super::table::{Case, End, NO_CASE, Once, Plug};

pub(super) const CASES: &[Case] = &[
    Case {
        id: "NEW-STOLEN",
        about: "A name written by a controller on a claim, and a volume of another claim: nothing is changed",
        given: &[
            "pv pv-1 1Gi RWO Bound ref=default/other:uid-other",
            "pvc default/other uid-other 1Gi RWO Bound volume=pv-1 has=RWO/1Gi @completed",
            "pvc default/c-1 uid-c-1 1Gi RWO Pending volume=pv-1 @by-controller",
        ],
        settled: &[End {
            objects: &[
                "pv pv-1 1Gi RWO Bound ref=default/other:uid-other",
                "pvc default/other uid-other 1Gi RWO Bound volume=pv-1 has=RWO/1Gi @completed",
                "pvc default/c-1 uid-c-1 1Gi RWO Pending volume=pv-1 @by-controller",
            ],
            events: &[
                r#"PersistentVolumeClaim default/c-1 Warning FailedBinding volume "pv-1" already bound to a different claim."#,
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "NEW-NAMELESS",
        about: "A bound claim whose volume name was removed is Lost",
        given: &["pvc default/c-1 uid-c-1 1Gi RWO Bound has=RWO/1Gi @completed"],
        settled: &[End {
            objects: &["pvc default/c-1 uid-c-1 1Gi RWO Lost @completed"],
            events: &[
                "PersistentVolumeClaim default/c-1 Warning ClaimLost Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "NEW-DATASOURCE",
        about: "A plugin of the controller refuses a claim with a data source",
        given: &[
            "sc gold kubernetes.io/mock-volume",
            r#"pvc default/c-1 uid-c-1 1Gi RWO Pending class=gold data-source={"apiGroup":"snapshot.storage.k8s.io","kind":"VolumeSnapshot","name":"s"}"#,
        ],
        plugins: Plug::Mock(&["provision"]),
        inject: &["provision ok"],
        once: Some(Once {
            look_at: "claim default/c-1",
            end: &[
                r#"pvc default/c-1 uid-c-1 1Gi RWO Pending class=gold data-source={"apiGroup":"snapshot.storage.k8s.io","kind":"VolumeSnapshot","name":"s"}"#,
            ],
            events: &[
                r#"PersistentVolumeClaim default/c-1 Warning ProvisioningFailed plugin "kubernetes.io/mock-volume" is not a CSI plugin. Only CSI plugin can provision a claim with a datasource"#,
            ],
        }),
        ..NO_CASE
    },
    Case {
        id: "NEW-RESCHEDULE",
        about: "Provisioning fails on the chosen node: the choice is taken back, so that the scheduler chooses again",
        given: &[
            "sc wait kubernetes.io/mock-volume mode=WaitForFirstConsumer",
            "node node-1",
            "pvc default/c-1 uid-c-1 1Gi RWO Pending class=wait @selected-node=node-1",
        ],
        plugins: Plug::Mock(&["provision"]),
        inject: &["provision error: no room"],
        once: Some(Once {
            look_at: "claim default/c-1",
            end: &[
                "pvc default/c-1 uid-c-1 1Gi RWO Pending class=wait @beta-provisioner=kubernetes.io/mock-volume @provisioner=kubernetes.io/mock-volume",
            ],
            events: &[
                r#"PersistentVolumeClaim default/c-1 Warning ProvisioningFailed Failed to provision volume with StorageClass "wait": no room"#,
            ],
        }),
        ..NO_CASE
    },
    Case {
        id: "NEW-NO-NODE",
        about: "The chosen node does not exist",
        given: &[
            "sc wait kubernetes.io/mock-volume mode=WaitForFirstConsumer",
            "pvc default/c-1 uid-c-1 1Gi RWO Pending class=wait @selected-node=node-9 @provisioner=kubernetes.io/mock-volume",
        ],
        plugins: Plug::Mock(&["provision"]),
        inject: &["provision ok"],
        once: Some(Once {
            look_at: "claim default/c-1",
            end: &[
                "pvc default/c-1 uid-c-1 1Gi RWO Pending class=wait @selected-node=node-9 @provisioner=kubernetes.io/mock-volume",
            ],
            events: &[
                r#"PersistentVolumeClaim default/c-1 Warning ProvisioningFailed Failed to get target node: node "node-9" not found"#,
            ],
        }),
        ..NO_CASE
    },
    Case {
        id: "NEW-MOUNT-OPTIONS",
        about: "A class with mount options and a plugin that takes none",
        given: &[
            "sc gold kubernetes.io/mock-volume mount=ro,soft",
            "pvc default/c-1 uid-c-1 1Gi RWO Pending class=gold @provisioner=kubernetes.io/mock-volume",
        ],
        plugins: Plug::Mock(&["provision"]),
        inject: &["provision ok"],
        once: Some(Once {
            look_at: "claim default/c-1",
            end: &[
                "pvc default/c-1 uid-c-1 1Gi RWO Pending class=gold @provisioner=kubernetes.io/mock-volume",
            ],
            events: &[
                r#"PersistentVolumeClaim default/c-1 Warning ProvisioningFailed Mount options are not supported by the provisioner but StorageClass "gold" has mount options [ro soft]"#,
            ],
        }),
        ..NO_CASE
    },
    Case {
        id: "NEW-IN-USE",
        about: "A deleter that says the volume is in use changes no phase",
        given: &["pv pv-1 1Gi RWO Released policy=Delete ref=default/c-1:uid-c-1"],
        plugins: Plug::Mock(&["delete"]),
        inject: &["delete error: in use: mounted on node-1"],
        once: Some(Once {
            look_at: "volume pv-1",
            end: &["pv pv-1 1Gi RWO Released policy=Delete ref=default/c-1:uid-c-1"],
            events: &["PersistentVolume pv-1 Normal VolumeDelete mounted on node-1"],
        }),
        ..NO_CASE
    },
    Case {
        id: "NEW-POLICY",
        about: "An unknown reclaim policy changes nothing",
        given: &["pv pv-1 1Gi RWO Bound policy=Shred ref=default/c-1:uid-c-1"],
        settled: &[End {
            objects: &[
                "pv pv-1 1Gi RWO Failed policy=Shred ref=default/c-1:uid-c-1 msg=Volume has unrecognized PersistentVolumeReclaimPolicy",
            ],
            events: &[
                "PersistentVolume pv-1 Warning VolumeUnknownReclaimPolicy Volume has unrecognized PersistentVolumeReclaimPolicy",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "NEW-MIGRATED-RELEASED",
        about: "A released volume of a migrated plugin is left to the CSI driver",
        given: &[
            r#"pv pv-1 1Gi RWO Bound policy=Delete ref=default/c-1:uid-c-1 @provisioned-by=kubernetes.io/gce-pd src={"gcePersistentDisk":{"pdName":"d"}}"#,
        ],
        settled: &[End {
            objects: &[
                r#"pv pv-1 1Gi RWO Released policy=Delete ref=default/c-1:uid-c-1 @provisioned-by=kubernetes.io/gce-pd @migrated-to=pd.csi.storage.gke.io src={"gcePersistentDisk":{"pdName":"d"}}"#,
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "NEW-TERMINATING-CLAIM",
        about: "A claim that is being deleted is bound like any other",
        given: &[
            "pv pv-1 1Gi RWO Available",
            "pvc default/c-1 uid-c-1 1Gi RWO Pending fin=kubernetes.io/pvc-protection terminating",
        ],
        settled: &[End {
            objects: &[
                "pv pv-1 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
                "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-1 has=RWO/1Gi fin=kubernetes.io/pvc-protection terminating @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "NEW-SHARED-1",
        about: "A released volume is not recycled while the volume of a claim uses a directory inside its export",
        given: &[
            r#"pv pv-1 1Gi RWO Released policy=Recycle ref=default/c-1:uid-old @by-controller src={"nfs":{"path":"/export","server":"nfs.example.test"}}"#,
            r#"pv pv-2 1Gi RWO Bound ref=default/c-2:uid-c-2 src={"nfs":{"path":"/export//a/","server":"NFS.example.test"}}"#,
            "pvc default/c-2 uid-c-2 1Gi RWO Bound volume=pv-2 has=RWO/1Gi @completed",
        ],
        settled: &[End {
            objects: &[
                r#"pv pv-1 1Gi RWO Released policy=Recycle ref=default/c-1:uid-old @by-controller src={"nfs":{"path":"/export","server":"nfs.example.test"}}"#,
                r#"pv pv-2 1Gi RWO Bound ref=default/c-2:uid-c-2 src={"nfs":{"path":"/export//a/","server":"NFS.example.test"}}"#,
                "pvc default/c-2 uid-c-2 1Gi RWO Bound volume=pv-2 has=RWO/1Gi @completed",
            ],
            events: &[
                "PersistentVolume pv-1 Warning VolumeFailedRecycle Volume uses the same storage as: pv-2",
                "PersistentVolume pv-2 Warning VolumeFailedRecycle Volume pv-1 uses the same storage and is not erased because of this volume",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "NEW-SHARED-2",
        about: "The directory of a released volume is not deleted while the volume of a claim uses a directory around it",
        given: &[
            r#"pv pv-1 1Gi RWO Released policy=Delete ref=default/c-1:uid-old @by-controller src={"hostPath":{"path":"/tmp/pv-cases/shared/a"}}"#,
            r#"pv pv-2 1Gi RWO Bound ref=default/c-2:uid-c-2 src={"local":{"path":"/tmp/pv-cases/shared"}}"#,
            "pvc default/c-2 uid-c-2 1Gi RWO Bound volume=pv-2 has=RWO/1Gi @completed",
        ],
        settled: &[End {
            objects: &[
                r#"pv pv-1 1Gi RWO Released policy=Delete ref=default/c-1:uid-old @by-controller src={"hostPath":{"path":"/tmp/pv-cases/shared/a"}}"#,
                r#"pv pv-2 1Gi RWO Bound ref=default/c-2:uid-c-2 src={"local":{"path":"/tmp/pv-cases/shared"}}"#,
                "pvc default/c-2 uid-c-2 1Gi RWO Bound volume=pv-2 has=RWO/1Gi @completed",
            ],
            events: &[
                "PersistentVolume pv-1 Normal VolumeDelete Volume uses the same storage as: pv-2",
                "PersistentVolume pv-2 Warning VolumeFailedDelete Volume pv-1 uses the same storage and is not erased because of this volume",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "NEW-SHARED-3",
        about: "Two released volumes with the same directory are both deleted",
        given: &[
            r#"pv pv-1 1Gi RWO Released policy=Delete ref=default/c-1:uid-old @by-controller src={"hostPath":{"path":"/tmp/pv-cases/shared-3"}}"#,
            r#"pv pv-2 1Gi RWO Released policy=Delete ref=default/c-2:uid-old @by-controller src={"hostPath":{"path":"/tmp/pv-cases/shared-3"}}"#,
        ],
        settled: &[End { objects: &[], events: &[] }],
        ..NO_CASE
    },
    Case {
        id: "NEW-SHARED-4",
        about: "A volume with policy Retain protects a directory, although its claim is gone",
        given: &[
            r#"pv pv-1 1Gi RWO Released policy=Delete ref=default/c-1:uid-old @by-controller src={"hostPath":{"path":"/tmp/pv-cases/shared-4"}}"#,
            r#"pv pv-2 1Gi RWO Released policy=Retain ref=default/c-2:uid-old src={"hostPath":{"path":"/tmp/pv-cases/shared-4/a/b"}}"#,
        ],
        settled: &[End {
            objects: &[
                r#"pv pv-1 1Gi RWO Released policy=Delete ref=default/c-1:uid-old @by-controller src={"hostPath":{"path":"/tmp/pv-cases/shared-4"}}"#,
                r#"pv pv-2 1Gi RWO Released policy=Retain ref=default/c-2:uid-old src={"hostPath":{"path":"/tmp/pv-cases/shared-4/a/b"}}"#,
            ],
            events: &["PersistentVolume pv-1 Normal VolumeDelete Volume uses the same storage as: pv-2"],
        }],
        ..NO_CASE
    },
    Case {
        id: "NEW-DELETE-IN-USE",
        about: "The directory of a released volume is not deleted while a pod of its claim has not ended",
        given: &[
            r#"pv pv-1 1Gi RWO Released policy=Delete ref=default/c-1:uid-old @by-controller src={"hostPath":{"path":"/tmp/pv-cases/in-use"}}"#,
            "pod default/p1 Running claims=c-1",
        ],
        settled: &[End {
            objects: &[
                r#"pv pv-1 1Gi RWO Released policy=Delete ref=default/c-1:uid-old @by-controller src={"hostPath":{"path":"/tmp/pv-cases/in-use"}}"#,
            ],
            events: &["PersistentVolume pv-1 Normal VolumeDelete Volume is used by pods: default/p1"],
        }],
        ..NO_CASE
    },
];
