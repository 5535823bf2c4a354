//! Set 14: volume modes.

use super::table::{Case, End, NO_CASE, Once, Plug};

pub(super) const CASES: &[Case] = &[
    Case {
        id: "PV-14-3",
        about: "Block claim is not matched to a filesystem volume",
        given: &[
            "pv pv-14-3 10Gi RWO,ROX Available",
            "pvc default/pvc-14-3 uid-14-3 10Gi RWO,ROX Pending mode=Block",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "claim default/pvc-14-3",
            end: &[
                "pv pv-14-3 10Gi RWO,ROX Available",
                "pvc default/pvc-14-3 uid-14-3 10Gi RWO,ROX Pending mode=Block",
            ],
            events: &[
                "PersistentVolumeClaim default/pvc-14-3 Normal FailedBinding no persistent volumes available for this claim and no storage class is set",
            ],
        }),
        settled: &[End {
            objects: &[
                "pv pv-14-3 10Gi RWO,ROX Available",
                "pvc default/pvc-14-3 uid-14-3 10Gi RWO,ROX Pending mode=Block",
            ],
            events: &[
                "PersistentVolumeClaim default/pvc-14-3 Normal FailedBinding no persistent volumes available for this claim and no storage class is set",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-14-4",
        about: "Filesystem claim is not matched to a block volume",
        given: &[
            "pv pv-14-4 10Gi RWO,ROX Available mode=Block",
            "pvc default/pvc-14-4 uid-14-4 10Gi RWO,ROX Pending",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "claim default/pvc-14-4",
            end: &[
                "pv pv-14-4 10Gi RWO,ROX Available mode=Block",
                "pvc default/pvc-14-4 uid-14-4 10Gi RWO,ROX Pending",
            ],
            events: &[
                "PersistentVolumeClaim default/pvc-14-4 Normal FailedBinding no persistent volumes available for this claim and no storage class is set",
            ],
        }),
        settled: &[End {
            objects: &[
                "pv pv-14-4 10Gi RWO,ROX Available mode=Block",
                "pvc default/pvc-14-4 uid-14-4 10Gi RWO,ROX Pending",
            ],
            events: &[
                "PersistentVolumeClaim default/pvc-14-4 Normal FailedBinding no persistent volumes available for this claim and no storage class is set",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-14-5",
        about: "Class agrees but volume mode differs; class object is missing so provisioning fails",
        given: &[
            "pv pv-14-5 10Gi RWO,ROX Available class=gold",
            "pvc default/pvc-14-5 uid-14-5 10Gi RWO,ROX Pending class=gold mode=Block",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "claim default/pvc-14-5",
            end: &[
                "pv pv-14-5 10Gi RWO,ROX Available class=gold",
                "pvc default/pvc-14-5 uid-14-5 10Gi RWO,ROX Pending class=gold mode=Block",
            ],
            events: &[
                r#"PersistentVolumeClaim default/pvc-14-5 Warning ProvisioningFailed storageclass.storage.k8s.io "gold" not found"#,
            ],
        }),
        settled: &[End {
            objects: &[
                "pv pv-14-5 10Gi RWO,ROX Available class=gold",
                "pvc default/pvc-14-5 uid-14-5 10Gi RWO,ROX Pending class=gold mode=Block",
            ],
            events: &[
                r#"PersistentVolumeClaim default/pvc-14-5 Warning ProvisioningFailed storageclass.storage.k8s.io "gold" not found"#,
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-14-5-2",
        about: "Named volume: mode agrees but class differs",
        given: &[
            "pv pv-14-5-2 10Gi RWO,ROX Available class=gold",
            "pvc default/pvc-14-5-2 uid-14-5-2 10Gi RWO,ROX Pending volume=pv-14-5-2 class=silver",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "claim default/pvc-14-5-2",
            end: &[
                "pv pv-14-5-2 10Gi RWO,ROX Available class=gold",
                "pvc default/pvc-14-5-2 uid-14-5-2 10Gi RWO,ROX Pending volume=pv-14-5-2 class=silver",
            ],
            events: &[
                r#"PersistentVolumeClaim default/pvc-14-5-2 Warning VolumeMismatch Cannot bind to requested volume "pv-14-5-2": storageClassName does not match"#,
            ],
        }),
        settled: &[End {
            objects: &[
                "pv pv-14-5-2 10Gi RWO,ROX Available class=gold",
                "pvc default/pvc-14-5-2 uid-14-5-2 10Gi RWO,ROX Pending volume=pv-14-5-2 class=silver",
            ],
            events: &[
                r#"PersistentVolumeClaim default/pvc-14-5-2 Warning VolumeMismatch Cannot bind to requested volume "pv-14-5-2": storageClassName does not match"#,
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-14-7",
        about: "Volume reserved by name, both block",
        given: &[
            "pv pv-14-7 10Gi RWO,ROX Available mode=Block ref=default/pvc-14-7",
            "pvc default/pvc-14-7 uid-14-7 10Gi RWO,ROX Pending mode=Block",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "claim default/pvc-14-7",
            end: &[
                "pv pv-14-7 10Gi RWO,ROX Bound mode=Block ref=default/pvc-14-7:uid-14-7",
                "pvc default/pvc-14-7 uid-14-7 10Gi RWO,ROX Bound volume=pv-14-7 mode=Block has=RWO,ROX/10Gi @completed @by-controller",
            ],
            events: &[],
        }),
        settled: &[End {
            objects: &[
                "pv pv-14-7 10Gi RWO,ROX Bound mode=Block ref=default/pvc-14-7:uid-14-7",
                "pvc default/pvc-14-7 uid-14-7 10Gi RWO,ROX Bound volume=pv-14-7 mode=Block has=RWO,ROX/10Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-14-8-1",
        about: "Reserved volume: claim filesystem, volume block",
        given: &[
            "pv pv-14-8-1 10Gi RWO,ROX Available mode=Block ref=default/pvc-14-8-1",
            "pvc default/pvc-14-8-1 uid-14-8-1 10Gi RWO,ROX Pending",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "claim default/pvc-14-8-1",
            end: &[
                "pv pv-14-8-1 10Gi RWO,ROX Available mode=Block ref=default/pvc-14-8-1",
                "pvc default/pvc-14-8-1 uid-14-8-1 10Gi RWO,ROX Pending",
            ],
            events: &[
                "PersistentVolumeClaim default/pvc-14-8-1 Normal FailedBinding no persistent volumes available for this claim and no storage class is set",
            ],
        }),
        settled: &[End {
            objects: &[
                "pv pv-14-8-1 10Gi RWO,ROX Available mode=Block ref=default/pvc-14-8-1",
                "pvc default/pvc-14-8-1 uid-14-8-1 10Gi RWO,ROX Pending",
            ],
            events: &[
                "PersistentVolumeClaim default/pvc-14-8-1 Normal FailedBinding no persistent volumes available for this claim and no storage class is set",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-14-10",
        about: "Block volume names the claim, both block",
        given: &[
            "pv pv-14-10 10Gi RWO,ROX Available mode=Block ref=default/pvc-14-10",
            "pvc default/pvc-14-10 uid-14-10 10Gi RWO,ROX Pending mode=Block",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "claim default/pvc-14-10",
            end: &[
                "pv pv-14-10 10Gi RWO,ROX Bound mode=Block ref=default/pvc-14-10:uid-14-10",
                "pvc default/pvc-14-10 uid-14-10 10Gi RWO,ROX Bound volume=pv-14-10 mode=Block has=RWO,ROX/10Gi @completed @by-controller",
            ],
            events: &[],
        }),
        settled: &[End {
            objects: &[
                "pv pv-14-10 10Gi RWO,ROX Bound mode=Block ref=default/pvc-14-10:uid-14-10",
                "pvc default/pvc-14-10 uid-14-10 10Gi RWO,ROX Bound volume=pv-14-10 mode=Block has=RWO,ROX/10Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-14-13",
        about: "Volume sync with UID reference: block claim against filesystem volume warns on both objects",
        given: &[
            "pv pv-14-13 10Gi RWO,ROX Available ref=default/pvc-14-13:uid-14-13 @by-controller",
            "pvc default/pvc-14-13 uid-14-13 10Gi RWO,ROX Pending mode=Block",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "volume pv-14-13",
            end: &[
                "pv pv-14-13 10Gi RWO,ROX Available ref=default/pvc-14-13:uid-14-13 @by-controller",
                "pvc default/pvc-14-13 uid-14-13 10Gi RWO,ROX Pending mode=Block",
            ],
            events: &[
                r#"PersistentVolume pv-14-13 Warning VolumeMismatch Cannot bind PersistentVolume to requested PersistentVolumeClaim "pvc-14-13" due to incompatible volumeMode."#,
                r#"PersistentVolumeClaim default/pvc-14-13 Warning VolumeMismatch Cannot bind PersistentVolume "pv-14-13" to requested PersistentVolumeClaim due to incompatible volumeMode."#,
            ],
        }),
        settled: &[End {
            objects: &[
                "pv pv-14-13 10Gi RWO,ROX Available ref=default/pvc-14-13:uid-14-13 @by-controller",
                "pvc default/pvc-14-13 uid-14-13 10Gi RWO,ROX Pending mode=Block",
            ],
            events: &[
                r#"PersistentVolume pv-14-13 Warning VolumeMismatch Cannot bind PersistentVolume to requested PersistentVolumeClaim "pvc-14-13" due to incompatible volumeMode."#,
                "PersistentVolumeClaim default/pvc-14-13 Normal FailedBinding no persistent volumes available for this claim and no storage class is set",
                r#"PersistentVolumeClaim default/pvc-14-13 Warning VolumeMismatch Cannot bind PersistentVolume "pv-14-13" to requested PersistentVolumeClaim due to incompatible volumeMode."#,
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-14-13-1",
        about: "Volume sync with UID reference: filesystem claim against block volume warns on both objects",
        given: &[
            "pv pv-14-13-1 10Gi RWO,ROX Available mode=Block ref=default/pvc-14-13-1:uid-14-13-1 @by-controller",
            "pvc default/pvc-14-13-1 uid-14-13-1 10Gi RWO,ROX Pending",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "volume pv-14-13-1",
            end: &[
                "pv pv-14-13-1 10Gi RWO,ROX Available mode=Block ref=default/pvc-14-13-1:uid-14-13-1 @by-controller",
                "pvc default/pvc-14-13-1 uid-14-13-1 10Gi RWO,ROX Pending",
            ],
            events: &[
                r#"PersistentVolume pv-14-13-1 Warning VolumeMismatch Cannot bind PersistentVolume to requested PersistentVolumeClaim "pvc-14-13-1" due to incompatible volumeMode."#,
                r#"PersistentVolumeClaim default/pvc-14-13-1 Warning VolumeMismatch Cannot bind PersistentVolume "pv-14-13-1" to requested PersistentVolumeClaim due to incompatible volumeMode."#,
            ],
        }),
        settled: &[End {
            objects: &[
                "pv pv-14-13-1 10Gi RWO,ROX Available mode=Block ref=default/pvc-14-13-1:uid-14-13-1 @by-controller",
                "pvc default/pvc-14-13-1 uid-14-13-1 10Gi RWO,ROX Pending",
            ],
            events: &[
                r#"PersistentVolume pv-14-13-1 Warning VolumeMismatch Cannot bind PersistentVolume to requested PersistentVolumeClaim "pvc-14-13-1" due to incompatible volumeMode."#,
                "PersistentVolumeClaim default/pvc-14-13-1 Normal FailedBinding no persistent volumes available for this claim and no storage class is set",
                r#"PersistentVolumeClaim default/pvc-14-13-1 Warning VolumeMismatch Cannot bind PersistentVolume "pv-14-13-1" to requested PersistentVolumeClaim due to incompatible volumeMode."#,
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-14-14-1",
        about: "Volume sync with UID reference and equal filesystem mode: silent, leaves it to the claim sync",
        given: &[
            "pv pv-14-14-1 10Gi RWO,ROX Available ref=default/pvc-14-14-1:uid-14-14-1 @by-controller",
            "pvc default/pvc-14-14-1 uid-14-14-1 10Gi RWO,ROX Pending",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "volume pv-14-14-1",
            end: &[
                "pv pv-14-14-1 10Gi RWO,ROX Available ref=default/pvc-14-14-1:uid-14-14-1 @by-controller",
                "pvc default/pvc-14-14-1 uid-14-14-1 10Gi RWO,ROX Pending",
            ],
            events: &[],
        }),
        settled: &[End {
            objects: &[
                "pv pv-14-14-1 10Gi RWO,ROX Bound ref=default/pvc-14-14-1:uid-14-14-1 @by-controller",
                "pvc default/pvc-14-14-1 uid-14-14-1 10Gi RWO,ROX Bound volume=pv-14-14-1 has=RWO,ROX/10Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
];
