//! Set 12: provisioning, until the controller settles.

use super::table::{Case, End, NO_CASE, Once, Plug};

pub(super) const CASES: &[Case] = &[
    Case {
        id: "PV-12-1",
        about: "In-tree provisioning followed by binding",
        given: &[
            "pvc default/pvc-12-1 uid-12-1 1Gi RWO,ROX Pending class=gold",
            "sc gold kubernetes.io/mock-volume",
        ],
        plugins: Plug::Mock(&["provision"]),
        inject: &["provision ok"],
        unit_only: true,
        settled: &[End {
            objects: &[
                r#"pv pvc-uid-12-1 1Gi RWO,ROX Bound policy=Delete class=gold ref=default/pvc-12-1:uid-12-1 fin=kubernetes.io/pv-controller @by-controller @provisioned-by=kubernetes.io/mock-volume src={"gcePersistentDisk":{"pdName":"mock"}}"#,
                "pvc default/pvc-12-1 uid-12-1 1Gi RWO,ROX Bound volume=pvc-uid-12-1 class=gold has=RWO,ROX/1Gi @completed @by-controller @beta-provisioner=kubernetes.io/mock-volume @provisioner=kubernetes.io/mock-volume",
            ],
            events: &[
                "PersistentVolumeClaim default/pvc-12-1 Normal ProvisioningSucceeded Successfully provisioned volume pvc-uid-12-1 using kubernetes.io/mock-volume",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-12-2",
        about: "External provisioner delivers an unreserved Available volume; claim binds to it",
        given: &[
            "pvc default/pvc-12-2 uid-12-2 1Gi RWO,ROX Pending class=external",
            "sc external vendor.com/my-volume",
        ],
        plugins: Plug::Mock(&["provision"]),
        steps: &[
            r#"create pv pvc-uid-12-2 1Gi RWO,ROX Available class=external src={"csi":{"driver":"vendor.com.my-volume","volumeHandle":"h-12-2"}}"#,
            "settle",
        ],
        settled: &[End {
            objects: &[
                r#"pv pvc-uid-12-2 1Gi RWO,ROX Bound class=external ref=default/pvc-12-2:uid-12-2 @by-controller src={"csi":{"driver":"vendor.com.my-volume","volumeHandle":"h-12-2"}}"#,
                "pvc default/pvc-12-2 uid-12-2 1Gi RWO,ROX Bound volume=pvc-uid-12-2 class=external has=RWO,ROX/1Gi @completed @by-controller @beta-provisioner=vendor.com/my-volume @provisioner=vendor.com/my-volume",
            ],
            events: &[
                "PersistentVolumeClaim default/pvc-12-2 Normal ExternalProvisioning Waiting for a volume to be created either by the external provisioner 'vendor.com/my-volume' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered.",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-12-3",
        about: "External provisioner never delivers: claim stays pending and annotated",
        given: &[
            "pvc default/pvc-12-3 uid-12-3 1Gi RWO,ROX Pending class=external",
            "sc external vendor.com/my-volume",
        ],
        plugins: Plug::Mock(&["provision"]),
        inject: &["provision ok"],
        settled: &[End {
            objects: &[
                "pvc default/pvc-12-3 uid-12-3 1Gi RWO,ROX Pending class=external @beta-provisioner=vendor.com/my-volume @provisioner=vendor.com/my-volume",
            ],
            events: &[
                "PersistentVolumeClaim default/pvc-12-3 Normal ExternalProvisioning Waiting for a volume to be created either by the external provisioner 'vendor.com/my-volume' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered.",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-PROV-OFF",
        about: "Dynamic provisioning switched off: a claim with a class is left alone without an event",
        given: &[
            "pvc default/c-1 uid-c-1 1Gi RWO Pending class=external",
            "sc external vendor.com/my-volume",
        ],
        plugins: Plug::None,
        no_provisioning: true,
        once: Some(Once {
            look_at: "claim default/c-1",
            end: &["pvc default/c-1 uid-c-1 1Gi RWO Pending class=external"],
            events: &[],
        }),
        settled: &[End { objects: &["pvc default/c-1 uid-c-1 1Gi RWO Pending class=external"], events: &[] }],
        ..NO_CASE
    },
];
