//! The status of claims.

use super::*;

fn allocated(status: &Value) -> Object {
    let mut claim = claim(request(json!({})));
    claim.set(&["status"], status.clone());
    claim
}

fn allocation(result: Value) -> Value {
    let known = json!({"request": "r", "driver": "d.example.com", "pool": "p", "device": "dev-1"});
    json!({"devices": {"results": [merged(known, &result)]}})
}

/// Reason, path and message of each cause.
type Causes<'a> = Vec<(&'a str, &'a str, &'a str)>;

#[test]
fn invalid_statuses_are_rejected() {
    let pod = json!({"resource": "pods", "name": "p", "uid": "u"});
    let binding = "bindingFailureConditions are required to use bindingConditions";
    let binding = format!("Invalid value: null: {binding}");
    let cases: Vec<(&str, Value, Value, Causes<'_>)> = vec![
        ("allocated", json!({}), json!({"allocation": allocation(json!({})), "reservedFor": [pod]}), vec![]),
        (
            "reserved too early",
            json!({}),
            json!({"reservedFor": [pod, {"resource": "pods", "name": "p"}]}),
            vec![
                (REQUIRED, "status.reservedFor[1].uid", "Required value"),
                (
                    FORBIDDEN,
                    "status.reservedFor",
                    "Forbidden: may not be specified when `allocated` is not set",
                ),
            ],
        ),
        (
            "unknown request",
            json!({}),
            json!({"allocation": allocation(json!({"request": "q", "driver": ""}))}),
            vec![
                (
                    INVALID,
                    "status.allocation.devices.results[0].request",
                    "Invalid value: \"q\": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'",
                ),
                (REQUIRED, "status.allocation.devices.results[0].driver", "Required value"),
            ],
        ),
        (
            "conditions for success only",
            json!({}),
            json!({"allocation": allocation(json!({"bindingConditions": ["a"]}))}),
            vec![(
                INVALID,
                "status.allocation.devices.results[0].bindingFailureConditions",
                binding.as_str(),
            )],
        ),
        (
            "a report about another device",
            json!({}),
            json!({"allocation": allocation(json!({})), "devices": [
                {"driver": "d.example.com", "pool": "p", "device": "dev-2", "networkData": {"ips": ["10.0.0.1"]}},
            ]}),
            vec![
                (
                    INVALID,
                    "status.devices[0]",
                    "Invalid value: \"d.example.com/p/dev-2\": must be an allocated device in the claim",
                ),
                (
                    INVALID,
                    "status.devices[0].networkData.ips[0]",
                    "Invalid value: \"10.0.0.1\": must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)",
                ),
            ],
        ),
        (
            "unchanged allocations remain valid",
            json!({"allocation": allocation(json!({"request": "q"}))}),
            json!({"allocation": allocation(json!({"request": "q"}))}),
            vec![],
        ),
    ];
    for (case, old, new, want) in cases {
        let (old, new) = (allocated(&old), allocated(&new));
        assert_eq!(causes(|errors| CLAIM.validate_status(&new, &old, errors)), want, "{case}");
    }
}

#[test]
fn allocations_are_immutable() {
    let old = allocated(&json!({"allocation": allocation(json!({}))}));
    let new = allocated(&json!({"allocation": allocation(json!({"device": "dev-2"}))}));
    let found = causes(|errors| CLAIM.validate_status(&new, &old, errors));
    let shown = "Invalid value: {\"Devices\":{\"Results\":[{\"Request\":\"r\",\"Driver\":\"d.example.com\",\"Pool\":\"p\",\
                 \"Device\":\"dev-2\",\"AdminAccess\":null,\"Tolerations\":null,\"BindingConditions\":null,\
                 \"BindingFailureConditions\":null,\"ShareID\":null,\"ConsumedCapacity\":null}],\"Config\":null},\
                 \"NodeSelector\":null,\"AllocationTimestamp\":null}: field is immutable";
    assert_eq!(found, [(INVALID, "status.allocation", shown)]);
    let released = allocated(&json!({}));
    assert!(causes(|errors| CLAIM.validate_status(&released, &old, errors)).is_empty());
}

#[test]
fn terminating_claims_get_no_new_pods() {
    let pod = |name: &str| json!({"resource": "pods", "name": name, "uid": name});
    let with = |pods: Value| {
        let mut claim = allocated(&json!({"allocation": allocation(json!({})), "reservedFor": pods}));
        claim.set(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
        claim
    };
    let (one, two) = (with(json!([pod("a")])), with(json!([pod("a"), pod("b")])));
    let why = "Forbidden: new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
    assert_eq!(
        causes(|errors| CLAIM.validate_status(&two, &one, errors)),
        [(FORBIDDEN, "status.reservedFor", why)]
    );
    assert!(causes(|errors| CLAIM.validate_status(&one, &two, errors)).is_empty());
}

#[test]
fn reports_about_deallocated_devices_are_removed() {
    let report = json!([{"driver": "d.example.com", "pool": "p", "device": "dev-1"}]);
    let old = allocated(&json!({"allocation": allocation(json!({})), "devices": report}));
    let mut new = allocated(&json!({"devices": report}));
    CLAIM.prepare_status(&mut new, &old, kind_now());
    assert_eq!(new.at(&["status"]), Some(&json!({})));
    let mut kept = old.clone();
    CLAIM.prepare_status(&mut kept, &old, kind_now());
    assert_eq!(kept, old);
}
