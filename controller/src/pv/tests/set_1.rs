//! Set 1: claims that leave the choice of volume to the controller.

use super::table::{Case, End, NO_CASE, Once, Plug};

pub(super) const CASES: &[Case] = &[
    Case {
        id: "PV-1-2",
        about: "Claim larger than every free volume stays unbound and gets a FailedBinding event",
        given: &["pv pv-1-2 1Gi RWO,ROX Available", "pvc default/pvc-1-2 uid-1-2 10Gi RWO,ROX Pending"],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "claim default/pvc-1-2",
            end: &["pv pv-1-2 1Gi RWO,ROX Available", "pvc default/pvc-1-2 uid-1-2 10Gi RWO,ROX Pending"],
            events: &[
                "PersistentVolumeClaim default/pvc-1-2 Normal FailedBinding no persistent volumes available for this claim and no storage class is set",
            ],
        }),
        settled: &[End {
            objects: &["pv pv-1-2 1Gi RWO,ROX Available", "pvc default/pvc-1-2 uid-1-2 10Gi RWO,ROX Pending"],
            events: &[
                "PersistentVolumeClaim default/pvc-1-2 Normal FailedBinding no persistent volumes available for this claim and no storage class is set",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-1-3",
        about: "A stale Bound status on a claim without the bind-completed mark is reset when nothing fits",
        given: &[
            "pv pv-1-3 1Gi RWO,ROX Available",
            "pvc default/pvc-1-3 uid-1-3 10Gi RWO,ROX Bound has=RWO,ROX/10Gi",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "claim default/pvc-1-3",
            end: &["pv pv-1-3 1Gi RWO,ROX Available", "pvc default/pvc-1-3 uid-1-3 10Gi RWO,ROX Pending"],
            events: &[
                "PersistentVolumeClaim default/pvc-1-3 Normal FailedBinding no persistent volumes available for this claim and no storage class is set",
            ],
        }),
        settled: &[End {
            objects: &["pv pv-1-3 1Gi RWO,ROX Available", "pvc default/pvc-1-3 uid-1-3 10Gi RWO,ROX Pending"],
            events: &[
                "PersistentVolumeClaim default/pvc-1-3 Normal FailedBinding no persistent volumes available for this claim and no storage class is set",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-1-8",
        about: "Binding is finished when only the PV reference had been written",
        given: &[
            "pv pv-1-8 1Gi RWO,ROX Available ref=default/pvc-1-8:uid-1-8 @by-controller",
            "pvc default/pvc-1-8 uid-1-8 1Gi RWO,ROX Pending",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "claim default/pvc-1-8",
            end: &[
                "pv pv-1-8 1Gi RWO,ROX Bound ref=default/pvc-1-8:uid-1-8 @by-controller",
                "pvc default/pvc-1-8 uid-1-8 1Gi RWO,ROX Bound volume=pv-1-8 has=RWO,ROX/1Gi @completed @by-controller",
            ],
            events: &[],
        }),
        settled: &[End {
            objects: &[
                "pv pv-1-8 1Gi RWO,ROX Bound ref=default/pvc-1-8:uid-1-8 @by-controller",
                "pvc default/pvc-1-8 uid-1-8 1Gi RWO,ROX Bound volume=pv-1-8 has=RWO,ROX/1Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-1-10",
        about: "Binding is finished when only the claim status was missing",
        given: &[
            "pv pv-1-10 1Gi RWO,ROX Bound ref=default/pvc-1-10:uid-1-10 @by-controller",
            "pvc default/pvc-1-10 uid-1-10 1Gi RWO,ROX Pending volume=pv-1-10 @completed @by-controller",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "claim default/pvc-1-10",
            end: &[
                "pv pv-1-10 1Gi RWO,ROX Bound ref=default/pvc-1-10:uid-1-10 @by-controller",
                "pvc default/pvc-1-10 uid-1-10 1Gi RWO,ROX Bound volume=pv-1-10 has=RWO,ROX/1Gi @completed @by-controller",
            ],
            events: &[],
        }),
        settled: &[End {
            objects: &[
                "pv pv-1-10 1Gi RWO,ROX Bound ref=default/pvc-1-10:uid-1-10 @by-controller",
                "pvc default/pvc-1-10 uid-1-10 1Gi RWO,ROX Bound volume=pv-1-10 has=RWO,ROX/1Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-1-13",
        about: "WaitForFirstConsumer class: binder leaves claim and volume alone",
        given: &[
            "pv pv-1-1 1Gi RWO,ROX Available class=wait",
            "pvc default/pvc-1-1 uid-1-1 1Gi RWO,ROX Pending class=wait",
            "sc wait kubernetes.io/no-provisioner mode=WaitForFirstConsumer",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "claim default/pvc-1-1",
            end: &[
                "pv pv-1-1 1Gi RWO,ROX Available class=wait",
                "pvc default/pvc-1-1 uid-1-1 1Gi RWO,ROX Pending class=wait",
            ],
            events: &[
                "PersistentVolumeClaim default/pvc-1-1 Normal WaitForFirstConsumer waiting for first consumer to be created before binding",
            ],
        }),
        settled: &[End {
            objects: &[
                "pv pv-1-1 1Gi RWO,ROX Available class=wait",
                "pvc default/pvc-1-1 uid-1-1 1Gi RWO,ROX Pending class=wait",
            ],
            events: &[
                "PersistentVolumeClaim default/pvc-1-1 Normal WaitForFirstConsumer waiting for first consumer to be created before binding",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-1-15",
        about: "Claim naming a volume gets that volume although a smaller one is free",
        given: &[
            "pv pv-1-15-1 10Gi RWO,ROX Available",
            "pv pv-1-15-2 1Gi RWO,ROX Available",
            "pvc default/pvc-1-15 uid-1-15 1Gi RWO,ROX Pending volume=pv-1-15-1",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "claim default/pvc-1-15",
            end: &[
                "pv pv-1-15-1 10Gi RWO,ROX Bound ref=default/pvc-1-15:uid-1-15 @by-controller",
                "pv pv-1-15-2 1Gi RWO,ROX Available",
                "pvc default/pvc-1-15 uid-1-15 1Gi RWO,ROX Bound volume=pv-1-15-1 has=RWO,ROX/10Gi @completed",
            ],
            events: &[],
        }),
        settled: &[End {
            objects: &[
                "pv pv-1-15-1 10Gi RWO,ROX Bound ref=default/pvc-1-15:uid-1-15 @by-controller",
                "pv pv-1-15-2 1Gi RWO,ROX Available",
                "pvc default/pvc-1-15 uid-1-15 1Gi RWO,ROX Bound volume=pv-1-15-1 has=RWO,ROX/10Gi @completed",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-1-16",
        about: "Claim naming a volume that lacks the requested access mode is refused",
        given: &[
            "pv pv-1-16 1Gi RWO,ROX Available",
            "pvc default/pvc-1-16 uid-1-16 1Gi RWX Pending volume=pv-1-16",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "claim default/pvc-1-16",
            end: &[
                "pv pv-1-16 1Gi RWO,ROX Available",
                "pvc default/pvc-1-16 uid-1-16 1Gi RWX Pending volume=pv-1-16",
            ],
            events: &[
                r#"PersistentVolumeClaim default/pvc-1-16 Warning VolumeMismatch Cannot bind to requested volume "pv-1-16": incompatible accessMode"#,
            ],
        }),
        settled: &[End {
            objects: &[
                "pv pv-1-16 1Gi RWO,ROX Available",
                "pvc default/pvc-1-16 uid-1-16 1Gi RWX Pending volume=pv-1-16",
            ],
            events: &[
                r#"PersistentVolumeClaim default/pvc-1-16 Warning VolumeMismatch Cannot bind to requested volume "pv-1-16": incompatible accessMode"#,
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-1-17",
        about: "Unreserved volumes that are not in phase Available are not candidates",
        given: &[
            "pv pv-1-17-pending 1Gi RWO,ROX Pending",
            "pv pv-1-17-failed 1Gi RWO,ROX Failed",
            "pv pv-1-17-released 1Gi RWO,ROX Released",
            "pv pv-1-17-empty 1Gi RWO,ROX -",
            "pvc default/pvc-1-17 uid-1-17 1Gi RWO,ROX Pending",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "claim default/pvc-1-17",
            end: &[
                "pv pv-1-17-empty 1Gi RWO,ROX -",
                "pv pv-1-17-failed 1Gi RWO,ROX Failed",
                "pv pv-1-17-pending 1Gi RWO,ROX Pending",
                "pv pv-1-17-released 1Gi RWO,ROX Released",
                "pvc default/pvc-1-17 uid-1-17 1Gi RWO,ROX Pending",
            ],
            events: &[
                "PersistentVolumeClaim default/pvc-1-17 Normal FailedBinding no persistent volumes available for this claim and no storage class is set",
            ],
        }),
        settled: &[
            End {
                objects: &[
                    "pv pv-1-17-empty 1Gi RWO,ROX Bound ref=default/pvc-1-17:uid-1-17 @by-controller",
                    "pv pv-1-17-failed 1Gi RWO,ROX Available",
                    "pv pv-1-17-pending 1Gi RWO,ROX Available",
                    "pv pv-1-17-released 1Gi RWO,ROX Available",
                    "pvc default/pvc-1-17 uid-1-17 1Gi RWO,ROX Bound volume=pv-1-17-empty has=RWO,ROX/1Gi @completed @by-controller",
                ],
                events: &[],
            },
            End {
                objects: &[
                    "pv pv-1-17-empty 1Gi RWO,ROX Available",
                    "pv pv-1-17-failed 1Gi RWO,ROX Bound ref=default/pvc-1-17:uid-1-17 @by-controller",
                    "pv pv-1-17-pending 1Gi RWO,ROX Available",
                    "pv pv-1-17-released 1Gi RWO,ROX Available",
                    "pvc default/pvc-1-17 uid-1-17 1Gi RWO,ROX Bound volume=pv-1-17-failed has=RWO,ROX/1Gi @completed @by-controller",
                ],
                events: &[],
            },
            End {
                objects: &[
                    "pv pv-1-17-empty 1Gi RWO,ROX Available",
                    "pv pv-1-17-failed 1Gi RWO,ROX Available",
                    "pv pv-1-17-pending 1Gi RWO,ROX Bound ref=default/pvc-1-17:uid-1-17 @by-controller",
                    "pv pv-1-17-released 1Gi RWO,ROX Available",
                    "pvc default/pvc-1-17 uid-1-17 1Gi RWO,ROX Bound volume=pv-1-17-pending has=RWO,ROX/1Gi @completed @by-controller",
                ],
                events: &[],
            },
            End {
                objects: &[
                    "pv pv-1-17-empty 1Gi RWO,ROX Available",
                    "pv pv-1-17-failed 1Gi RWO,ROX Available",
                    "pv pv-1-17-pending 1Gi RWO,ROX Available",
                    "pv pv-1-17-released 1Gi RWO,ROX Bound ref=default/pvc-1-17:uid-1-17 @by-controller",
                    "pvc default/pvc-1-17 uid-1-17 1Gi RWO,ROX Bound volume=pv-1-17-released has=RWO,ROX/1Gi @completed @by-controller",
                ],
                events: &[],
            },
        ],
        ..NO_CASE
    },
];
