//! Applies `MutatingAdmissionPolicy`.
//!
//! Upstream: apiserver `pkg/admission/plugin/policy/mutating` (`dispatcher.go`, `patch`),
//! `pkg/admission/plugin/policy/generic/policy_dispatcher.go`.

use orlop_api::object::Object;
use orlop_api::status::{ApiError, Details};
use orlop_api::validate::Cause;
use orlop_codec::decode::conform_to;
use orlop_codec::managed_fields::merge_configuration;
use orlop_codec::patch::apply_operations;
use orlop_crd::expression::Values;
use serde_json::Value;

use super::budget::{BindingBudget, PhaseBudget, size, size_of_params};
use super::cluster::{Access, ClusterState, request_resource};
use super::compiled::{Binding, Mutation, Policy, Rules};
use super::index::PolicyIndex;
use super::params::collect;
use super::validate::{namespace_object, shown_name};
use crate::admission::matching::{Attributes, GroupVersionKind};
use crate::admission::outcome::{MAX_TEXT, cut};
use crate::admission::reinvocation::Reinvocation;
use crate::registry::Kind;

/// Maximum number of failures in an error.
const MAX_FAILURES: usize = 64;

/// A policy that matches a request, with one of its bindings. The parameters are read when the policy runs, so that only those of one
/// binding are in memory.
struct Invocation<'p> {
    policy: &'p Policy,
    binding: &'p Binding,
    mutations: &'p [Mutation],
    reinvokes: bool,
    kind: GroupVersionKind,
}

/// The messages of failed policies. Those beyond [`MAX_FAILURES`] are dropped.
#[derive(Default)]
struct Failures(Vec<String>);

impl Failures {
    fn add(&mut self, why: &str) {
        if self.0.len() < MAX_FAILURES {
            self.0.push(cut(why, MAX_TEXT).to_owned());
        }
    }
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
    // Failures of the configuration precede those of mutations, as upstream.
    let (mut failures, mut of_mutations) = (Failures::default(), Failures::default());
    let mut run: Option<Run<'_>> = None;
    let mut phase = PhaseBudget::default();
    for invocation in invocations(policies, request, object, old, cluster) {
        let invocation = match invocation {
            Ok(invocation) => invocation,
            Err(why) => {
                failures.add(&why);
                continue;
            }
        };
        let Invocation { policy, binding, .. } = invocation;
        // Nothing is read for a binding that has no budget.
        let params = match phase.visit(|| 1) {
            Ok(()) => {
                let (kind, param) = (policy.param_kind.as_ref(), binding.param.as_ref());
                collect(kind, param, request.namespace, cluster, &mut phase)
                    .map_err(|why| format!("failed to configure binding: {why}"))
            }
            Err(error) => Err(error.to_string()),
        };
        let params = params.unwrap_or_else(|why| {
            if policy.fails {
                failures.add(&described(policy, binding, &why));
            }
            Vec::new()
        });
        // If nothing remains, the policy fails below.
        let _ = phase.visit(|| size_of_params(&params));
        let mut budget = phase.binding();
        for param in &params {
            let run = match &run {
                Some(run) => run,
                None => {
                    state.policies.begin(state.is_second, Some(object));
                    let namespace = namespace_object(request, cluster)?;
                    run.insert(Run { request, kind, old, cluster, namespace })
                }
            };
            run.invoke(&invocation, param.as_ref(), &mut budget, object, state, &mut of_mutations)?;
        }
        phase.charge(&budget);
    }
    if run.is_some() {
        state.policies.end(Some(object));
    }
    of_mutations.0.iter().for_each(|why| failures.add(why));
    failed(request, object, &failures.0)
}

/// The policies and bindings that match a request, and the failures of those whose match is unknown, in order.
fn invocations<'p>(
    policies: &'p PolicyIndex,
    request: &Attributes<'_>,
    object: &Object,
    old: Option<&Object>,
    cluster: &dyn ClusterState,
) -> Vec<Result<Invocation<'p>, String>> {
    let mut found = Vec::new();
    for (policy, bindings) in policies.mutating.bound() {
        let Rules::Mutating { mutations, reinvokes } = &policy.rules else { continue };
        let kind = match policy.criteria.matches(request, Some(object), old, cluster) {
            Ok(Some(kind)) => kind,
            Ok(None) => continue,
            Err(error) => {
                let why =
                    format!("policy {:?} denied request: failed to configure policy: {error}", policy.name);
                found.extend(policy.fails.then_some(Err(why)));
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
            let (reinvokes, kind) = (*reinvokes, kind.clone());
            match matched {
                Ok(false) => {}
                Ok(true) => found.push(Ok(Invocation { policy, binding, mutations, reinvokes, kind })),
                Err(error) if policy.fails => {
                    let why = format!("failed to configure binding: {error}");
                    found.push(Err(described(policy, binding, &why)));
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
    namespace: Option<Value>,
}

impl Run<'_> {
    /// Applies the mutations of a policy with one parameter, in order.
    fn invoke(
        &self,
        invocation: &Invocation<'_>,
        param: Option<&Value>,
        budget: &mut BindingBudget,
        object: &mut Object,
        state: &mut Reinvocation,
        failures: &mut Failures,
    ) -> Result<(), ApiError> {
        let Invocation { policy, binding, .. } = invocation;
        let mut fail = |why: &str| {
            if policy.fails {
                failures.add(&described(policy, binding, why));
            }
        };
        if let Err(error) = budget.visit(|| size([Some(&*object), self.old])) {
            fail(&error.to_string());
            return Ok(());
        }
        let matches = self.with_values(invocation, param, object, None, |values| {
            policy.conditions.match_request(values, &policy.variables, &mut budget.conditions)
        });
        match matches {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(why) => {
                fail(&why);
                return Ok(());
            }
        }
        let shown = param.map(|param| &param["metadata"]);
        let shown = shown.map(|metadata| format!("{}/{}", metadata["namespace"], metadata["name"]));
        let key = format!("{}/{}/{}", policy.name, binding.name, shown.unwrap_or_default());
        if !state.policies.runs(state.is_second, &key) {
            return Ok(());
        }
        let before = object.clone();
        for mutation in invocation.mutations {
            if let Err(error) = budget.visit(|| size([Some(&*object), self.old])) {
                fail(&error.to_string());
                break;
            }
            match self.apply(invocation, param, budget, mutation, object) {
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
        param: Option<&Value>,
        budget: &mut BindingBudget,
        mutation: &Mutation,
        object: &Object,
    ) -> Result<Object, Failure> {
        let variables = &invocation.policy.variables;
        match mutation {
            Mutation::Apply(Err(why)) | Mutation::JsonPatch(Err(why)) => Err(Failure::Policy(why.clone())),
            Mutation::Apply(Ok(expression)) => {
                let made = self.with_values(invocation, param, object, self.namespace.as_ref(), |values| {
                    values.apply_configuration(variables, expression, &mut budget.rules)
                });
                let Value::Object(config) = made.map_err(Failure::Policy)? else { return Ok(object.clone()) };
                let kind = &invocation.kind;
                let shown = self.request.converted(object, kind);
                let merged = self
                    .request
                    .decode_shown(self.kind, kind, |form| merge_configuration(form, &shown, &config));
                merged.map_err(|why| Failure::Policy(format!("error applying patch: {why}")))
            }
            Mutation::JsonPatch(Ok(expression)) => {
                let made = self.with_values(invocation, param, object, self.namespace.as_ref(), |values| {
                    values.json_patch(variables, expression, &mut budget.rules)
                });
                let patch = made.map_err(Failure::Policy)?;
                let document = self.request.shown(object, &invocation.kind);
                match patched(document, patch).map_err(Failure::Policy)? {
                    None => Ok(object.clone()),
                    Some(document) => {
                        let decode = |form: &dyn Kind| decoded(form, document);
                        let changed = self.request.decode_shown(self.kind, &invocation.kind, decode);
                        changed.map_err(Failure::Api)
                    }
                }
            }
        }
    }

    fn with_values<T>(
        &self,
        invocation: &Invocation<'_>,
        param: Option<&Value>,
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
            params: param,
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
pub(crate) fn patched(document: Value, patch: Vec<Value>) -> Result<Option<Value>, String> {
    apply_operations(document, patch)
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
