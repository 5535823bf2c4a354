//! Set 10: claims and volumes created together.

use super::table::{Case, End, NO_CASE, Plug};

pub(super) const CASES: &[Case] = &[
    Case {
        id: "PV-10-1",
        about: "From scratch: pending volume and pending claim converge to a bound pair",
        given: &["pv pv-10-1 1Gi RWO,ROX Pending", "pvc default/pvc-10-1 uid-10-1 1Gi RWO,ROX Pending"],
        plugins: Plug::None,
        settled: &[End {
            objects: &[
                "pv pv-10-1 1Gi RWO,ROX Bound ref=default/pvc-10-1:uid-10-1 @by-controller",
                "pvc default/pvc-10-1 uid-10-1 1Gi RWO,ROX Bound volume=pv-10-1 has=RWO,ROX/1Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-10-2",
        about: "Two volumes point to one claim: the one the claim names wins, the other is freed",
        given: &[
            "pv pv-10-2-1 1Gi RWO,ROX Bound ref=default/pvc-10-2:uid-10-2 @by-controller",
            "pv pv-10-2-2 1Gi RWO,ROX Bound ref=default/pvc-10-2:uid-10-2 @by-controller",
            "pvc default/pvc-10-2 uid-10-2 1Gi RWO,ROX Bound volume=pv-10-2-1 has=RWO,ROX/1Gi @completed @by-controller",
        ],
        plugins: Plug::None,
        settled: &[End {
            objects: &[
                "pv pv-10-2-1 1Gi RWO,ROX Bound ref=default/pvc-10-2:uid-10-2 @by-controller",
                "pv pv-10-2-2 1Gi RWO,ROX Available",
                "pvc default/pvc-10-2 uid-10-2 1Gi RWO,ROX Bound volume=pv-10-2-1 has=RWO,ROX/1Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
];
