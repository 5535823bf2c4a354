use serde_json::{Value, json};

use super::*;
use crate::kind::Kind;
use crate::object::Object;
use crate::registry::testing::{causes, kind_now, object};

const INVALID: &str = "FieldValueInvalid";
const REQUIRED: &str = "FieldValueRequired";
const FORBIDDEN: &str = "FieldValueForbidden";
const NOT_SUPPORTED: &str = "FieldValueNotSupported";

fn named(spec: Value) -> Object {
    object(json!({"metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": spec}))
}

/// A rule with one path, with a change.
fn rule(change: &Value) -> Value {
    let mut rule = json!({"host": "a.example.com", "http": {"paths": [{
        "path": "/", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {"number": 80}}},
    }]}});
    json_patch::merge(&mut rule["http"]["paths"][0], change);
    json!({"rules": [rule]})
}

/// Reason, path and message of each cause.
type Causes<'a, P> = Vec<(&'a str, P, &'a str)>;

#[test]
fn invalid_ingresses_are_rejected() {
    let path = |field: &str| format!("spec.rules[0].http.paths[0].{field}");
    let cases: Vec<(&str, Value, Causes<'_, String>)> = vec![
        ("valid", rule(&json!({})), vec![]),
        (
            "nothing",
            json!({}),
            vec![(
                INVALID,
                "spec".into(),
                "Invalid value: null: either `defaultBackend` or `rules` must be specified",
            )],
        ),
        (
            "address",
            json!({"rules": [{"host": "10.0.0.1"}]}),
            vec![(
                INVALID,
                "spec.rules[0].host".into(),
                "Invalid value: \"10.0.0.1\": must be a DNS name, not an IP address",
            )],
        ),
        ("wildcard", json!({"rules": [{"host": "*.example.com"}]}), vec![]),
        (
            "no type",
            rule(&json!({"pathType": null})),
            vec![(REQUIRED, path("pathType"), "Required value: pathType must be specified")],
        ),
        (
            "type",
            rule(&json!({"pathType": "Regex"})),
            vec![(
                NOT_SUPPORTED,
                path("pathType"),
                "Unsupported value: \"Regex\": supported values: \"Exact\", \"ImplementationSpecific\", \"Prefix\"",
            )],
        ),
        (
            "path",
            rule(&json!({"path": "x//y/.."})),
            vec![
                (INVALID, path("path"), "Invalid value: \"x//y/..\": must be an absolute path"),
                (INVALID, path("path"), "Invalid value: \"x//y/..\": must not contain '//'"),
                (INVALID, path("path"), "Invalid value: \"x//y/..\": cannot end with '/..'"),
            ],
        ),
        (
            "no backend",
            rule(&json!({"backend": {"service": null}})),
            vec![(INVALID, path("backend"), "Invalid value: \"\": resource or service backend is required")],
        ),
        (
            "both ports",
            rule(&json!({"backend": {"service": {"port": {"name": "http"}}}})),
            vec![(INVALID, path("backend"), "Invalid value: \"\": cannot set both port name & port number")],
        ),
        (
            "port",
            rule(&json!({"backend": {"service": {"port": {"number": 70_000}}}})),
            vec![(
                INVALID,
                path("backend.service.port.number"),
                "Invalid value: 70000: must be between 1 and 65535, inclusive",
            )],
        ),
        (
            "resource",
            rule(&json!({"backend": {"service": null, "resource": {"kind": "", "name": "a/b"}}})),
            vec![
                (REQUIRED, path("backend.resource.kind"), "Required value"),
                (INVALID, path("backend.resource.name"), "Invalid value: \"a/b\": may not contain '/'"),
            ],
        ),
    ];
    for (case, spec, want) in cases {
        let want: Vec<_> = want.iter().map(|(reason, path, text)| (*reason, path.as_str(), *text)).collect();
        assert_eq!(causes(|errors| Ingress.validate(&named(spec), errors)), want, "{case}");
    }
}

#[test]
fn class_annotation_must_match_the_class() {
    let mut ingress = named(json!({"ingressClassName": "x"}));
    ingress.set(&["metadata", "annotations", ingress_class::CLASS_ANNOTATION], "y");
    assert_eq!(
        causes(|errors| Ingress.validate_create(&ingress, errors)),
        [(
            INVALID,
            "annotations.kubernetes.io/ingress.class",
            "Invalid value: \"y\": must match `ingressClassName` when both are specified"
        )]
    );
    assert!(Ingress.warnings(&ingress, None).is_empty());
    let _ = ingress.remove(&["spec", "ingressClassName"]);
    assert_eq!(Ingress.warnings(&ingress, None).len(), 1);
}

#[test]
fn ingress_rows_show_hosts_and_addresses() {
    let hosts = |hosts: &[&str]| -> Value { hosts.iter().map(|host| json!({"host": host})).collect() };
    for (rules, want) in [
        (hosts(&[]), "*"),
        (hosts(&["a", "b"]), "a,b"),
        (hosts(&["a", "b", "c"]), "a,b,c"),
        (hosts(&["a", "b", "c", "d"]), "a,b,c + 1 more..."),
    ] {
        let mut ingress = named(json!({"rules": rules}));
        ingress.set(
            &["status"],
            json!({"loadBalancer": {"ingress": [{"hostname": "lb"}, {"ip": "10.0.0.1"}, {"ip": "10.0.0.1"}]}}),
        );
        let row = Ingress.cells(&ingress, kind_now());
        assert_eq!(json!(row), json!(["a", "<none>", want, "10.0.0.1,lb", "80", "60s"]));
    }
}

#[test]
fn invalid_ingress_classes_are_rejected() {
    let with = |parameters: Value| {
        let mut class = named(json!({"controller": "example.com/a", "parameters": parameters}));
        IngressClass.defaults(&mut class);
        class
    };
    let controller = |name: &str| named(json!({"controller": name}));
    let long = format!("a.io/{}", "x".repeat(250));
    let cases: Vec<(Object, Causes<'_, &str>)> = vec![
        (with(json!({"kind": "K", "name": "n"})), vec![]),
        (controller(""), vec![(REQUIRED, "spec.controller", "Required value")]),
        (
            controller("nginx"),
            vec![(
                INVALID,
                "spec.controller",
                "Invalid value: \"nginx\": must be a domain-prefixed path (such as \"acme.io/foo\")",
            )],
        ),
        (
            controller(&long),
            vec![("FieldValueTooLong", "spec.controller", "Too long: may not be more than 250 bytes")],
        ),
        (
            with(json!({"kind": "K", "name": "n", "scope": "World"})),
            vec![(
                NOT_SUPPORTED,
                "spec.parameters.scope",
                "Unsupported value: \"World\": supported values: \"Cluster\", \"Namespace\"",
            )],
        ),
        (
            with(json!({"kind": "K", "name": "n", "scope": "Namespace"})),
            vec![(
                REQUIRED,
                "spec.parameters.namespace",
                "Required value: `parameters.scope` is set to 'Namespace'",
            )],
        ),
        (
            with(json!({"kind": "K", "name": "n", "namespace": "x"})),
            vec![(
                FORBIDDEN,
                "spec.parameters.namespace",
                "Forbidden: `parameters.scope` is set to 'Cluster'",
            )],
        ),
    ];
    for (class, want) in cases {
        assert_eq!(causes(|errors| IngressClass.validate(&class, errors)), want, "{class:?}");
    }
    let (old, new) = (controller("a.io/b"), controller("a.io/c"));
    assert_eq!(
        causes(|errors| IngressClass.validate_update(&new, &old, errors)),
        [(INVALID, "spec.controller", "Invalid value: \"a.io/c\": field is immutable")]
    );
    let row = IngressClass.cells(&with(json!({"apiGroup": "g.io", "kind": "K", "name": "n"})), kind_now());
    assert_eq!(row[1..3], ["example.com/a", "K.g.io/n"]);
}

#[test]
fn network_policies_are_defaulted_and_validated() {
    let policy = |spec: Value| {
        let mut policy = named(spec);
        NetworkPolicy.defaults(&mut policy);
        policy
    };
    assert_eq!(
        policy(json!({"egress": [{"ports": [{"port": 1}]}]})).at(&["spec"]),
        Some(&json!({
            "podSelector": {}, "policyTypes": ["Ingress", "Egress"],
            "egress": [{"ports": [{"port": 1, "protocol": "TCP"}]}],
        }))
    );
    let bad = policy(json!({
        "ingress": [{
            "ports": [{"port": 0}, {"port": "http", "endPort": 1}, {"endPort": 2}, {"port": 9, "endPort": 8}],
            "from": [
                {}, {"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16", "11.0.0.0/16", "10.0.0.0/8"]}},
            ],
        }],
        "policyTypes": ["Other"],
    }));
    assert_eq!(
        causes(|errors| NetworkPolicy.validate(&bad, errors)),
        [
            (
                INVALID,
                "spec.ingress[0].ports[0].port",
                "Invalid value: 0: must be between 1 and 65535, inclusive"
            ),
            (
                INVALID,
                "spec.ingress[0].ports[1].endPort",
                "Invalid value: 1: may not be specified when `port` is non-numeric"
            ),
            (
                INVALID,
                "spec.ingress[0].ports[2].endPort",
                "Invalid value: 2: may not be specified when `port` is not specified"
            ),
            (
                INVALID,
                "spec.ingress[0].ports[3].endPort",
                "Invalid value: 9: must be greater than or equal to `port`"
            ),
            (REQUIRED, "spec.ingress[0].from[0]", "Required value: must specify a peer"),
            (
                INVALID,
                "spec.ingress[0].from[1].ipBlock.except[1]",
                "Invalid value: \"11.0.0.0/16\": must be a strict subset of `cidr`"
            ),
            (
                INVALID,
                "spec.ingress[0].from[1].ipBlock.except[2]",
                "Invalid value: \"10.0.0.0/8\": must be a strict subset of `cidr`"
            ),
            (
                FORBIDDEN,
                "spec.ingress[0].from[1]",
                "Forbidden: may not specify both ipBlock and another peer"
            ),
            (
                NOT_SUPPORTED,
                "spec.policyTypes[0]",
                "Unsupported value: \"Other\": supported values: \"Egress\", \"Ingress\""
            ),
        ]
    );
}
