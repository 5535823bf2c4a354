#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orlop_pki::private_key::PrivateKey;
use orlop_pki::request::{AlternativeNames, create};
use serde_json::json;

use super::super::testing::{causes, kind_now, object};
use super::*;

const KIND: CertificateSigningRequest = CertificateSigningRequest;
const INVALID: &str = "FieldValueInvalid";
const REQUIRED: &str = "FieldValueRequired";
const FORBIDDEN: &str = "FieldValueForbidden";
const DUPLICATE: &str = "FieldValueDuplicate";
const NOT_SUPPORTED: &str = "FieldValueNotSupported";
const CONDITIONS: &str = "status.conditions";

fn request() -> String {
    let (key, _) = PrivateKey::generate().unwrap();
    STANDARD.encode(create(&key, "ann", &["devs".to_owned()], &AlternativeNames::default()).unwrap())
}

fn with(spec: Value, status: Value) -> Object {
    let mut all = json!({"signerName": "example.com/s", "usages": ["client auth"], "request": request()});
    for (key, value) in spec.as_object().unwrap() {
        all[key] = value.clone();
    }
    object(json!({"metadata": {"name": "a"}, "spec": all, "status": status}))
}

fn condition(kind: &str, status: &str) -> Value {
    json!({"type": kind, "status": status})
}

#[test]
fn new_requests_are_validated() {
    let label = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                 and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                 '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
    let bad_label = format!("Invalid value: \"example.-\": validating label \"-\": {label}");
    type Row<'a> = (&'a str, &'a str, &'a str);
    let cases: [(&str, Value, &[Row<'_>]); 12] = [
        ("1 good", json!({}), &[]),
        ("2 kubernetes", json!({"signerName": "kubernetes.io/kube-apiserver-client"}), &[]),
        (
            "3 no PEM",
            json!({"request": "eA=="}),
            &[(
                INVALID,
                "spec.request",
                "Invalid value: \"eA==\": PEM block type must be CERTIFICATE REQUEST",
            )],
        ),
        (
            "4 no request",
            json!({"request": null}),
            &[(INVALID, "spec.request", "Invalid value: null: PEM block type must be CERTIFICATE REQUEST")],
        ),
        ("5 no usages", json!({"usages": []}), &[(REQUIRED, "spec.usages", "Required value")]),
        (
            "6 twice",
            json!({"usages": ["signing", "signing"]}),
            &[(DUPLICATE, "spec.usages[1]", "Duplicate value: \"signing\"")],
        ),
        ("7 no signer", json!({"signerName": ""}), &[(REQUIRED, "spec.signerName", "Required value")]),
        (
            "8 the legacy signer",
            json!({"signerName": "kubernetes.io/legacy-unknown"}),
            &[(
                INVALID,
                "spec.signerName",
                "Invalid value: \"kubernetes.io/legacy-unknown\": the legacy signerName is not allowed via this API \
                 version",
            )],
        ),
        (
            "9 no path",
            json!({"signerName": "a.b/c/d"}),
            &[(
                INVALID,
                "spec.signerName",
                "Invalid value: \"a.b/c/d\": must be a fully qualified domain and path of the form \
                 'example.com/signer-name'",
            )],
        ),
        (
            "10 no domain",
            json!({"signerName": "a/b"}),
            &[(
                INVALID,
                "spec.signerName",
                "Invalid value: \"a\": should be a domain with at least two segments separated by dots",
            )],
        ),
        ("11 a bad label", json!({"signerName": "example.-/b"}), &[(INVALID, "spec.signerName", &bad_label)]),
        (
            "12 short",
            json!({"expirationSeconds": 599}),
            &[(
                INVALID,
                "spec.expirationSeconds",
                "Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)",
            )],
        ),
    ];
    for (case, spec, want) in cases {
        let object = with(spec, json!({}));
        assert_eq!(causes(|errors| KIND.validate_create(&object, errors)), want, "{case}");
    }
    let unknown = with(json!({"usages": ["flying"]}), json!({}));
    let errors = causes(|errors| KIND.validate_create(&unknown, errors));
    assert!(format!("{errors:?}").contains("supported values: \\\"any\\\", \\\"cert sign\\\""), "{errors:?}");
}

#[test]
fn conditions_are_validated() {
    let exclusive = |kind: &str| {
        format!("Invalid value: \"{kind}\": Approved and Denied conditions are mutually exclusive")
    };
    let (approved, denied) = (exclusive("Approved"), exclusive("Denied"));
    type Row<'a> = (&'a str, &'a str, &'a str);
    let cases: [(&str, Value, &[Row<'_>]); 7] = [
        ("1 approved", json!([condition("Approved", "True")]), &[]),
        ("2 of its own", json!([condition("Mine", "Unknown")]), &[]),
        (
            "3 no type",
            json!([condition("", "True")]),
            &[(REQUIRED, "status.conditions[0].type", "Required value")],
        ),
        (
            "4 no status",
            json!([condition("Approved", "")]),
            &[(REQUIRED, "status.conditions[0].status", "Required value")],
        ),
        (
            "5 not true",
            json!([condition("Failed", "False")]),
            &[(
                NOT_SUPPORTED,
                "status.conditions[0].status",
                "Unsupported value: \"False\": supported values: \"True\"",
            )],
        ),
        (
            "6 denied after approved",
            json!([condition("Approved", "True"), condition("Denied", "True")]),
            &[(INVALID, "status.conditions[1].type", &denied)],
        ),
        (
            "7 approved after denied, twice",
            json!([condition("Denied", "True"), condition("Approved", "True"), condition("Denied", "True")]),
            &[
                (INVALID, "status.conditions[1].type", &approved),
                (INVALID, "status.conditions[2].type", &denied),
                (DUPLICATE, "status.conditions[2].type", "Duplicate value: \"Denied\""),
            ],
        ),
    ];
    let old = with(json!({}), json!({}));
    for (case, conditions, want) in cases {
        let mut object = old.clone();
        object.set(&["status", "conditions"], conditions);
        assert_eq!(causes(|errors| KIND.validate_part(APPROVAL, &object, &old, errors)), want, "{case}");
        // An object that breaks a rule may still be changed.
        let mut labelled = object.clone();
        labelled.set(&["metadata", "labels"], json!({"a": "b"}));
        if case.starts_with('7') {
            assert_eq!(causes(|errors| KIND.validate_update(&labelled, &object, errors)), [], "{case}");
        }
    }
}

#[test]
fn each_subresource_changes_its_part_only() {
    let certificate = STANDARD.encode("x");
    let approved = json!({"conditions": [condition("Approved", "True")]});
    let changed = json!({"conditions": [{"type": "Approved", "status": "True", "reason": "R"}]});
    let failed = json!({"conditions": [condition("Failed", "True")]});
    let issued = json!({"certificate": certificate});
    let none = json!({});
    let set = (FORBIDDEN, "status.certificate", "Forbidden: updates may not set certificate content");
    let add = (FORBIDDEN, CONDITIONS, "Forbidden: updates may not add a condition of type \"Approved\"");
    let modify =
        (FORBIDDEN, CONDITIONS, "Forbidden: updates may not modify a condition of type \"Approved\"");
    let remove =
        (FORBIDDEN, CONDITIONS, "Forbidden: updates may not remove a condition of type \"Approved\"");
    let reset =
        (FORBIDDEN, "status.certificate", "Forbidden: updates may not modify existing certificate content");
    type Row<'a> = (&'a str, &'a str, &'a str);
    let cases: [(&str, MayChange, &Value, &Value, &[Row<'_>]); 9] = [
        ("1 approval", MayChange::Approval, &none, &approved, &[]),
        ("2 another approval", MayChange::Approval, &approved, &changed, &[]),
        ("3 no approval any more", MayChange::Approval, &approved, &none, &[remove]),
        ("4 a certificate with the approval", MayChange::Approval, &none, &issued, &[set]),
        ("5 approval by the signer", MayChange::Certificate, &none, &approved, &[add]),
        ("6 a change by the signer", MayChange::Certificate, &approved, &changed, &[modify]),
        ("7 failure", MayChange::Certificate, &none, &failed, &[]),
        ("8 the certificate once", MayChange::Certificate, &none, &issued, &[]),
        ("9 and not again", MayChange::Certificate, &issued, &none, &[reset]),
    ];
    for (case, may, old, new, want) in cases {
        let (old, new) = (with(json!({}), old.clone()), with(json!({}), new.clone()));
        assert_eq!(causes(|errors| rules::validate_change(&new, &old, may, errors)), want, "{case}");
    }
    let bad = with(json!({}), issued);
    let rows = causes(|errors| KIND.validate_status(&bad, &with(json!({}), none), errors));
    assert_eq!(
        rows,
        [(
            INVALID,
            "status.certificate",
            "Invalid value: \"<certificate data>\": must contain at least one CERTIFICATE PEM block"
        )]
    );
}

#[test]
fn spec_names_the_user_of_the_request() {
    let mut object =
        with(json!({"username": "root", "uid": "1", "groups": ["system:masters"]}), json!({"x": 1}));
    let extra = BTreeMap::from([("k".to_owned(), vec!["v".to_owned()])]);
    KIND.prepare_create(&mut object, kind_now());
    let requester = Requester { username: "ann", uid: "", groups: &["devs".to_owned()], extra: &extra };
    KIND.set_requester(&mut object, &requester);
    assert_eq!(object.at(&["status"]), Some(&json!({})));
    let spec = object.at(&["spec"]).unwrap();
    assert_eq!(
        (&spec["username"], spec.get("uid"), &spec["groups"], &spec["extra"]),
        (&json!("ann"), None, &json!(["devs"]), &json!({"k": ["v"]}))
    );
}

#[test]
fn missing_times_of_conditions_are_set() {
    let long_ago = "2020-01-01T00:00:00Z";
    let now = "2026-01-01T00:01:00Z";
    let approved = |time: &str| json!({"type": "Approved", "status": "True", "lastUpdateTime": time, "lastTransitionTime": time});
    let old = with(json!({}), json!({"conditions": [approved(long_ago)]}));
    let mut new =
        with(json!({}), json!({"conditions": [condition("Approved", "True"), condition("Mine", "True")]}));
    KIND.prepare_part(APPROVAL, &mut new, &old, kind_now());
    let list = conditions::of(&new);
    assert_eq!(list[0]["lastUpdateTime"], now);
    assert_eq!(list[0]["lastTransitionTime"], long_ago, "the status is unchanged");
    assert_eq!((&list[1]["lastUpdateTime"], &list[1]["lastTransitionTime"]), (&json!(now), &json!(now)));
    let mut status =
        with(json!({}), json!({"conditions": [condition("Approved", "True"), condition("Failed", "True")]}));
    KIND.prepare_status(&mut status, &old, kind_now());
    assert_eq!(conditions::of(&status)[0], approved(long_ago), "the approval is kept");
    assert_eq!(conditions::of(&status)[1]["lastUpdateTime"], now);
}

#[test]
fn table_shows_signer_requestor_and_condition() {
    let certificate = STANDARD.encode("x");
    for (case, status, want) in [
        ("1", json!({}), "Pending"),
        ("2", json!({"conditions": [condition("Approved", "True")]}), "Approved"),
        (
            "3",
            json!({"conditions": [condition("Approved", "True")], "certificate": certificate}),
            "Approved,Issued",
        ),
        ("4", json!({"conditions": [condition("Denied", "True"), condition("Approved", "True")]}), "Denied"),
        (
            "5",
            json!({"conditions": [condition("Approved", "True"), condition("Failed", "True")]}),
            "Approved,Failed",
        ),
    ] {
        let mut object = with(json!({"username": "ann", "expirationSeconds": 3600}), status);
        object.set(&["metadata", "creationTimestamp"], "2026-01-01T00:00:00Z");
        let want = json!(["a", "60s", "example.com/s", "ann", "60m", want]);
        assert_eq!(json!(KIND.cells(&object, kind_now())), want, "{case}");
    }
    assert_eq!(KIND.cells(&with(json!({}), json!({})), kind_now())[4], "<none>");
}
