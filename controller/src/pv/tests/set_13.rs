//! Set 13: storage classes.

use super::table::{Case, End, NO_CASE, Once, Plug};

pub(super) const CASES: &[Case] = &[
    Case {
        id: "PV-13-1",
        about: "Claim with class takes the volume of that class, not a smaller classless one",
        given: &[
            "pv pv-13-1-1 1Gi RWO,ROX Available",
            "pv pv-13-1-2 10Gi RWO,ROX Available class=gold",
            "pvc default/pvc-13-1 uid-13-1 1Gi RWO,ROX Pending class=gold",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "claim default/pvc-13-1",
            end: &[
                "pv pv-13-1-1 1Gi RWO,ROX Available",
                "pv pv-13-1-2 10Gi RWO,ROX Bound class=gold ref=default/pvc-13-1:uid-13-1 @by-controller",
                "pvc default/pvc-13-1 uid-13-1 1Gi RWO,ROX Bound volume=pv-13-1-2 class=gold has=RWO,ROX/10Gi @completed @by-controller",
            ],
            events: &[],
        }),
        settled: &[End {
            objects: &[
                "pv pv-13-1-1 1Gi RWO,ROX Available",
                "pv pv-13-1-2 10Gi RWO,ROX Bound class=gold ref=default/pvc-13-1:uid-13-1 @by-controller",
                "pvc default/pvc-13-1 uid-13-1 1Gi RWO,ROX Bound volume=pv-13-1-2 class=gold has=RWO,ROX/10Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-13-2",
        about: "Claim without class takes the classless volume, not a smaller one with a class",
        given: &[
            "pv pv-13-2-1 1Gi RWO,ROX Available class=gold",
            "pv pv-13-2-2 10Gi RWO,ROX Available",
            "pvc default/pvc-13-2 uid-13-2 1Gi RWO,ROX Pending",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "claim default/pvc-13-2",
            end: &[
                "pv pv-13-2-1 1Gi RWO,ROX Available class=gold",
                "pv pv-13-2-2 10Gi RWO,ROX Bound ref=default/pvc-13-2:uid-13-2 @by-controller",
                "pvc default/pvc-13-2 uid-13-2 1Gi RWO,ROX Bound volume=pv-13-2-2 has=RWO,ROX/10Gi @completed @by-controller",
            ],
            events: &[],
        }),
        settled: &[End {
            objects: &[
                "pv pv-13-2-1 1Gi RWO,ROX Available class=gold",
                "pv pv-13-2-2 10Gi RWO,ROX Bound ref=default/pvc-13-2:uid-13-2 @by-controller",
                "pvc default/pvc-13-2 uid-13-2 1Gi RWO,ROX Bound volume=pv-13-2-2 has=RWO,ROX/10Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-13-3",
        about: "Claim with class ignores a smaller volume of another class",
        given: &[
            "pv pv-13-3-1 1Gi RWO,ROX Available class=silver",
            "pv pv-13-3-2 10Gi RWO,ROX Available class=gold",
            "pvc default/pvc-13-3 uid-13-3 1Gi RWO,ROX Pending class=gold",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "claim default/pvc-13-3",
            end: &[
                "pv pv-13-3-1 1Gi RWO,ROX Available class=silver",
                "pv pv-13-3-2 10Gi RWO,ROX Bound class=gold ref=default/pvc-13-3:uid-13-3 @by-controller",
                "pvc default/pvc-13-3 uid-13-3 1Gi RWO,ROX Bound volume=pv-13-3-2 class=gold has=RWO,ROX/10Gi @completed @by-controller",
            ],
            events: &[],
        }),
        settled: &[End {
            objects: &[
                "pv pv-13-3-1 1Gi RWO,ROX Available class=silver",
                "pv pv-13-3-2 10Gi RWO,ROX Bound class=gold ref=default/pvc-13-3:uid-13-3 @by-controller",
                "pvc default/pvc-13-3 uid-13-3 1Gi RWO,ROX Bound volume=pv-13-3-2 class=gold has=RWO,ROX/10Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
];
