//! Applies `MutatingAdmissionPolicy`.
//!
//! Upstream: apiserver `pkg/admission/plugin/policy/mutating` (`dispatcher.go`, `patch`),
//! `pkg/admission/plugin/policy/generic/policy_dispatcher.go`.

use orlop_api::object::Object;
use orlop_api::status::{ApiError, Details};
use orlop_api::validate::Cause;
use orlop_codec::decode::conform_to;
use orlop_codec::managed_fields::merge_configuration;
use orlop_crd::expression::{CostBudget, Values};
use serde_json::Value;

use super::cluster::{Access, ClusterState, request_resource};
use super::compiled::{Binding, Mutation, Policy, Rules};
use super::index::PolicyIndex;
use super::params::collect;
use super::validate::{namespace_object, shown_name};
use crate::admission::matching::{Attributes, GroupVersionKind};
use crate::admission::reinvocation::Reinvocation;
use crate::registry::Kind;

/// A policy that matches a request, with its binding and parameters.
struct Invocation<'p> {
    policy: &'p Policy,
    binding: &'p Binding,
    mutations: &'p [Mutation],
    reinvokes: bool,
    kind: GroupVersionKind,
    param: Option<Value>,
}

/// Why a mutation does not happen.
enum Failure {
    /// The failure policy decides.
    Policy(String),
    /// The request fails.
    Api(ApiError),
}

/// Applies the policies that match a request to its object.
///
/// # Errors
/// The errors of policies that fail.
pub(crate) fn mutate(
    policies: &PolicyIndex,
    request: &Attributes<'_>,
    kind: &dyn Kind,
    object: &mut Object,
    old: Option<&Object>,
    cluster: &dyn ClusterState,
    state: &mut Reinvocation,
) -> Result<(), ApiError> {
    let mut failures = Vec::new();
    let invocations = invocations(policies, request, object, old, cluster, &mut failures);
    if !invocations.is_empty() {
        state.policies.begin(state.is_second, Some(object));
        let namespace = namespace_object(request, cluster)?;
        for invocation in invocations {
            let run = Run { request, kind, old, cluster, namespace: namespace.as_ref() };
            run.invoke(&invocation, object, state, &mut failures)?;
        }
        state.policies.end(Some(object));
    }
    failed(request, object, &failures)
}

fn invocations<'p>(
    policies: &'p PolicyIndex,
    request: &Attributes<'_>,
    object: &Object,
    old: Option<&Object>,
    cluster: &dyn ClusterState,
    failures: &mut Vec<String>,
) -> Vec<Invocation<'p>> {
    let mut found = Vec::new();
    for (policy, bindings) in policies.mutating.bound() {
        let Rules::Mutating { mutations, reinvokes } = &policy.rules else { continue };
        let kind = match policy.criteria.matches(request, Some(object), old, cluster) {
            Ok(Some(kind)) => kind,
            Ok(None) => continue,
            Err(error) => {
                let why =
                    format!("policy {:?} denied request: failed to configure policy: {error}", policy.name);
                failures.extend(policy.fails.then_some(why));
                continue;
            }
        };
        for binding in bindings {
            let matched = match &binding.criteria {
                None => Ok(true),
                Some(criteria) => {
                    criteria.matches(request, Some(object), old, cluster).map(|kind| kind.is_some())
                }
            };
            let params = match matched {
                Ok(false) => continue,
                Ok(true) => {
                    collect(policy.param_kind.as_ref(), binding.param.as_ref(), request.namespace, cluster)
                }
                Err(error) => Err(error.to_string()),
            };
            match params {
                Ok(params) => found.extend(params.into_iter().map(|param| Invocation {
                    policy,
                    binding,
                    mutations,
                    reinvokes: *reinvokes,
                    kind: kind.clone(),
                    param,
                })),
                Err(why) if policy.fails => {
                    failures.push(described(policy, binding, &format!("failed to configure binding: {why}")));
                }
                Err(_) => {}
            }
        }
    }
    found
}

fn described(policy: &Policy, binding: &Binding, why: &str) -> String {
    format!("policy '{}' with binding '{}' denied request: {why}", policy.name, binding.name)
}

/// The request, and the cluster around it.
struct Run<'a> {
    request: &'a Attributes<'a>,
    kind: &'a dyn Kind,
    old: Option<&'a Object>,
    cluster: &'a dyn ClusterState,
    namespace: Option<&'a Value>,
}

impl Run<'_> {
    /// Applies the mutations of a policy, in order.
    fn invoke(
        &self,
        invocation: &Invocation<'_>,
        object: &mut Object,
        state: &mut Reinvocation,
        failures: &mut Vec<String>,
    ) -> Result<(), ApiError> {
        let Invocation { policy, binding, .. } = invocation;
        let mut fail = |why: &str| failures.extend(policy.fails.then(|| described(policy, binding, why)));
        let matches = self.with_values(invocation, object, None, |values| {
            policy.conditions.match_request(values, &policy.variables)
        });
        match matches {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(why) => {
                fail(&why);
                return Ok(());
            }
        }
        let param = invocation.param.as_ref().map(|param| &param["metadata"]);
        let param = param.map(|metadata| format!("{}/{}", metadata["namespace"], metadata["name"]));
        let key = format!("{}/{}/{}", policy.name, binding.name, param.unwrap_or_default());
        if !state.policies.runs(state.is_second, &key) {
            return Ok(());
        }
        let before = object.clone();
        for mutation in invocation.mutations {
            match self.apply(invocation, mutation, object) {
                Ok(mut changed) => {
                    self.kind.defaults(&mut changed);
                    *object = changed;
                }
                Err(Failure::Policy(why)) => fail(&why),
                Err(Failure::Api(error)) => return Err(error),
            }
        }
        if *object != before {
            state.policies.require_all();
            state.is_needed = true;
        }
        if invocation.reinvokes {
            state.policies.add(key);
        }
        Ok(())
    }

    fn apply(
        &self,
        invocation: &Invocation<'_>,
        mutation: &Mutation,
        object: &Object,
    ) -> Result<Object, Failure> {
        let variables = &invocation.policy.variables;
        match mutation {
            Mutation::Apply(Err(why)) | Mutation::JsonPatch(Err(why)) => Err(Failure::Policy(why.clone())),
            Mutation::Apply(Ok(expression)) => {
                let made = self.with_values(invocation, object, self.namespace, |values| {
                    values.apply_configuration(variables, expression, &mut CostBudget::of_policy())
                });
                let Value::Object(config) = made.map_err(Failure::Policy)? else { return Ok(object.clone()) };
                merge_configuration(self.kind, object, &config)
                    .map_err(|why| Failure::Policy(format!("error applying patch: {why}")))
            }
            Mutation::JsonPatch(Ok(expression)) => {
                let made = self.with_values(invocation, object, self.namespace, |values| {
                    values.json_patch(variables, expression, &mut CostBudget::of_policy())
                });
                let patch = made.map_err(Failure::Policy)?;
                let document = self.request.shown(object, &invocation.kind);
                match patched(document, patch).map_err(Failure::Policy)? {
                    None => Ok(object.clone()),
                    Some(document) => decoded(self.kind, document).map_err(Failure::Api),
                }
            }
        }
    }

    fn with_values<T>(
        &self,
        invocation: &Invocation<'_>,
        object: &Object,
        namespace: Option<&Value>,
        run: impl FnOnce(&Values<'_>) -> T,
    ) -> T {
        let shown = self.request.shown(object, &invocation.kind);
        let old = self.old.map(|old| self.request.shown(old, &invocation.kind));
        let request = self.request.request(&invocation.kind);
        let access = Access { cluster: self.cluster, user: self.request.user };
        let resource = request_resource(self.request);
        run(&Values {
            object: Some(&shown),
            old_object: old.as_ref(),
            request: Some(&request),
            params: invocation.param.as_ref(),
            namespace_object: namespace,
            access: Some(&access),
            request_resource: Some(&resource),
        })
    }
}

/// Applies a JSON patch; `None` if one of its tests fails.
///
/// # Errors
/// Why it cannot be applied.
pub(crate) fn patched(mut document: Value, patch: Vec<Value>) -> Result<Option<Value>, String> {
    let patch: json_patch::Patch =
        serde_json::from_value(Value::Array(patch)).map_err(|error| format!("JSON Patch: {error}"))?;
    match json_patch::patch(&mut document, &patch) {
        Ok(()) => Ok(Some(document)),
        Err(error) if matches!(error.kind, json_patch::PatchErrorKind::TestFailed) => Ok(None),
        Err(error) => Err(format!("JSON Patch: {error}")),
    }
}

/// Converts a document to an object of a kind.
///
/// # Errors
/// 500 if it does not fit the kind.
pub(crate) fn decoded(kind: &dyn Kind, mut document: Value) -> Result<Object, ApiError> {
    if let Value::Object(map) = &mut document {
        map.remove("kind");
        map.remove("apiVersion");
    }
    let conformed = conform_to(kind, document).map_err(ApiError::internal)?;
    Ok(Object(conformed.object))
}

/// The error for failed policies: 403 with the message of the first.
fn failed(request: &Attributes<'_>, object: &Object, failures: &[String]) -> Result<(), ApiError> {
    let Some(first) = failures.first() else { return Ok(()) };
    let name = shown_name(request, Some(object));
    let mut error = ApiError::forbidden(request.names, name, "admission request denied by policy");
    error.message.clone_from(first);
    error.reason = "Invalid";
    let details = error.details.get_or_insert_with(|| Box::new(Details::default()));
    for message in failures {
        details.causes.push(Cause { reason: "", message: message.clone(), field: String::new() });
    }
    Err(error)
}
