//! Cases for reclaiming, step by step.

use super::table::{Case, End, NO_CASE};

pub(super) const CASES: &[Case] = &[
    Case {
        id: "OWN-REC-4",
        about: "Retain: admin removes only the UID, the re-created claim gets the volume",
        given: &[
            "pv pv-a 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
            "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-a has=RWO/1Gi @completed @by-controller",
        ],
        steps: &[
            "delete persistentvolumeclaims default/c-1",
            "settle",
            r#"patch persistentvolumes pv-a {"spec":{"claimRef":{"uid":null}}}"#,
            "settle",
            "create pvc default/c-1 uid-c-1-second 1Gi RWO -",
            "settle",
        ],
        settled: &[End {
            objects: &[
                "pv pv-a 1Gi RWO Bound ref=default/c-1:uid-c-1-second @by-controller",
                "pvc default/c-1 uid-c-1-second 1Gi RWO Bound volume=pv-a has=RWO/1Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-REC-5",
        about: "Delete with hostPath below /tmp: volume object and directory go away",
        given: &[
            "pv pv-a 1Gi RWO Bound policy=Delete ref=default/c-1:uid-c-1 @by-controller",
            "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-a has=RWO/1Gi @completed @by-controller",
        ],
        steps: &["delete persistentvolumeclaims default/c-1", "settle"],
        settled: &[End { objects: &[], events: &[] }],
        ..NO_CASE
    },
    Case {
        id: "OWN-REC-7",
        about: "Delete with NFS: Failed, plugin exists but cannot delete",
        given: &[
            r#"pv pv-a 1Gi RWO Bound policy=Delete ref=default/c-1:uid-c-1 @by-controller src={"nfs":{"server":"nfs.example.test","path":"/export/a"}}"#,
            "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-a has=RWO/1Gi @completed @by-controller",
        ],
        steps: &["delete persistentvolumeclaims default/c-1", "settle"],
        settled: &[End {
            objects: &[
                r#"pv pv-a 1Gi RWO Failed policy=Delete ref=default/c-1:uid-c-1 @by-controller src={"nfs":{"server":"nfs.example.test","path":"/export/a"}} msg=error getting deleter volume plugin for volume "pv-a": no deletable volume plugin matched"#,
            ],
            events: &[
                r#"PersistentVolume pv-a Warning VolumeFailedDelete error getting deleter volume plugin for volume "pv-a": no deletable volume plugin matched"#,
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-REC-8",
        about: "Delete with a local volume: Failed, no plugin in the controller",
        given: &[
            r#"pv pv-a 1Gi RWO Bound policy=Delete ref=default/c-1:uid-c-1 @by-controller src={"local":{"path":"/mnt/disks/a"}}"#,
            "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-a has=RWO/1Gi @completed @by-controller",
        ],
        steps: &["delete persistentvolumeclaims default/c-1", "settle"],
        settled: &[End {
            objects: &[
                r#"pv pv-a 1Gi RWO Failed policy=Delete ref=default/c-1:uid-c-1 @by-controller src={"local":{"path":"/mnt/disks/a"}} msg=error getting deleter volume plugin for volume "pv-a": no volume plugin matched"#,
            ],
            events: &[
                r#"PersistentVolume pv-a Warning VolumeFailedDelete error getting deleter volume plugin for volume "pv-a": no volume plugin matched"#,
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-REC-9",
        about: "Delete with CSI and no external provisioner: stays Released",
        given: &[
            r#"pv pv-a 1Gi RWO Bound policy=Delete ref=default/c-1:uid-c-1 @by-controller src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-a"}}"#,
            "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-a has=RWO/1Gi @completed @by-controller",
        ],
        steps: &["delete persistentvolumeclaims default/c-1", "settle"],
        settled: &[End {
            objects: &[
                r#"pv pv-a 1Gi RWO Released policy=Delete ref=default/c-1:uid-c-1 @by-controller src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-a"}}"#,
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-REC-10",
        about: "Recycle with NFS: volume becomes Available again",
        given: &[
            r#"pv pv-a 1Gi RWO Bound policy=Recycle ref=default/c-1:uid-c-1 @by-controller src={"nfs":{"server":"nfs.example.test","path":"/export/a"}}"#,
            "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-a has=RWO/1Gi @completed @by-controller",
        ],
        steps: &["delete persistentvolumeclaims default/c-1", "settle"],
        settled: &[End {
            objects: &[
                r#"pv pv-a 1Gi RWO Available policy=Recycle src={"nfs":{"server":"nfs.example.test","path":"/export/a"}}"#,
            ],
            events: &["PersistentVolume pv-a Normal VolumeRecycled Volume recycled"],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-REC-11",
        about: "Recycle with CSI: Failed, nothing can recycle it",
        given: &[
            r#"pv pv-a 1Gi RWO Bound policy=Recycle ref=default/c-1:uid-c-1 @by-controller src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-a"}}"#,
            "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-a has=RWO/1Gi @completed @by-controller",
        ],
        steps: &["delete persistentvolumeclaims default/c-1", "settle"],
        settled: &[End {
            objects: &[
                r#"pv pv-a 1Gi RWO Failed policy=Recycle ref=default/c-1:uid-c-1 @by-controller src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-a"}} msg=No recycler plugin found for the volume!"#,
            ],
            events: &[
                "PersistentVolume pv-a Warning VolumeFailedRecycle No recycler plugin found for the volume!",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-REC-12",
        about: "Recycle, then a waiting claim binds to the cleaned volume",
        given: &[
            r#"pv pv-a 1Gi RWO Bound policy=Recycle ref=default/c-1:uid-c-1 @by-controller src={"nfs":{"server":"nfs.example.test","path":"/export/a"}}"#,
            "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-a has=RWO/1Gi @completed @by-controller",
            r#"pvc default/c-2 uid-c-2 1Gi RWO Pending selector={"matchLabels":{"x":"y"}}"#,
        ],
        steps: &[
            "delete persistentvolumeclaims default/c-1",
            "settle",
            r#"patch persistentvolumes pv-a {"metadata":{"labels":{"x":"y"}}}"#,
            "settle",
        ],
        settled: &[End {
            objects: &[
                r#"pv pv-a 1Gi RWO Bound policy=Recycle ref=default/c-2:uid-c-2 label=x:y @by-controller src={"nfs":{"server":"nfs.example.test","path":"/export/a"}}"#,
                r#"pvc default/c-2 uid-c-2 1Gi RWO Bound volume=pv-a has=RWO/1Gi selector={"matchLabels":{"x":"y"}} @completed @by-controller"#,
            ],
            events: &[
                "PersistentVolume pv-a Normal VolumeRecycled Volume recycled",
                "PersistentVolumeClaim default/c-2 Normal FailedBinding no persistent volumes available for this claim and no storage class is set",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-REC-13",
        about: "Released Retain volume switched to Delete is deleted",
        given: &[
            "pv pv-a 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
            "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-a has=RWO/1Gi @completed @by-controller",
        ],
        steps: &[
            "delete persistentvolumeclaims default/c-1",
            "settle",
            r#"patch persistentvolumes pv-a {"spec":{"persistentVolumeReclaimPolicy":"Delete"}}"#,
            "settle",
        ],
        settled: &[End { objects: &[], events: &[] }],
        ..NO_CASE
    },
    Case {
        id: "OWN-REC-19",
        about: "Recycle waits: event lists all pods sorted",
        given: &[
            r#"pv pv-a 1Gi RWO Bound policy=Recycle ref=default/c-1:uid-old @by-controller src={"nfs":{"server":"nfs.example.test","path":"/export/a"}}"#,
            "pod default/p2 Running claims=c-1 node=node-1",
            "pod default/p1 Pending claims=c-1",
        ],
        settled: &[End {
            objects: &[
                r#"pv pv-a 1Gi RWO Released policy=Recycle ref=default/c-1:uid-old @by-controller src={"nfs":{"server":"nfs.example.test","path":"/export/a"}}"#,
            ],
            events: &[
                "PersistentVolume pv-a Normal VolumeFailedRecycle Volume is used by pods: default/p1,default/p2",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-REC-20",
        about: "Volume provisioned by an external driver whose claim went elsewhere (Delete): Released, not unbound",
        given: &[
            r#"pv pv-a 1Gi RWO Bound policy=Delete ref=default/c-1:uid-c-1 @provisioned-by=hostpath.csi.k8s.io src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-a"}}"#,
            r#"pv pv-b 1Gi RWO Bound ref=default/c-1:uid-c-1 src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-b"}}"#,
            "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-b has=RWO/1Gi @completed",
        ],
        settled: &[End {
            objects: &[
                r#"pv pv-a 1Gi RWO Released policy=Delete ref=default/c-1:uid-c-1 @provisioned-by=hostpath.csi.k8s.io src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-a"}}"#,
                r#"pv pv-b 1Gi RWO Bound ref=default/c-1:uid-c-1 src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-b"}}"#,
                "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-b has=RWO/1Gi @completed",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-REC-21",
        about: "Same with Retain policy: reference UID is cleared and the volume is Available again",
        given: &[
            r#"pv pv-a 1Gi RWO Bound ref=default/c-1:uid-c-1 @provisioned-by=hostpath.csi.k8s.io src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-a"}}"#,
            r#"pv pv-b 1Gi RWO Bound ref=default/c-1:uid-c-1 src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-b"}}"#,
            "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-b has=RWO/1Gi @completed",
        ],
        settled: &[End {
            objects: &[
                r#"pv pv-a 1Gi RWO Available ref=default/c-1 @provisioned-by=hostpath.csi.k8s.io src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-a"}}"#,
                r#"pv pv-b 1Gi RWO Bound ref=default/c-1:uid-c-1 src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-b"}}"#,
                "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-b has=RWO/1Gi @completed",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
];
