//! Search cases: sizes, access modes, classes and labels.

use super::table::{Case, End, NO_CASE};

/// The volumes of the cases marked as wide.
pub(super) const WIDE: &[&str] = &[
    "pv rr-10g 10G RWO,ROX Available",
    "pv rr-20g-taken 20G RWO,ROX Bound ref=default/taken-20:uid-taken-20",
    "pv all-5g 5G RWO,ROX,RWX Available",
    "pv rr-1g-taken 1G RWO,ROX Bound ref=default/taken-1:uid-taken-1",
    "pv all-10g 10G RWO,ROX,RWX Available",
    "pv rr-5g 5G RWO,ROX Available",
    "pv all-1g 1G RWO,ROX,RWX Available",
    "pv w-20000g-lab 20000G RWO Available label=should-exist:true",
    "pv w-10000g-silver-lab 10000G RWO Available class=silver label=should-exist:true",
    "pv w-100g-silver 100G RWO Available class=silver",
    "pv w-50g-gold 50G RWO Available class=gold",
    "pv all-200e-large 200E RWO,ROX,RWX Available class=large",
    "pv all-800e-large 800E RWO,ROX,RWX Available class=large",
    r#"pv rr-100g-wait-n1 100G RWO,ROX Available class=wait src={"local":{"path":"/mnt/disks/a1"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value1"]}]}]}}"#,
    r#"pv rr-150g-wait-n1 150G RWO,ROX Available class=wait src={"local":{"path":"/mnt/disks/a2"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value1"]}]}]}}"#,
    r#"pv rr-200g-wait-n3 200G RWO,ROX Available class=wait src={"local":{"path":"/mnt/disks/a3"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value3"]}]}]}}"#,
    r#"pv rr-200g-wait-n4-pending 200G RWO,ROX Pending class=wait src={"local":{"path":"/mnt/disks/a4"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value4"]}]}]}}"#,
    r#"pv rr-200g-wait-n4-failed 200G RWO,ROX Failed class=wait src={"local":{"path":"/mnt/disks/a5"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value4"]}]}]}}"#,
    r#"pv rr-200g-wait-n4-released 200G RWO,ROX Released class=wait src={"local":{"path":"/mnt/disks/a6"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value4"]}]}]}}"#,
    r#"pv rr-100g-vac-silver 100G RWO,ROX Available vac=silver src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-vac"}}"#,
];

pub(super) const CASES: &[Case] = &[
    Case {
        id: "IDX-MATCH-1",
        about: "Two-mode request of 8G: smallest fitting volume of exactly these modes",
        wide: true,
        given: &["pvc default/c-1 uid-c-1 8G ROX,RWO Pending"],
        finds: Some(Some("rr-10g")),
        settled: &[End {
            objects: &[
                "pv rr-10g 10G RWO,ROX Bound ref=default/c-1:uid-c-1 @by-controller",
                "pv rr-1g-taken 1G RWO,ROX Released ref=default/taken-1:uid-taken-1",
                r#"pv rr-200g-wait-n4-failed 200G RWO,ROX Available class=wait src={"local":{"path":"/mnt/disks/a5"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value4"]}]}]}}"#,
                r#"pv rr-200g-wait-n4-pending 200G RWO,ROX Available class=wait src={"local":{"path":"/mnt/disks/a4"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value4"]}]}]}}"#,
                r#"pv rr-200g-wait-n4-released 200G RWO,ROX Available class=wait src={"local":{"path":"/mnt/disks/a6"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value4"]}]}]}}"#,
                "pv rr-20g-taken 20G RWO,ROX Released ref=default/taken-20:uid-taken-20",
                "pvc default/c-1 uid-c-1 8G ROX,RWO Bound volume=rr-10g has=RWO,ROX/10G @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "IDX-MATCH-3",
        about: "Request of 1G skips the exact-size volume that is already claimed",
        wide: true,
        given: &["pvc default/c-1 uid-c-1 1G ROX,RWO Pending"],
        finds: Some(Some("rr-5g")),
        settled: &[End {
            objects: &[
                "pv rr-1g-taken 1G RWO,ROX Released ref=default/taken-1:uid-taken-1",
                r#"pv rr-200g-wait-n4-failed 200G RWO,ROX Available class=wait src={"local":{"path":"/mnt/disks/a5"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value4"]}]}]}}"#,
                r#"pv rr-200g-wait-n4-pending 200G RWO,ROX Available class=wait src={"local":{"path":"/mnt/disks/a4"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value4"]}]}]}}"#,
                r#"pv rr-200g-wait-n4-released 200G RWO,ROX Available class=wait src={"local":{"path":"/mnt/disks/a6"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value4"]}]}]}}"#,
                "pv rr-20g-taken 20G RWO,ROX Released ref=default/taken-20:uid-taken-20",
                "pv rr-5g 5G RWO,ROX Bound ref=default/c-1:uid-c-1 @by-controller",
                "pvc default/c-1 uid-c-1 1G ROX,RWO Bound volume=rr-5g has=RWO,ROX/5G @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "IDX-MATCH-4",
        about: "Nothing is large enough",
        wide: true,
        given: &["pvc default/c-1 uid-c-1 999G ROX,RWO Pending"],
        finds: Some(None),
        settled: &[End {
            objects: &[
                "pv rr-1g-taken 1G RWO,ROX Released ref=default/taken-1:uid-taken-1",
                r#"pv rr-200g-wait-n4-failed 200G RWO,ROX Available class=wait src={"local":{"path":"/mnt/disks/a5"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value4"]}]}]}}"#,
                r#"pv rr-200g-wait-n4-pending 200G RWO,ROX Available class=wait src={"local":{"path":"/mnt/disks/a4"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value4"]}]}]}}"#,
                r#"pv rr-200g-wait-n4-released 200G RWO,ROX Available class=wait src={"local":{"path":"/mnt/disks/a6"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value4"]}]}]}}"#,
                "pv rr-20g-taken 20G RWO,ROX Released ref=default/taken-20:uid-taken-20",
                "pvc default/c-1 uid-c-1 999G ROX,RWO Pending",
            ],
            events: &[
                "PersistentVolumeClaim default/c-1 Normal FailedBinding no persistent volumes available for this claim and no storage class is set",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "IDX-MATCH-6",
        about: "Label exists only on a volume that lacks one of the modes",
        wide: true,
        given: &[
            r#"pvc default/c-1 uid-c-1 20000G ROX,RWO Pending selector={"matchLabels":{"should-exist":"true"}}"#,
        ],
        finds: Some(None),
        settled: &[End {
            objects: &[
                "pv rr-1g-taken 1G RWO,ROX Released ref=default/taken-1:uid-taken-1",
                r#"pv rr-200g-wait-n4-failed 200G RWO,ROX Available class=wait src={"local":{"path":"/mnt/disks/a5"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value4"]}]}]}}"#,
                r#"pv rr-200g-wait-n4-pending 200G RWO,ROX Available class=wait src={"local":{"path":"/mnt/disks/a4"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value4"]}]}]}}"#,
                r#"pv rr-200g-wait-n4-released 200G RWO,ROX Available class=wait src={"local":{"path":"/mnt/disks/a6"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value4"]}]}]}}"#,
                "pv rr-20g-taken 20G RWO,ROX Released ref=default/taken-20:uid-taken-20",
                r#"pvc default/c-1 uid-c-1 20000G ROX,RWO Pending selector={"matchLabels":{"should-exist":"true"}}"#,
            ],
            events: &[
                "PersistentVolumeClaim default/c-1 Normal FailedBinding no persistent volumes available for this claim and no storage class is set",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "IDX-MATCH-7",
        about: "Label and single mode fit exactly",
        wide: true,
        given: &[
            r#"pvc default/c-1 uid-c-1 20000G RWO Pending selector={"matchLabels":{"should-exist":"true"}}"#,
        ],
        finds: Some(Some("w-20000g-lab")),
        settled: &[End {
            objects: &[
                "pv rr-1g-taken 1G RWO,ROX Released ref=default/taken-1:uid-taken-1",
                r#"pv rr-200g-wait-n4-failed 200G RWO,ROX Available class=wait src={"local":{"path":"/mnt/disks/a5"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value4"]}]}]}}"#,
                r#"pv rr-200g-wait-n4-pending 200G RWO,ROX Available class=wait src={"local":{"path":"/mnt/disks/a4"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value4"]}]}]}}"#,
                r#"pv rr-200g-wait-n4-released 200G RWO,ROX Available class=wait src={"local":{"path":"/mnt/disks/a6"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value4"]}]}]}}"#,
                "pv rr-20g-taken 20G RWO,ROX Released ref=default/taken-20:uid-taken-20",
                "pv w-20000g-lab 20000G RWO Bound ref=default/c-1:uid-c-1 label=should-exist:true @by-controller",
                r#"pvc default/c-1 uid-c-1 20000G RWO Bound volume=w-20000g-lab has=RWO/20000G selector={"matchLabels":{"should-exist":"true"}} @completed @by-controller"#,
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "IDX-MATCH-9",
        about: "Volume attributes class selects its volume",
        wide: true,
        given: &["pvc default/c-1 uid-c-1 1G ROX,RWO Pending vac=silver"],
        finds: Some(Some("rr-100g-vac-silver")),
        settled: &[End {
            objects: &[
                r#"pv rr-100g-vac-silver 100G RWO,ROX Bound vac=silver ref=default/c-1:uid-c-1 @by-controller src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-vac"}}"#,
                "pv rr-1g-taken 1G RWO,ROX Released ref=default/taken-1:uid-taken-1",
                r#"pv rr-200g-wait-n4-failed 200G RWO,ROX Available class=wait src={"local":{"path":"/mnt/disks/a5"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value4"]}]}]}}"#,
                r#"pv rr-200g-wait-n4-pending 200G RWO,ROX Available class=wait src={"local":{"path":"/mnt/disks/a4"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value4"]}]}]}}"#,
                r#"pv rr-200g-wait-n4-released 200G RWO,ROX Available class=wait src={"local":{"path":"/mnt/disks/a6"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value4"]}]}]}}"#,
                "pv rr-20g-taken 20G RWO,ROX Released ref=default/taken-20:uid-taken-20",
                "pvc default/c-1 uid-c-1 1G ROX,RWO Bound volume=rr-100g-vac-silver vac=silver has=RWO,ROX/100G/silver @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "IDX-MATCH-11",
        about: "Class plus label",
        wide: true,
        given: &[
            r#"pvc default/c-1 uid-c-1 1G RWO Pending class=silver selector={"matchLabels":{"should-exist":"true"}}"#,
        ],
        finds: Some(Some("w-10000g-silver-lab")),
        settled: &[End {
            objects: &[
                "pv rr-1g-taken 1G RWO,ROX Released ref=default/taken-1:uid-taken-1",
                r#"pv rr-200g-wait-n4-failed 200G RWO,ROX Available class=wait src={"local":{"path":"/mnt/disks/a5"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value4"]}]}]}}"#,
                r#"pv rr-200g-wait-n4-pending 200G RWO,ROX Available class=wait src={"local":{"path":"/mnt/disks/a4"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value4"]}]}]}}"#,
                r#"pv rr-200g-wait-n4-released 200G RWO,ROX Available class=wait src={"local":{"path":"/mnt/disks/a6"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value4"]}]}]}}"#,
                "pv rr-20g-taken 20G RWO,ROX Released ref=default/taken-20:uid-taken-20",
                "pv w-10000g-silver-lab 10000G RWO Bound class=silver ref=default/c-1:uid-c-1 label=should-exist:true @by-controller",
                r#"pvc default/c-1 uid-c-1 1G RWO Bound volume=w-10000g-silver-lab class=silver has=RWO/10000G selector={"matchLabels":{"should-exist":"true"}} @completed @by-controller"#,
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "IDX-MATCH-12",
        about: "Class without label: smallest volume of the class",
        wide: true,
        given: &["pvc default/c-1 uid-c-1 1G RWO Pending class=silver"],
        finds: Some(Some("w-100g-silver")),
        settled: &[End {
            objects: &[
                "pv rr-1g-taken 1G RWO,ROX Released ref=default/taken-1:uid-taken-1",
                r#"pv rr-200g-wait-n4-failed 200G RWO,ROX Available class=wait src={"local":{"path":"/mnt/disks/a5"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value4"]}]}]}}"#,
                r#"pv rr-200g-wait-n4-pending 200G RWO,ROX Available class=wait src={"local":{"path":"/mnt/disks/a4"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value4"]}]}]}}"#,
                r#"pv rr-200g-wait-n4-released 200G RWO,ROX Available class=wait src={"local":{"path":"/mnt/disks/a6"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value4"]}]}]}}"#,
                "pv rr-20g-taken 20G RWO,ROX Released ref=default/taken-20:uid-taken-20",
                "pv w-100g-silver 100G RWO Bound class=silver ref=default/c-1:uid-c-1 @by-controller",
                "pvc default/c-1 uid-c-1 1G RWO Bound volume=w-100g-silver class=silver has=RWO/100G @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "IDX-MATCH-13",
        about: "Exabyte request takes the smaller of two huge volumes",
        wide: true,
        given: &["pvc default/c-1 uid-c-1 1E RWO Pending class=large"],
        finds: Some(Some("all-200e-large")),
        settled: &[End {
            objects: &[
                "pv all-200e-large 200E RWO,ROX,RWX Bound class=large ref=default/c-1:uid-c-1 @by-controller",
                "pv rr-1g-taken 1G RWO,ROX Released ref=default/taken-1:uid-taken-1",
                r#"pv rr-200g-wait-n4-failed 200G RWO,ROX Available class=wait src={"local":{"path":"/mnt/disks/a5"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value4"]}]}]}}"#,
                r#"pv rr-200g-wait-n4-pending 200G RWO,ROX Available class=wait src={"local":{"path":"/mnt/disks/a4"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value4"]}]}]}}"#,
                r#"pv rr-200g-wait-n4-released 200G RWO,ROX Available class=wait src={"local":{"path":"/mnt/disks/a6"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value4"]}]}]}}"#,
                "pv rr-20g-taken 20G RWO,ROX Released ref=default/taken-20:uid-taken-20",
                "pvc default/c-1 uid-c-1 1E RWO Bound volume=all-200e-large class=large has=RWO,ROX,RWX/200E @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "IDX-MATCH-15",
        about: "950E fits nothing",
        wide: true,
        given: &["pvc default/c-1 uid-c-1 950E RWO Pending class=large"],
        finds: Some(None),
        settled: &[End {
            objects: &[
                "pv rr-1g-taken 1G RWO,ROX Released ref=default/taken-1:uid-taken-1",
                r#"pv rr-200g-wait-n4-failed 200G RWO,ROX Available class=wait src={"local":{"path":"/mnt/disks/a5"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value4"]}]}]}}"#,
                r#"pv rr-200g-wait-n4-pending 200G RWO,ROX Available class=wait src={"local":{"path":"/mnt/disks/a4"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value4"]}]}]}}"#,
                r#"pv rr-200g-wait-n4-released 200G RWO,ROX Available class=wait src={"local":{"path":"/mnt/disks/a6"}} affinity={"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"key1","operator":"In","values":["value4"]}]}]}}"#,
                "pv rr-20g-taken 20G RWO,ROX Released ref=default/taken-20:uid-taken-20",
                "pvc default/c-1 uid-c-1 950E RWO Pending class=large",
            ],
            events: &[
                r#"PersistentVolumeClaim default/c-1 Warning ProvisioningFailed storageclass.storage.k8s.io "large" not found"#,
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "IDX-BOUND",
        about: "Of two equal volumes the claimed one is not chosen",
        given: &[
            "pv a 1G RWO,ROX Bound ref=default/other:uid-other",
            "pv b 1G RWO,ROX Available",
            "pvc default/c-1 uid-c-1 1G ROX,RWO Pending",
        ],
        finds: Some(Some("b")),
        settled: &[End {
            objects: &[
                "pv a 1G RWO,ROX Released ref=default/other:uid-other",
                "pv b 1G RWO,ROX Bound ref=default/c-1:uid-c-1 @by-controller",
                "pvc default/c-1 uid-c-1 1G ROX,RWO Bound volume=b has=RWO,ROX/1G @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "IDX-MODES-1",
        about: "RWO request prefers the volume with RWO only",
        given: &[
            "pv two 10G RWO,ROX Available",
            "pv one 10G RWO Available",
            "pv three 10G RWO,ROX,RWX Available",
            "pvc default/c-1 uid-c-1 1G RWO Pending",
        ],
        finds: Some(Some("one")),
        settled: &[End {
            objects: &[
                "pv one 10G RWO Bound ref=default/c-1:uid-c-1 @by-controller",
                "pv three 10G RWO,ROX,RWX Available",
                "pv two 10G RWO,ROX Available",
                "pvc default/c-1 uid-c-1 1G RWO Bound volume=one has=RWO/10G @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "IDX-MODES-3",
        about: "All three modes requested in another order",
        given: &[
            "pv two 10G RWO,ROX Available",
            "pv one 10G RWO Available",
            "pv three 10G RWO,ROX,RWX Available",
            "pvc default/c-1 uid-c-1 1G RWX,RWO,ROX Pending",
        ],
        finds: Some(Some("three")),
        settled: &[End {
            objects: &[
                "pv one 10G RWO Available",
                "pv three 10G RWO,ROX,RWX Bound ref=default/c-1:uid-c-1 @by-controller",
                "pv two 10G RWO,ROX Available",
                "pvc default/c-1 uid-c-1 1G RWX,RWO,ROX Bound volume=three has=RWO,ROX,RWX/10G @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "IDX-MODES-7",
        about: "ROX alone takes the two-mode volume",
        given: &[
            "pv two 10G RWO,ROX Available",
            "pv one 10G RWO Bound ref=default/taken:uid-taken",
            "pv three 10G RWO,ROX,RWX Available",
            "pvc default/c-1 uid-c-1 1G ROX Pending",
        ],
        finds: Some(Some("two")),
        settled: &[End {
            objects: &[
                "pv one 10G RWO Released ref=default/taken:uid-taken",
                "pv three 10G RWO,ROX,RWX Available",
                "pv two 10G RWO,ROX Bound ref=default/c-1:uid-c-1 @by-controller",
                "pvc default/c-1 uid-c-1 1G ROX Bound volume=two has=RWO,ROX/10G @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
];
