//! Set 2: claims that name their volume and are not bound yet.

use super::table::{Case, End, NO_CASE, Once, Plug};

pub(super) const CASES: &[Case] = &[
    Case {
        id: "PV-2-2",
        about: "Claim names a missing volume: stale Bound status falls back to Pending",
        given: &["pvc default/pvc-2-2 uid-2-2 10Gi RWO,ROX Bound volume=pv-2-2 has=RWO,ROX/10Gi"],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "claim default/pvc-2-2",
            end: &["pvc default/pvc-2-2 uid-2-2 10Gi RWO,ROX Pending volume=pv-2-2"],
            events: &[],
        }),
        settled: &[End {
            objects: &["pvc default/pvc-2-2 uid-2-2 10Gi RWO,ROX Pending volume=pv-2-2"],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-2-4",
        about: "Claim and volume name each other (volume without UID)",
        given: &[
            "pv pv-2-4 1Gi RWO,ROX Available ref=default/pvc-2-4",
            "pvc default/pvc-2-4 uid-2-4 1Gi RWO,ROX Pending volume=pv-2-4",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "claim default/pvc-2-4",
            end: &[
                "pv pv-2-4 1Gi RWO,ROX Bound ref=default/pvc-2-4:uid-2-4",
                "pvc default/pvc-2-4 uid-2-4 1Gi RWO,ROX Bound volume=pv-2-4 has=RWO,ROX/1Gi @completed",
            ],
            events: &[],
        }),
        settled: &[End {
            objects: &[
                "pv pv-2-4 1Gi RWO,ROX Bound ref=default/pvc-2-4:uid-2-4",
                "pvc default/pvc-2-4 uid-2-4 1Gi RWO,ROX Bound volume=pv-2-4 has=RWO,ROX/1Gi @completed",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-2-5",
        about: "Claim and volume name each other (volume with UID)",
        given: &[
            "pv pv-2-5 1Gi RWO,ROX Available ref=default/pvc-2-5:uid-2-5",
            "pvc default/pvc-2-5 uid-2-5 1Gi RWO,ROX Pending volume=pv-2-5",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "claim default/pvc-2-5",
            end: &[
                "pv pv-2-5 1Gi RWO,ROX Bound ref=default/pvc-2-5:uid-2-5",
                "pvc default/pvc-2-5 uid-2-5 1Gi RWO,ROX Bound volume=pv-2-5 has=RWO,ROX/1Gi @completed",
            ],
            events: &[],
        }),
        settled: &[End {
            objects: &[
                "pv pv-2-5 1Gi RWO,ROX Bound ref=default/pvc-2-5:uid-2-5",
                "pvc default/pvc-2-5 uid-2-5 1Gi RWO,ROX Bound volume=pv-2-5 has=RWO,ROX/1Gi @completed",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-2-6",
        about: "Claim (by user) names a volume owned by another claim: back to Pending",
        given: &[
            "pv pv-2-6 1Gi RWO,ROX Bound ref=default/pvc-2-6-1:uid-2-6-1",
            "pvc default/pvc-2-6 uid-2-6 1Gi RWO,ROX Bound volume=pv-2-6 has=RWO,ROX/1Gi",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "claim default/pvc-2-6",
            end: &[
                "pv pv-2-6 1Gi RWO,ROX Bound ref=default/pvc-2-6-1:uid-2-6-1",
                "pvc default/pvc-2-6 uid-2-6 1Gi RWO,ROX Pending volume=pv-2-6",
            ],
            events: &[
                r#"PersistentVolumeClaim default/pvc-2-6 Warning FailedBinding volume "pv-2-6" already bound to a different claim."#,
            ],
        }),
        settled: &[End {
            objects: &[
                "pv pv-2-6 1Gi RWO,ROX Released ref=default/pvc-2-6-1:uid-2-6-1",
                "pvc default/pvc-2-6 uid-2-6 1Gi RWO,ROX Pending volume=pv-2-6",
            ],
            events: &[
                r#"PersistentVolumeClaim default/pvc-2-6 Warning FailedBinding volume "pv-2-6" already bound to a different claim."#,
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-2-8",
        about: "Selector is ignored when the claim names its volume",
        given: &[
            "pv pv-2-8 1Gi RWO,ROX Available",
            r#"pvc default/pvc-2-8 uid-2-8 1Gi RWO,ROX Pending volume=pv-2-8 selector={"matchLabels":{"foo":"true","bar":"false"}}"#,
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "claim default/pvc-2-8",
            end: &[
                "pv pv-2-8 1Gi RWO,ROX Bound ref=default/pvc-2-8:uid-2-8 @by-controller",
                r#"pvc default/pvc-2-8 uid-2-8 1Gi RWO,ROX Bound volume=pv-2-8 has=RWO,ROX/1Gi selector={"matchLabels":{"foo":"true","bar":"false"}} @completed"#,
            ],
            events: &[],
        }),
        settled: &[End {
            objects: &[
                "pv pv-2-8 1Gi RWO,ROX Bound ref=default/pvc-2-8:uid-2-8 @by-controller",
                r#"pvc default/pvc-2-8 uid-2-8 1Gi RWO,ROX Bound volume=pv-2-8 has=RWO,ROX/1Gi selector={"matchLabels":{"foo":"true","bar":"false"}} @completed"#,
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-2-10",
        about: "Named volume has a different storage class",
        given: &[
            "pv pv-2-10 1Gi RWO,ROX Available class=gold",
            "pvc default/pvc-2-10 uid-2-10 1Gi RWO,ROX Bound volume=pv-2-10 has=RWO,ROX/1Gi",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "claim default/pvc-2-10",
            end: &[
                "pv pv-2-10 1Gi RWO,ROX Available class=gold",
                "pvc default/pvc-2-10 uid-2-10 1Gi RWO,ROX Pending volume=pv-2-10",
            ],
            events: &[
                r#"PersistentVolumeClaim default/pvc-2-10 Warning VolumeMismatch Cannot bind to requested volume "pv-2-10": storageClassName does not match"#,
            ],
        }),
        settled: &[End {
            objects: &[
                "pv pv-2-10 1Gi RWO,ROX Available class=gold",
                "pvc default/pvc-2-10 uid-2-10 1Gi RWO,ROX Pending volume=pv-2-10",
            ],
            events: &[
                r#"PersistentVolumeClaim default/pvc-2-10 Warning VolumeMismatch Cannot bind to requested volume "pv-2-10": storageClassName does not match"#,
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-2-11",
        about: "Named volume has a volume attributes class but the claim has none",
        given: &[
            r#"pv pv-2-11 1Gi RWO,ROX Available vac=gold src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-pv-2-11"}}"#,
            "pvc default/pvc-2-11 uid-2-11 1Gi RWO,ROX Bound volume=pv-2-11 has=RWO,ROX/1Gi",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "claim default/pvc-2-11",
            end: &[
                r#"pv pv-2-11 1Gi RWO,ROX Available vac=gold src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-pv-2-11"}}"#,
                "pvc default/pvc-2-11 uid-2-11 1Gi RWO,ROX Pending volume=pv-2-11",
            ],
            events: &[
                r#"PersistentVolumeClaim default/pvc-2-11 Warning VolumeMismatch Cannot bind to requested volume "pv-2-11": volumeAttributesClassName does not match"#,
            ],
        }),
        settled: &[End {
            objects: &[
                r#"pv pv-2-11 1Gi RWO,ROX Available vac=gold src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-pv-2-11"}}"#,
                "pvc default/pvc-2-11 uid-2-11 1Gi RWO,ROX Pending volume=pv-2-11",
            ],
            events: &[
                r#"PersistentVolumeClaim default/pvc-2-11 Warning VolumeMismatch Cannot bind to requested volume "pv-2-11": volumeAttributesClassName does not match"#,
            ],
        }],
        ..NO_CASE
    },
];
