//! Cases in which the controller repairs changes by users, and cases of lost volumes.

use super::table::{Case, End, NO_CASE};

pub(super) const CASES: &[Case] = &[
    Case {
        id: "OWN-FIX-1",
        about: "bind-completed mark removed by a user: put back",
        given: &[
            "pv pv-a 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
            "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-a has=RWO/1Gi @completed @by-controller",
        ],
        steps: &[
            r#"patch persistentvolumeclaims default/c-1 {"metadata":{"annotations":{"pv.kubernetes.io/bind-completed":null}}}"#,
            "settle",
        ],
        settled: &[End {
            objects: &[
                "pv pv-a 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
                "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-a has=RWO/1Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-FIX-2",
        about: "PV phase overwritten with Available: back to Bound",
        given: &[
            "pv pv-a 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
            "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-a has=RWO/1Gi @completed @by-controller",
        ],
        steps: &[r#"patch persistentvolumes/status pv-a {"status":{"phase":"Available"}}"#, "settle"],
        settled: &[End {
            objects: &[
                "pv pv-a 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
                "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-a has=RWO/1Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-FIX-3",
        about: "PVC phase overwritten with Pending: back to Bound",
        given: &[
            "pv pv-a 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
            "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-a has=RWO/1Gi @completed @by-controller",
        ],
        steps: &[
            r#"patch persistentvolumeclaims/status default/c-1 {"status":{"phase":"Pending"}}"#,
            "settle",
        ],
        settled: &[End {
            objects: &[
                "pv pv-a 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
                "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-a has=RWO/1Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-FIX-4",
        about: "PV reference removed while the claim is bound: restored and marked bound-by-controller",
        given: &[
            "pv pv-a 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
            "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-a has=RWO/1Gi @completed @by-controller",
        ],
        steps: &[r#"patch persistentvolumes pv-a {"spec":{"claimRef":null}}"#, "settle"],
        settled: &[End {
            objects: &[
                "pv pv-a 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
                "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-a has=RWO/1Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-FIX-6",
        about: "Changing labels/class selectors after binding changes nothing",
        given: &[
            "pv pv-a 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
            "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-a has=RWO/1Gi @completed @by-controller",
        ],
        steps: &[r#"patch persistentvolumes pv-a {"metadata":{"labels":{"x":"y"}}}"#, "settle"],
        settled: &[End {
            objects: &[
                "pv pv-a 1Gi RWO Bound ref=default/c-1:uid-c-1 label=x:y @by-controller",
                "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-a has=RWO/1Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-LOST-1",
        about: "Volume object gone: Lost, status cleared, event ClaimLost",
        given: &[
            "pv pv-a 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
            "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-a has=RWO/1Gi @completed @by-controller",
        ],
        steps: &["force-delete pv-a", "settle"],
        settled: &[End {
            objects: &["pvc default/c-1 uid-c-1 1Gi RWO Lost volume=pv-a @completed @by-controller"],
            events: &[
                "PersistentVolumeClaim default/c-1 Warning ClaimLost Bound claim has lost its PersistentVolume. Data on the volume is lost!",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-LOST-3",
        about: "Lost claim: volume re-created without reference, claim is Bound again",
        given: &[
            "pv pv-a 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
            "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-a has=RWO/1Gi @completed @by-controller",
        ],
        steps: &["force-delete pv-a", "settle", "create pv pv-a 1Gi RWO -", "settle"],
        settled: &[End {
            objects: &[
                "pv pv-a 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
                "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-a has=RWO/1Gi @completed @by-controller",
            ],
            events: &[
                "PersistentVolumeClaim default/c-1 Warning ClaimLost Bound claim has lost its PersistentVolume. Data on the volume is lost!",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-LOST-4",
        about: "Lost claim: volume re-created for another claim, claim stays Lost without a new event",
        given: &[
            "pv pv-a 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
            "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-a has=RWO/1Gi @completed @by-controller",
        ],
        steps: &["force-delete pv-a", "settle", "create pv pv-a 1Gi RWO - ref=default/x:uid-x", "settle"],
        settled: &[End {
            objects: &[
                "pv pv-a 1Gi RWO Released ref=default/x:uid-x",
                "pvc default/c-1 uid-c-1 1Gi RWO Lost volume=pv-a @completed @by-controller",
            ],
            events: &[
                "PersistentVolumeClaim default/c-1 Warning ClaimLost Bound claim has lost its PersistentVolume. Data on the volume is lost!",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-LOST-5",
        about: "Lost claim: volume re-created too small and without reference is still bound (no re-check)",
        given: &[
            "pv pv-a 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
            "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-a has=RWO/1Gi @completed @by-controller",
        ],
        steps: &["force-delete pv-a", "settle", "create pv pv-a 1Mi RWO -", "settle"],
        settled: &[End {
            objects: &[
                "pv pv-a 1Mi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
                "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-a has=RWO/1Mi @completed @by-controller",
            ],
            events: &[
                "PersistentVolumeClaim default/c-1 Warning ClaimLost Bound claim has lost its PersistentVolume. Data on the volume is lost!",
            ],
        }],
        ..NO_CASE
    },
];
