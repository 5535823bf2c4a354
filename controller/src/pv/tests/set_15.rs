//! Set 15: the default class.

use super::table::{Case, End, NO_CASE, Once, Plug};

pub(super) const CASES: &[Case] = &[
    Case {
        id: "PV-15-5",
        about: "Unset class is filled with the default class",
        given: &[
            "pvc default/pvc-15-5 uid-15-5 1Gi RWO,ROX Pending",
            "sc gold kubernetes.io/no-provisioner @default=true",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "claim default/pvc-15-5",
            end: &["pvc default/pvc-15-5 uid-15-5 1Gi RWO,ROX Pending class=gold"],
            events: &[],
        }),
        settled: &[End {
            objects: &["pvc default/pvc-15-5 uid-15-5 1Gi RWO,ROX Pending class=gold"],
            events: &[
                "PersistentVolumeClaim default/pvc-15-5 Warning ProvisioningFailed no volume plugin matched name: kubernetes.io/no-provisioner",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-15-2",
        about: "Two default classes of equal age: alphabetical order decides",
        given: &[
            "pvc default/pvc-15-2 uid-15-2 1Gi RWO,ROX Pending",
            "sc gold kubernetes.io/no-provisioner @default=true",
            "sc silver kubernetes.io/no-provisioner @default=true",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "claim default/pvc-15-2",
            end: &["pvc default/pvc-15-2 uid-15-2 1Gi RWO,ROX Pending class=gold"],
            events: &[],
        }),
        ..NO_CASE
    },
    Case {
        id: "PV-15-6",
        about: "A claim with a class keeps it",
        given: &[
            "pvc default/pvc-15-6 uid-15-6 1Gi RWO,ROX Pending class=copper",
            "sc gold kubernetes.io/no-provisioner @default=true",
            "sc copper kubernetes.io/no-provisioner",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "claim default/pvc-15-6",
            end: &["pvc default/pvc-15-6 uid-15-6 1Gi RWO,ROX Pending class=copper"],
            events: &[
                "PersistentVolumeClaim default/pvc-15-6 Warning ProvisioningFailed no volume plugin matched name: kubernetes.io/no-provisioner",
            ],
        }),
        settled: &[End {
            objects: &["pvc default/pvc-15-6 uid-15-6 1Gi RWO,ROX Pending class=copper"],
            events: &[
                "PersistentVolumeClaim default/pvc-15-6 Warning ProvisioningFailed no volume plugin matched name: kubernetes.io/no-provisioner",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-15-7",
        about: "The beta class annotation counts as having a class",
        given: &[
            "pvc default/pvc-15-7 uid-15-7 1Gi RWO,ROX Pending @beta-class",
            "sc gold kubernetes.io/no-provisioner @default=true",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "claim default/pvc-15-7",
            end: &["pvc default/pvc-15-7 uid-15-7 1Gi RWO,ROX Pending @beta-class"],
            events: &[
                r#"PersistentVolumeClaim default/pvc-15-7 Warning ProvisioningFailed storageclass.storage.k8s.io "yes" not found"#,
            ],
        }),
        settled: &[End {
            objects: &["pvc default/pvc-15-7 uid-15-7 1Gi RWO,ROX Pending @beta-class"],
            events: &[
                r#"PersistentVolumeClaim default/pvc-15-7 Warning ProvisioningFailed storageclass.storage.k8s.io "yes" not found"#,
            ],
        }],
        ..NO_CASE
    },
];
