//! Claims in the format of upstream's error messages ([`Shape`]).

use crate::registry::go_format::{Fields, Shape, TOLERATION_LIST};

const SELECTORS: Shape = Shape::List(&Shape::Struct(&[(
    "CEL",
    "cel",
    Shape::Pointer(&[("Expression", "expression", Shape::Text)]),
)]));

const CAPACITY: Shape = Shape::Pointer(&[("Requests", "requests", Shape::Plain)]);

const EXACTLY: Fields = &[
    ("DeviceClassName", "deviceClassName", Shape::Text),
    ("Selectors", "selectors", SELECTORS),
    ("AllocationMode", "allocationMode", Shape::Text),
    ("Count", "count", Shape::Count),
    ("AdminAccess", "adminAccess", Shape::Plain),
    ("Tolerations", "tolerations", TOLERATION_LIST),
    ("Capacity", "capacity", CAPACITY),
];

const ALTERNATIVE: Shape = Shape::Struct(&[
    ("Name", "name", Shape::Text),
    ("DeviceClassName", "deviceClassName", Shape::Text),
    ("Selectors", "selectors", SELECTORS),
    ("AllocationMode", "allocationMode", Shape::Text),
    ("Count", "count", Shape::Count),
    ("Tolerations", "tolerations", TOLERATION_LIST),
    ("Capacity", "capacity", CAPACITY),
]);

const OPAQUE: Shape =
    Shape::Pointer(&[("Driver", "driver", Shape::Text), ("Parameters", "parameters", Shape::Plain)]);

const DEVICES: Shape = Shape::Struct(&[
    (
        "Requests",
        "requests",
        Shape::List(&Shape::Struct(&[
            ("Name", "name", Shape::Text),
            ("Exactly", "exactly", Shape::Pointer(EXACTLY)),
            ("FirstAvailable", "firstAvailable", Shape::List(&ALTERNATIVE)),
        ])),
    ),
    (
        "Constraints",
        "constraints",
        Shape::List(&Shape::Struct(&[
            ("Requests", "requests", Shape::Plain),
            ("MatchAttribute", "matchAttribute", Shape::Plain),
            ("DistinctAttribute", "distinctAttribute", Shape::Plain),
        ])),
    ),
    (
        "Config",
        "config",
        Shape::List(&Shape::Struct(&[("Requests", "requests", Shape::Plain), ("Opaque", "opaque", OPAQUE)])),
    ),
]);

/// The spec of a claim.
pub(super) const CLAIM_SPEC: Shape = Shape::Struct(&[("Devices", "devices", DEVICES)]);

/// The spec of a template.
pub(super) const TEMPLATE_SPEC: Shape = Shape::WithMetadata(&[("Spec", "spec", CLAIM_SPEC)]);

/// The allocation of a claim.
pub(super) const ALLOCATION: Shape = Shape::Pointer(&[
    (
        "Devices",
        "devices",
        Shape::Struct(&[
            (
                "Results",
                "results",
                Shape::List(&Shape::Struct(&[
                    ("Request", "request", Shape::Text),
                    ("Driver", "driver", Shape::Text),
                    ("Pool", "pool", Shape::Text),
                    ("Device", "device", Shape::Text),
                    ("AdminAccess", "adminAccess", Shape::Plain),
                    ("Tolerations", "tolerations", TOLERATION_LIST),
                    ("BindingConditions", "bindingConditions", Shape::Plain),
                    ("BindingFailureConditions", "bindingFailureConditions", Shape::Plain),
                    ("ShareID", "shareID", Shape::Plain),
                    ("ConsumedCapacity", "consumedCapacity", Shape::Plain),
                ])),
            ),
            (
                "Config",
                "config",
                Shape::List(&Shape::Struct(&[
                    ("Source", "source", Shape::Text),
                    ("Requests", "requests", Shape::Plain),
                    ("Opaque", "opaque", OPAQUE),
                ])),
            ),
        ]),
    ),
    (
        "NodeSelector",
        "nodeSelector",
        Shape::Pointer(&[(
            "NodeSelectorTerms",
            "nodeSelectorTerms",
            crate::registry::go_format::SELECTOR_TERMS,
        )]),
    ),
    ("AllocationTimestamp", "allocationTimestamp", Shape::Plain),
]);
