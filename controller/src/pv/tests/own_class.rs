//! Cases for default classes and delayed binding.

use super::table::{Case, End, NO_CASE};

pub(super) const CASES: &[Case] = &[
    Case {
        id: "OWN-DEFCLASS-1",
        about: "Unset class, classless volume free, default class present: bind wins, class stays unset",
        given: &[
            "pv pv-1 1Gi RWO Available",
            "pvc default/c-1 uid-c-1 1Gi RWO Pending",
            "sc gold kubernetes.io/no-provisioner @default=true",
        ],
        settled: &[End {
            objects: &[
                "pv pv-1 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
                "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-1 has=RWO/1Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-DEFCLASS-2",
        about: "Default class created after the claim: assigned retroactively",
        given: &["pvc default/c-1 uid-c-1 1Gi RWO Pending"],
        steps: &["create sc gold vendor.example/ext @default=true", "settle"],
        settled: &[End {
            objects: &[
                "pvc default/c-1 uid-c-1 1Gi RWO Pending class=gold @beta-provisioner=vendor.example/ext @provisioner=vendor.example/ext",
            ],
            events: &[
                "PersistentVolumeClaim default/c-1 Normal ExternalProvisioning Waiting for a volume to be created either by the external provisioner 'vendor.example/ext' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered.",
                "PersistentVolumeClaim default/c-1 Normal FailedBinding no persistent volumes available for this claim and no storage class is set",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-DEFCLASS-5",
        about: r#"Annotation value other than "true" is not default"#,
        given: &["pvc default/c-1 uid-c-1 1Gi RWO Pending", "sc gold kubernetes.io/no-provisioner @default"],
        settled: &[End {
            objects: &["pvc default/c-1 uid-c-1 1Gi RWO Pending"],
            events: &[
                "PersistentVolumeClaim default/c-1 Normal FailedBinding no persistent volumes available for this claim and no storage class is set",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-DEFCLASS-6",
        about: "Default WaitForFirstConsumer class: assigned first, then the claim waits for a consumer",
        given: &[
            "pvc default/c-1 uid-c-1 1Gi RWO Pending",
            "sc gold kubernetes.io/no-provisioner mode=WaitForFirstConsumer @default=true",
        ],
        settled: &[End {
            objects: &["pvc default/c-1 uid-c-1 1Gi RWO Pending class=gold"],
            events: &[
                "PersistentVolumeClaim default/c-1 Normal WaitForFirstConsumer waiting for first consumer to be created before binding",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-DEFCLASS-7",
        about: "After retroactive assignment a volume of that class is used",
        given: &[
            "pv pv-1 1Gi RWO Available class=gold",
            "pvc default/c-1 uid-c-1 1Gi RWO Pending",
            "sc gold kubernetes.io/no-provisioner @default=true",
        ],
        settled: &[End {
            objects: &[
                "pv pv-1 1Gi RWO Bound class=gold ref=default/c-1:uid-c-1 @by-controller",
                "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-1 class=gold has=RWO/1Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-WFFC-1",
        about: "No pod: WaitForFirstConsumer event, claim Pending, volume Available",
        given: &[
            "pv pv-1 1Gi RWO Available class=wait",
            "pvc default/c-1 uid-c-1 1Gi RWO Pending class=wait",
            "sc wait kubernetes.io/no-provisioner mode=WaitForFirstConsumer",
        ],
        settled: &[End {
            objects: &[
                "pv pv-1 1Gi RWO Available class=wait",
                "pvc default/c-1 uid-c-1 1Gi RWO Pending class=wait",
            ],
            events: &[
                "PersistentVolumeClaim default/c-1 Normal WaitForFirstConsumer waiting for first consumer to be created before binding",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-WFFC-2",
        about: "One unscheduled pod: WaitForPodScheduled names it",
        given: &[
            "pvc default/c-1 uid-c-1 1Gi RWO Pending class=wait",
            "sc wait kubernetes.io/no-provisioner mode=WaitForFirstConsumer",
            "pod default/p1 Pending claims=c-1",
        ],
        settled: &[End {
            objects: &["pvc default/c-1 uid-c-1 1Gi RWO Pending class=wait"],
            events: &[
                "PersistentVolumeClaim default/c-1 Normal WaitForPodScheduled waiting for pod p1 to be scheduled",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-WFFC-3",
        about: "Scheduled pod only: falls back to the WaitForFirstConsumer text",
        given: &[
            "pvc default/c-1 uid-c-1 1Gi RWO Pending class=wait",
            "sc wait kubernetes.io/no-provisioner mode=WaitForFirstConsumer",
            "pod default/p1 Pending claims=c-1 node=node-1",
        ],
        settled: &[End {
            objects: &["pvc default/c-1 uid-c-1 1Gi RWO Pending class=wait"],
            events: &[
                "PersistentVolumeClaim default/c-1 Normal WaitForFirstConsumer waiting for first consumer to be created before binding",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-WFFC-4",
        about: "Finished pod is ignored",
        given: &[
            "pvc default/c-1 uid-c-1 1Gi RWO Pending class=wait",
            "sc wait kubernetes.io/no-provisioner mode=WaitForFirstConsumer",
            "pod default/p1 Succeeded claims=c-1",
        ],
        settled: &[End {
            objects: &["pvc default/c-1 uid-c-1 1Gi RWO Pending class=wait"],
            events: &[
                "PersistentVolumeClaim default/c-1 Normal WaitForFirstConsumer waiting for first consumer to be created before binding",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-WFFC-7",
        about: "Scheduler chose a volume (claimRef and mark written): binder completes the bind",
        given: &[
            "pv pv-1 1Gi RWO Available class=wait ref=default/c-1:uid-c-1 @by-controller",
            "pvc default/c-1 uid-c-1 1Gi RWO Pending class=wait",
            "sc wait kubernetes.io/no-provisioner mode=WaitForFirstConsumer",
        ],
        settled: &[End {
            objects: &[
                "pv pv-1 1Gi RWO Bound class=wait ref=default/c-1:uid-c-1 @by-controller",
                "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-1 class=wait has=RWO/1Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-WFFC-8",
        about: "Class object missing: treated as immediate, existing volume of that class is bound",
        given: &[
            "pv pv-1 1Gi RWO Available class=ghost",
            "pvc default/c-1 uid-c-1 1Gi RWO Pending class=ghost",
        ],
        settled: &[End {
            objects: &[
                "pv pv-1 1Gi RWO Bound class=ghost ref=default/c-1:uid-c-1 @by-controller",
                "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-1 class=ghost has=RWO/1Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-WFFC-9",
        about: "Class object missing and no volume: ProvisioningFailed names the class",
        given: &["pvc default/c-1 uid-c-1 1Gi RWO Pending class=ghost"],
        settled: &[End {
            objects: &["pvc default/c-1 uid-c-1 1Gi RWO Pending class=ghost"],
            events: &[
                r#"PersistentVolumeClaim default/c-1 Warning ProvisioningFailed storageclass.storage.k8s.io "ghost" not found"#,
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-WFFC-10",
        about: "Several pods: all unscheduled names are listed",
        given: &[
            "pvc default/c-1 uid-c-1 1Gi RWO Pending class=wait",
            "sc wait kubernetes.io/no-provisioner mode=WaitForFirstConsumer",
            "pod default/p1 Pending claims=c-1",
            "pod default/p2 Pending claims=c-1",
        ],
        settled: &[End {
            objects: &["pvc default/c-1 uid-c-1 1Gi RWO Pending class=wait"],
            events: &[
                "PersistentVolumeClaim default/c-1 Normal WaitForPodScheduled waiting for pods p1,p2 to be scheduled",
            ],
        }],
        ..NO_CASE
    },
];
