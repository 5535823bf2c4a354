//! Tests of the `CSIDriver` kind.

use serde_json::json;

use super::*;
use crate::registry::volume_testing::*;

#[test]
fn missing_fields_are_defaulted() {
    let filled = json!({"spec": {
        "attachRequired": true, "podInfoOnMount": false, "volumeLifecycleModes": ["Persistent"],
        "storageCapacity": false, "fsGroupPolicy": "ReadWriteOnceWithFSType", "requiresRepublish": false,
        "seLinuxMount": false,
    }});
    for given in [
        json!({}),
        json!({"spec": {}}),
        json!({"spec": {"volumeLifecycleModes": [], "podInfoOnMount": null}}),
    ] {
        assert_eq!(created(&CsiDriver, &given).into_value(), filled, "{given}");
    }
    let own = json!({"spec": {
        "attachRequired": false, "podInfoOnMount": true, "volumeLifecycleModes": ["Ephemeral"],
        "storageCapacity": true, "fsGroupPolicy": "None", "requiresRepublish": true, "seLinuxMount": true,
    }});
    assert_eq!(created(&CsiDriver, &own).into_value(), own);
}

#[test]
fn new_objects_are_validated() {
    for (case, spec, want) in [
        ("1 good", json!({}), vec![]),
        (
            "2 group policy",
            json!({"fsGroupPolicy": "Some"}),
            vec![
                "spec.fsGroupPolicy: Unsupported value: \"Some\": supported values: \"File\", \"None\", \"ReadWriteOnceWithFSType\"",
            ],
        ),
        (
            "3 mode",
            json!({"volumeLifecycleModes": ["Persistent", "Odd"]}),
            vec![
                "spec.volumeLifecycleModes: Unsupported value: \"Odd\": supported values: \"Persistent\", \"Ephemeral\"",
            ],
        ),
        (
            "4 an audience twice",
            json!({"tokenRequests": [{"audience": "a"}, {"audience": "a", "expirationSeconds": 1}]}),
            vec!["spec.tokenRequests[1].audience: Duplicate value: \"a\""],
        ),
        (
            "5 spans",
            json!({"tokenRequests": [{"audience": "a", "expirationSeconds": 599}, {"audience": "b", "expirationSeconds": 4_294_967_297_i64}]}),
            vec![
                "spec.tokenRequests[0].expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes",
                "spec.tokenRequests[1].expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds",
            ],
        ),
        (
            "6 period",
            json!({"nodeAllocatableUpdatePeriodSeconds": 9}),
            vec![
                "spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: must be greater than or equal to 10 seconds",
            ],
        ),
        (
            "7 tokens in secrets, but no tokens",
            json!({"serviceAccountTokenInSecrets": true}),
            vec![
                "spec.serviceAccountTokenInSecrets: Invalid value: true: serviceAccountTokenInSecrets is set but no tokenRequests are specified",
            ],
        ),
    ] {
        check(case, &create_errors(&CsiDriver, &json!({"spec": spec})), &want);
    }
}

#[test]
fn updates_are_validated() {
    let old = json!({"spec": {}});
    for (case, spec, want) in [
        (
            "1 fixed",
            json!({"attachRequired": false, "volumeLifecycleModes": ["Ephemeral"]}),
            vec![
                "spec.attachedRequired: Invalid value: false: field is immutable",
                "spec.volumeLifecycleModes: Invalid value: [\"Ephemeral\"]: field is immutable",
            ],
        ),
        (
            "2 free",
            json!({"podInfoOnMount": true, "storageCapacity": true, "fsGroupPolicy": "File", "requiresRepublish": true,
                "seLinuxMount": true, "tokenRequests": [{"audience": "a"}], "nodeAllocatableUpdatePeriodSeconds": 10}),
            vec![],
        ),
    ] {
        check(case, &update_errors(&CsiDriver, &old, &json!({"spec": spec})), &want);
    }
}

#[test]
fn table_rows_show_the_spec() {
    for (case, driver, want) in [
        (
            "1 defaults",
            created(&CsiDriver, &json!({"metadata": {"name": "d"}})).into_value(),
            json!(["d", true, false, false, "<unset>", false, "Persistent", "10s"]),
        ),
        (
            "2 set",
            json!({"metadata": {"name": "d"}, "spec": {"attachRequired": false, "storageCapacity": true,
                "tokenRequests": [{"audience": "a"}, {"audience": "b"}], "volumeLifecycleModes": ["Persistent", "Ephemeral"]}}),
            json!(["d", false, false, true, "a,b", false, "Persistent,Ephemeral", "10s"]),
        ),
        (
            "3 nothing",
            json!({"metadata": {"name": "d"}}),
            json!(["d", false, false, false, "<unset>", false, "<none>", "10s"]),
        ),
    ] {
        assert_eq!(row(&CsiDriver, &driver), want, "{case}");
    }
}

#[test]
fn token_requests_without_secrets_setting_cause_a_warning() {
    let spec = |spec: Value| Object::from_value(json!({"spec": spec}));
    let tokens = spec(json!({"tokenRequests": [{"audience": "a"}]}));
    let more = spec(json!({"tokenRequests": [{"audience": "a"}, {"audience": "b"}]}));
    let none = spec(json!({}));
    let said = spec(json!({"tokenRequests": [{"audience": "a"}], "serviceAccountTokenInSecrets": false}));
    for (case, driver, old, want) in [
        ("1 created", &tokens, None, true),
        ("2 as before", &tokens, Some(&tokens), false),
        ("3 changed", &more, Some(&tokens), true),
        ("4 no tokens", &none, None, false),
        ("5 it is said", &said, None, false),
    ] {
        let got = CsiDriver.warnings(driver, old);
        assert_eq!(got, if want { vec![TOKENS_WARNING.to_owned()] } else { Vec::new() }, "{case}");
    }
}
