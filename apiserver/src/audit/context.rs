//! The audit state of a request. The middleware adds an [`AuditContext`] to the extensions of a request that is recorded; later
//! steps complete it.
//!
//! Upstream: apiserver `pkg/audit/context.go`.

use std::sync::Arc;

use orlop_api::object::Object;
use orlop_auth::UserInfo;
use orlop_auth::audit::{
    Event, Level, ObjectNames, RequestAudit, RequestProgress, RequestRecord, ResponseStatus, Stage,
};
use orlop_auth::request_info::RequestInfo;
use orlop_store::Revision;
use parking_lot::Mutex;

use super::Audit;
use super::body::RecordedBody;
use super::queued::QueuedEvent;
use super::sink::Pending;

/// The annotations of upstream's authorization filter.
const DECISION: &str = "authorization.k8s.io/decision";
const REASON: &str = "authorization.k8s.io/reason";
/// Upstream's annotation of an event without its objects, because they are too large.
const IS_TRUNCATED: &str = "audit.k8s.io/truncated";
/// The revision that the request wrote, which the history of the object shows; the first and the last if there are several.
const REVISION: &str = "orlop.dev/revision";
/// Maximum length of an annotation, bytes: a reason quotes every role that cannot be read.
const ANNOTATION_MAX: usize = 4 << 10;
/// Maximum number of annotations: policies and webhooks choose them.
const ANNOTATIONS_MAX: usize = 64;

/// The audit state of a request.
pub(crate) struct AuditContext {
    audit: Arc<Audit>,
    record: Arc<RequestRecord>,
    rule: RequestAudit,
    state: Mutex<ContextState>,
}

#[derive(Default)]
struct ContextState {
    progress: RequestProgress,
    request_body: Option<Arc<RecordedBody>>,
    response_body: Option<Arc<RecordedBody>>,
    /// The first and the last revision that the request wrote.
    written: Option<(Revision, Revision)>,
}

impl AuditContext {
    pub(super) fn new(audit: Arc<Audit>, record: RequestRecord, rule: RequestAudit) -> Arc<Self> {
        Arc::new(AuditContext { audit, record: Arc::new(record), rule, state: Mutex::default() })
    }

    /// The verb and the target of the request.
    pub(crate) fn info(&self) -> &Arc<RequestInfo> {
        &self.record.info
    }

    /// Whether the body of the request is recorded.
    pub(crate) fn records_request(&self) -> bool {
        self.rule.level >= Level::Request
    }

    /// Whether the body of the response is recorded.
    pub(crate) fn records_response(&self) -> bool {
        self.rule.level >= Level::RequestResponse
    }

    /// Records the user as which the request runs, and the verb of constrained impersonation that permits it.
    pub(crate) fn impersonates(&self, user: &UserInfo, constraint: String) {
        let mut state = self.state.lock();
        state.progress.impersonated = Some(user.clone());
        state.progress.impersonation_constraint = constraint;
    }

    /// Records the decision of the authorizer.
    pub(crate) fn authorized(&self, allowed: bool, reason: &str) {
        let decision = if allowed { "allow" } else { "forbid" };
        let reason = &reason[..reason.floor_char_boundary(ANNOTATION_MAX.min(reason.len()))];
        let mut state = self.state.lock();
        state.progress.annotations.push((DECISION.into(), decision.to_owned()));
        state.progress.annotations.push((REASON.into(), reason.to_owned()));
    }

    /// Records the identity of the object in the body of the request.
    pub(crate) fn names(&self, object: &Object) {
        let text = |name: &str| object.str_at(&["metadata", name]).to_owned();
        let names = ObjectNames {
            namespace: text("namespace"),
            name: text("name"),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
        };
        self.state.lock().progress.object = names;
    }

    /// Records the audit annotations of admission policies and webhooks.
    pub(crate) fn annotate(&self, annotations: Vec<(String, String)>) {
        let mut state = self.state.lock();
        for (key, mut text) in annotations {
            if state.progress.annotations.len() >= ANNOTATIONS_MAX {
                return;
            }
            text.truncate(text.floor_char_boundary(ANNOTATION_MAX.min(text.len())));
            state.progress.annotations.push((key.into(), text));
        }
    }

    /// Records a revision that the request wrote.
    pub(crate) fn wrote(&self, revision: Revision) {
        let mut state = self.state.lock();
        let first = state.written.map_or(revision, |(first, _)| first);
        state.written = Some((first, revision));
    }

    /// Records the body of the request; `None` if it is too large.
    pub(crate) fn request_body(&self, body: Option<RecordedBody>) {
        let mut state = self.state.lock();
        state.truncate_without(body.as_ref());
        state.request_body = body.map(Arc::new);
    }

    /// Records the body of the response; `None` if it is too large.
    pub(crate) fn response_body(&self, body: Option<RecordedBody>) {
        let mut state = self.state.lock();
        state.truncate_without(body.as_ref());
        state.response_body = body.map(Arc::new);
    }

    /// Records the result.
    pub(super) fn answered(&self, status: ResponseStatus) {
        let status = status.without_credentials(&self.record.info.target);
        self.state.lock().progress.status = Some(status);
    }

    /// Queues the event of a stage, unless the policy omits it.
    pub(super) fn reach(&self, stage: Stage) -> Pending {
        if self.rule.omit_stages.contains(stage) {
            return Pending::default();
        }
        let at = match stage {
            Stage::RequestReceived => self.record.received,
            Stage::ResponseStarted | Stage::ResponseComplete | Stage::Panic => self.audit.now(),
        };
        let mut state = self.state.lock();
        let mut progress = match stage {
            Stage::RequestReceived | Stage::ResponseStarted => state.progress.clone(),
            // The last stages.
            Stage::ResponseComplete | Stage::Panic => std::mem::take(&mut state.progress),
        };
        progress.annotations.extend(state.written.map(|written| (REVISION.into(), shown(written))));
        let event = Event { request: self.record.clone(), stage, at, progress };
        let (request_body, response_body) = (state.request_body.clone(), state.response_body.clone());
        drop(state);
        let bodies = [&request_body, &response_body].into_iter().flatten();
        let size = event.size() + bodies.map(|body| body.size()).sum::<usize>();
        let omit_managed_fields = self.rule.omit_managed_fields;
        self.audit.submit(QueuedEvent { event, request_body, response_body, omit_managed_fields, size })
    }
}

/// The revisions of a request as an annotation.
fn shown((first, last): (Revision, Revision)) -> String {
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}

impl ContextState {
    fn truncate_without(&mut self, body: Option<&RecordedBody>) {
        if body.is_none() {
            self.progress.annotations.push((IS_TRUNCATED.into(), "true".to_owned()));
        }
    }
}
