//! Matching cases: classes, attributes classes, namespaces, terminating volumes.

use super::table::{Case, End, NO_CASE};

pub(super) const CASES: &[Case] = &[
    Case {
        id: "OWN-DEL-1",
        about: "Terminating volume is skipped, next larger one used",
        given: &[
            "pv pv-1 1Gi RWO Available fin=example.test/hold terminating",
            "pv pv-2 2Gi RWO Available",
            "pvc default/c-1 uid-c-1 1Gi RWO Pending",
        ],
        settled: &[End {
            objects: &[
                "pv pv-1 1Gi RWO Available fin=example.test/hold terminating",
                "pv pv-2 2Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
                "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-2 has=RWO/2Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-DEL-2",
        about: "Terminating volume reserved for the claim is not bound",
        given: &[
            "pv pv-1 1Gi RWO Available ref=default/c-1 fin=example.test/hold terminating",
            "pvc default/c-1 uid-c-1 1Gi RWO Pending",
        ],
        settled: &[End {
            objects: &[
                "pv pv-1 1Gi RWO Available ref=default/c-1 fin=example.test/hold terminating",
                "pvc default/c-1 uid-c-1 1Gi RWO Pending",
            ],
            events: &[
                "PersistentVolumeClaim default/c-1 Normal FailedBinding no persistent volumes available for this claim and no storage class is set",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-VAC-1",
        about: "Claim without class ignores volumes that have one",
        given: &[
            r#"pv pv 1G RWO Available src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-a"}}"#,
            r#"pv pv-gold 1G RWO Available vac=gold src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-b"}}"#,
            r#"pv pv-silver 1G RWO Available vac=silver src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-c"}}"#,
            "pvc default/c-1 uid-c-1 1G RWO Pending",
        ],
        settled: &[End {
            objects: &[
                r#"pv pv 1G RWO Bound ref=default/c-1:uid-c-1 @by-controller src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-a"}}"#,
                r#"pv pv-gold 1G RWO Available vac=gold src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-b"}}"#,
                r#"pv pv-silver 1G RWO Available vac=silver src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-c"}}"#,
                "pvc default/c-1 uid-c-1 1G RWO Bound volume=pv has=RWO/1G @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-VAC-2",
        about: "Empty class name equals none",
        given: &[
            r#"pv pv 1G RWO Available src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-a"}}"#,
            r#"pv pv-gold 1G RWO Available vac=gold src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-b"}}"#,
            "pvc default/c-1 uid-c-1 1G RWO Pending vac=",
        ],
        settled: &[End {
            objects: &[
                r#"pv pv 1G RWO Bound ref=default/c-1:uid-c-1 @by-controller src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-a"}}"#,
                r#"pv pv-gold 1G RWO Available vac=gold src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-b"}}"#,
                "pvc default/c-1 uid-c-1 1G RWO Bound volume=pv vac= has=RWO/1G @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-VAC-4",
        about: "Named volume with equal class",
        given: &[
            r#"pv pv-gold 1G RWO Available vac=gold src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-b"}}"#,
            r#"pv pv2-gold 1G RWO Available vac=gold src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-d"}}"#,
            "pvc default/c-1 uid-c-1 1G RWO Pending volume=pv2-gold vac=gold",
        ],
        settled: &[End {
            objects: &[
                r#"pv pv-gold 1G RWO Available vac=gold src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-b"}}"#,
                r#"pv pv2-gold 1G RWO Bound vac=gold ref=default/c-1:uid-c-1 @by-controller src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-d"}}"#,
                "pvc default/c-1 uid-c-1 1G RWO Bound volume=pv2-gold vac=gold has=RWO/1G/gold @completed",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-CLS-2",
        about: "Beta class annotation on the claim",
        given: &[
            "pv pv-1 1Gi RWO Available class=green",
            "pvc default/c-1 uid-c-1 1Gi RWO Pending @beta-class=green",
        ],
        settled: &[End {
            objects: &[
                "pv pv-1 1Gi RWO Bound class=green ref=default/c-1:uid-c-1 @by-controller",
                "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-1 has=RWO/1Gi @completed @by-controller @beta-class=green",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-CLS-3",
        about: "Volume with a class is not used for a classless claim even if it is the only one",
        given: &["pv pv-1 1Gi RWO Available class=green", "pvc default/c-1 uid-c-1 1Gi RWO Pending"],
        settled: &[End {
            objects: &["pv pv-1 1Gi RWO Available class=green", "pvc default/c-1 uid-c-1 1Gi RWO Pending"],
            events: &[
                "PersistentVolumeClaim default/c-1 Normal FailedBinding no persistent volumes available for this claim and no storage class is set",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-NS-1",
        about: "Claims of equal name in two namespaces are separate; a volume reserved for one namespace serves only that one",
        given: &[
            "pv pv-1 1Gi RWO Available ref=ns-b/c-1",
            "pvc default/c-1 uid-c-1 1Gi RWO Pending",
            "pvc ns-b/c-1 uid-b-c-1 1Gi RWO Pending",
        ],
        settled: &[End {
            objects: &[
                "pv pv-1 1Gi RWO Bound ref=ns-b/c-1:uid-b-c-1",
                "pvc default/c-1 uid-c-1 1Gi RWO Pending",
                "pvc ns-b/c-1 uid-b-c-1 1Gi RWO Bound volume=pv-1 has=RWO/1Gi @completed @by-controller",
            ],
            events: &[
                "PersistentVolumeClaim default/c-1 Normal FailedBinding no persistent volumes available for this claim and no storage class is set",
            ],
        }],
        ..NO_CASE
    },
];
