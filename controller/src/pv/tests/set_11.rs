//! Set 11: provisioning, one sync.

use super::table::{Case, End, NO_CASE, Once, Plug};

pub(super) const CASES: &[Case] = &[
    Case {
        id: "PV-11-2",
        about: "Class provisioner is in-tree style but unknown",
        given: &[
            "pvc default/pvc-11-2 uid-11-2 1Gi RWO,ROX Pending class=gold",
            "sc gold kubernetes.io/mock-volume",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "claim default/pvc-11-2",
            end: &["pvc default/pvc-11-2 uid-11-2 1Gi RWO,ROX Pending class=gold"],
            events: &[
                "PersistentVolumeClaim default/pvc-11-2 Warning ProvisioningFailed no volume plugin matched name: kubernetes.io/mock-volume",
            ],
        }),
        settled: &[End {
            objects: &["pvc default/pvc-11-2 uid-11-2 1Gi RWO,ROX Pending class=gold"],
            events: &[
                "PersistentVolumeClaim default/pvc-11-2 Warning ProvisioningFailed no volume plugin matched name: kubernetes.io/mock-volume",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-11-3",
        about: "Plugin cannot build a provisioner",
        given: &[
            "pvc default/pvc-11-3 uid-11-3 1Gi RWO,ROX Pending class=gold",
            "sc gold kubernetes.io/mock-volume",
        ],
        plugins: Plug::Mock(&["provision"]),
        once: Some(Once {
            look_at: "claim default/pvc-11-3",
            end: &[
                "pvc default/pvc-11-3 uid-11-3 1Gi RWO,ROX Pending class=gold @beta-provisioner=kubernetes.io/mock-volume @provisioner=kubernetes.io/mock-volume",
            ],
            events: &[
                "PersistentVolumeClaim default/pvc-11-3 Warning ProvisioningFailed Failed to create provisioner: Mock plugin error: no provisionCalls configured",
            ],
        }),
        ..NO_CASE
    },
    Case {
        id: "PV-11-4",
        about: "Plugin fails to provision",
        given: &[
            "pvc default/pvc-11-4 uid-11-4 1Gi RWO,ROX Pending class=gold",
            "sc gold kubernetes.io/mock-volume",
        ],
        plugins: Plug::Mock(&["provision"]),
        inject: &["provision error: Mock provisioner error"],
        once: Some(Once {
            look_at: "claim default/pvc-11-4",
            end: &[
                "pvc default/pvc-11-4 uid-11-4 1Gi RWO,ROX Pending class=gold @beta-provisioner=kubernetes.io/mock-volume @provisioner=kubernetes.io/mock-volume",
            ],
            events: &[
                r#"PersistentVolumeClaim default/pvc-11-4 Warning ProvisioningFailed Failed to provision volume with StorageClass "gold": Mock provisioner error"#,
            ],
        }),
        ..NO_CASE
    },
    Case {
        id: "PV-11-6",
        about: "An existing matching volume suppresses provisioning",
        given: &[
            "pv pv-11-6 1Gi RWO,ROX Available class=gold",
            "pvc default/pvc-11-6 uid-11-6 1Gi RWO,ROX Pending class=gold",
            "sc gold kubernetes.io/mock-volume",
        ],
        plugins: Plug::Mock(&["provision"]),
        inject: &["provision ok"],
        once: Some(Once {
            look_at: "claim default/pvc-11-6",
            end: &[
                "pv pv-11-6 1Gi RWO,ROX Bound class=gold ref=default/pvc-11-6:uid-11-6 @by-controller",
                "pvc default/pvc-11-6 uid-11-6 1Gi RWO,ROX Bound volume=pv-11-6 class=gold has=RWO,ROX/1Gi @completed @by-controller",
            ],
            events: &[],
        }),
        settled: &[End {
            objects: &[
                "pv pv-11-6 1Gi RWO,ROX Bound class=gold ref=default/pvc-11-6:uid-11-6 @by-controller",
                "pvc default/pvc-11-6 uid-11-6 1Gi RWO,ROX Bound volume=pv-11-6 class=gold has=RWO,ROX/1Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-11-7",
        about: "PV with the provisioning name appears just before the operation: no second volume",
        given: &[
            "pvc default/pvc-11-7 uid-11-7 1Gi RWO,ROX Pending class=gold",
            "sc gold kubernetes.io/mock-volume",
        ],
        plugins: Plug::Mock(&["provision"]),
        inject: &[
            r#"race create pv pvc-uid-11-7 1Gi RWO,ROX Bound policy=Delete class=gold ref=default/pvc-11-7:uid-11-7 @by-controller @provisioned-by=kubernetes.io/mock-volume src={"hostPath":{"path":"/tmp/pv-cases/pvc-uid-11-7"}}"#,
        ],
        once: Some(Once {
            look_at: "claim default/pvc-11-7",
            end: &[
                r#"pv pvc-uid-11-7 1Gi RWO,ROX Bound policy=Delete class=gold ref=default/pvc-11-7:uid-11-7 @by-controller @provisioned-by=kubernetes.io/mock-volume src={"hostPath":{"path":"/tmp/pv-cases/pvc-uid-11-7"}}"#,
                "pvc default/pvc-11-7 uid-11-7 1Gi RWO,ROX Pending class=gold @beta-provisioner=kubernetes.io/mock-volume @provisioner=kubernetes.io/mock-volume",
            ],
            events: &[],
        }),
        ..NO_CASE
    },
    Case {
        id: "PV-11-9",
        about: "PV cannot be saved in five attempts: asset deleted again",
        given: &[
            "pvc default/pvc-11-9 uid-11-9 1Gi RWO,ROX Pending class=gold",
            "sc gold kubernetes.io/mock-volume",
        ],
        plugins: Plug::Mock(&["delete", "provision"]),
        inject: &[
            "api create persistentvolumes Mock creation error1",
            "api create persistentvolumes Mock creation error2",
            "api create persistentvolumes Mock creation error3",
            "api create persistentvolumes Mock creation error4",
            "api create persistentvolumes Mock creation error5",
            "delete ok",
            "provision ok",
        ],
        once: Some(Once {
            look_at: "claim default/pvc-11-9",
            end: &[
                "pvc default/pvc-11-9 uid-11-9 1Gi RWO,ROX Pending class=gold @beta-provisioner=kubernetes.io/mock-volume @provisioner=kubernetes.io/mock-volume",
            ],
            events: &[
                "PersistentVolumeClaim default/pvc-11-9 Warning ProvisioningFailed Error creating provisioned PV object for claim default/pvc-11-9: Mock creation error5. Deleting the volume.",
            ],
        }),
        ..NO_CASE
    },
    Case {
        id: "PV-11-10",
        about: "PV cannot be saved and nothing can delete the asset",
        given: &[
            "pvc default/pvc-11-10 uid-11-10 1Gi RWO,ROX Pending class=gold",
            "sc gold kubernetes.io/mock-volume",
        ],
        plugins: Plug::Mock(&["provision"]),
        inject: &[
            "api create persistentvolumes Mock creation error1",
            "api create persistentvolumes Mock creation error2",
            "api create persistentvolumes Mock creation error3",
            "api create persistentvolumes Mock creation error4",
            "api create persistentvolumes Mock creation error5",
            "provision ok",
        ],
        once: Some(Once {
            look_at: "claim default/pvc-11-10",
            end: &[
                "pvc default/pvc-11-10 uid-11-10 1Gi RWO,ROX Pending class=gold @beta-provisioner=kubernetes.io/mock-volume @provisioner=kubernetes.io/mock-volume",
            ],
            events: &[
                "PersistentVolumeClaim default/pvc-11-10 Warning ProvisioningFailed Error creating provisioned PV object for claim default/pvc-11-10: Mock creation error5. Deleting the volume.",
                r#"PersistentVolumeClaim default/pvc-11-10 Warning ProvisioningCleanupFailed Error cleaning provisioned volume for claim default/pvc-11-10: failed to create deleter for volume "pvc-uid-11-10": Mock plugin error: no deleteCalls configured. Please delete manually."#,
            ],
        }),
        ..NO_CASE
    },
    Case {
        id: "PV-11-11",
        about: "PV cannot be saved and all five asset deletions fail",
        given: &[
            "pvc default/pvc-11-11 uid-11-11 1Gi RWO,ROX Pending class=gold",
            "sc gold kubernetes.io/mock-volume",
        ],
        plugins: Plug::Mock(&["delete", "provision"]),
        inject: &[
            "api create persistentvolumes Mock creation error1",
            "api create persistentvolumes Mock creation error2",
            "api create persistentvolumes Mock creation error3",
            "api create persistentvolumes Mock creation error4",
            "api create persistentvolumes Mock creation error5",
            "delete error: Mock deletion error1",
            "delete error: Mock deletion error2",
            "delete error: Mock deletion error3",
            "delete error: Mock deletion error4",
            "delete error: Mock deletion error5",
            "provision ok",
        ],
        once: Some(Once {
            look_at: "claim default/pvc-11-11",
            end: &[
                "pvc default/pvc-11-11 uid-11-11 1Gi RWO,ROX Pending class=gold @beta-provisioner=kubernetes.io/mock-volume @provisioner=kubernetes.io/mock-volume",
            ],
            events: &[
                "PersistentVolumeClaim default/pvc-11-11 Warning ProvisioningFailed Error creating provisioned PV object for claim default/pvc-11-11: Mock creation error5. Deleting the volume.",
                "PersistentVolumeClaim default/pvc-11-11 Warning ProvisioningCleanupFailed Error cleaning provisioned volume for claim default/pvc-11-11: Mock deletion error5. Please delete manually.",
            ],
        }),
        ..NO_CASE
    },
    Case {
        id: "PV-11-12",
        about: "PV cannot be saved, second asset deletion works",
        given: &[
            "pvc default/pvc-11-12 uid-11-12 1Gi RWO,ROX Pending class=gold",
            "sc gold kubernetes.io/mock-volume",
        ],
        plugins: Plug::Mock(&["delete", "provision"]),
        inject: &[
            "api create persistentvolumes Mock creation error1",
            "api create persistentvolumes Mock creation error2",
            "api create persistentvolumes Mock creation error3",
            "api create persistentvolumes Mock creation error4",
            "api create persistentvolumes Mock creation error5",
            "delete error: Mock deletion error1",
            "delete ok",
            "provision ok",
        ],
        once: Some(Once {
            look_at: "claim default/pvc-11-12",
            end: &[
                "pvc default/pvc-11-12 uid-11-12 1Gi RWO,ROX Pending class=gold @beta-provisioner=kubernetes.io/mock-volume @provisioner=kubernetes.io/mock-volume",
            ],
            events: &[
                "PersistentVolumeClaim default/pvc-11-12 Warning ProvisioningFailed Error creating provisioned PV object for claim default/pvc-11-12: Mock creation error5. Deleting the volume.",
            ],
        }),
        ..NO_CASE
    },
    Case {
        id: "PV-11-14",
        about: "Storage class object does not exist",
        given: &["pvc default/pvc-11-14 uid-11-14 1Gi RWO,ROX Pending class=non-existing"],
        plugins: Plug::Mock(&["provision"]),
        once: Some(Once {
            look_at: "claim default/pvc-11-14",
            end: &["pvc default/pvc-11-14 uid-11-14 1Gi RWO,ROX Pending class=non-existing"],
            events: &[
                r#"PersistentVolumeClaim default/pvc-11-14 Warning ProvisioningFailed storageclass.storage.k8s.io "non-existing" not found"#,
            ],
        }),
        settled: &[End {
            objects: &["pvc default/pvc-11-14 uid-11-14 1Gi RWO,ROX Pending class=non-existing"],
            events: &[
                r#"PersistentVolumeClaim default/pvc-11-14 Warning ProvisioningFailed storageclass.storage.k8s.io "non-existing" not found"#,
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-11-15",
        about: "Explicit empty class never provisions",
        given: &["pvc default/pvc-11-15 uid-11-15 1Gi RWO,ROX Pending class="],
        plugins: Plug::Mock(&["provision"]),
        once: Some(Once {
            look_at: "claim default/pvc-11-15",
            end: &["pvc default/pvc-11-15 uid-11-15 1Gi RWO,ROX Pending class="],
            events: &[
                "PersistentVolumeClaim default/pvc-11-15 Normal FailedBinding no persistent volumes available for this claim and no storage class is set",
            ],
        }),
        settled: &[End {
            objects: &["pvc default/pvc-11-15 uid-11-15 1Gi RWO,ROX Pending class="],
            events: &[
                "PersistentVolumeClaim default/pvc-11-15 Normal FailedBinding no persistent volumes available for this claim and no storage class is set",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-11-21",
        about: "In-tree provisioner with CSI migration: annotations carry the CSI driver",
        given: &[
            "pvc default/pvc-11-21 uid-11-21 1Gi RWO,ROX Pending class=gold",
            "sc gold kubernetes.io/mock-volume",
        ],
        plugins: Plug::Mock(&[]),
        everything_migrated: true,
        once: Some(Once {
            look_at: "claim default/pvc-11-21",
            end: &[
                "pvc default/pvc-11-21 uid-11-21 1Gi RWO,ROX Pending class=gold @migrated-to=vendor.com/MockCSIDriver @beta-provisioner=vendor.com/MockCSIDriver @provisioner=vendor.com/MockCSIDriver",
            ],
            events: &[
                "PersistentVolumeClaim default/pvc-11-21 Normal ExternalProvisioning Waiting for a volume to be created either by the external provisioner 'vendor.com/MockCSIDriver' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered.",
            ],
        }),
        ..NO_CASE
    },
    Case {
        id: "PV-11-22",
        about: "External class with a fitting existing volume: bound, no provisioning",
        given: &[
            "pv pv-11-22 1Gi RWO,ROX Available class=external",
            "pvc default/pvc-11-22 uid-11-22 1Gi RWO,ROX Pending class=external",
            "sc external vendor.com/my-volume",
        ],
        plugins: Plug::Mock(&["provision"]),
        once: Some(Once {
            look_at: "claim default/pvc-11-22",
            end: &[
                "pv pv-11-22 1Gi RWO,ROX Bound class=external ref=default/pvc-11-22:uid-11-22 @by-controller",
                "pvc default/pvc-11-22 uid-11-22 1Gi RWO,ROX Bound volume=pv-11-22 class=external has=RWO,ROX/1Gi @completed @by-controller",
            ],
            events: &[],
        }),
        settled: &[End {
            objects: &[
                "pv pv-11-22 1Gi RWO,ROX Bound class=external ref=default/pvc-11-22:uid-11-22 @by-controller",
                "pvc default/pvc-11-22 uid-11-22 1Gi RWO,ROX Bound volume=pv-11-22 class=external has=RWO,ROX/1Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-11-25",
        about: "In-tree plugin refuses a claim with a data source",
        given: &[
            r#"pvc default/pvc-11-25 uid-11-25 1Gi RWO,ROX Pending class=gold data-source={"apiGroup":"snapshot.storage.k8s.io","kind":"VolumeSnapshot","name":"test-snap"}"#,
            "sc gold kubernetes.io/mock-volume",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "claim default/pvc-11-25",
            end: &[
                r#"pvc default/pvc-11-25 uid-11-25 1Gi RWO,ROX Pending class=gold data-source={"apiGroup":"snapshot.storage.k8s.io","kind":"VolumeSnapshot","name":"test-snap"}"#,
            ],
            events: &[
                "PersistentVolumeClaim default/pvc-11-25 Warning ProvisioningFailed no volume plugin matched name: kubernetes.io/mock-volume",
            ],
        }),
        ..NO_CASE
    },
];
