//! The specs in the format of upstream's error messages.

use crate::registry::go_format::{Fields, Shape};

const NAME: Fields = &[("Name", "name", Shape::Text)];

/// The method that separates the flows of a schema.
pub(super) const METHOD: Shape = Shape::Pointer(&[("Type", "type", Shape::Text)]);

const SUBJECT: Shape = Shape::Struct(&[
    ("Kind", "kind", Shape::Text),
    ("User", "user", Shape::Pointer(NAME)),
    ("Group", "group", Shape::Pointer(NAME)),
    (
        "ServiceAccount",
        "serviceAccount",
        Shape::Pointer(&[("Namespace", "namespace", Shape::Text), ("Name", "name", Shape::Text)]),
    ),
]);

const RESOURCE_RULE: Shape = Shape::Struct(&[
    ("Verbs", "verbs", Shape::Plain),
    ("APIGroups", "apiGroups", Shape::Plain),
    ("Resources", "resources", Shape::Plain),
    ("ClusterScope", "clusterScope", Shape::Flag),
    ("Namespaces", "namespaces", Shape::Plain),
]);

const NON_RESOURCE_RULE: Shape =
    Shape::Struct(&[("Verbs", "verbs", Shape::Plain), ("NonResourceURLs", "nonResourceURLs", Shape::Plain)]);

/// The spec of a FlowSchema.
pub(super) const FLOW_SCHEMA: Shape = Shape::Struct(&[
    ("PriorityLevelConfiguration", "priorityLevelConfiguration", Shape::Struct(NAME)),
    ("MatchingPrecedence", "matchingPrecedence", Shape::Count),
    ("DistinguisherMethod", "distinguisherMethod", METHOD),
    (
        "Rules",
        "rules",
        Shape::List(&Shape::Struct(&[
            ("Subjects", "subjects", Shape::List(&SUBJECT)),
            ("ResourceRules", "resourceRules", Shape::List(&RESOURCE_RULE)),
            ("NonResourceRules", "nonResourceRules", Shape::List(&NON_RESOURCE_RULE)),
        ])),
    ),
]);

const QUEUING: Shape = Shape::Pointer(&[
    ("Queues", "queues", Shape::Count),
    ("HandSize", "handSize", Shape::Count),
    ("QueueLengthLimit", "queueLengthLimit", Shape::Count),
]);

/// The spec of a PriorityLevelConfiguration.
pub(super) const PRIORITY_LEVEL: Shape = Shape::Struct(&[
    ("Type", "type", Shape::Text),
    (
        "Limited",
        "limited",
        Shape::Pointer(&[
            ("NominalConcurrencyShares", "nominalConcurrencyShares", Shape::Count),
            (
                "LimitResponse",
                "limitResponse",
                Shape::Struct(&[("Type", "type", Shape::Text), ("Queuing", "queuing", QUEUING)]),
            ),
            ("LendablePercent", "lendablePercent", Shape::Plain),
            ("BorrowingLimitPercent", "borrowingLimitPercent", Shape::Plain),
        ]),
    ),
    (
        "Exempt",
        "exempt",
        Shape::Pointer(&[
            ("NominalConcurrencyShares", "nominalConcurrencyShares", Shape::Plain),
            ("LendablePercent", "lendablePercent", Shape::Plain),
        ]),
    ),
]);
