//! Matching cases: sizes, access modes, selectors.

use super::table::{Case, End, NO_CASE};

pub(super) const CASES: &[Case] = &[
    Case {
        id: "OWN-COMPETE-2",
        about: "One claim, two identical volumes; exactly one is used",
        given: &[
            "pv pv-a 1Gi RWO Available",
            "pv pv-b 1Gi RWO Available",
            "pvc default/c-1 uid-c-1 1Gi RWO Pending",
        ],
        settled: &[
            End {
                objects: &[
                    "pv pv-a 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
                    "pv pv-b 1Gi RWO Available",
                    "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-a has=RWO/1Gi @completed @by-controller",
                ],
                events: &[],
            },
            End {
                objects: &[
                    "pv pv-a 1Gi RWO Available",
                    "pv pv-b 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
                    "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-b has=RWO/1Gi @completed @by-controller",
                ],
                events: &[],
            },
        ],
        ..NO_CASE
    },
    Case {
        id: "OWN-FIT-1",
        about: "Three claims and three volumes of growing size pair up by size",
        given: &[
            "pv pv-1 1Gi RWO Available",
            "pv pv-2 2Gi RWO Available",
            "pv pv-3 3Gi RWO Available",
            "pvc default/c-1 uid-c-1 1Gi RWO Pending",
            "pvc default/c-2 uid-c-2 2Gi RWO Pending",
            "pvc default/c-3 uid-c-3 3Gi RWO Pending",
        ],
        settled: &[End {
            objects: &[
                "pv pv-1 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
                "pv pv-2 2Gi RWO Bound ref=default/c-2:uid-c-2 @by-controller",
                "pv pv-3 3Gi RWO Bound ref=default/c-3:uid-c-3 @by-controller",
                "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-1 has=RWO/1Gi @completed @by-controller",
                "pvc default/c-2 uid-c-2 2Gi RWO Bound volume=pv-2 has=RWO/2Gi @completed @by-controller",
                "pvc default/c-3 uid-c-3 3Gi RWO Bound volume=pv-3 has=RWO/3Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-FIT-4",
        about: "Decimal request against binary capacity: 1G fits into 1Gi",
        given: &["pv pv-a 1Gi RWO Available", "pvc default/c-1 uid-c-1 1G RWO Pending"],
        settled: &[End {
            objects: &[
                "pv pv-a 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
                "pvc default/c-1 uid-c-1 1G RWO Bound volume=pv-a has=RWO/1Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-FIT-6",
        about: "A fitting volume created later is picked up",
        given: &["pv pv-small 1Gi RWO Available", "pvc default/c-1 uid-c-1 5Gi RWO Pending"],
        steps: &["create pv pv-big 5Gi RWO -", "settle"],
        settled: &[End {
            objects: &[
                "pv pv-big 5Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
                "pv pv-small 1Gi RWO Available",
                "pvc default/c-1 uid-c-1 5Gi RWO Bound volume=pv-big has=RWO/5Gi @completed @by-controller",
            ],
            events: &[
                "PersistentVolumeClaim default/c-1 Normal FailedBinding no persistent volumes available for this claim and no storage class is set",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-AM-1",
        about: "Access-mode sets: the volume with the fewest modes that cover the request wins over a smaller volume with more modes",
        given: &[
            "pv pv-rwo-big 10Gi RWO Available",
            "pv pv-all-small 1Gi RWO,ROX,RWX Available",
            "pvc default/c-1 uid-c-1 1Gi RWO Pending",
        ],
        settled: &[End {
            objects: &[
                "pv pv-all-small 1Gi RWO,ROX,RWX Available",
                "pv pv-rwo-big 10Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
                "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-rwo-big has=RWO/10Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-AM-3",
        about: "Request RWO does not match a volume that lists only RWX",
        given: &["pv pv-a 1Gi RWX Available", "pvc default/c-1 uid-c-1 1Gi RWO Pending"],
        settled: &[End {
            objects: &["pv pv-a 1Gi RWX Available", "pvc default/c-1 uid-c-1 1Gi RWO Pending"],
            events: &[
                "PersistentVolumeClaim default/c-1 Normal FailedBinding no persistent volumes available for this claim and no storage class is set",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-AM-5",
        about: "Claim status lists all modes of the volume",
        given: &["pv pv-a 1Gi RWO,ROX,RWX Available", "pvc default/c-1 uid-c-1 1Gi ROX Pending"],
        settled: &[End {
            objects: &[
                "pv pv-a 1Gi RWO,ROX,RWX Bound ref=default/c-1:uid-c-1 @by-controller",
                "pvc default/c-1 uid-c-1 1Gi ROX Bound volume=pv-a has=RWO,ROX,RWX/1Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-AM-8",
        about: "Only the volume with the requested mode is bound (RWX)",
        given: &[
            "pv pv-rwo 10G RWO Available",
            "pv pv-rwx 10G RWX Available",
            "pvc default/c-1 uid-c-1 5G RWX Pending",
        ],
        settled: &[End {
            objects: &[
                "pv pv-rwo 10G RWO Available",
                "pv pv-rwx 10G RWX Bound ref=default/c-1:uid-c-1 @by-controller",
                "pvc default/c-1 uid-c-1 5G RWX Bound volume=pv-rwx has=RWX/10G @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-AM-9",
        about: "Adding an access mode to a bound volume shows up in the claim status",
        given: &[
            "pv pv-a 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
            "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-a has=RWO/1Gi @completed @by-controller",
        ],
        steps: &[
            r#"patch persistentvolumes pv-a {"spec":{"accessModes":["ReadWriteOnce","ReadOnlyMany"]}}"#,
            "settle",
        ],
        settled: &[End {
            objects: &[
                "pv pv-a 1Gi RWO,ROX Bound ref=default/c-1:uid-c-1 @by-controller",
                "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-a has=RWO,ROX/1Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-SEL-1",
        about: "matchLabels pick the labelled volume among equals",
        given: &[
            "pv pv-true 1G RWO Available label=foo:true",
            "pv pv-false 1G RWO Available label=foo:false",
            r#"pvc default/c-1 uid-c-1 1G RWO Pending selector={"matchLabels":{"foo":"true"}}"#,
        ],
        settled: &[End {
            objects: &[
                "pv pv-false 1G RWO Available label=foo:false",
                "pv pv-true 1G RWO Bound ref=default/c-1:uid-c-1 label=foo:true @by-controller",
                r#"pvc default/c-1 uid-c-1 1G RWO Bound volume=pv-true has=RWO/1G selector={"matchLabels":{"foo":"true"}} @completed @by-controller"#,
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-SEL-2",
        about: "matchExpressions In + Exists + DoesNotExist are all applied",
        given: &[
            "pv pv-1 1G RWO Available label=bar:x label=baz:y label=foo:a",
            "pv pv-2 1G RWO Available label=bar:x label=foo:b",
            "pv pv-3 1G RWO Available label=bar:x label=foo:c",
            r#"pvc default/c-1 uid-c-1 1G RWO Pending selector={"matchExpressions":[{"key":"foo","operator":"In","values":["a","b"]},{"key":"bar","operator":"Exists"},{"key":"baz","operator":"DoesNotExist"}]}"#,
        ],
        settled: &[End {
            objects: &[
                "pv pv-1 1G RWO Available label=bar:x label=baz:y label=foo:a",
                "pv pv-2 1G RWO Bound ref=default/c-1:uid-c-1 label=bar:x label=foo:b @by-controller",
                "pv pv-3 1G RWO Available label=bar:x label=foo:c",
                r#"pvc default/c-1 uid-c-1 1G RWO Bound volume=pv-2 has=RWO/1G selector={"matchExpressions":[{"key":"foo","operator":"In","values":["a","b"]},{"key":"bar","operator":"Exists"},{"key":"baz","operator":"DoesNotExist"}]} @completed @by-controller"#,
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-SEL-5",
        about: "Empty selector object matches everything",
        given: &["pv pv-1 1G RWO Available", "pvc default/c-1 uid-c-1 1G RWO Pending selector={}"],
        settled: &[End {
            objects: &[
                "pv pv-1 1G RWO Bound ref=default/c-1:uid-c-1 @by-controller",
                "pvc default/c-1 uid-c-1 1G RWO Bound volume=pv-1 has=RWO/1G selector={} @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
];
