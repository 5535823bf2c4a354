//! Cases for reservations, and for claims that name their volume.

use super::table::{Case, End, NO_CASE};

pub(super) const CASES: &[Case] = &[
    Case {
        id: "OWN-RES-2",
        about: "Reserved volume that is too small for its claim stays reserved and unused; no other claim gets it",
        given: &[
            "pv pv-1 1Gi RWO Available ref=default/c-1",
            "pvc default/c-1 uid-c-1 5Gi RWO Pending",
            "pvc default/c-2 uid-c-2 1Gi RWO Pending",
        ],
        settled: &[End {
            objects: &[
                "pv pv-1 1Gi RWO Available ref=default/c-1",
                "pvc default/c-1 uid-c-1 5Gi RWO Pending",
                "pvc default/c-2 uid-c-2 1Gi RWO Pending",
            ],
            events: &[
                "PersistentVolumeClaim default/c-1 Normal FailedBinding no persistent volumes available for this claim and no storage class is set",
                "PersistentVolumeClaim default/c-2 Normal FailedBinding no persistent volumes available for this claim and no storage class is set",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-RES-3",
        about: "Reserved volume of another storage class is bound anyway",
        given: &[
            "pv pv-1 1Gi RWO Available class=blue ref=default/c-1",
            "pvc default/c-1 uid-c-1 1Gi RWO Pending class=green",
        ],
        settled: &[End {
            objects: &[
                "pv pv-1 1Gi RWO Bound class=blue ref=default/c-1:uid-c-1",
                "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-1 class=green has=RWO/1Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-RES-4",
        about: "Reserved volume is bound although labels do not satisfy the selector",
        given: &[
            "pv pv-1 1Gi RWO Available ref=default/c-1",
            r#"pvc default/c-1 uid-c-1 1Gi RWO Pending selector={"matchLabels":{"a":"b"}}"#,
        ],
        settled: &[End {
            objects: &[
                "pv pv-1 1Gi RWO Bound ref=default/c-1:uid-c-1",
                r#"pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-1 has=RWO/1Gi selector={"matchLabels":{"a":"b"}} @completed @by-controller"#,
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-RES-7",
        about: "Oddity: a reserved volume with more access modes loses to a free volume with exactly the requested modes",
        given: &[
            "pv pv-res 1Gi RWO,ROX Available ref=default/c-1",
            "pv pv-free 50Gi RWO Available",
            "pvc default/c-1 uid-c-1 1Gi RWO Pending",
        ],
        settled: &[End {
            objects: &[
                "pv pv-free 50Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
                "pv pv-res 1Gi RWO,ROX Available ref=default/c-1",
                "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-free has=RWO/50Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-RES-8",
        about: "Reserved by name in phase Pending/Released/Failed: phase is not looked at for the owner",
        given: &["pv pv-1 1Gi RWO Failed ref=default/c-1", "pvc default/c-1 uid-c-1 1Gi RWO Pending"],
        settled: &[End {
            objects: &[
                "pv pv-1 1Gi RWO Bound ref=default/c-1:uid-c-1",
                "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-1 has=RWO/1Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-ASK-1",
        about: "Claim names a volume reserved for another claim: Pending and warning",
        given: &[
            "pv pv-1 1Gi RWO Available ref=default/other",
            "pvc default/c-1 uid-c-1 1Gi RWO Pending volume=pv-1",
        ],
        settled: &[End {
            objects: &[
                "pv pv-1 1Gi RWO Available ref=default/other",
                "pvc default/c-1 uid-c-1 1Gi RWO Pending volume=pv-1",
            ],
            events: &[
                r#"PersistentVolumeClaim default/c-1 Warning FailedBinding volume "pv-1" already bound to a different claim."#,
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-ASK-2",
        about: "Two claims name the same volume: one binds, the other waits with a warning",
        given: &[
            "pv pv-1 1Gi RWO Available",
            "pvc default/c-1 uid-c-1 1Gi RWO Pending volume=pv-1",
            "pvc default/c-2 uid-c-2 1Gi RWO Pending volume=pv-1",
        ],
        settled: &[
            End {
                objects: &[
                    "pv pv-1 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
                    "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-1 has=RWO/1Gi @completed",
                    "pvc default/c-2 uid-c-2 1Gi RWO Pending volume=pv-1",
                ],
                events: &[
                    r#"PersistentVolumeClaim default/c-2 Warning FailedBinding volume "pv-1" already bound to a different claim."#,
                ],
            },
            End {
                objects: &[
                    "pv pv-1 1Gi RWO Bound ref=default/c-2:uid-c-2 @by-controller",
                    "pvc default/c-1 uid-c-1 1Gi RWO Pending volume=pv-1",
                    "pvc default/c-2 uid-c-2 1Gi RWO Bound volume=pv-1 has=RWO/1Gi @completed",
                ],
                events: &[
                    r#"PersistentVolumeClaim default/c-1 Warning FailedBinding volume "pv-1" already bound to a different claim."#,
                ],
            },
        ],
        ..NO_CASE
    },
    Case {
        id: "OWN-ASK-3",
        about: "Named volume appears later",
        given: &["pvc default/c-1 uid-c-1 1Gi RWO Pending volume=pv-1"],
        steps: &["create pv pv-1 9Gi RWO -", "settle"],
        settled: &[End {
            objects: &[
                "pv pv-1 9Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
                "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-1 has=RWO/9Gi @completed",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-ASK-4",
        about: "Named volume lacks the access mode",
        given: &["pv pv-1 1Gi RWO Available", "pvc default/c-1 uid-c-1 1Gi RWX Pending volume=pv-1"],
        settled: &[End {
            objects: &["pv pv-1 1Gi RWO Available", "pvc default/c-1 uid-c-1 1Gi RWX Pending volume=pv-1"],
            events: &[
                r#"PersistentVolumeClaim default/c-1 Warning VolumeMismatch Cannot bind to requested volume "pv-1": incompatible accessMode"#,
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-ASK-7",
        about: "Named volume is terminating",
        given: &[
            "pv pv-1 1Gi RWO Available fin=example.test/hold terminating",
            "pvc default/c-1 uid-c-1 1Gi RWO Pending volume=pv-1",
        ],
        settled: &[End {
            objects: &[
                "pv pv-1 1Gi RWO Available fin=example.test/hold terminating",
                "pvc default/c-1 uid-c-1 1Gi RWO Pending volume=pv-1",
            ],
            events: &[
                r#"PersistentVolumeClaim default/c-1 Warning VolumeMismatch Cannot bind to requested volume "pv-1": the volume is marked for deletion "pv-1""#,
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-ASK-9",
        about: "As before but B also carries the claim UID (set by the user): B keeps the name, its UID is cleared",
        given: &[
            "pv pv-a 1Gi RWO Available",
            "pv pv-b 1Gi RWO Available ref=default/c-1:uid-c-1",
            "pvc default/c-1 uid-c-1 1Gi RWO Pending volume=pv-a",
        ],
        settled: &[End {
            objects: &[
                "pv pv-a 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
                "pv pv-b 1Gi RWO Available ref=default/c-1",
                "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-a has=RWO/1Gi @completed",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-ASK-10",
        about: "As before but B is marked bound-by-controller: B is freed completely",
        given: &[
            "pv pv-a 1Gi RWO Available",
            "pv pv-b 1Gi RWO Available ref=default/c-1:uid-c-1 @by-controller",
            "pvc default/c-1 uid-c-1 1Gi RWO Pending volume=pv-a",
        ],
        settled: &[End {
            objects: &[
                "pv pv-a 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
                "pv pv-b 1Gi RWO Available",
                "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-a has=RWO/1Gi @completed",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-ASK-11",
        about: "Named volume is larger: allowed",
        given: &["pv pv-a 100Gi RWO Available", "pvc default/c-1 uid-c-1 1Gi RWO Pending volume=pv-a"],
        settled: &[End {
            objects: &[
                "pv pv-a 100Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
                "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-a has=RWO/100Gi @completed",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
];
