//! Selects the webhooks to call, and applies their answers.
//!
//! Upstream: `pkg/admission/plugin/webhook/generic/webhook.go`, `mutating/dispatcher.go`, `validating/dispatcher.go`.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::join_all;
use orlop_api::object::Object;
use orlop_api::status::ApiError;
use orlop_crd::expression::{Values, Variables};
use orlop_store::ReservedMemory;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::answer::{Answer, NoAnswer, answer, rejection};
use super::client::{AnswerBody, Target, WebhookClient};
use super::configured::{ClientConfig, Webhook, WebhookIndex, WebhookService};
use super::review::{Review, object_text};
use crate::admission::matching::{Attributes, GroupVersionKind};
use crate::admission::outcome::{Findings, MAX_TEXT, cut};
use crate::admission::policy::mutate::{decoded, patched};
use crate::admission::policy::{Access, ClusterState, PhaseBudget, request_resource, size};
use crate::admission::reinvocation::Reinvocation;
use crate::exchange::out_of_memory;
use crate::limits::compute::wait_outside;
use crate::registry::Kind;

/// The cluster around a webhook.
pub(crate) trait Resolves: ClusterState {
    /// The address of a Service's endpoint.
    ///
    /// # Errors
    /// Why there is none.
    fn resolve(&self, service: &WebhookService) -> Result<(String, u16), String>;
}

/// Why a webhook does not permit a request.
enum Failure {
    /// The failure policy decides.
    Call(String),
    /// The request fails.
    Api(ApiError),
}

/// A call of a webhook: everything that is sent.
struct Call {
    webhook: Arc<Webhook>,
    uid: String,
    version: &'static str,
    review: Review,
    target: Result<Target, (String, String)>,
}

/// The objects of a request as webhooks receive them. A request may have many webhooks, which share the texts.
struct ShownObjects<'a> {
    request: &'a Attributes<'a>,
    objects: (Option<&'a Object>, Option<&'a Object>),
    /// The object and its former state in the form of each kind.
    texts: Vec<(GroupVersionKind, Bytes, Bytes)>,
    memory: ReservedMemory,
}

impl<'a> ShownObjects<'a> {
    fn new(
        request: &'a Attributes<'a>,
        objects: (Option<&'a Object>, Option<&'a Object>),
        client: &WebhookClient,
    ) -> Result<Self, ApiError> {
        let memory = client.memory().reserve(0).map_err(out_of_memory)?;
        Ok(ShownObjects { request, objects, texts: Vec::new(), memory })
    }

    /// The texts in the form of a kind.
    fn of(&mut self, kind: &GroupVersionKind) -> Result<(Bytes, Bytes), Failure> {
        if let Some((_, object, old)) = self.texts.iter().find(|(known, _, _)| known == kind) {
            return Ok((object.clone(), old.clone()));
        }
        let text =
            |object: Option<&Object>| object_text(object.map(|object| self.request.shown(object, kind)));
        let (object, old) = (text(self.objects.0), text(self.objects.1));
        let bytes = object.len() + old.len();
        self.memory.grow(bytes as u64).map_err(|error| Failure::Api(out_of_memory(error)))?;
        self.texts.push((kind.clone(), object.clone(), old.clone()));
        Ok((object, old))
    }
}

/// The kind in whose form a webhook processes a request; `None` if it does not match.
fn matched(
    webhook: &Webhook,
    request: &Attributes<'_>,
    object: Option<&Object>,
    old: Option<&Object>,
    cluster: &dyn Resolves,
    phase: &mut PhaseBudget,
) -> Result<Option<GroupVersionKind>, ApiError> {
    let Some(kind) = webhook.criteria.matches(request, object, old, cluster)? else { return Ok(None) };
    if webhook.conditions.is_empty() {
        return Ok(Some(kind));
    }
    // If nothing remains, the conditions fail.
    let objects = phase.visit(|| size([object, old]));
    let shown = |object: Option<&Object>| {
        object.filter(|_| objects.is_ok()).map(|object| request.shown(object, &kind))
    };
    let (shown, shown_old) = (shown(object), shown(old));
    let document = request.request(&kind);
    let access = Access { cluster, user: request.user };
    let resource = request_resource(request);
    let values = Values {
        object: shown.as_ref(),
        old_object: shown_old.as_ref(),
        request: Some(&document),
        access: Some(&access),
        request_resource: Some(&resource),
        ..Values::default()
    };
    let mut budget = phase.conditions();
    let granted = budget.left();
    let matched = webhook.conditions.match_request(&values, &Variables::default(), &mut budget);
    phase.charge_conditions(granted, &budget);
    match matched {
        Ok(true) => Ok(Some(kind)),
        Ok(false) => Ok(None),
        Err(why) => Err(ApiError::forbidden(request.names, request.name, &why)),
    }
}

/// Prepares a call.
fn call(
    webhook: &Arc<Webhook>,
    request: &Attributes<'_>,
    kind: &GroupVersionKind,
    objects: &mut ShownObjects<'_>,
    cluster: &dyn Resolves,
) -> Result<Call, Failure> {
    if request.dry_run && !webhook.permits_dry_run {
        let why = format!("admission webhook {:?} does not support dry run", webhook.name);
        return Err(Failure::Api(ApiError::bad_request(why)));
    }
    let Some(version) = webhook.version else {
        let why = "webhook does not accept known AdmissionReview versions (v1, v1beta1)";
        return Err(Failure::Call(format!("could not create admission objects: {why}")));
    };
    let uid = uuid::Uuid::new_v4().to_string();
    let (object, old) = objects.of(kind)?;
    let review = Review::new(version, &uid, request.request(kind), object, old);
    let target =
        match &webhook.client {
            ClientConfig::Url(url) => Ok(Target::of_url(url)
                .map_err(|why| Failure::Call(format!("could not get REST client: {why}")))?),
            ClientConfig::Service(service) => {
                let server_name = format!("{}.{}.svc", service.name, service.namespace);
                let authority = format!("{server_name}:{}", service.port);
                cluster.resolve(service).map_err(|why| (format!("{authority}{}", service.path), why)).map(
                    |(host, port)| Target { authority, path: service.path.clone(), server_name, host, port },
                )
            }
        };
    Ok(Call { webhook: webhook.clone(), uid, version, review, target })
}

impl Call {
    async fn send(self, client: &WebhookClient, mutates: bool) -> Result<Answer, Failure> {
        let Call { webhook, uid, version, review, target } = self;
        let AnswerBody { text, memory } =
            client.post(&webhook.connector, target, review).await.map_err(|error| match error {
                NoAnswer::Failed(why) => Failure::Call(format!("failed to call webhook: {why}")),
                NoAnswer::OutOfMemory(error) => Failure::Api(out_of_memory(error)),
            })?;
        answer(version, &uid, mutates, text, memory).map_err(|error| match error {
            NoAnswer::Failed(why) => Failure::Call(cut(&why, MAX_TEXT).to_owned()),
            NoAnswer::OutOfMemory(error) => Failure::Api(out_of_memory(error)),
        })
    }
}

/// Records the findings of an answer, and rejects the request if it does. Returns the patch and its memory.
fn accept(
    webhook: &Webhook,
    answer: Answer,
    findings: &mut Findings,
) -> Result<(Vec<Value>, ReservedMemory), Failure> {
    for (key, value) in answer.annotations {
        findings.annotate(format!("{}/{key}", webhook.name), value);
    }
    answer.warnings.into_iter().for_each(|warning| findings.warn(warning));
    match answer.allowed {
        true => Ok((answer.patch, answer.memory)),
        false => Err(Failure::Api(rejection(&webhook.name, answer.result))),
    }
}

/// Applies the failure policy.
fn settle(webhook: &Webhook, failure: Failure, key: String, findings: &mut Findings) -> Result<(), ApiError> {
    match failure {
        Failure::Api(error) => Err(error),
        Failure::Call(why) if webhook.fails => {
            Err(ApiError::internal(format!("failed calling webhook {:?}: {why}", webhook.name)))
        }
        Failure::Call(why) => {
            tracing::warn!(
                webhook = webhook.name,
                why,
                "calling a webhook failed; its failure policy permits the request"
            );
            findings.annotate(key, webhook.name.clone());
            Ok(())
        }
    }
}

/// Calls the validating webhooks that match a request, at the same time.
///
/// # Errors
/// The first rejection, in the order of the webhooks.
pub(crate) async fn validate(
    webhooks: &WebhookIndex,
    client: &WebhookClient,
    request: &Attributes<'_>,
    (object, old): (Option<&Object>, Option<&Object>),
    cluster: &(dyn Resolves + Sync),
    findings: &mut Findings,
) -> Result<(), ApiError> {
    let (mut calls, mut phase) = (Vec::new(), PhaseBudget::default());
    let mut shown = ShownObjects::new(request, (object, old), client)?;
    for webhook in webhooks.validating() {
        if let Some(kind) = matched(webhook, request, object, old, cluster, &mut phase)? {
            calls.push((webhook.clone(), call(webhook, request, &kind, &mut shown, cluster)));
        }
    }
    if calls.is_empty() {
        return Ok(());
    }
    let sent = calls.into_iter().map(|(webhook, call)| async move {
        let answer = match call {
            Ok(call) => call.send(client, false).await,
            Err(failure) => Err(failure),
        };
        (webhook, answer)
    });
    let mut first = Ok(());
    // A webhook may take 30 seconds.
    let answers = wait_outside(join_all(sent)).await?;
    for (at, (webhook, answer)) in answers.into_iter().enumerate() {
        let accepted = answer.and_then(|answer| accept(&webhook, answer, findings));
        if let Err(failure) = accepted {
            let key = format!("failed-open.validating.webhook.admission.k8s.io/round_0_index_{at}");
            let settled = settle(&webhook, failure, key, findings);
            first = first.and(settled);
        }
    }
    first
}

/// Runs the mutating webhooks of a request.
pub(crate) struct MutatingWebhooks<'a> {
    /// All registered webhooks.
    pub(crate) webhooks: &'a WebhookIndex,
    /// Sends the reviews.
    pub(crate) client: &'a WebhookClient,
    /// The request, without its objects.
    pub(crate) request: &'a Attributes<'a>,
    /// The kind of the objects.
    pub(crate) kind: &'a dyn Kind,
    /// The namespaces and rights that match conditions can read.
    pub(crate) cluster: &'a (dyn Resolves + Sync),
    /// The memory of what the webhooks add to the object.
    pub(crate) grown: &'a Mutex<Vec<ReservedMemory>>,
}

impl MutatingWebhooks<'_> {
    /// Calls the webhooks that match, one after the other, and applies their patches.
    ///
    /// # Errors
    /// The first rejection.
    pub(crate) async fn run(
        &self,
        object: &mut Option<Object>,
        old: Option<&Object>,
        state: &mut Reinvocation,
        findings: &mut Findings,
    ) -> Result<(), ApiError> {
        state.webhooks.begin(state.is_second, object.as_ref());
        let round = u8::from(state.is_second);
        let mut phase = PhaseBudget::default();
        for (at, webhook) in self.webhooks.mutating().enumerate() {
            let matched = matched(webhook, self.request, object.as_ref(), old, self.cluster, &mut phase)?;
            let Some(matched) = matched else { continue };
            let key = format!("{}/{}", webhook.configuration, webhook.name);
            if !state.webhooks.runs(state.is_second, &key) {
                continue;
            }
            let called = {
                let mut shown = ShownObjects::new(self.request, (object.as_ref(), old), self.client)?;
                call(webhook, self.request, &matched, &mut shown, self.cluster)
                    .map(|call| (call, shown.memory))
            };
            let answer = match called {
                // A webhook may take 30 seconds.
                Ok((call, _memory)) => wait_outside(call.send(self.client, true)).await?,
                Err(failure) => Err(failure),
            };
            let changed = answer.and_then(|answer| {
                let (operations, memory) = accept(webhook, answer, findings)?;
                self.grown.lock().push(memory);
                patch(webhook, self.request, self.kind, &matched, object.as_ref(), operations)
            });
            let place = format!("mutation.webhook.admission.k8s.io/round_{round}_index_{at}");
            let is_changed = matches!(&changed, Ok(Some(changed)) if object.as_ref() != Some(changed));
            let annotation = json!({"configuration": webhook.configuration, "webhook": webhook.name, "mutated": is_changed});
            findings.annotate(place.clone(), annotation.to_string());
            if is_changed {
                state.webhooks.require_all();
                state.is_needed = true;
            }
            if webhook.reinvokes {
                state.webhooks.add(key);
            }
            match changed {
                Ok(Some(changed)) => *object = Some(changed),
                Ok(None) => {}
                Err(failure) => settle(webhook, failure, format!("failed-open.{place}"), findings)?,
            }
        }
        state.webhooks.end(object.as_ref());
        Ok(())
    }
}

/// The object after the patch of a webhook.
fn patch(
    webhook: &Webhook,
    request: &Attributes<'_>,
    kind: &dyn Kind,
    matched: &GroupVersionKind,
    object: Option<&Object>,
    patch: Vec<Value>,
) -> Result<Option<Object>, Failure> {
    if patch.is_empty() {
        return Ok(None);
    }
    let Some(object) = object else {
        let why = format!(
            "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
            webhook.name
        );
        return Err(Failure::Api(ApiError::internal(why)));
    };
    let document = request.shown(object, matched);
    let document = match patched(document, patch) {
        Ok(Some(document)) => document,
        Ok(None) => return Err(Failure::Api(ApiError::internal("testing value failed"))),
        Err(why) => {
            let why = cut(why.trim_start_matches("JSON Patch: "), MAX_TEXT);
            return Err(Failure::Api(ApiError::internal(why)));
        }
    };
    let changed = request.decode_shown(kind, matched, |form| decoded(form, document));
    let mut changed = changed.map_err(Failure::Api)?;
    kind.defaults(&mut changed);
    Ok(Some(changed))
}

/// The name of the first of some webhooks that matches a request and would be called, whatever its failure policy is: a webhook
/// with `Ignore` that works can reject the request.
///
/// # Errors
/// Those of the match conditions.
pub(crate) fn first_matching<'w>(
    webhooks: impl Iterator<Item = &'w Arc<Webhook>>,
    request: &Attributes<'_>,
    object: Option<&Object>,
    old: Option<&Object>,
    cluster: &dyn Resolves,
) -> Result<Option<String>, ApiError> {
    let mut phase = PhaseBudget::default();
    for webhook in webhooks {
        if matched(webhook, request, object, old, cluster, &mut phase)?.is_some() {
            return Ok(Some(webhook.name.clone()));
        }
    }
    Ok(None)
}
