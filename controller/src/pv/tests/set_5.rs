//! Set 5: claims and volumes, with external changes.

use super::table::{Case, End, NO_CASE, Plug};

pub(super) const CASES: &[Case] = &[
    Case {
        id: "PV-5-2",
        about: "New claim event leads to a bound pair",
        given: &["pv pv-5-2 1Gi RWO,ROX Available"],
        plugins: Plug::None,
        steps: &["create pvc default/pvc-5-2 uid-5-2 1Gi RWO,ROX Pending", "settle"],
        settled: &[End {
            objects: &[
                "pv pv-5-2 1Gi RWO,ROX Bound ref=default/pvc-5-2:uid-5-2 @by-controller",
                "pvc default/pvc-5-2 uid-5-2 1Gi RWO,ROX Bound volume=pv-5-2 has=RWO,ROX/1Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-5-2-2",
        about: "Start-up with both objects present leads to a bound pair",
        given: &["pv pv-5-2 1Gi RWO,ROX Available", "pvc default/pvc-5-2 uid-5-2 1Gi RWO,ROX Pending"],
        plugins: Plug::None,
        settled: &[End {
            objects: &[
                "pv pv-5-2 1Gi RWO,ROX Bound ref=default/pvc-5-2:uid-5-2 @by-controller",
                "pvc default/pvc-5-2 uid-5-2 1Gi RWO,ROX Bound volume=pv-5-2 has=RWO,ROX/1Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-5-2-3",
        about: "PV carries the pre-resize capacity: claim status shows that capacity",
        given: &[
            "pv pv-5-2 2Gi RWO,ROX Available @by-controller @pre-resize=1Gi",
            "pvc default/pvc-5-2 uid-5-2 2Gi RWO,ROX Pending has=-/2Gi",
        ],
        plugins: Plug::None,
        settled: &[End {
            objects: &[
                "pv pv-5-2 2Gi RWO,ROX Bound ref=default/pvc-5-2:uid-5-2 @by-controller @pre-resize=1Gi",
                "pvc default/pvc-5-2 uid-5-2 2Gi RWO,ROX Bound volume=pv-5-2 has=RWO,ROX/1Gi @completed @by-controller",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-5-4",
        about: "Deleting the volume object makes the claim Lost",
        given: &[
            "pv pv-5-4 1Gi RWO,ROX Bound ref=default/pvc-5-4:uid-5-4",
            "pvc default/pvc-5-4 uid-5-4 1Gi RWO,ROX Bound volume=pv-5-4 has=RWO,ROX/1Gi @completed @by-controller",
        ],
        plugins: Plug::None,
        steps: &["force-delete pv-5-4", "settle"],
        settled: &[End {
            objects: &[
                "pvc default/pvc-5-4 uid-5-4 1Gi RWO,ROX Lost volume=pv-5-4 @completed @by-controller",
            ],
            events: &[
                "PersistentVolumeClaim default/pvc-5-4 Warning ClaimLost Bound claim has lost its PersistentVolume. Data on the volume is lost!",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-5-6",
        about: "Claim deleted, external deleter not done: Released",
        given: &[
            r#"pv pv-5-6 10Gi RWO,ROX Bound policy=Delete class=external ref=default/pvc-5-6:uid-5-6 @by-controller @provisioned-by=gcr.io/vendor-csi src={"csi":{"driver":"fake.driver.csi","volumeHandle":"handle-pv-5-6","fsType":"ext4"}}"#,
            "pvc default/pvc-5-6 uid-5-6 1Gi RWO,ROX Bound volume=pv-5-6 class=external has=RWO,ROX/1Gi @completed @by-controller @provisioner=gcr.io/vendor-csi",
            "sc external gcr.io/vendor-csi",
        ],
        plugins: Plug::None,
        steps: &["delete persistentvolumeclaims default/pvc-5-6", "settle"],
        settled: &[End {
            objects: &[
                r#"pv pv-5-6 10Gi RWO,ROX Released policy=Delete class=external ref=default/pvc-5-6:uid-5-6 @by-controller @provisioned-by=gcr.io/vendor-csi src={"csi":{"driver":"fake.driver.csi","volumeHandle":"handle-pv-5-6","fsType":"ext4"}}"#,
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-5-7",
        about: "Volume deleted first (claim Lost), then claim deleted",
        given: &[
            "pv pv-5-7 10Gi RWO,ROX Bound policy=Delete class=external ref=default/pvc-5-7:uid-5-7 @by-controller @provisioned-by=kubernetes.io/mock-volume",
            "pvc default/pvc-5-7 uid-5-7 1Gi RWO,ROX Bound volume=pv-5-7 class=external has=RWO,ROX/1Gi @completed @by-controller @provisioner=gcr.io/vendor-csi",
            "sc external gcr.io/vendor-csi",
        ],
        plugins: Plug::None,
        steps: &["force-delete pv-5-7", "settle", "delete persistentvolumeclaims default/pvc-5-7", "settle"],
        settled: &[End {
            objects: &[],
            events: &[
                "PersistentVolumeClaim default/pvc-5-7 Warning ClaimLost Bound claim has lost its PersistentVolume. Data on the volume is lost!",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-5-8",
        about: "Claim waiting for an external provisioner is deleted",
        given: &[
            "pvc default/pvc-5-8 uid-5-8 1Gi RWO,ROX Pending class=external @provisioner=gcr.io/vendor-csi",
            "sc external gcr.io/vendor-csi",
        ],
        plugins: Plug::None,
        steps: &["delete persistentvolumeclaims default/pvc-5-8", "settle"],
        settled: &[End {
            objects: &[],
            events: &[
                "PersistentVolumeClaim default/pvc-5-8 Normal ExternalProvisioning Waiting for a volume to be created either by the external provisioner 'gcr.io/vendor-csi' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered.",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-5-9",
        about: "Roll-back of migration: external finalizer and migrated-to removed, in-tree finalizer added",
        given: &[
            "pv pv-5-9 1Gi RWO,ROX Available policy=Delete fin=external-provisioner.volume.kubernetes.io/finalizer @migrated-to=pd.csi.storage.gke.io @provisioned-by=kubernetes.io/mock-volume",
        ],
        plugins: Plug::None,
        settled: &[End {
            objects: &[
                "pv pv-5-9 1Gi RWO,ROX Available policy=Delete fin=kubernetes.io/pv-controller @provisioned-by=kubernetes.io/mock-volume",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
];
