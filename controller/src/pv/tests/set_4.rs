//! Set 4: volumes.

use super::table::{Case, End, NO_CASE, Once, Plug};

pub(super) const CASES: &[Case] = &[
    Case {
        id: "PV-4-2",
        about: "Volume reserved by name only stays/becomes Available",
        given: &["pv pv-4-2 10Gi RWO,ROX Available ref=default/pvc-4-2"],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "volume pv-4-2",
            end: &["pv pv-4-2 10Gi RWO,ROX Available ref=default/pvc-4-2"],
            events: &[],
        }),
        settled: &[End { objects: &["pv pv-4-2 10Gi RWO,ROX Available ref=default/pvc-4-2"], events: &[] }],
        ..NO_CASE
    },
    Case {
        id: "PV-4-4",
        about: "Bound volume whose claim was re-created with another UID becomes Released",
        given: &[
            "pv pv-4-4 10Gi RWO,ROX Bound ref=default/pvc-4-4:uid-4-4",
            "pvc default/pvc-4-4 uid-4-4-x 10Gi RWO,ROX Bound volume=pv-4-4 has=RWO,ROX/10Gi @completed",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "volume pv-4-4",
            end: &[
                "pv pv-4-4 10Gi RWO,ROX Released ref=default/pvc-4-4:uid-4-4",
                "pvc default/pvc-4-4 uid-4-4-x 10Gi RWO,ROX Bound volume=pv-4-4 has=RWO,ROX/10Gi @completed",
            ],
            events: &[],
        }),
        settled: &[End {
            objects: &[
                "pv pv-4-4 10Gi RWO,ROX Released ref=default/pvc-4-4:uid-4-4",
                "pvc default/pvc-4-4 uid-4-4-x 10Gi RWO,ROX Lost volume=pv-4-4 @completed",
            ],
            events: &[
                "PersistentVolumeClaim default/pvc-4-4 Warning ClaimMisbound Two claims are bound to the same volume, this one is bound incorrectly",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-4-6",
        about: "Both sides reference each other: volume phase fixed to Bound",
        given: &[
            "pv pv-4-6 10Gi RWO,ROX Available ref=default/pvc-4-6:uid-4-6",
            "pvc default/pvc-4-6 uid-4-6 10Gi RWO,ROX Bound volume=pv-4-6 has=RWO,ROX/10Gi",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "volume pv-4-6",
            end: &[
                "pv pv-4-6 10Gi RWO,ROX Bound ref=default/pvc-4-6:uid-4-6",
                "pvc default/pvc-4-6 uid-4-6 10Gi RWO,ROX Bound volume=pv-4-6 has=RWO,ROX/10Gi",
            ],
            events: &[],
        }),
        settled: &[End {
            objects: &[
                "pv pv-4-6 10Gi RWO,ROX Bound ref=default/pvc-4-6:uid-4-6",
                "pvc default/pvc-4-6 uid-4-6 10Gi RWO,ROX Bound volume=pv-4-6 has=RWO,ROX/10Gi @completed",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-4-7",
        about: "Controller-made reference is dropped when the claim went to another volume",
        given: &[
            "pv pv-4-7 10Gi RWO,ROX Bound ref=default/pvc-4-7:uid-4-7 @by-controller",
            "pvc default/pvc-4-7 uid-4-7 10Gi RWO,ROX Bound volume=pv-4-7-x has=RWO,ROX/10Gi",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "volume pv-4-7",
            end: &[
                "pv pv-4-7 10Gi RWO,ROX Available",
                "pvc default/pvc-4-7 uid-4-7 10Gi RWO,ROX Bound volume=pv-4-7-x has=RWO,ROX/10Gi",
            ],
            events: &[],
        }),
        settled: &[End {
            objects: &[
                "pv pv-4-7 10Gi RWO,ROX Available",
                "pvc default/pvc-4-7 uid-4-7 10Gi RWO,ROX Pending volume=pv-4-7-x",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-4-11",
        about: "Claim missing from the local cache but present on the server: volume is not released",
        given: &[
            "pv pv-4-11 10Gi RWO,ROX Available policy=Delete ref=default/pvc-4-11:uid-4-11",
            "pvc default/pvc-4-11 uid-4-11 10Gi RWO,ROX Bound volume=pv-4-11 has=RWO,ROX/10Gi",
        ],
        plugins: Plug::None,
        claims_not_stored: true,
        once: Some(Once {
            look_at: "volume pv-4-11",
            end: &[
                "pv pv-4-11 10Gi RWO,ROX Bound policy=Delete ref=default/pvc-4-11:uid-4-11",
                "pvc default/pvc-4-11 uid-4-11 10Gi RWO,ROX Bound volume=pv-4-11 has=RWO,ROX/10Gi",
            ],
            events: &[],
        }),
        settled: &[End {
            objects: &[
                "pv pv-4-11 10Gi RWO,ROX Bound policy=Delete ref=default/pvc-4-11:uid-4-11",
                "pvc default/pvc-4-11 uid-4-11 10Gi RWO,ROX Bound volume=pv-4-11 has=RWO,ROX/10Gi @completed",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
];
