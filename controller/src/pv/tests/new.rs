//! Cases of our own: situations that the verified cases leave out, and what is better here than upstream.

use super::table::{Case, End, NO_CASE};

pub(super) const CASES: &[Case] = &[
    Case {
        id: "NEW-STOLEN",
        about: "A name written by a controller on a claim, and a volume of somebody else: nothing is changed",
        given: &[
            "pv pv-1 1Gi RWO Bound ref=default/other:uid-other",
            "pvc default/other uid-other 1Gi RWO Bound volume=pv-1 has=RWO/1Gi @completed",
            "pvc default/c-1 uid-c-1 1Gi RWO Pending volume=pv-1 @by-controller",
        ],
        settled: &[End {
            objects: &[
                "pv pv-1 1Gi RWO Bound ref=default/other:uid-other",
                "pvc default/other uid-other 1Gi RWO Bound volume=pv-1 has=RWO/1Gi @completed",
                "pvc default/c-1 uid-c-1 1Gi RWO Pending volume=pv-1 @by-controller",
            ],
            events: &[
                r#"PersistentVolumeClaim default/c-1 Warning FailedBinding volume "pv-1" already bound to a different claim."#,
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "NEW-NAMELESS",
        about: "A bound claim whose volume name was taken away is Lost",
        given: &["pvc default/c-1 uid-c-1 1Gi RWO Bound has=RWO/1Gi @completed"],
        settled: &[End {
            objects: &["pvc default/c-1 uid-c-1 1Gi RWO Lost @completed"],
            events: &[
                "PersistentVolumeClaim default/c-1 Warning ClaimLost Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
            ],
        }],
        ..NO_CASE
    },
];
