//! Slices and their devices.

use super::*;

fn slice(change: Value) -> Object {
    let spec = json!({
        "driver": "d.example.com", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}, "nodeName": "n1",
        "devices": [{"name": "dev-1", "attributes": {"model": {"string": "m"}}, "capacity": {"memory": {"value": "16Gi"}}}],
    });
    object(json!({"metadata": {"name": "a"}, "spec": merged(spec, &change)}))
}

fn device(change: Value) -> Value {
    json!({"devices": [merged(json!({"name": "dev-1"}), &change)]})
}

fn check(cases: Vec<(&str, Value, Vec<Row>)>) {
    for (case, change, want) in cases {
        let slice = slice(change);
        assert_eq!(causes(|errors| ResourceSlice.validate_create(&slice, errors)), want, "{case}");
    }
}

#[test]
fn invalid_slices_are_rejected() {
    check(vec![
        ("valid", json!({}), vec![]),
        (
            "driver and pool",
            json!({"driver": "", "pool": {"name": "", "generation": -1, "resourceSliceCount": 0}}),
            vec![
                (REQUIRED, "spec.driver", "Required value"),
                (REQUIRED, "spec.pool.name", "Required value"),
                (INVALID, "spec.pool.resourceSliceCount", "Invalid value: 0: must be greater than zero"),
                (INVALID, "spec.pool.generation", "Invalid value: -1: must be greater than or equal to zero"),
            ],
        ),
        (
            "no nodes",
            json!({"nodeName": null}),
            vec![(
                REQUIRED,
                "spec",
                "Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required",
            )],
        ),
        (
            "two kinds of nodes",
            json!({"allNodes": true, "perDeviceNodeSelection": false}),
            vec![
                (
                    INVALID,
                    "spec.perDeviceNodeSelection",
                    "Invalid value: false: must be either unset or set to true",
                ),
                (
                    INVALID,
                    "spec",
                    "Invalid value: \"{`nodeName`, `allNodes`}\": exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required, but multiple fields are set",
                ),
            ],
        ),
        (
            "a selector without terms",
            json!({"nodeName": null, "nodeSelector": {"nodeSelectorTerms": []}}),
            vec![
                (
                    REQUIRED,
                    "spec.nodeSelector.nodeSelectorTerms",
                    "Required value: must have at least one node selector term",
                ),
                (
                    INVALID,
                    "spec.nodeSelector.nodeSelectorTerms",
                    "Invalid value: null: must have exactly one node selector term",
                ),
            ],
        ),
        (
            "counters",
            json!({"devices": null, "sharedCounters": [{"name": "s"}, {"name": "s", "counters": {"a": {"value": "1"}}}]}),
            vec![
                (REQUIRED, "spec.sharedCounters[0].counters", "Required value"),
                (DUPLICATE, "spec.sharedCounters[1]", "Duplicate value: \"s\""),
            ],
        ),
    ]);
    let many: Vec<Value> = (0..65).map(|at| json!({"name": format!("d{at}")})).collect();
    assert!(
        causes(|errors| ResourceSlice.validate_create(&slice(json!({"devices": many})), errors)).is_empty()
    );
    let mut tainted = many;
    tainted[0]["taints"] = json!([{"key": "a", "effect": "NoSchedule"}]);
    assert_eq!(
        causes(|errors| ResourceSlice.validate_create(&slice(json!({"devices": tainted})), errors)),
        [(TOO_MANY, "spec.devices", "Too many: 65: must have at most 64 items")]
    );
}

#[test]
fn invalid_devices_are_rejected() {
    check(vec![
        (
            "attributes",
            device(json!({"attributes": {
                "a": {}, "b": {"int": 1, "bool": true}, "c": {"version": "1.2"}, "d-e": {"int": 1}, "x.y/": {"int": 1},
            }})),
            vec![
                (
                    INVALID,
                    "spec.devices[0].attributes[a]",
                    "Invalid value: \"\": exactly one value must be specified",
                ),
                (
                    INVALID,
                    "spec.devices[0].attributes[b]",
                    "Invalid value: {\"IntValue\":1,\"BoolValue\":true,\"StringValue\":null,\"VersionValue\":null,\"IntValues\":null,\"BoolValues\":null,\"StringValues\":null,\"VersionValues\":null}: exactly one value must be specified",
                ),
                (
                    INVALID,
                    "spec.devices[0].attributes[c].version",
                    "Invalid value: \"1.2\": must be a string compatible with semver.org spec 2.0.0",
                ),
                (
                    INVALID,
                    "spec.devices[0].attributes",
                    "Invalid value: \"d-e\": a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')",
                ),
                (INVALID, "spec.devices[0].attributes", "Invalid value: \"\": the name must not be empty"),
            ],
        ),
        (
            "taints",
            device(json!({"taints": [{"key": "", "effect": "No"}]})),
            vec![
                (
                    INVALID,
                    "spec.devices[0].taints[0].key",
                    "Invalid value: \"\": name part must be non-empty",
                ),
                (
                    INVALID,
                    "spec.devices[0].taints[0].key",
                    "Invalid value: \"\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                ),
                (
                    NOT_SUPPORTED,
                    "spec.devices[0].taints[0].effect",
                    "Unsupported value: \"No\": supported values: \"NoExecute\", \"NoSchedule\", \"None\"",
                ),
            ],
        ),
        (
            "nodes of its own",
            device(json!({"nodeName": "n1"})),
            vec![(
                INVALID,
                "spec.devices[0]",
                "Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec",
            )],
        ),
        (
            "a policy for a device that is not shared",
            device(json!({"capacity": {"m": {"value": "1", "requestPolicy": {}}}})),
            vec![(
                FORBIDDEN,
                "spec.devices[0].capacity[m].requestPolicy",
                "Forbidden: allowMultipleAllocations must be true",
            )],
        ),
    ]);
}

#[test]
fn request_policies_are_validated() {
    let policy = |policy: Value| {
        device(json!({
            "allowMultipleAllocations": true, "capacity": {"m": {"value": "10", "requestPolicy": policy}},
        }))
    };
    check(vec![
        ("valid values", policy(json!({"default": "1", "validValues": ["1", "2"]})), vec![]),
        (
            "valid range",
            policy(json!({"default": "4", "validRange": {"min": "2", "max": "8", "step": "2"}})),
            vec![],
        ),
        (
            "values",
            policy(json!({"default": "3", "validValues": ["2", "1", "11"]})),
            vec![
                (
                    INVALID,
                    "spec.devices[0].capacity[m].requestPolicy.validValues[1]",
                    "Invalid value: \"1\": values must be sorted in ascending order",
                ),
                (
                    INVALID,
                    "spec.devices[0].capacity[m].requestPolicy.validValues[2]",
                    "Invalid value: \"11\": option is larger than capacity value: 10",
                ),
                (
                    INVALID,
                    "spec.devices[0].capacity[m].requestPolicy.validValues",
                    "Invalid value: \"3\": default value is not valid according to the requestPolicy",
                ),
            ],
        ),
        (
            "range",
            policy(json!({"default": "3", "validRange": {"min": "2", "step": "2"}})),
            vec![(
                INVALID,
                "spec.devices[0].capacity[m].requestPolicy.validRange.step",
                "Invalid value: \"3\": value is not a multiple of a given step (2) from (2)",
            )],
        ),
        (
            "no default",
            policy(json!({"validRange": {"min": "2"}})),
            vec![(
                REQUIRED,
                "spec.devices[0].capacity[m].requestPolicy.default",
                "Required value: required when validRange is defined",
            )],
        ),
    ]);
}

#[test]
fn driver_pool_and_node_are_immutable() {
    let old = slice(json!({}));
    let new =
        slice(json!({"driver": "e.example.com", "nodeName": "n2", "pool": {"name": "q", "generation": 2}}));
    assert_eq!(
        causes(|errors| ResourceSlice.validate_update(&new, &old, errors)),
        [
            (INVALID, "spec.pool.name", "Invalid value: \"q\": field is immutable"),
            (INVALID, "spec.driver", "Invalid value: \"e.example.com\": field is immutable"),
            (INVALID, "spec.nodeName", "Invalid value: \"n2\": field is immutable"),
        ]
    );
}

#[test]
fn alpha_fields_are_removed_and_taints_get_a_time() {
    let mut new = slice(device(json!({
        "attributes": {"a": {"ints": [1]}}, "taints": [{"key": "k", "effect": "NoExecute"}],
        "nodeAllocatableResourceMappings": {"cpu": {}},
    })));
    ResourceSlice.prepare_create(&mut new, kind_now());
    assert_eq!(
        new.at(&["spec", "devices"]),
        Some(&json!([{
            "name": "dev-1", "attributes": {"a": {}},
            "taints": [{"key": "k", "effect": "NoExecute", "timeAdded": "2026-01-01T00:01:00Z"}],
        }]))
    );
}

#[test]
fn slices_are_selected_by_node_and_driver() {
    let one = slice(json!({}));
    assert_eq!(ResourceSlice.field(&one, "spec.nodeName"), "n1");
    assert_eq!(ResourceSlice.field(&one, "spec.driver"), "d.example.com");
    let row = ResourceSlice.cells(&slice(json!({"nodeName": null, "allNodes": true})), kind_now());
    assert_eq!(row[1..4], ["<unset>", "d.example.com", "p"]);
    let upper = slice(json!({"driver": "D.example.com"}));
    assert_eq!(
        ResourceSlice.warnings(&upper, None),
        ["spec.driver: driver names should be lowercase; \"D.example.com\" contains uppercase characters"]
    );
}
