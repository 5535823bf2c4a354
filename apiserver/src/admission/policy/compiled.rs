//! Policies and bindings, with their expressions compiled.

use orlop_api::object::Object;
use orlop_api::registry::admission_registration::check_policy;
use orlop_api::registry::expressions::{ExpressionResult, ExpressionScope};
use orlop_crd::expression::{Compiler, Expression, Variables};
use serde_json::Value;

use super::conditions::Conditions;
use super::params::ParamRef;
use crate::admission::matching::Criteria;

/// A rule of a `ValidatingAdmissionPolicy`.
pub(crate) struct Validation {
    pub(crate) text: String,
    pub(crate) expression: Result<Expression, String>,
    pub(crate) message: String,
    pub(crate) message_expression: Option<Expression>,
    /// `""` for the default.
    pub(crate) reason: String,
}

/// An audit annotation of a `ValidatingAdmissionPolicy`.
pub(crate) struct AuditAnnotation {
    pub(crate) key: String,
    pub(crate) expression: Result<Expression, String>,
}

/// The kind of a policy, with its actions.
pub(crate) enum Rules {
    /// A `ValidatingAdmissionPolicy`.
    Validating { validations: Vec<Validation>, annotations: Vec<AuditAnnotation> },
    /// A `MutatingAdmissionPolicy`.
    Mutating { mutations: Vec<Mutation>, reinvokes: bool },
}

/// A mutation of a `MutatingAdmissionPolicy`.
pub(crate) enum Mutation {
    /// Merges the object that an expression makes.
    Apply(Result<Expression, String>),
    /// Applies the JSON patch that an expression makes.
    JsonPatch(Result<Expression, String>),
}

/// A policy.
pub(crate) struct Policy {
    pub(crate) name: String,
    /// UID and generation: policies with the same ones have the same spec.
    version: (String, Option<i64>),
    pub(crate) criteria: Criteria,
    /// `apiVersion` and `kind` of the parameters.
    pub(crate) param_kind: Option<(String, String)>,
    pub(crate) fails: bool,
    pub(crate) variables: Variables,
    pub(crate) conditions: Conditions,
    pub(crate) rules: Rules,
}

/// A binding.
pub(crate) struct Binding {
    pub(crate) name: String,
    pub(crate) policy: String,
    /// `None` matches every request that the policy matches.
    pub(crate) criteria: Option<Criteria>,
    pub(crate) param: Option<ParamRef>,
    pub(crate) actions: Vec<String>,
}

fn list<'v>(value: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

impl Policy {
    /// Compiles a policy. Expressions that do not compile have an error; validation rejects them.
    pub(crate) fn of(object: &Object, is_mutating: bool) -> Self {
        let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
        let fails = text(spec, "failurePolicy") != "Ignore";
        let criteria = Criteria::of_match_resources(spec.get("matchConstraints").unwrap_or(&Value::Null));
        // If the server does not compile the expressions, the policy has none, and its evaluation fails.
        let compiles = check_policy(spec);
        let spec = if compiles.is_ok() { spec } else { &Value::Null };
        let param_kind = spec.get("paramKind").filter(|kind| !kind.is_null());
        let param_kind =
            param_kind.map(|kind| (text(kind, "apiVersion").to_owned(), text(kind, "kind").to_owned()));
        let scope = ExpressionScope {
            has_params: param_kind.is_some(),
            has_authorizer: true,
            has_patch_types: false,
        };
        let mut compiler = Compiler::new(true);
        let mut variables = Variables::default();
        for variable in list(spec, "variables") {
            let name = text(variable, "name");
            variables.push(name, compiler.variable(name, text(variable, "expression"), scope));
        }
        let rules = if is_mutating {
            let scope = ExpressionScope { has_patch_types: true, ..scope };
            Rules::Mutating {
                mutations: list(spec, "mutations").map(|one| Mutation::of(one, &compiler, scope)).collect(),
                reinvokes: text(spec, "reinvocationPolicy") == "IfNeeded",
            }
        } else {
            Rules::Validating {
                validations: list(spec, "validations")
                    .map(|one| Validation::of(one, &compiler, scope))
                    .collect(),
                annotations: list(spec, "auditAnnotations")
                    .map(|one| AuditAnnotation {
                        key: text(one, "key").to_owned(),
                        expression: compiler.compile(
                            text(one, "valueExpression"),
                            scope,
                            ExpressionResult::TextOrNull,
                        ),
                    })
                    .collect(),
            }
        };
        let conditions = match compiles {
            Ok(()) => Conditions::of(spec, &compiler, scope, fails),
            Err(why) => Conditions::failing(why.to_string(), fails),
        };
        Policy {
            name: object.name().to_owned(),
            version: version(object),
            criteria,
            param_kind,
            fails,
            conditions,
            variables,
            rules,
        }
    }

    /// Whether compiling `object` would have the same result.
    pub(crate) fn is_of(&self, object: &Object) -> bool {
        self.version.1.is_some() && self.version == version(object)
    }
}

/// The UID and the generation of a policy.
fn version(object: &Object) -> (String, Option<i64>) {
    (object.uid().to_owned(), object.at(&["metadata", "generation"]).and_then(Value::as_i64))
}

impl Validation {
    fn of(value: &Value, compiler: &Compiler, scope: ExpressionScope) -> Self {
        let message = text(value, "messageExpression");
        let of_message = ExpressionScope { has_authorizer: false, ..scope };
        Validation {
            text: text(value, "expression").trim().to_owned(),
            expression: compiler.compile(text(value, "expression"), scope, ExpressionResult::Bool),
            message: text(value, "message").trim().to_owned(),
            message_expression: (!message.is_empty())
                .then(|| compiler.compile(message, of_message, ExpressionResult::Text).ok())
                .flatten(),
            reason: text(value, "reason").to_owned(),
        }
    }
}

impl Mutation {
    fn of(value: &Value, compiler: &Compiler, scope: ExpressionScope) -> Self {
        let expression = |field: &str, result| {
            let text = value.get(field).map_or("", |patch| text(patch, "expression"));
            compiler.compile(text, scope, result)
        };
        match text(value, "patchType") {
            "JSONPatch" => Mutation::JsonPatch(expression("jsonPatch", ExpressionResult::JsonPatch)),
            _ => Mutation::Apply(expression("applyConfiguration", ExpressionResult::ApplyConfiguration)),
        }
    }
}

impl Binding {
    /// Compiles a binding.
    pub(crate) fn of(object: &Object) -> Self {
        let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
        let given = |name: &str| spec.get(name).filter(|value| !value.is_null());
        Binding {
            name: object.name().to_owned(),
            policy: text(spec, "policyName").to_owned(),
            criteria: given("matchResources").map(Criteria::of_match_resources),
            param: given("paramRef").map(ParamRef::of),
            actions: list(spec, "validationActions").filter_map(Value::as_str).map(str::to_owned).collect(),
        }
    }
}
