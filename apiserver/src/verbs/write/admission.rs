//! Runs admission: the plugins, and the policies and webhooks at their places.
//!
//! Upstream: apiserver `pkg/admission/chain.go`, `pkg/admission/reinvocation.go`.

use std::cell::RefCell;
use std::sync::Arc;

use futures::FutureExt as _;
use orlop_api::object::Object;
use orlop_api::registry::admission_registration::GROUP;
use orlop_api::status::ApiError;

use super::attributes::{attributes, is_dry_run, is_scale, shown};
use super::cluster::ClusterHead;
use super::default_account;
use crate::admission::configured::{
    MUTATING_POLICY, MUTATING_WEBHOOK, VALIDATING_POLICY, VALIDATING_WEBHOOK,
};
use crate::admission::matching::{AdmissionOperation, Attributes, GroupVersionKind};
use crate::admission::outcome::Findings;
use crate::admission::policy::{self, PolicyIndex};
use crate::admission::reinvocation::Reinvocation;
use crate::admission::webhook::{self, WebhookIndex};
use crate::admission::{self, Operation};
use crate::authorization;
use crate::services;
use crate::verbs::request::Request;

/// A write, while it is admitted.
struct Admission<'a> {
    request: &'a Request,
    operation: AdmissionOperation,
    dry_run: bool,
    cluster: ClusterHead<'a>,
    policies: Arc<PolicyIndex>,
    webhooks: Arc<WebhookIndex>,
    findings: Findings,
    state: Reinvocation,
}

/// Whether the user may change this object at all. Runs before the change is compared with the object or applied to it, because the
/// errors of these steps show parts of the object.
///
/// # Errors
/// 403 of an admission plugin.
pub(crate) fn check_target(request: &Request, old: &Object) -> Result<(), ApiError> {
    let asked = plugin_request(request, Operation::Update, old.name(), None, Some(old));
    request.server.admission.check_target(&asked)
}

/// Runs the mutating admission of a create or an update.
pub(crate) async fn admit(
    request: &Request,
    operation: Operation,
    object: &mut Object,
    old: Option<&Object>,
    warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    if operation == Operation::Create {
        default_account::wait(request, object).await;
    }
    let mut admission = Admission::of(request, operation.into(), is_dry_run(request))?;
    admission.mutate_in_process(operation, object, old)?;
    if admission.calls_mutating() {
        admission.call_mutating(object, old).await?;
        if admission.starts_again() {
            admission.mutate_in_process(operation, object, old)?;
            admission.call_mutating(object, old).await?;
        }
    } else if admission.starts_again() {
        admission.mutate_in_process(operation, object, old)?;
    }
    admission.end(warnings)?;
    allocate(request, object, old)
}

/// The mutating admission of a write that cannot wait for webhooks.
///
/// # Errors
/// 403 if the request needs a webhook.
pub(crate) fn admit_without_calls(
    request: &Request,
    operation: Operation,
    object: &mut Object,
    old: Option<&Object>,
) -> Result<(), ApiError> {
    let mut admission = Admission::of(request, operation.into(), false)?;
    admission.mutate_in_process(operation, object, old)?;
    if admission.starts_again() {
        admission.mutate_in_process(operation, object, old)?;
    }
    admission.refuse_calls(Some(object), old)?;
    admission.cluster.check()?;
    allocate(request, object, old)
}

/// Runs the validating admission of a create or an update.
pub(crate) async fn admit_validated(
    request: &Request,
    operation: Operation,
    object: &mut Object,
    old: Option<&Object>,
    warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    let mut admission = Admission::of(request, operation.into(), is_dry_run(request))?;
    admission.validate_in_process(operation, object, old)?;
    admission.call_validating(Some(object), old).await?;
    admission.end(warnings)?;
    validate_last(request, operation, Some(object), old)
}

/// The validating admission of a write that cannot wait for webhooks: [`admit_without_calls`] has rejected requests that need
/// one.
pub(crate) fn admit_validated_without_calls(
    request: &Request,
    operation: Operation,
    object: &mut Object,
    old: Option<&Object>,
) -> Result<(), ApiError> {
    let mut admission = Admission::of(request, operation.into(), false)?;
    admission.validate_in_process(operation, object, old)?;
    admission.cluster.check()?;
    validate_last(request, operation, Some(object), old)
}

/// Runs admission for a delete. An eviction has passed admission with its body.
pub(crate) async fn admit_delete(
    request: &Request,
    old: &Object,
    dry_run: bool,
    warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    if request.resource.subresource == "eviction" {
        return Ok(());
    }
    let mut admission = Admission::of(request, AdmissionOperation::Delete, dry_run)?;
    admission.delete_in_process(old)?;
    if admission.calls_mutating() {
        admission.run_mutating(&mut None, None, Some(old)).await?;
    }
    admission.validate_policies(None, Some(old))?;
    admission.call_validating(None, Some(old)).await?;
    admission.end(warnings)?;
    validate_last(request, Operation::Delete, None, Some(old))
}

/// The admission of a delete that cannot wait for webhooks.
///
/// # Errors
/// 403 if the request needs a webhook.
pub(crate) fn admit_delete_without_calls(request: &Request, old: &Object) -> Result<(), ApiError> {
    let mut admission = Admission::of(request, AdmissionOperation::Delete, false)?;
    admission.delete_in_process(old)?;
    admission.refuse_calls(None, Some(old))?;
    admission.validate_policies(None, Some(old))?;
    admission.cluster.check()?;
    validate_last(request, Operation::Delete, None, Some(old))
}

/// Runs the mutating plugins for the body of a POST to a subresource with its own type, such as `binding`.
pub(crate) fn admit_body(request: &Request, body: &mut Object) -> Result<(), ApiError> {
    let name = &request.resource.name;
    let mut asked = plugin_request(request, Operation::Create, name, Some(body), None);
    request.look_up(|lookup| request.server.admission.mutate(&mut asked, lookup))?
}

/// Runs the policies and validating webhooks for a request to a subresource that is no write of its object: a connection, a
/// binding or an eviction. `object` is the document of the request.
pub(crate) async fn admit_subresource(
    request: &Request,
    operation: AdmissionOperation,
    kind: GroupVersionKind,
    object: &Object,
    dry_run: bool,
    warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    let mut admission = Admission::of(request, operation, dry_run)?;
    if !admission.is_configured() {
        return Ok(());
    }
    let attributes = Attributes { kind, ..attributes(request, operation, Some(object), None, dry_run) };
    let server = &request.server;
    let (cluster, findings) = (&admission.cluster, &mut admission.findings);
    if server.admission.has(VALIDATING_POLICY) && admission.policies.validates() {
        policy::validate(&admission.policies, &attributes, Some(object), None, cluster, findings)?;
    }
    if server.admission.has(VALIDATING_WEBHOOK) {
        let client = &server.webhook_client;
        webhook::validate(&admission.webhooks, client, &attributes, (Some(object), None), cluster, findings)
            .await?;
    }
    admission.end(warnings)
}

impl<'a> Admission<'a> {
    /// # Errors
    /// A policy or the configuration of a webhook cannot be read.
    fn of(request: &'a Request, operation: AdmissionOperation, dry_run: bool) -> Result<Self, ApiError> {
        let server = &request.server;
        // The objects that configure admission are not subject to it, so that they can always be repaired.
        let is_exempt = request.names().group == GROUP;
        let (policies, webhooks) = match request.admission.get() {
            _ if is_exempt => Default::default(),
            Some((policies, webhooks)) => (policies.clone(), webhooks.clone()),
            None => (server.policies.now()?, server.webhooks.now()?),
        };
        Ok(Admission {
            request,
            operation,
            dry_run,
            cluster: ClusterHead::of(request),
            policies,
            webhooks,
            findings: Findings::default(),
            state: Reinvocation::default(),
        })
    }

    fn is_configured(&self) -> bool {
        self.policies.validates()
            || self.policies.mutates()
            || self.webhooks.validating().next().is_some()
            || self.webhooks.mutating().next().is_some()
    }

    fn calls_mutating(&self) -> bool {
        self.request.server.admission.has(MUTATING_WEBHOOK) && self.webhooks.mutating().next().is_some()
    }

    /// Whether the mutating admission runs a second time; begins it.
    fn starts_again(&mut self) -> bool {
        let again = self.state.is_needed && !self.state.is_second;
        self.state.is_second |= again;
        again
    }

    /// Passes the warnings on.
    ///
    /// # Errors
    /// An object that policies or webhooks needed cannot be read.
    fn end(self, warnings: &mut Vec<String>) -> Result<(), ApiError> {
        warnings.extend(self.findings.warnings);
        if let Some(audited) = &self.request.audited {
            audited.annotate(self.findings.annotations);
        }
        self.cluster.check()
    }

    /// Runs the plugins and the mutating policies.
    fn mutate_in_process(
        &mut self,
        operation: Operation,
        object: &mut Object,
        old: Option<&Object>,
    ) -> Result<(), ApiError> {
        let request = self.request;
        let name = object.name().to_owned();
        let mut asked = plugin_request(request, operation, &name, Some(object), old);
        self.cluster.lookup().run(|lookup| request.server.admission.mutate(&mut asked, lookup))??;
        asked.findings.into_inner().warnings.into_iter().for_each(|warning| self.findings.warn(warning));
        if !self.policies.mutates() || !request.server.admission.has(MUTATING_POLICY) || is_scale(request) {
            return Ok(());
        }
        let before = object.clone();
        let attributes = attributes(request, self.operation, Some(&before), old, self.dry_run);
        let kind = request.kind();
        policy::mutate(&self.policies, &attributes, kind, object, old, &self.cluster, &mut self.state)
    }

    /// Runs the plugins for a delete.
    fn delete_in_process(&mut self, old: &Object) -> Result<(), ApiError> {
        let chain = &self.request.server.admission;
        let mut asked = plugin_request(self.request, Operation::Delete, old.name(), None, Some(old));
        self.cluster.lookup().run(|lookup| {
            chain.mutate(&mut asked, lookup)?;
            chain.validate(&asked, lookup)
        })??;
        self.findings = asked.findings.into_inner();
        Ok(())
    }

    async fn call_mutating(&mut self, object: &mut Object, old: Option<&Object>) -> Result<(), ApiError> {
        if is_scale(self.request) {
            return Ok(());
        }
        let before = object.clone();
        let mut changed = Some(std::mem::take(object));
        let result = self.run_mutating(&mut changed, Some(&before), old).await;
        *object = changed.unwrap_or_default();
        result
    }

    /// Runs the mutating webhooks. `before` is the object before them, which names the request.
    async fn run_mutating(
        &mut self,
        object: &mut Option<Object>,
        before: Option<&Object>,
        old: Option<&Object>,
    ) -> Result<(), ApiError> {
        let request = self.request;
        let attributes = attributes(request, self.operation, before, old, self.dry_run);
        let webhooks = webhook::MutatingWebhooks {
            webhooks: &self.webhooks,
            client: &request.server.webhook_client,
            request: &attributes,
            kind: request.kind(),
            cluster: &self.cluster,
            grown: &request.grown,
        };
        webhooks.run(object, old, &mut self.state, &mut self.findings).boxed().await
    }

    /// Runs the plugins and the validating policies.
    fn validate_in_process(
        &mut self,
        operation: Operation,
        object: &mut Object,
        old: Option<&Object>,
    ) -> Result<(), ApiError> {
        let request = self.request;
        let name = object.name().to_owned();
        if request.resource.subresource.is_empty() {
            authorization::escalation::check(request, object, old)?;
            authorization::parameters::check(request, object, old, &self.cluster)?;
        }
        let asked = plugin_request(request, operation, &name, Some(object), old);
        let checked = self.cluster.lookup().run(|lookup| request.server.admission.validate(&asked, lookup));
        self.findings = asked.findings.into_inner();
        checked??;
        self.validate_policies(Some(object), old)
    }

    fn validate_policies(&mut self, object: Option<&Object>, old: Option<&Object>) -> Result<(), ApiError> {
        let request = self.request;
        if !self.policies.validates() || !request.server.admission.has(VALIDATING_POLICY) {
            return Ok(());
        }
        let (object, old) = (shown(request, object), shown(request, old));
        let attributes = attributes(request, self.operation, object.as_deref(), old.as_deref(), self.dry_run);
        let (cluster, findings) = (&self.cluster, &mut self.findings);
        policy::validate(&self.policies, &attributes, object.as_deref(), old.as_deref(), cluster, findings)
    }

    async fn call_validating(
        &mut self,
        object: Option<&Object>,
        old: Option<&Object>,
    ) -> Result<(), ApiError> {
        let request = self.request;
        let has_webhooks = self.webhooks.validating().next().is_some();
        if !has_webhooks || !request.server.admission.has(VALIDATING_WEBHOOK) {
            return Ok(());
        }
        let (object, old) = (shown(request, object), shown(request, old));
        let attributes = attributes(request, self.operation, object.as_deref(), old.as_deref(), self.dry_run);
        let client = &request.server.webhook_client;
        let objects = (object.as_deref(), old.as_deref());
        webhook::validate(&self.webhooks, client, &attributes, objects, &self.cluster, &mut self.findings)
            .boxed()
            .await
    }

    fn refuse_calls(&self, object: Option<&Object>, old: Option<&Object>) -> Result<(), ApiError> {
        let request = self.request;
        let attributes = attributes(request, self.operation, object, old, self.dry_run);
        let chain = &request.server.admission;
        let mutating = self.webhooks.mutating().filter(|_| chain.has(MUTATING_WEBHOOK));
        let validating = self.webhooks.validating().filter(|_| chain.has(VALIDATING_WEBHOOK));
        let webhooks = mutating.chain(validating);
        let needed = webhook::first_matching(webhooks, &attributes, object, old, &self.cluster)?;
        match needed {
            None => Ok(()),
            Some(webhook) => {
                let why =
                    format!("plans cannot call webhooks, and webhook {webhook:?} applies to this object");
                Err(ApiError::forbidden(request.names(), attributes.name, &why))
            }
        }
    }
}

fn allocate(request: &Request, object: &mut Object, old: Option<&Object>) -> Result<(), ApiError> {
    if request.kind().reserves() && request.resource.subresource.is_empty() {
        services::settle(&request.server, &request.held, object, old)?;
    }
    Ok(())
}

fn validate_last(
    request: &Request,
    operation: Operation,
    object: Option<&mut Object>,
    old: Option<&Object>,
) -> Result<(), ApiError> {
    let name = object.as_deref().or(old).map_or("", Object::name).to_owned();
    let asked = plugin_request(request, operation, &name, object, old);
    request.look_up(|lookup| request.server.admission.validate_last(&asked, lookup))?
}

fn plugin_request<'a>(
    request: &'a Request,
    operation: Operation,
    name: &'a str,
    object: Option<&'a mut Object>,
    old: Option<&'a Object>,
) -> admission::Request<'a> {
    admission::Request {
        kind: request.kind(),
        namespace: &request.resource.namespace,
        name,
        path_name: &request.resource.name,
        user: &request.user,
        operation,
        subresource: &request.resource.subresource,
        object,
        old,
        findings: RefCell::default(),
    }
}
