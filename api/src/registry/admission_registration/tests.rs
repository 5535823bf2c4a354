use serde_json::{Value, json};

use super::*;
use crate::kind::Kind;
use crate::object::Object;
use crate::registry::expressions::{
    CompilesExpressions, ExpressionResult, ExpressionScope, ExpressionSession,
};
use crate::registry::testing::causes;

/// Accepts every expression but `bad`.
struct Fake;

impl CompilesExpressions for Fake {
    fn session(&self, _has_variables: bool) -> Box<dyn ExpressionSession> {
        Box::new(Fake)
    }

    fn check_device_selector(&self, _text: &str) -> Result<(), String> {
        Ok(())
    }
}

impl ExpressionSession for Fake {
    fn variable(&mut self, _name: &str, text: &str, _scope: ExpressionScope) -> Result<(), String> {
        if text == "bad" { Err("why".to_owned()) } else { Ok(()) }
    }

    fn check(&self, text: &str, _scope: ExpressionScope, _result: ExpressionResult) -> Result<(), String> {
        if text == "bad" { Err("why".to_owned()) } else { Ok(()) }
    }
}

fn rules() -> Value {
    json!({"resourceRules": [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]})
}

fn first(kind: &dyn Kind, object: Value) -> Vec<(String, String)> {
    let mut object = Object::from_value(object);
    kind.defaults(&mut object);
    let mut errors = crate::validate::FieldErrors::new();
    kind.validate(&object, &mut errors);
    kind.validate_create(&object, &mut errors);
    errors.causes().iter().map(|cause| (cause.field.clone(), cause.message.clone())).collect()
}

#[test]
fn validating_policies_are_validated() {
    let kind = ValidatingAdmissionPolicy { compiler: &Fake };
    let policy = |more: Value| {
        let mut spec = json!({"matchConstraints": rules(), "validations": [{"expression": "true"}]});
        for (name, value) in more.as_object().into_iter().flatten() {
            spec[name] = value.clone();
        }
        json!({"metadata": {"name": "p"}, "spec": spec})
    };
    let cases: [(Value, &[(&str, &str)]); 8] = [
        (json!({}), &[]),
        (
            json!({"validations": [{"expression": "bad"}]}),
            &[("spec.validations[0].expression", "Invalid value: \"bad\": why")],
        ),
        (
            json!({"validations": [{"expression": "true", "message": "a\nb", "reason": "Because"}]}),
            &[
                ("spec.validations[0].message", "Invalid value: \"a\\nb\": must not contain line breaks"),
                (
                    "spec.validations[0].reason",
                    "Unsupported value: \"Because\": supported values: \"Forbidden\", \"Invalid\", \"RequestEntityTooLarge\"",
                ),
            ],
        ),
        (
            json!({"variables": [{"name": "in", "expression": "1"}]}),
            &[("spec.variables[0].name", "Invalid value: \"in\": must be a valid CEL identifier")],
        ),
        (
            json!({"paramKind": {"apiVersion": "a/b/c", "kind": "K"}}),
            &[(
                "spec.paramKind.apiVersion",
                "Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c",
            )],
        ),
        (
            json!({"matchConditions": [{"name": "", "expression": "bad"}]}),
            &[
                ("spec.matchConditions[0].expression", "Invalid value: \"bad\": why"),
                ("spec.matchConditions[0].name", "Required value"),
            ],
        ),
        (
            json!({"auditAnnotations": [{"key": "a b", "valueExpression": ""}], "validations": []}),
            &[
                ("spec.auditAnnotations[0].key", "Invalid value: \"p/a b\": name part must consist of"),
                (
                    "spec.auditAnnotations[0].valueExpression",
                    "Required value: valueExpression is not specified",
                ),
            ],
        ),
        (json!({"matchConstraints": {}}), &[("spec.matchConstraints.resourceRules", "Required value")]),
    ];
    for (more, want) in cases {
        let got = first(&kind, policy(more.clone()));
        assert_eq!(got.len(), want.len(), "{more}: {got:?}");
        for ((field, message), (want_field, want_message)) in got.iter().zip(want) {
            assert_eq!(field, want_field, "{more}");
            assert!(message.starts_with(want_message), "{more}: {message}");
        }
    }
}

#[test]
fn bindings_name_actions_and_parameters() {
    let wrong = |spec: Value| {
        let object = Object::from_value(json!({"metadata": {"name": "b"}, "spec": spec}));
        causes(|errors| VALIDATING_POLICY_BINDING.validate(&object, errors))
    };
    assert_eq!(
        wrong(json!({"policyName": "p", "validationActions": ["Deny"]})),
        [] as [(&str, &str, &str); 0]
    );
    assert_eq!(
        wrong(json!({"policyName": "", "paramRef": {}, "validationActions": []})),
        [
            ("FieldValueRequired", "spec.policyName", "Required value"),
            (
                "FieldValueRequired",
                "spec.paramRef",
                "Required value: one of name or selector must be specified"
            ),
            ("FieldValueRequired", "spec.paramRef.parameterNotFoundAction", "Required value"),
            (
                "FieldValueRequired",
                "spec.validationActions",
                "Required value: at least one validation action is required"
            ),
        ]
    );
}

#[test]
fn webhooks_have_defaults_and_are_validated() {
    let kind = WebhookConfiguration::mutating(&Fake);
    let webhook = json!({
        "name": "w.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"name": "s", "namespace": "d"}}, "rules": rules()["resourceRules"],
    });
    let mut object = Object::from_value(json!({"metadata": {"name": "c"}, "webhooks": [webhook]}));
    kind.defaults(&mut object);
    let set = &object.0["webhooks"][0];
    assert_eq!(set["clientConfig"]["service"]["port"], 443);
    assert_eq!(set["timeoutSeconds"], 10);
    assert_eq!(set["rules"][0]["scope"], "*");
    let url = |url: &str| {
        let mut webhook = webhook.clone();
        webhook["clientConfig"] = json!({"url": url});
        let got = first(&kind, json!({"metadata": {"name": "c"}, "webhooks": [webhook]}));
        got.into_iter().map(|(_, message)| message).collect::<Vec<_>>()
    };
    assert!(url("https://x/y").is_empty());
    assert_eq!(
        url("https://u:p@x/y?z#f"),
        [
            "Invalid value: \"u:p\": user information is not permitted in the URL",
            "Invalid value: \"f\": fragments are not permitted in the URL",
            "Invalid value: \"z\": query parameters are not permitted in the URL",
        ]
    );
}

#[test]
fn expressions_of_an_object_are_limited() {
    let variable = json!({"name": "v", "expression": "1"});
    let spec = |count: usize| {
        json!({"matchConstraints": rules(), "variables": vec![variable.clone(); count], "reinvocationPolicy": "Never",
        "validations": [{"expression": "true"}],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}}]})
    };
    let kinds: [&dyn Kind; 2] =
        [&ValidatingAdmissionPolicy { compiler: &Fake }, &MutatingAdmissionPolicy { compiler: &Fake }];
    let too_many = |count: usize, field: &str| {
        vec![(field.to_owned(), format!("Too many: {count}: must have at most 1000 items"))]
    };
    for kind in kinds {
        let policy = |count: usize, label: &str| json!({"metadata": {"name": "p", "labels": {"l": label}}, "spec": spec(count)});
        assert_eq!(first(kind, policy(998, "a")), []);
        assert_eq!(first(kind, policy(2_000, "a")), too_many(2_002, "spec"));
        let updated = |count: usize| {
            let (old, new) = (Object::from_value(policy(2_000, "a")), Object::from_value(policy(count, "b")));
            let mut errors = crate::validate::FieldErrors::new();
            kind.validate_update(&new, &old, &mut errors);
            errors.causes().len()
        };
        assert_eq!((updated(2_000), updated(1_999)), (0, 1), "a stored spec is valid");
    }
    let condition = json!({"name": "c", "expression": "true"});
    let webhook = json!({"name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://a/"}, "matchConditions": vec![condition; 64]});
    let kind = WebhookConfiguration::validating(&Fake);
    let object = json!({"metadata": {"name": "w"}, "webhooks": vec![webhook; 16]});
    assert_eq!(first(&kind, object), too_many(1_024, "webhooks"));
}
