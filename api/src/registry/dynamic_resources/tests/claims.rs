//! Claims, templates and classes.

use super::*;

const LABEL: &str = "Invalid value: \"A_b\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters \
                     or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', \
                     regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

/// Reason, path and message of each cause.
type Causes<'a> = Vec<(&'a str, String, String)>;

#[test]
fn requests_ask_for_one_device_by_default() {
    for (mode, want) in [
        (json!({}), json!({"allocationMode": "ExactCount", "count": 1})),
        (json!({"count": 3}), json!({"allocationMode": "ExactCount", "count": 3})),
        (json!({"allocationMode": "All"}), json!({"allocationMode": "All"})),
    ] {
        let exact = claim(request(json!({"exactly": mode})));
        let alternative = claim(
            json!({"requests": [{"name": "r", "firstAvailable": [merged(json!({"name": "a"}), &mode)]}]}),
        );
        let of = |claim: &Object, place: &str| claim.at(&["spec"]).unwrap().pointer(place).unwrap().clone();
        let exact = of(&exact, "/devices/requests/0/exactly");
        assert_eq!(exact, merged(json!({"deviceClassName": "gpu.example.com"}), &want));
        let alternative = of(&alternative, "/devices/requests/0/firstAvailable/0");
        assert_eq!(alternative, merged(json!({"name": "a"}), &want));
    }
}

#[test]
fn invalid_claims_are_rejected() {
    let exactly = |change: Value| request(json!({"exactly": change}));
    let with = |field: &str, value: Value| merged(request(json!({})), &json!({field: value}));
    let at_exactly = "spec.devices.requests[0].exactly";
    let cases: Vec<(&str, Value, Causes<'_>)> = vec![
        ("valid", request(json!({})), vec![]),
        (
            "no class",
            exactly(json!({"deviceClassName": null})),
            vec![(REQUIRED, format!("{at_exactly}.deviceClassName"), "Required value".into())],
        ),
        (
            "name",
            request(json!({"name": "A_b"})),
            vec![(INVALID, "spec.devices.requests[0].name".into(), LABEL.into())],
        ),
        (
            "neither",
            request(json!({"exactly": null})),
            vec![(
                REQUIRED,
                "spec.devices.requests[0]".into(),
                "Required value: exactly one of `exactly` or `firstAvailable` is required".into(),
            )],
        ),
        (
            "both",
            request(json!({"firstAvailable": [{"name": "a", "deviceClassName": "a"}]})),
            vec![(
                INVALID,
                "spec.devices.requests[0]".into(),
                "Invalid value: null: exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"
                    .into(),
            )],
        ),
        (
            "count",
            exactly(json!({"count": -1})),
            vec![(INVALID, format!("{at_exactly}.count"), "Invalid value: -1: must be greater than zero".into())],
        ),
        (
            "count with All",
            exactly(json!({"allocationMode": "All", "count": 2})),
            vec![(
                INVALID,
                format!("{at_exactly}.count"),
                "Invalid value: 2: must not be specified when allocationMode is 'All'".into(),
            )],
        ),
        (
            "mode",
            exactly(json!({"allocationMode": "Some"})),
            vec![(
                NOT_SUPPORTED,
                format!("{at_exactly}.allocationMode"),
                "Unsupported value: \"Some\": supported values: \"All\", \"ExactCount\"".into(),
            )],
        ),
        (
            "expression",
            exactly(json!({"selectors": [{"cel": {"expression": "bad"}}, {}]})),
            vec![
                (
                    INVALID,
                    format!("{at_exactly}.selectors[0].cel.expression"),
                    "Invalid value: \"bad\": why".into(),
                ),
                (REQUIRED, format!("{at_exactly}.selectors[1].cel"), "Required value".into()),
            ],
        ),
        (
            "toleration",
            exactly(json!({"tolerations": [{"operator": "Is"}, {"operator": "Exists", "value": "a"}, {}]})),
            vec![
                (
                    NOT_SUPPORTED,
                    format!("{at_exactly}.tolerations[0].operator"),
                    "Unsupported value: \"Is\": supported values: \"Equal\", \"Exists\"".into(),
                ),
                (
                    INVALID,
                    format!("{at_exactly}.tolerations[1].value"),
                    "Invalid value: \"a\": must be empty for operator `Exists`".into(),
                ),
                (REQUIRED, format!("{at_exactly}.tolerations[2].operator"), "Required value".into()),
            ],
        ),
        (
            "constraint",
            with("constraints", json!([{"requests": ["zz"], "matchAttribute": "a"}, {}])),
            vec![
                (
                    INVALID,
                    "spec.devices.constraints[0].requests[0]".into(),
                    "Invalid value: \"zz\": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
                        .into(),
                ),
                (
                    INVALID,
                    "spec.devices.constraints[0].matchAttribute".into(),
                    "Invalid value: \"a\": a fully qualified name must be a domain and a name separated by a slash".into(),
                ),
                (
                    REQUIRED,
                    "spec.devices.constraints[1]".into(),
                    "Required value: exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set"
                        .into(),
                ),
            ],
        ),
        (
            "configuration",
            with("config", json!([{"opaque": {"driver": "", "parameters": 1}}, {}])),
            vec![
                (REQUIRED, "spec.devices.config[0].opaque.driver".into(), "Required value".into()),
                (
                    INVALID,
                    "spec.devices.config[0].opaque.parameters".into(),
                    "Invalid value: \"<value omitted>\": must be a valid JSON object".into(),
                ),
                (REQUIRED, "spec.devices.config[1].opaque".into(), "Required value".into()),
            ],
        ),
    ];
    for (case, devices, want) in cases {
        let want: Vec<_> =
            want.iter().map(|(reason, path, text)| (*reason, path.as_str(), text.as_str())).collect();
        let claim = claim(devices);
        assert_eq!(causes(|errors| CLAIM.validate_create(&claim, errors)), want, "{case}");
    }
}

#[test]
fn number_of_requests_is_limited_and_names_are_unique() {
    let named = |name: String| json!({"name": name, "exactly": {"deviceClassName": "c"}});
    let twice = claim(json!({"requests": [named("r".into()), named("r".into())]}));
    assert_eq!(
        causes(|errors| CLAIM.validate_create(&twice, errors)),
        [(DUPLICATE, "spec.devices.requests[1]", "Duplicate value: \"r\"")]
    );
    let many: Vec<Value> = (0..33).map(|at| named(format!("r{at}"))).collect();
    let many = claim(json!({"requests": many}));
    assert_eq!(
        causes(|errors| CLAIM.validate_create(&many, errors)),
        [(TOO_MANY, "spec.devices.requests", "Too many: 33: must have at most 32 items")]
    );
}

#[test]
fn selectors_of_a_claim_are_limited() {
    let selector = json!({"cel": {"expression": "x".repeat(10 << 10)}});
    let one = |selectors: usize| json!({"name": "a", "deviceClassName": "c", "selectors": vec![selector.clone(); selectors]});
    let exactly = |name: &str| json!({"name": name, "exactly": one(10)});
    let of = |selectors: usize| {
        claim(
            json!({"requests": [exactly("r"), exactly("s"), {"name": "t", "firstAvailable": [one(selectors)]}]}),
        )
    };
    assert_eq!(causes(|errors| CLAIM.validate_create(&of(5), errors)), []);
    assert_eq!(
        causes(|errors| CLAIM.validate_create(&of(6), errors)),
        [(TOO_LONG, "spec.devices", "Too long: may not be more than 262144 bytes")]
    );
}

#[test]
fn specs_are_immutable() {
    let (old, new) = (claim(request(json!({}))), claim(request(json!({"name": "s"}))));
    let devices = "{\"Devices\":{\"Requests\":[{\"Name\":\"s\",\"Exactly\":{\"DeviceClassName\":\"gpu.example.com\",\
                   \"Selectors\":null,\"AllocationMode\":\"ExactCount\",\"Count\":1,\"AdminAccess\":null,\"Tolerations\":null,\
                   \"Capacity\":null},\"FirstAvailable\":null}],\"Constraints\":null,\"Config\":null}}";
    let immutable = format!("Invalid value: {devices}: field is immutable");
    assert_eq!(
        causes(|errors| CLAIM.validate_update(&new, &old, errors)),
        [(INVALID, "spec", immutable.as_str())]
    );
    let template = |labels: Value, claim: &Object| {
        object(json!({"spec": {"metadata": {"labels": labels}, "spec": claim.at(&["spec"]).unwrap()}}))
    };
    let (old, new) = (template(json!({"a": "b"}), &new), template(json!({"c": "d"}), &new));
    let immutable =
        format!("Invalid value: {{\"labels\":{{\"c\":\"d\"}},\"Spec\":{devices}}}: field is immutable");
    assert_eq!(
        causes(|errors| TEMPLATE.validate_update(&new, &old, errors)),
        [(INVALID, "spec", immutable.as_str())]
    );
}

#[test]
fn templates_validate_metadata_and_claim() {
    let mut template = object(json!({"spec": {
        "metadata": {"name": "x", "labels": {"/a": "b"}},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {}}]}},
    }}));
    TEMPLATE.defaults(&mut template);
    assert_eq!(
        causes(|errors| TEMPLATE.validate_create(&template, errors)),
        [
            (INVALID, "spec.metadata.labels", "Invalid value: \"/a\": prefix part must be non-empty"),
            (FORBIDDEN, "spec.metadata.name", "Forbidden: cannot be set"),
            (REQUIRED, "spec.spec.devices.requests[0].exactly.deviceClassName", "Required value"),
        ]
    );
}

#[test]
fn stored_parts_of_classes_remain_valid() {
    let class = |spec: Value| object(json!({"metadata": {"name": "c"}, "spec": spec}));
    let old = class(json!({
        "selectors": [{"cel": {"expression": "bad"}}],
        "config": [{"opaque": {"driver": "d", "parameters": {"a": "x".repeat(11_000)}}}],
        "extendedResourceName": "cpu",
    }));
    let name = (
        INVALID,
        "spec.extendedResourceName",
        "Invalid value: \"cpu\": must be a valid extended resource name",
    );
    assert_eq!(
        causes(|errors| CLASS.validate_create(&old, errors)),
        [
            (INVALID, "spec.selectors[0].cel.expression", "Invalid value: \"bad\": why"),
            (TOO_LONG, "spec.config[0].opaque.parameters", "Too long: may not be more than 10240 bytes"),
            name,
        ]
    );
    assert_eq!(causes(|errors| CLASS.validate_update(&old, &old, errors)), [name]);
}

#[test]
fn claim_states_are_shown() {
    let allocated = json!({"allocation": {"devices": {}}});
    let reserved = merged(allocated.clone(), &json!({"reservedFor": [{"uid": "u"}]}));
    for (metadata, status, want) in [
        (json!({}), json!({}), "pending"),
        (json!({}), allocated.clone(), "allocated"),
        (json!({}), reserved.clone(), "allocated,reserved"),
        (json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}), json!({}), "deleted"),
        (json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}), allocated, "deleted,allocated"),
    ] {
        let claim = object(json!({"metadata": metadata, "status": status}));
        assert_eq!(CLAIM.cells(&claim, kind_now())[1], want);
    }
}
