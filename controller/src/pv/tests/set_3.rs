//! Set 3: claims that were bound before.

use super::table::{Case, End, NO_CASE, Once, Plug};

pub(super) const CASES: &[Case] = &[
    Case {
        id: "PV-3-2",
        about: "Bind-completed claim whose volume is gone: Lost",
        given: &[
            "pvc default/pvc-3-2 uid-3-2 10Gi RWO,ROX Bound volume=pv-3-2 has=RWO,ROX/10Gi @completed @by-controller",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "claim default/pvc-3-2",
            end: &["pvc default/pvc-3-2 uid-3-2 10Gi RWO,ROX Lost volume=pv-3-2 @completed @by-controller"],
            events: &[
                "PersistentVolumeClaim default/pvc-3-2 Warning ClaimLost Bound claim has lost its PersistentVolume. Data on the volume is lost!",
            ],
        }),
        settled: &[End {
            objects: &[
                "pvc default/pvc-3-2 uid-3-2 10Gi RWO,ROX Lost volume=pv-3-2 @completed @by-controller",
            ],
            events: &[
                "PersistentVolumeClaim default/pvc-3-2 Warning ClaimLost Bound claim has lost its PersistentVolume. Data on the volume is lost!",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-3-4",
        about: "Bind-completed claim whose volume carries a different UID: Lost as misbound",
        given: &[
            "pv pv-3-4 10Gi RWO,ROX Available ref=default/pvc-3-4:uid-3-4-x",
            "pvc default/pvc-3-4 uid-3-4 10Gi RWO,ROX Pending volume=pv-3-4 @completed @by-controller",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "claim default/pvc-3-4",
            end: &[
                "pv pv-3-4 10Gi RWO,ROX Available ref=default/pvc-3-4:uid-3-4-x",
                "pvc default/pvc-3-4 uid-3-4 10Gi RWO,ROX Lost volume=pv-3-4 @completed @by-controller",
            ],
            events: &[
                "PersistentVolumeClaim default/pvc-3-4 Warning ClaimMisbound Two claims are bound to the same volume, this one is bound incorrectly",
            ],
        }),
        settled: &[End {
            objects: &[
                "pv pv-3-4 10Gi RWO,ROX Released ref=default/pvc-3-4:uid-3-4-x",
                "pvc default/pvc-3-4 uid-3-4 10Gi RWO,ROX Lost volume=pv-3-4 @completed @by-controller",
            ],
            events: &[
                "PersistentVolumeClaim default/pvc-3-4 Warning ClaimMisbound Two claims are bound to the same volume, this one is bound incorrectly",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-3-6",
        about: "Bind-completed claim whose volume belongs to another claim: Lost as misbound",
        given: &[
            "pv pv-3-6 10Gi RWO,ROX Available ref=default/pvc-3-6-x:uid-3-6-x",
            "pvc default/pvc-3-6 uid-3-6 10Gi RWO,ROX Pending volume=pv-3-6 @completed",
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "claim default/pvc-3-6",
            end: &[
                "pv pv-3-6 10Gi RWO,ROX Available ref=default/pvc-3-6-x:uid-3-6-x",
                "pvc default/pvc-3-6 uid-3-6 10Gi RWO,ROX Lost volume=pv-3-6 @completed",
            ],
            events: &[
                "PersistentVolumeClaim default/pvc-3-6 Warning ClaimMisbound Two claims are bound to the same volume, this one is bound incorrectly",
            ],
        }),
        settled: &[End {
            objects: &[
                "pv pv-3-6 10Gi RWO,ROX Released ref=default/pvc-3-6-x:uid-3-6-x",
                "pvc default/pvc-3-6 uid-3-6 10Gi RWO,ROX Lost volume=pv-3-6 @completed",
            ],
            events: &[
                "PersistentVolumeClaim default/pvc-3-6 Warning ClaimMisbound Two claims are bound to the same volume, this one is bound incorrectly",
            ],
        }],
        ..NO_CASE
    },
    Case {
        id: "PV-3-7",
        about: "Bind-completed claim: selector is not looked at any more",
        given: &[
            "pv pv-3-3 10Gi RWO,ROX Available",
            r#"pvc default/pvc-3-3 uid-3-3 10Gi RWO,ROX Pending volume=pv-3-3 selector={"matchLabels":{"foo":"true","bar":"false"}} @completed @by-controller"#,
        ],
        plugins: Plug::None,
        once: Some(Once {
            look_at: "claim default/pvc-3-3",
            end: &[
                "pv pv-3-3 10Gi RWO,ROX Bound ref=default/pvc-3-3:uid-3-3 @by-controller",
                r#"pvc default/pvc-3-3 uid-3-3 10Gi RWO,ROX Bound volume=pv-3-3 has=RWO,ROX/10Gi selector={"matchLabels":{"foo":"true","bar":"false"}} @completed @by-controller"#,
            ],
            events: &[],
        }),
        settled: &[End {
            objects: &[
                "pv pv-3-3 10Gi RWO,ROX Bound ref=default/pvc-3-3:uid-3-3 @by-controller",
                r#"pvc default/pvc-3-3 uid-3-3 10Gi RWO,ROX Bound volume=pv-3-3 has=RWO,ROX/10Gi selector={"matchLabels":{"foo":"true","bar":"false"}} @completed @by-controller"#,
            ],
            events: &[],
        }],
        ..NO_CASE
    },
];
