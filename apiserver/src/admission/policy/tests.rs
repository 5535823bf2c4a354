use std::ops::ControlFlow;

use orlop_api::object::Object;
use orlop_auth::UserInfo;
use orlop_auth::request_info::RequestInfo;
use orlop_crd::expression::AccessAnswer;
use serde_json::{Value, json};

use super::budget::PhaseBudget;
use super::cluster::ClusterState;
use super::index::PolicyIndex;
use super::params::{ParamRef, collect};
use crate::admission::follow::Followed as _;
use crate::admission::matching::tests::attributes;
use crate::admission::matching::{AdmissionOperation, NamespaceLabels};
use crate::admission::outcome::Findings;
use crate::admission::reinvocation::Reinvocation;
use crate::encode::undecoded::Undecoded;
use crate::encode::undecoded::testing::{Counted, DecodeCounter};
use crate::registry::{self, KindRef};

/// ConfigMaps, of which every other one has the label `param: yes`.
struct Params {
    count: usize,
    bytes: usize,
    decoded: DecodeCounter,
}

impl Params {
    fn of(count: usize, bytes: usize) -> Self {
        Params { count, bytes, decoded: DecodeCounter::default() }
    }

    fn collect(&self) -> Result<usize, String> {
        self.collect_within(&mut PhaseBudget::default())
    }

    fn collect_within(&self, phase: &mut PhaseBudget) -> Result<usize, String> {
        let kind = ("v1".to_owned(), "ConfigMap".to_owned());
        let param = ParamRef::of(&json!({"selector": {"matchLabels": {"param": "yes"}}}));
        collect(Some(&kind), Some(&param), "n", self, phase).map(|params| params.len())
    }
}

impl NamespaceLabels for Params {
    fn namespace(&self, name: &str) -> Option<Object> {
        Some(Object::from_value(json!({"metadata": {"name": name}})))
    }
}

impl ClusterState for Params {
    fn kind_named(&self, _api_version: &str, _kind: &str) -> Option<KindRef> {
        registry::by_resource("", "v1", "configmaps").map(KindRef::Builtin)
    }

    fn object(&self, _kind: &KindRef, _namespace: &str, _name: &str) -> Option<Object> {
        None
    }

    fn visit_objects(
        &self,
        _kind: &KindRef,
        namespace: &str,
        visit: &mut dyn FnMut(&dyn Undecoded) -> ControlFlow<()>,
    ) {
        for at in 0..2 * self.count {
            let labels = if at % 2 == 0 { json!({"param": "yes"}) } else { json!({}) };
            let metadata = json!({"name": format!("p{at:05}"), "namespace": namespace, "labels": labels});
            let object = json!({"metadata": metadata, "data": {"text": "x".repeat(self.bytes)}});
            let object = Object::from_value(object);
            if visit(&Counted { object, counter: &self.decoded }).is_break() {
                return;
            }
        }
    }

    fn decide(&self, _user: &UserInfo, _right: &RequestInfo) -> AccessAnswer {
        AccessAnswer::default()
    }
}

/// A policy for ConfigMaps with these fields, and its binding to the parameters.
fn policies(plurals: [&str; 2], fields: Value) -> PolicyIndex {
    let mut spec = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": {"resourceRules": [
            {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]},
        ]},
    });
    for (name, value) in fields.as_object().into_iter().flatten() {
        spec[name] = value.clone();
    }
    let binding = json!({
        "policyName": "p", "validationActions": ["Deny"],
        "paramRef": {"selector": {"matchLabels": {"param": "yes"}}, "parameterNotFoundAction": "Deny"},
    });
    let mut index = PolicyIndex::default();
    for (plural, name, spec) in [(plurals[0], "p", spec), (plurals[1], "b", binding)] {
        let object = Object::from_value(json!({"metadata": {"name": name}, "spec": spec}));
        index.set(plural, name, Some(&object), None);
    }
    index
}

fn validated(fields: Value, params: &Params) -> Result<(), String> {
    let policies = policies(["validatingadmissionpolicies", "validatingadmissionpolicybindings"], fields);
    let user = UserInfo::admin();
    let request = attributes(&user, AdmissionOperation::Create, ("", "configmaps"), "n");
    let object = Object::from_value(json!({"metadata": {"name": "x"}}));
    let mut findings = Findings::default();
    super::validate(&policies, &request, Some(&object), None, params, &mut findings)
        .map_err(|error| error.message)
}

#[test]
fn parameters_of_a_binding_are_bounded() {
    assert_eq!(Params::of(1000, 10).collect(), Ok(1000));
    for (params, want) in
        [(Params::of(5000, 10), "1000 parameters"), (Params::of(5000, 1 << 20), "4194304 bytes")]
    {
        let error = params.collect().expect_err("too many");
        assert!(error.contains(want), "{error}");
        let (objects, bytes) = (params.decoded.objects.get(), params.decoded.bytes.get());
        assert!(objects <= 1000 && bytes <= 4 << 20, "{objects} objects with {bytes} bytes are decoded");
    }
}

#[test]
fn only_selected_objects_are_decoded() {
    let params = Params::of(7, 1000);
    assert_eq!(params.collect(), Ok(7));
    assert_eq!(params.decoded.objects.get(), 7, "the other 7 have other labels");
}

#[test]
fn decoding_parameters_takes_from_the_budget() {
    let mut phase = PhaseBudget::default();
    phase.decode(96_000_000).expect("the budget is larger");
    // A binding decodes three parameters before it fails. The rest of the budget is less than a fourth one costs.
    let params = Params::of(5, 1 << 20);
    for (want, decoded) in [("4194304 bytes", 3), ("running out of cost budget", 3)] {
        let error = params.collect_within(&mut phase).expect_err("too many");
        assert!(error.contains(want), "{error}");
        assert_eq!(params.decoded.objects.get(), decoded);
    }
}

#[test]
fn failure_policy_decides_about_too_many_parameters() {
    let rule = json!([{"expression": "true"}]);
    let params = Params::of(1001, 0);
    let error = validated(json!({"validations": rule}), &params).expect_err("too many");
    assert!(error.contains("failed to configure binding: paramRef selects more than 1000"), "{error}");
    assert_eq!(validated(json!({"validations": rule, "failurePolicy": "Ignore"}), &params), Ok(()));
}

#[test]
fn parameters_of_a_binding_share_a_budget() {
    // Costs more than 1 % of the budget.
    let costly = "[1,2,3,4,5,6,7,8,9,0].all(a, [1,2,3,4,5,6,7,8,9,0].all(b, [1,2,3,4,5,6,7,8,9,0].all(c, \
                  [1,2,3,4,5,6,7,8,9,0].all(d, a + b + c + d >= 0))))";
    let rule = json!({"validations": [{"expression": costly}]});
    assert_eq!(validated(rule.clone(), &Params::of(1, 0)), Ok(()));
    let error = validated(rule, &Params::of(300, 0)).expect_err("out of budget");
    assert!(error.contains("running out of cost budget"), "{error}");
    let annotation = json!({
        "validations": [{"expression": "true"}],
        "auditAnnotations": [{"key": "k", "valueExpression": format!("{costly} ? 'a' : 'b'")}],
    });
    let error = validated(annotation, &Params::of(300, 0)).expect_err("out of budget");
    assert!(error.contains("running out of cost budget"), "{error}");
}

#[test]
fn mutations_run_for_each_parameter_and_their_failures_are_bounded() {
    let mutated = |expression: &str, params: &Params| {
        let mutation = json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}});
        let plurals = ["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"];
        let policies = policies(plurals, json!({"mutations": [mutation]}));
        let user = UserInfo::admin();
        let request = attributes(&user, AdmissionOperation::Create, ("", "configmaps"), "n");
        let kind = registry::by_resource("", "v1", "configmaps").expect("a kind");
        let mut object = Object::from_value(json!({"metadata": {"name": "x"}, "data": {"k": "0"}}));
        let mut state = Reinvocation::default();
        let result = super::mutate(&policies, &request, kind, &mut object, None, params, &mut state);
        result.map(|()| object)
    };
    let add = "[JSONPatch{op: 'add', path: '/data/' + params.metadata.name, value: 'v'}]";
    let object = mutated(add, &Params::of(3, 0)).expect("mutated");
    let data = object.at(&["data"]).and_then(Value::as_object).expect("data");
    assert_eq!(data.keys().collect::<Vec<_>>(), ["k", "p00000", "p00002", "p00004"]);

    let bad = "[JSONPatch{op: 'remove', path: '/data/absent'}]";
    let error = mutated(bad, &Params::of(300, 0)).expect_err("fails");
    let causes = error.details.expect("details").causes;
    // The first cause is that of the rejection itself, if there is one.
    assert!((64..=65).contains(&causes.len()), "{}", causes.len());
    let error = mutated(add, &Params::of(1001, 0)).expect_err("too many");
    assert!(
        error.message.contains("failed to configure binding: paramRef selects more"),
        "{}",
        error.message
    );
}

/// Variables `v0` to `vN`, each of which uses the one before.
fn chain(length: usize) -> Value {
    let text = |n: usize| n.checked_sub(1).map_or("1".to_owned(), |n| format!("variables.v{n} + 1"));
    (0..=length).map(|n| json!({"name": format!("v{n}"), "expression": text(n)})).collect::<Vec<_>>().into()
}

#[test]
fn failure_policy_decides_about_chains_of_variables() {
    for (length, want) in [
        (100, ""),
        (300, "the evaluation is nested more than 250 levels deep"),
        (2_000, "2002 expressions are more than 1000"),
        (20_000, "20002 expressions are more than 1000"),
    ] {
        let rule = json!([{"expression": format!("variables.v{length} > 0")}]);
        let fields = |failure: &str| json!({"variables": chain(length), "validations": rule, "failurePolicy": failure});
        let found = validated(fields("Fail"), &Params::of(1, 0)).err().unwrap_or_default();
        assert!(found.contains(want) && found.is_empty() == want.is_empty(), "{length}: {found}");
        assert_eq!(validated(fields("Ignore"), &Params::of(1, 0)), Ok(()), "{length}");
    }
}

#[test]
fn bindings_share_a_budget() {
    let matched = json!({"resourceRules": [
        {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]});
    let add = |index: &mut PolicyIndex, plural: &str, name: &str, spec: Value| {
        let object = Object::from_value(json!({"metadata": {"name": name}, "spec": spec}));
        index.set(plural, name, Some(&object), None);
    };
    let user = UserInfo::admin();
    let request = attributes(&user, AdmissionOperation::Create, ("", "configmaps"), "n");
    let kind = registry::by_resource("", "v1", "configmaps").expect("a kind");
    let mut object = Object::from_value(json!({"metadata": {"name": "x", "finalizers": vec!["a"; 100_000]}}));
    let params = Params::of(0, 0);
    let (mut few, mut many) = (PolicyIndex::default(), PolicyIndex::default());
    for index in [&mut few, &mut many] {
        let validations = json!([{"expression": "true"}]);
        let policy = json!({"matchConstraints": matched, "validations": validations});
        add(index, "validatingadmissionpolicies", "p", policy);
        let nothing = json!({"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}});
        let policy = json!({"matchConstraints": matched, "mutations": [nothing]});
        add(index, "mutatingadmissionpolicies", "p", policy);
    }
    for (index, count) in [(&mut few, 2), (&mut many, 150)] {
        for at in 0..count {
            let binding = json!({"policyName": "p", "validationActions": ["Deny"]});
            add(index, "validatingadmissionpolicybindings", &format!("b{at}"), binding.clone());
            add(index, "mutatingadmissionpolicybindings", &format!("b{at}"), binding);
        }
    }
    for (index, fails) in [(few, false), (many, true)] {
        let mut findings = Findings::default();
        let validated = super::validate(&index, &request, Some(&object), None, &params, &mut findings);
        let mut state = Reinvocation::default();
        let mutated = super::mutate(&index, &request, kind, &mut object, None, &params, &mut state);
        for result in [validated, mutated] {
            let message = result.err().map(|error| error.message).unwrap_or_default();
            assert_eq!(message.contains("running out of cost budget"), fails, "{message}");
        }
    }
}

#[test]
fn unchanged_policies_are_not_compiled_again() {
    let policy = |uid: &str, generation: u64, status: &str| {
        let metadata = json!({"name": "p", "uid": uid, "generation": generation});
        Object::from_value(json!({"metadata": metadata, "spec": {"validations": [{"expression": "true"}]},
            "status": {"text": status}}))
    };
    let plural = "validatingadmissionpolicies";
    let mut index = PolicyIndex::default();
    let mut set = |object: &Object, known: Option<&PolicyIndex>| {
        let mut changed = if known.is_some() { PolicyIndex::default() } else { index.clone() };
        changed.set(plural, "p", Some(object), known);
        index = changed.clone();
        changed
    };
    let first = set(&policy("u", 1, "a"), None);
    let same = |a: &PolicyIndex, b: &PolicyIndex| a.validating.is_same("p", &b.validating);
    let with_status = set(&policy("u", 1, "b"), None);
    assert!(same(&first, &with_status));
    let read_again = set(&policy("u", 1, "b"), Some(&first));
    assert!(same(&first, &read_again));
    for other in [policy("u", 2, "a"), policy("v", 1, "a")] {
        let changed = set(&other, Some(&first));
        assert!(!same(&first, &changed));
    }
}
