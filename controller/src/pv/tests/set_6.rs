//! Set 6: recycling.

use super::table::{Case, End, NO_CASE, Once, Plug};

pub(super) const CASES: &[Case] = &[
    Case {
        id: "PV-6-2",
        about: "Recycle of a user-reserved volume keeps the name",
        given: &["pv pv-6-2 1Gi RWO,ROX Bound policy=Recycle ref=default/pvc-6-2:uid-6-2"],
        plugins: Plug::Mock(&["recycle"]),
        inject: &["recycle ok"],
        once: Some(Once {
            look_at: "volume pv-6-2",
            end: &["pv pv-6-2 1Gi RWO,ROX Available policy=Recycle ref=default/pvc-6-2"],
            events: &["PersistentVolume pv-6-2 Normal VolumeRecycled Volume recycled"],
        }),
        settled: &[End {
            objects: &["pv pv-6-2 1Gi RWO,ROX Available policy=Recycle ref=default/pvc-6-2"],
            events: &["PersistentVolume pv-6-2 Normal VolumeRecycled Volume recycled"],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-6-3",
        about: "No plugin can recycle the volume",
        given: &[
            r#"pv pv-6-3 1Gi RWO,ROX Bound policy=Recycle ref=default/pvc-6-3:uid-6-3 src={"iscsi":{"targetPortal":"192.0.2.1:3260","iqn":"iqn.2001-04.com.example:storage","lun":0}}"#,
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "volume pv-6-3",
            end: &[
                r#"pv pv-6-3 1Gi RWO,ROX Failed policy=Recycle ref=default/pvc-6-3:uid-6-3 src={"iscsi":{"targetPortal":"192.0.2.1:3260","iqn":"iqn.2001-04.com.example:storage","lun":0}} msg=No recycler plugin found for the volume!"#,
            ],
            events: &[
                "PersistentVolume pv-6-3 Warning VolumeFailedRecycle No recycler plugin found for the volume!",
            ],
        }),
        settled: &[End {
            objects: &[
                r#"pv pv-6-3 1Gi RWO,ROX Failed policy=Recycle ref=default/pvc-6-3:uid-6-3 src={"iscsi":{"targetPortal":"192.0.2.1:3260","iqn":"iqn.2001-04.com.example:storage","lun":0}} msg=No recycler plugin found for the volume!"#,
            ],
            events: &[
                "PersistentVolume pv-6-3 Warning VolumeFailedRecycle No recycler plugin found for the volume!",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-6-5",
        about: "Recycler fails",
        given: &["pv pv-6-5 1Gi RWO,ROX Bound policy=Recycle ref=default/pvc-6-5:uid-6-5"],
        plugins: Plug::Mock(&["recycle"]),
        inject: &["recycle error: Mock recycle error"],
        once: Some(Once {
            look_at: "volume pv-6-5",
            end: &[
                "pv pv-6-5 1Gi RWO,ROX Failed policy=Recycle ref=default/pvc-6-5:uid-6-5 msg=Recycle failed: Mock recycle error",
            ],
            events: &[
                "PersistentVolume pv-6-5 Warning VolumeFailedRecycle Recycle failed: Mock recycle error",
            ],
        }),
        ..NO_CASE
    },
    Case {
        id: "PV-6-6",
        about: "Volume vanished before the recycle operation ran",
        given: &["pv pv-6-6 1Gi RWO,ROX Bound policy=Recycle ref=default/pvc-6-6:uid-6-6"],
        plugins: Plug::Mock(&["recycle"]),
        inject: &["race force-delete pv-6-6"],
        once: Some(Once { look_at: "volume pv-6-6", end: &[], events: &[] }),
        ..NO_CASE
    },
    Case {
        id: "PV-6-7",
        about: "Volume already recycled before the operation ran (controller-bound)",
        given: &["pv pv-6-7 1Gi RWO,ROX Bound policy=Recycle ref=default/pvc-6-7:uid-6-7 @by-controller"],
        plugins: Plug::Mock(&["recycle"]),
        inject: &[
            r#"race patch persistentvolumes pv-6-7 {"metadata":{"annotations":null},"spec":{"claimRef":null}}"#,
            r#"race patch persistentvolumes/status pv-6-7 {"status":{"phase":"Available"}}"#,
        ],
        once: Some(Once {
            look_at: "volume pv-6-7",
            end: &["pv pv-6-7 1Gi RWO,ROX Available policy=Recycle"],
            events: &[],
        }),
        ..NO_CASE
    },
    Case {
        id: "PV-6-8",
        about: "Volume already recycled before the operation ran (user-reserved)",
        given: &["pv pv-6-8 1Gi RWO,ROX Bound policy=Recycle ref=default/pvc-6-8:uid-6-8"],
        plugins: Plug::Mock(&["recycle"]),
        inject: &[
            r#"race patch persistentvolumes pv-6-8 {"metadata":{"annotations":null},"spec":{"claimRef":null}}"#,
            r#"race patch persistentvolumes/status pv-6-8 {"status":{"phase":"Available"}}"#,
        ],
        once: Some(Once {
            look_at: "volume pv-6-8",
            end: &["pv pv-6-8 1Gi RWO,ROX Available policy=Recycle"],
            events: &[],
        }),
        ..NO_CASE
    },
    Case {
        id: "PV-6-9",
        about: "User-reserved volume is recycled although a same-named new claim exists",
        given: &[
            "pv pv-6-9 1Gi RWO,ROX Bound policy=Recycle ref=default/pvc-6-9:uid-6-9",
            "pvc default/pvc-6-9 uid-6-9-x 10Gi RWO,ROX Pending",
        ],
        plugins: Plug::Mock(&["recycle"]),
        inject: &["recycle ok"],
        once: Some(Once {
            look_at: "volume pv-6-9",
            end: &[
                "pv pv-6-9 1Gi RWO,ROX Available policy=Recycle ref=default/pvc-6-9",
                "pvc default/pvc-6-9 uid-6-9-x 10Gi RWO,ROX Pending",
            ],
            events: &["PersistentVolume pv-6-9 Normal VolumeRecycled Volume recycled"],
        }),
        settled: &[End {
            objects: &[
                "pv pv-6-9 1Gi RWO,ROX Available policy=Recycle ref=default/pvc-6-9",
                "pvc default/pvc-6-9 uid-6-9-x 10Gi RWO,ROX Pending",
            ],
            events: &[
                "PersistentVolume pv-6-9 Normal VolumeRecycled Volume recycled",
                "PersistentVolumeClaim default/pvc-6-9 Normal FailedBinding no persistent volumes available for this claim and no storage class is set",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-6-11",
        about: "Recycle waits for a running pod that uses the claim name",
        given: &[
            "pv pv-6-11 1Gi RWO,ROX Bound policy=Recycle ref=default/pvc-running:uid-6-11 @by-controller",
            "pod default/pod-running Running claims=pvc-running",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "volume pv-6-11",
            end: &[
                "pv pv-6-11 1Gi RWO,ROX Released policy=Recycle ref=default/pvc-running:uid-6-11 @by-controller",
            ],
            events: &[
                "PersistentVolume pv-6-11 Normal VolumeFailedRecycle Volume is used by pods: default/pod-running",
            ],
        }),
        settled: &[End {
            objects: &[
                "pv pv-6-11 1Gi RWO,ROX Released policy=Recycle ref=default/pvc-running:uid-6-11 @by-controller",
            ],
            events: &[
                "PersistentVolume pv-6-11 Normal VolumeFailedRecycle Volume is used by pods: default/pod-running",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-6-12",
        about: "Recycle waits for a pending pod that uses the claim name",
        given: &[
            "pv pv-6-12 1Gi RWO,ROX Bound policy=Recycle ref=default/pvc-pending:uid-6-12 @by-controller",
            "pod default/pod-pending Pending claims=pvc-pending",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "volume pv-6-12",
            end: &[
                "pv pv-6-12 1Gi RWO,ROX Released policy=Recycle ref=default/pvc-pending:uid-6-12 @by-controller",
            ],
            events: &[
                "PersistentVolume pv-6-12 Normal VolumeFailedRecycle Volume is used by pods: default/pod-pending",
            ],
        }),
        settled: &[End {
            objects: &[
                "pv pv-6-12 1Gi RWO,ROX Released policy=Recycle ref=default/pvc-pending:uid-6-12 @by-controller",
            ],
            events: &[
                "PersistentVolume pv-6-12 Normal VolumeFailedRecycle Volume is used by pods: default/pod-pending",
            ],
        }],
        ..NO_CASE
    },
];
