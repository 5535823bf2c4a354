//! Enforces `ValidatingAdmissionPolicy`.
//!
//! Upstream: apiserver `pkg/admission/plugin/policy/validating` (`dispatcher.go`, `validator.go`).

use std::cell::LazyCell;

use orlop_api::object::Object;
use orlop_api::status::{ApiError, Details};
use orlop_api::validate::Cause;
use orlop_crd::expression::{CostBudget, Expression, OutOfBudget, Outcome, Values};
use serde_json::{Value, json};

use super::budget::{BindingBudget, PhaseBudget, size, size_of_params};
use super::cluster::{Access, ClusterState, request_resource};
use super::compiled::{AuditAnnotation, Binding, Policy, Rules, Validation};
use super::index::PolicyIndex;
use super::params::collect;
use crate::admission::matching::{Attributes, GroupVersionKind, namespace_not_found};
use crate::admission::outcome::{Findings, MAX_TEXT, cut};

/// The longest message that an expression may compute, bytes.
const LONGEST_MESSAGE: usize = 5 * 1024;
/// The longest message in the audit annotation of a failure, bytes: with it, the JSON is shorter than [`MAX_TEXT`].
const LONGEST_AUDITED: usize = 1024;

/// A rejection: its message, and its reason, which may be empty.
struct Denial {
    message: String,
    reason: String,
}

/// Evaluates the policies that match a request.
///
/// # Errors
/// The first rejection.
pub(crate) fn validate(
    policies: &PolicyIndex,
    request: &Attributes<'_>,
    object: Option<&Object>,
    old: Option<&Object>,
    cluster: &dyn ClusterState,
    findings: &mut Findings,
) -> Result<(), ApiError> {
    let mut first: Option<(&str, Option<&str>, Denial)> = None;
    let mut deny = |policy, binding, denial| {
        first.get_or_insert((policy, binding, denial));
    };
    let mut phase = PhaseBudget::default();
    let objects = LazyCell::new(|| size([object, old]));
    for (policy, bindings) in policies.validating.bound() {
        let Rules::Validating { validations, annotations } = &policy.rules else { continue };
        let failed = |why: String| Denial { message: why, reason: String::new() };
        let kind = match policy.criteria.matches(request, object, old, cluster) {
            Ok(Some(kind)) => kind,
            Ok(None) => continue,
            Err(error) => {
                if policy.fails {
                    deny(&policy.name, None, failed(format!("failed to configure policy: {error}")));
                }
                continue;
            }
        };
        let mut published: Vec<(String, Published)> = Vec::new();
        for binding in bindings {
            let denies = binding.actions.iter().any(|action| action == "Deny");
            let (param_kind, param_ref) = (policy.param_kind.as_ref(), binding.param.as_ref());
            let matched = match &binding.criteria {
                None => Ok(()),
                Some(criteria) => match criteria.matches(request, object, old, cluster) {
                    Ok(None) => continue,
                    Ok(Some(_)) => Ok(()),
                    Err(error) => Err(error.to_string()),
                },
            };
            // Nothing is read or converted for a binding that has no budget.
            let is_exhausted = phase.visit(|| *objects).is_err();
            let params = match matched {
                Ok(()) if is_exhausted => Ok(Vec::new()),
                Ok(()) => collect(param_kind, param_ref, request.namespace, cluster, &mut phase),
                Err(why) => Err(why),
            };
            let params = match params {
                Ok(params) => params,
                Err(why) => {
                    if policy.fails {
                        let denial = failed(format!("failed to configure binding: {why}"));
                        deny(&policy.name, Some(&binding.name), denial);
                    }
                    continue;
                }
            };
            if is_exhausted || phase.visit(|| size_of_params(&params)).is_err() {
                if policy.fails {
                    let denial = failed(OutOfBudget.to_string());
                    act(policy, binding, 0, &denial, findings);
                    if denies {
                        deny(&policy.name, Some(&binding.name), denial);
                    }
                }
                continue;
            }
            let evaluator = Evaluator::of(policy, request, &kind, object, old, cluster)?;
            let mut budget = phase.binding();
            for param in params {
                let result = evaluator.run(validations, annotations, param.as_ref(), &mut budget);
                for (at, denial) in result.denials {
                    act(policy, binding, at, &denial, findings);
                    if denies {
                        deny(&policy.name, Some(&binding.name), denial);
                    }
                }
                for (key, value) in result.annotations {
                    match published.iter_mut().find(|(known, _)| *known == key) {
                        Some((_, known)) => known.add(value),
                        None => {
                            let mut values = Published::default();
                            values.add(value);
                            published.push((key, values));
                        }
                    }
                }
                for message in result.annotation_errors {
                    deny(&policy.name, Some(&binding.name), failed(message));
                }
            }
            phase.charge(&budget);
        }
        for (key, values) in published {
            findings.annotate(format!("{}/{key}", policy.name), values.values.join(", "));
        }
    }
    match first {
        None => Ok(()),
        Some((policy, binding, denial)) => Err(denied(request, object, policy, binding, &denial)),
    }
}

/// The values of an audit annotation, one for each parameter. Those beyond [`MAX_TEXT`] are dropped.
#[derive(Default)]
struct Published {
    values: Vec<String>,
    bytes: usize,
}

impl Published {
    fn add(&mut self, value: String) {
        if self.bytes < MAX_TEXT && !self.values.contains(&value) {
            self.bytes += value.len() + ", ".len();
            self.values.push(value);
        }
    }
}

/// Warns about a rejection, or records it for the audit log.
fn act(policy: &Policy, binding: &Binding, at: usize, denial: &Denial, findings: &mut Findings) {
    for action in &binding.actions {
        match action.as_str() {
            "Warn" => findings.warn(format!(
                "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                policy.name, binding.name, denial.message
            )),
            "Audit" => {
                let failure = json!([{
                    "message": cut(&denial.message, LONGEST_AUDITED), "policy": policy.name, "binding": binding.name,
                    "expressionIndex": at, "validationActions": binding.actions,
                }]);
                let key = "validation.policy.admission.k8s.io/validation_failure";
                findings.annotate(key.to_owned(), failure.to_string());
            }
            _ => {}
        }
    }
}

fn denied(
    request: &Attributes<'_>,
    object: Option<&Object>,
    policy: &str,
    binding: Option<&str>,
    denial: &Denial,
) -> ApiError {
    let with = binding.map(|binding| format!(" with binding '{binding}'")).unwrap_or_default();
    let message = format!("ValidatingAdmissionPolicy '{policy}'{with} denied request: {}", denial.message);
    let mut error = ApiError::forbidden(request.names, shown_name(request, object), &message);
    (error.code, error.reason) = match denial.reason.as_str() {
        "Forbidden" => (403, "Forbidden"),
        "Unauthorized" => (401, "Unauthorized"),
        "RequestEntityTooLarge" => (413, "RequestEntityTooLarge"),
        _ => (422, "Invalid"),
    };
    let details = error.details.get_or_insert_with(|| Box::new(Details::default()));
    details.causes.push(Cause { reason: "", message, field: String::new() });
    error
}

/// The name in errors: a name that is still to be generated is shown as its prefix.
pub(super) fn shown_name<'a>(request: &'a Attributes<'_>, object: Option<&'a Object>) -> &'a str {
    let prefix = object.map_or("", |object| object.str_at(&["metadata", "generateName"]));
    let names = [request.name, object.map_or("", Object::name), prefix, "Unknown"];
    names.into_iter().find(|name| !name.is_empty()).unwrap_or_default()
}

/// The result of the rules of a policy.
#[derive(Default)]
struct Evaluated {
    /// The position of each broken rule, and the rejection.
    denials: Vec<(usize, Denial)>,
    annotations: Vec<(String, String)>,
    annotation_errors: Vec<String>,
}

/// A policy and the request on which it is evaluated.
struct Evaluator<'a> {
    policy: &'a Policy,
    request: Value,
    object: Option<Value>,
    old: Option<Value>,
    namespace: Option<Value>,
    access: Access<'a>,
    resource: orlop_crd::expression::AccessTarget,
}

impl<'a> Evaluator<'a> {
    fn of(
        policy: &'a Policy,
        request: &'a Attributes<'_>,
        kind: &GroupVersionKind,
        object: Option<&Object>,
        old: Option<&Object>,
        cluster: &'a dyn ClusterState,
    ) -> Result<Self, ApiError> {
        let shown = |object: Option<&Object>| object.map(|object| request.shown(object, kind));
        Ok(Evaluator {
            policy,
            request: request.request(kind),
            object: shown(object),
            old: shown(old),
            namespace: namespace_object(request, cluster)?,
            access: Access { cluster, user: request.user },
            resource: request_resource(request),
        })
    }

    fn run(
        &self,
        validations: &[Validation],
        annotations: &[AuditAnnotation],
        params: Option<&Value>,
        budget: &mut BindingBudget,
    ) -> Evaluated {
        let mut result = Evaluated::default();
        let fail = |result: &mut Evaluated, at: usize, message: String| {
            if self.policy.fails {
                result.denials.push((at, Denial { message, reason: String::new() }));
            }
        };
        let values = Values {
            object: self.object.as_ref(),
            old_object: self.old.as_ref(),
            request: Some(&self.request),
            params,
            namespace_object: None,
            access: Some(&self.access),
            request_resource: Some(&self.resource),
        };
        match self.policy.conditions.match_request(&values, &self.policy.variables, &mut budget.conditions) {
            Ok(true) => {}
            Ok(false) => return result,
            Err(why) => {
                fail(&mut result, 0, why);
                return result;
            }
        }
        let values = Values { namespace_object: self.namespace.as_ref(), ..values };
        let expressions: Vec<Option<&Expression>> =
            validations.iter().map(|validation| validation.expression.as_ref().ok()).collect();
        let outcomes = match values.evaluate(&self.policy.variables, &expressions, &mut budget.rules) {
            Ok(outcomes) => outcomes,
            Err(error) => {
                fail(&mut result, 0, error.to_string());
                return result;
            }
        };
        let of_message = Values { access: None, request_resource: None, ..values };
        let expressions: Vec<Option<&Expression>> =
            validations.iter().map(|validation| validation.message_expression.as_ref()).collect();
        let messages = of_message.evaluate(&self.policy.variables, &expressions, &mut budget.rules);
        for (at, (validation, outcome)) in validations.iter().zip(outcomes).enumerate() {
            let outcome = match (&validation.expression, outcome) {
                (Err(why), _) => Err(format!("compilation error: {why}")),
                (Ok(_), Some(outcome)) => outcome,
                (Ok(_), None) => continue,
            };
            match (outcome, &messages) {
                (Err(why), _) => fail(&mut result, at, why),
                (Ok(_), Err(error)) => {
                    fail(&mut result, at, format!("failed messageExpression: {error}"));
                }
                (Ok(Outcome::Bool(true)), Ok(_)) => {}
                (Ok(_), Ok(messages)) => {
                    let message = message(validation, messages.get(at).and_then(Option::as_ref));
                    result.denials.push((at, Denial { message, reason: validation.reason.clone() }));
                }
            }
        }
        self.annotate(&values, annotations, &mut budget.rules, &mut result);
        result
    }

    fn annotate(
        &self,
        values: &Values<'_>,
        annotations: &[AuditAnnotation],
        budget: &mut CostBudget,
        result: &mut Evaluated,
    ) {
        let expressions: Vec<Option<&Expression>> =
            annotations.iter().map(|annotation| annotation.expression.as_ref().ok()).collect();
        let values = Values { access: None, request_resource: None, ..*values };
        let outcomes = match values.evaluate(&self.policy.variables, &expressions, budget) {
            Ok(outcomes) => outcomes,
            Err(error) if self.policy.fails => return result.annotation_errors.push(error.to_string()),
            Err(_) => return,
        };
        for (annotation, outcome) in annotations.iter().zip(outcomes) {
            let outcome = match &annotation.expression {
                Err(why) => Err(format!("compilation error: {why}")),
                Ok(_) => outcome.unwrap_or(Ok(Outcome::Null)),
            };
            match outcome {
                Ok(Outcome::Text(text)) if !text.trim().is_empty() => {
                    let value = cut(text.trim(), MAX_TEXT).to_owned();
                    result.annotations.push((annotation.key.clone(), value));
                }
                Ok(_) => {}
                Err(why) if self.policy.fails => result.annotation_errors.push(why),
                Err(_) => {}
            }
        }
    }
}

/// The message about a broken rule: computed, static, or its text.
fn message(validation: &Validation, computed: Option<&Result<Outcome, String>>) -> String {
    if let Some(Ok(Outcome::Text(text))) = computed {
        let text = text.trim();
        if !text.is_empty() && text.len() <= LONGEST_MESSAGE && !text.contains('\n') {
            return text.to_owned();
        }
    }
    if validation.message.is_empty() {
        format!("failed expression: {}", validation.text)
    } else {
        validation.message.clone()
    }
}

/// The namespace of a request, in the form of `namespaceObject`.
///
/// # Errors
/// 404 if it does not exist.
pub(super) fn namespace_object(
    request: &Attributes<'_>,
    cluster: &dyn ClusterState,
) -> Result<Option<Value>, ApiError> {
    if request.namespace.is_empty() || request.is_namespace() {
        return Ok(None);
    }
    let found = cluster.namespace(request.namespace);
    let mut namespace = found.ok_or_else(|| namespace_not_found(request.namespace))?;
    for name in ["managedFields", "ownerReferences"] {
        namespace.meta().remove(name);
    }
    Ok(Some(namespace.into_value()))
}
