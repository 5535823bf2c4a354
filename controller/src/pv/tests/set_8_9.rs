//! Sets 8 and 9: deletion.

use super::table::{Case, End, NO_CASE, Once, Plug};

pub(super) const CASES: &[Case] = &[
    Case {
        id: "PV-8-1",
        about: "Released volume (controller-bound) is deleted",
        given: &["pv pv-8-1 1Gi RWO,ROX Bound policy=Delete ref=default/pvc-8-1:uid-8-1 @by-controller"],
        plugins: Plug::Mock(&["delete"]),
        inject: &["delete ok"],
        once: Some(Once { look_at: "volume pv-8-1", end: &[], events: &[] }),
        settled: &[End { objects: &[], events: &[] }],
        ..NO_CASE
    },
    Case {
        id: "PV-8-2",
        about: "Released volume (user-bound) is deleted",
        given: &["pv pv-8-2 1Gi RWO,ROX Bound policy=Delete ref=default/pvc-8-2:uid-8-2"],
        plugins: Plug::Mock(&["delete"]),
        inject: &["delete ok"],
        once: Some(Once { look_at: "volume pv-8-2", end: &[], events: &[] }),
        settled: &[End { objects: &[], events: &[] }],
        ..NO_CASE
    },
    Case {
        id: "PV-8-3",
        about: "No plugin can delete the volume",
        given: &[
            r#"pv pv-8-3 1Gi RWO,ROX Bound policy=Delete ref=default/pvc-8-3:uid-8-3 src={"iscsi":{"targetPortal":"192.0.2.1:3260","iqn":"iqn.2001-04.com.example:storage","lun":0}}"#,
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "volume pv-8-3",
            end: &[
                r#"pv pv-8-3 1Gi RWO,ROX Failed policy=Delete ref=default/pvc-8-3:uid-8-3 src={"iscsi":{"targetPortal":"192.0.2.1:3260","iqn":"iqn.2001-04.com.example:storage","lun":0}} msg=error getting deleter volume plugin for volume "pv-8-3": no volume plugin matched"#,
            ],
            events: &[
                r#"PersistentVolume pv-8-3 Warning VolumeFailedDelete error getting deleter volume plugin for volume "pv-8-3": no volume plugin matched"#,
            ],
        }),
        settled: &[End {
            objects: &[
                r#"pv pv-8-3 1Gi RWO,ROX Failed policy=Delete ref=default/pvc-8-3:uid-8-3 src={"iscsi":{"targetPortal":"192.0.2.1:3260","iqn":"iqn.2001-04.com.example:storage","lun":0}} msg=error getting deleter volume plugin for volume "pv-8-3": no volume plugin matched"#,
            ],
            events: &[
                r#"PersistentVolume pv-8-3 Warning VolumeFailedDelete error getting deleter volume plugin for volume "pv-8-3": no volume plugin matched"#,
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-8-4",
        about: "Plugin cannot build a deleter",
        given: &["pv pv-8-4 1Gi RWO,ROX Bound policy=Delete ref=default/pvc-8-4:uid-8-4"],
        plugins: Plug::Mock(&["delete"]),
        once: Some(Once {
            look_at: "volume pv-8-4",
            end: &[
                r#"pv pv-8-4 1Gi RWO,ROX Failed policy=Delete ref=default/pvc-8-4:uid-8-4 msg=failed to create deleter for volume "pv-8-4": Mock plugin error: no deleteCalls configured"#,
            ],
            events: &[
                r#"PersistentVolume pv-8-4 Warning VolumeFailedDelete failed to create deleter for volume "pv-8-4": Mock plugin error: no deleteCalls configured"#,
            ],
        }),
        ..NO_CASE
    },
    Case {
        id: "PV-8-5",
        about: "Plugin fails to delete",
        given: &["pv pv-8-5 1Gi RWO,ROX Bound policy=Delete ref=default/pvc-8-5:uid-8-5"],
        plugins: Plug::Mock(&["delete"]),
        inject: &["delete error: Mock delete error"],
        once: Some(Once {
            look_at: "volume pv-8-5",
            end: &[
                "pv pv-8-5 1Gi RWO,ROX Failed policy=Delete ref=default/pvc-8-5:uid-8-5 msg=Mock delete error",
            ],
            events: &["PersistentVolume pv-8-5 Warning VolumeFailedDelete Mock delete error"],
        }),
        ..NO_CASE
    },
    Case {
        id: "PV-8-6",
        about: "Volume vanished before the delete operation ran",
        given: &["pv pv-8-6 1Gi RWO,ROX Bound policy=Delete ref=default/pvc-8-6:uid-8-6"],
        plugins: Plug::Mock(&["delete"]),
        inject: &["race force-delete pv-8-6"],
        once: Some(Once { look_at: "volume pv-8-6", end: &[], events: &[] }),
        ..NO_CASE
    },
    Case {
        id: "PV-8-9",
        about: "Volume reserved for a claim that was re-created: old volume is still deleted",
        given: &[
            "pv pv-8-9 1Gi RWO,ROX Bound policy=Delete ref=default/pvc-8-9:uid-8-9",
            "pvc default/pvc-8-9 uid-8-9-x 10Gi RWO,ROX Pending",
        ],
        plugins: Plug::Mock(&["delete"]),
        inject: &["delete ok"],
        once: Some(Once {
            look_at: "volume pv-8-9",
            end: &["pvc default/pvc-8-9 uid-8-9-x 10Gi RWO,ROX Pending"],
            events: &[],
        }),
        settled: &[End {
            objects: &["pvc default/pvc-8-9 uid-8-9-x 10Gi RWO,ROX Pending"],
            events: &[
                "PersistentVolumeClaim default/pvc-8-9 Normal FailedBinding no persistent volumes available for this claim and no storage class is set",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-9-1",
        about: "Failed delete is retried until it works",
        given: &[
            "pv pv-9-1 1Gi RWO,ROX Bound policy=Delete ref=default/pvc-9-1:uid-9-1 fin=kubernetes.io/pv-controller",
        ],
        plugins: Plug::Mock(&["delete"]),
        inject: &["delete error: Mock delete error", "delete ok"],
        unit_only: true,
        settled: &[End {
            objects: &[],
            events: &["PersistentVolume pv-9-1 Warning VolumeFailedDelete Mock delete error"],
        }],
        ..NO_CASE
    },
];
