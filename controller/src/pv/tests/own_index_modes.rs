//! Search cases: volume modes, volumes in use, and reservations.

use super::table::{Case, End, NO_CASE};

pub(super) const CASES: &[Case] = &[
    Case {
        id: "IDX-VMODE-1",
        about: "Claim mode Block against volume mode Filesystem: no match",
        given: &["pv fs 10G RWO Available", "pvc default/c-1 uid-c-1 8G RWO Pending mode=Block"],
        finds: Some(None),
        settled: &[End {
            objects: &["pv fs 10G RWO Available", "pvc default/c-1 uid-c-1 8G RWO Pending mode=Block"],
            events: &[
                "PersistentVolumeClaim default/c-1 Normal FailedBinding no persistent volumes available for this claim and no storage class is set",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "IDX-VMODE-2",
        about: "Claim mode Filesystem against volume mode Block: no match",
        given: &[
            r#"pv blk 10G RWO Available mode=Block src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-blk"}}"#,
            "pvc default/c-1 uid-c-1 8G RWO Pending",
        ],
        finds: Some(None),
        settled: &[End {
            objects: &[
                r#"pv blk 10G RWO Available mode=Block src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-blk"}}"#,
                "pvc default/c-1 uid-c-1 8G RWO Pending",
            ],
            events: &[
                "PersistentVolumeClaim default/c-1 Normal FailedBinding no persistent volumes available for this claim and no storage class is set",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "IDX-VMODE-3",
        about: "Claim mode Block against volume mode Block: match",
        given: &[
            r#"pv blk 10G RWO Available mode=Block src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-blk"}}"#,
            "pvc default/c-1 uid-c-1 8G RWO Pending mode=Block",
        ],
        finds: Some(Some("blk")),
        settled: &[End {
            objects: &[
                r#"pv blk 10G RWO Bound mode=Block ref=default/c-1:uid-c-1 @by-controller src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-blk"}}"#,
                "pvc default/c-1 uid-c-1 8G RWO Bound volume=blk mode=Block has=RWO/10G @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "IDX-VMODE-6",
        about: "Claim mode unset against volume mode Block: no match",
        given: &[
            r#"pv blk 10G RWO Available mode=Block src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-blk"}}"#,
            "pvc default/c-1 uid-c-1 8G RWO Pending",
        ],
        finds: Some(None),
        settled: &[End {
            objects: &[
                r#"pv blk 10G RWO Available mode=Block src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-blk"}}"#,
                "pvc default/c-1 uid-c-1 8G RWO Pending",
            ],
            events: &[
                "PersistentVolumeClaim default/c-1 Normal FailedBinding no persistent volumes available for this claim and no storage class is set",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "IDX-VMODE-8",
        about: "Claim mode unset against volume mode unset: match",
        given: &["pv nil 10G RWO Available", "pvc default/c-1 uid-c-1 8G RWO Pending"],
        finds: Some(Some("nil")),
        settled: &[End {
            objects: &[
                "pv nil 10G RWO Bound ref=default/c-1:uid-c-1 @by-controller",
                "pvc default/c-1 uid-c-1 8G RWO Bound volume=nil has=RWO/10G @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "IDX-VMODE-9",
        about: "Claim mode Block against volume mode unset: no match",
        given: &["pv nil 10G RWO Available", "pvc default/c-1 uid-c-1 8G RWO Pending mode=Block"],
        finds: Some(None),
        settled: &[End {
            objects: &["pv nil 10G RWO Available", "pvc default/c-1 uid-c-1 8G RWO Pending mode=Block"],
            events: &[
                "PersistentVolumeClaim default/c-1 Normal FailedBinding no persistent volumes available for this claim and no storage class is set",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "IDX-INUSE-2",
        about: "Terminating volume is no candidate",
        given: &[
            "pv pv1 1G RWO Available fin=example.test/hold terminating",
            "pvc default/c-1 uid-c-1 1G RWO Pending",
        ],
        finds: Some(None),
        settled: &[End {
            objects: &[
                "pv pv1 1G RWO Available fin=example.test/hold terminating",
                "pvc default/c-1 uid-c-1 1G RWO Pending",
            ],
            events: &[
                "PersistentVolumeClaim default/c-1 Normal FailedBinding no persistent volumes available for this claim and no storage class is set",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "IDX-RES-1",
        about: "Exact size without reservations",
        given: &[
            "pv pv1 1Gi RWO Available",
            "pv pv5 5Gi RWO Available",
            "pv pv8 8Gi RWO Available",
            "pv pv-tiny 1Mi RWO Available",
            "pv pv-rox 1Gi ROX Available",
            "pvc default/c-1 uid-c-1 1Gi RWO Pending",
        ],
        finds: Some(Some("pv1")),
        settled: &[End {
            objects: &[
                "pv pv-rox 1Gi ROX Available",
                "pv pv-tiny 1Mi RWO Available",
                "pv pv1 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
                "pv pv5 5Gi RWO Available",
                "pv pv8 8Gi RWO Available",
                "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv1 has=RWO/1Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "IDX-RES-3",
        about: "Largest volume reserved for this claim wins",
        given: &[
            "pv pv1 1Gi RWO Available",
            "pv pv5 5Gi RWO Available",
            "pv pv8 8Gi RWO Available ref=default/c-1",
            "pv pv-tiny 1Mi RWO Available",
            "pv pv-rox 1Gi ROX Available",
            "pvc default/c-1 uid-c-1 1Gi RWO Pending",
        ],
        finds: Some(Some("pv8")),
        settled: &[End {
            objects: &[
                "pv pv-rox 1Gi ROX Available",
                "pv pv-tiny 1Mi RWO Available",
                "pv pv1 1Gi RWO Available",
                "pv pv5 5Gi RWO Available",
                "pv pv8 8Gi RWO Bound ref=default/c-1:uid-c-1",
                "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv8 has=RWO/8Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "IDX-RES-4",
        about: "Reserved volume is too small: normal choice",
        given: &[
            "pv pv1 1Gi RWO Available",
            "pv pv5 5Gi RWO Available",
            "pv pv8 8Gi RWO Available",
            "pv pv-tiny 1Mi RWO Available ref=default/c-1",
            "pv pv-rox 1Gi ROX Available",
            "pvc default/c-1 uid-c-1 1Gi RWO Pending",
        ],
        finds: Some(Some("pv1")),
        settled: &[End {
            objects: &[
                "pv pv-rox 1Gi ROX Available",
                "pv pv-tiny 1Mi RWO Available ref=default/c-1",
                "pv pv1 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
                "pv pv5 5Gi RWO Available",
                "pv pv8 8Gi RWO Available",
                "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv1 has=RWO/1Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "IDX-RES-5",
        about: "Reserved volume lacks the mode: normal choice",
        given: &[
            "pv pv1 1Gi RWO Available",
            "pv pv5 5Gi RWO Available",
            "pv pv8 8Gi RWO Available",
            "pv pv-tiny 1Mi RWO Available",
            "pv pv-rox 1Gi ROX Available ref=default/c-1",
            "pvc default/c-1 uid-c-1 1Gi RWO Pending",
        ],
        finds: Some(Some("pv1")),
        settled: &[End {
            objects: &[
                "pv pv-rox 1Gi ROX Available ref=default/c-1",
                "pv pv-tiny 1Mi RWO Available",
                "pv pv1 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
                "pv pv5 5Gi RWO Available",
                "pv pv8 8Gi RWO Available",
                "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv1 has=RWO/1Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
];
