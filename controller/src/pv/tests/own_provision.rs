//! Cases for provisioning and migration.

use super::table::{Case, End, NO_CASE};

pub(super) const CASES: &[Case] = &[
    Case {
        id: "OWN-PROV-1",
        about: "Immediate class, external provisioner: annotations and event, status stays Pending",
        given: &["pvc default/c-1 uid-c-1 1Gi RWO Pending class=ext", "sc ext vendor.example/ext"],
        settled: &[End {
            objects: &[
                "pvc default/c-1 uid-c-1 1Gi RWO Pending class=ext @beta-provisioner=vendor.example/ext @provisioner=vendor.example/ext",
            ],
            events: &[
                "PersistentVolumeClaim default/c-1 Normal ExternalProvisioning Waiting for a volume to be created either by the external provisioner 'vendor.example/ext' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered.",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-PROV-3",
        about: "Migrated in-tree provisioner: annotations hold the CSI driver and migrated-to",
        given: &["pvc default/c-1 uid-c-1 1Gi RWO Pending class=pd", "sc pd kubernetes.io/gce-pd"],
        settled: &[End {
            objects: &[
                "pvc default/c-1 uid-c-1 1Gi RWO Pending class=pd @beta-provisioner=pd.csi.storage.gke.io @provisioner=pd.csi.storage.gke.io",
            ],
            events: &[
                "PersistentVolumeClaim default/c-1 Normal ExternalProvisioning Waiting for a volume to be created either by the external provisioner 'pd.csi.storage.gke.io' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered.",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-PROV-4",
        about: "External volume arrives with the right reference: claim binds, annotations kept",
        given: &["pvc default/c-1 uid-c-1 1Gi RWO Pending class=ext", "sc ext vendor.example/ext"],
        steps: &[
            r#"create pv pvc-uid-c-1 1Gi RWO - policy=Delete class=ext ref=default/c-1:uid-c-1 fin=external-provisioner.volume.kubernetes.io/finalizer @provisioned-by=vendor.example/ext src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-x"}}"#,
            "settle",
        ],
        settled: &[End {
            objects: &[
                r#"pv pvc-uid-c-1 1Gi RWO Bound policy=Delete class=ext ref=default/c-1:uid-c-1 fin=external-provisioner.volume.kubernetes.io/finalizer @provisioned-by=vendor.example/ext src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-x"}}"#,
                "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pvc-uid-c-1 class=ext has=RWO/1Gi @completed @by-controller @beta-provisioner=vendor.example/ext @provisioner=vendor.example/ext",
            ],
            events: &[
                "PersistentVolumeClaim default/c-1 Normal ExternalProvisioning Waiting for a volume to be created either by the external provisioner 'vendor.example/ext' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered.",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-PROV-5",
        about: "Stale provisioner annotation is overwritten by the class provisioner",
        given: &[
            "pvc default/c-1 uid-c-1 1Gi RWO Pending class=ext @beta-provisioner=old.example/x @provisioner=old.example/x",
            "sc ext vendor.example/ext",
        ],
        settled: &[End {
            objects: &[
                "pvc default/c-1 uid-c-1 1Gi RWO Pending class=ext @beta-provisioner=vendor.example/ext @provisioner=vendor.example/ext",
            ],
            events: &[
                "PersistentVolumeClaim default/c-1 Normal ExternalProvisioning Waiting for a volume to be created either by the external provisioner 'vendor.example/ext' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered.",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-PROV-6",
        about: "hostPath provisioner class while host-path provisioning is disabled",
        given: &["pvc default/c-1 uid-c-1 1Gi RWO Pending class=hp", "sc hp kubernetes.io/host-path"],
        settled: &[End {
            objects: &[
                "pvc default/c-1 uid-c-1 1Gi RWO Pending class=hp @beta-provisioner=kubernetes.io/host-path @provisioner=kubernetes.io/host-path",
            ],
            events: &[
                r#"PersistentVolumeClaim default/c-1 Warning ProvisioningFailed Failed to create provisioner: provisioning in volume plugin "kubernetes.io/host-path" is disabled"#,
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-PROV-7",
        about: "NFS in-tree name as provisioner: plugin exists but cannot provision",
        given: &["pvc default/c-1 uid-c-1 1Gi RWO Pending class=n", "sc n kubernetes.io/nfs"],
        settled: &[End {
            objects: &["pvc default/c-1 uid-c-1 1Gi RWO Pending class=n"],
            events: &[
                "PersistentVolumeClaim default/c-1 Warning ProvisioningFailed no provisionable volume plugin matched",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-MIG-2",
        about: "PV provisioned by a foreign driver with a stray migrated-to: annotation removed, finalizers untouched",
        given: &[
            r#"pv pv-1 1Gi RWO Available fin=external-provisioner.volume.kubernetes.io/finalizer @migrated-to=x @provisioned-by=hostpath.csi.k8s.io src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-a"}}"#,
        ],
        settled: &[End {
            objects: &[
                r#"pv pv-1 1Gi RWO Available fin=external-provisioner.volume.kubernetes.io/finalizer @provisioned-by=hostpath.csi.k8s.io src={"csi":{"driver":"hostpath.csi.k8s.io","volumeHandle":"handle-a"}}"#,
            ],
            events: &[],
        }],
        ..NO_CASE
    },
    Case {
        id: "OWN-MIG-5",
        about: "Hand-made PV with Delete policy gets no finalizer",
        given: &["pv pv-1 1Gi RWO Available policy=Delete"],
        settled: &[End { objects: &["pv pv-1 1Gi RWO Available policy=Delete"], events: &[] }],
        ..NO_CASE
    },
    Case {
        id: "OWN-MIG-6",
        about: "Claim with a migrated provisioner annotation gets migrated-to even while bound",
        given: &[
            "pv pv-a 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
            "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-a has=RWO/1Gi @completed @by-controller @provisioner=kubernetes.io/gce-pd",
        ],
        settled: &[End {
            objects: &[
                "pv pv-a 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
                "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-a has=RWO/1Gi @completed @by-controller @migrated-to=pd.csi.storage.gke.io @provisioner=kubernetes.io/gce-pd",
            ],
            events: &[],
        }],
        ..NO_CASE
    },
];
