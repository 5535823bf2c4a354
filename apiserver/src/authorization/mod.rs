//! Decides whether users may perform requests (`--authorization-mode`).
//!
//! Upstream: apiserver `pkg/endpoints/filters/authorization.go`, `pkg/authorization`.

pub(crate) mod bootstrap;
pub mod config_file;
mod elsewhere;
pub(crate) mod escalation;
mod forbidden;
mod impersonation;
mod last_modes;
mod layer;
pub mod options;
pub(crate) mod parameters;
mod stored_graph;
mod stored_rbac;
mod webhook;

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use orlop_auth::UserInfo;
use orlop_auth::node::{self, NodeDecision};
use orlop_auth::rbac::PermittedBy;
use orlop_auth::request_info::RequestInfo;
use orlop_store::Kv;

pub(crate) use elsewhere::decide_right;
pub(crate) use forbidden::forbidden;
use last_modes::LastModes;
pub(crate) use layer::{authorize, impersonate, may_blocking, may_create, right};
use stored_graph::StoredGraph;
use stored_rbac::StoredRbac;
pub use webhook::AuthorizationWebhookConfig;
use webhook::{AuthorizationWebhook, Opinion, Verdict};

use crate::projection::Projection;

/// The most bytes of new objects that a decision on a thread for connections reads.
const BRIEF_BYTES: usize = 64 << 10;
/// The longest time for which such a decision waits for another one that reads new objects.
const BRIEF_WAIT: Duration = Duration::from_micros(200);

/// The group that may do everything.
const MASTERS: &str = "system:masters";

/// A mode of `--authorization-mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorizationMode {
    /// Permits every request of an authenticated user.
    AlwaysAllow,
    /// Permits nothing.
    AlwaysDeny,
    /// Permits what node agents need for the pods on their nodes.
    Node,
    /// Permits what roles grant.
    Rbac,
    /// Calls the webhook with this index in the configuration.
    Webhook(usize),
}

/// Whether a request is permitted, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AuthorizationDecision {
    pub(crate) allowed: bool,
    /// A mode has rejected the request; the modes after it cannot permit it.
    pub(crate) denied: bool,
    /// Upstream's reason; may be empty.
    pub(crate) reason: String,
    /// Why a mode could not decide; may be empty.
    pub(crate) error: String,
}

impl AuthorizationDecision {
    fn allow(reason: String) -> Self {
        AuthorizationDecision { allowed: true, reason, ..AuthorizationDecision::default() }
    }
}

/// Asks the modes in order; the first that permits or rejects a request decides.
pub(crate) struct Authorizer {
    modes: Vec<AuthorizationMode>,
    pub(crate) rbac: StoredRbac,
    graph: Arc<StoredGraph>,
    webhooks: Vec<Arc<AuthorizationWebhook>>,
    last_modes: LastModes,
}

/// The opinions of the modes so far.
#[derive(Default)]
pub(crate) struct Progress {
    /// The number of modes that have decided or have no opinion.
    asked: usize,
    reasons: Vec<String>,
    errors: Vec<String>,
}

/// The next step of a decision.
enum Step<'a> {
    /// The modes have decided.
    Decided(AuthorizationDecision),
    /// A webhook must be called.
    Ask(&'a Arc<AuthorizationWebhook>),
    /// The decision compares more than `most` items of rules.
    TooLong,
}

/// The most items of rules that a decision on a thread for connections compares: about 50 microseconds.
const LIGHT_ITEMS: usize = 10_000;

impl Progress {
    /// Adds the opinion of a webhook. Returns the decision, if the opinion is final.
    fn add(&mut self, opinion: Opinion) -> Option<AuthorizationDecision> {
        self.asked += 1;
        let Opinion { verdict, reason, error } = opinion;
        let final_one = |allowed: bool, reason: String, error: Option<String>| AuthorizationDecision {
            allowed,
            denied: !allowed,
            reason,
            error: error.unwrap_or_default(),
        };
        match verdict {
            Verdict::Allow => return Some(final_one(true, reason, error)),
            Verdict::Deny => return Some(final_one(false, reason, error)),
            Verdict::NoOpinion => {}
        }
        self.reasons.push(reason);
        self.errors.extend(error);
        None
    }

    /// The decision after all modes: none permits the request.
    fn end(&mut self) -> AuthorizationDecision {
        self.reasons.retain(|reason| !reason.is_empty());
        let error = match self.errors.as_slice() {
            [] => String::new(),
            [one] => one.clone(),
            // Upstream: apimachinery `pkg/util/errors` (Aggregate).
            several => format!("[{}]", several.join(", ")),
        };
        AuthorizationDecision { allowed: false, denied: false, reason: self.reasons.join("\n"), error }
    }
}

impl Authorizer {
    pub(crate) fn new(
        modes: Vec<AuthorizationMode>,
        webhooks: Vec<AuthorizationWebhookConfig>,
        store: Arc<dyn Kv<Projection>>,
    ) -> Self {
        Authorizer {
            modes,
            rbac: StoredRbac::new(store.clone()),
            graph: Arc::new(StoredGraph::new(store)),
            webhooks: webhooks
                .into_iter()
                .map(|webhook| Arc::new(AuthorizationWebhook::new(webhook)))
                .collect(),
            last_modes: LastModes::default(),
        }
    }

    /// Whether roles restrict users.
    pub(crate) fn uses_roles(&self) -> bool {
        self.modes.contains(&AuthorizationMode::Rbac)
    }

    /// Whether some mode decides by rules, such as roles.
    pub(crate) fn uses_rules(&self) -> bool {
        self.modes.iter().any(|mode| *mode != AuthorizationMode::AlwaysAllow)
    }

    /// Whether rules alone decide: then requests without credentials run as `system:anonymous`.
    pub(crate) fn permits_anonymous(&self) -> bool {
        self.uses_rules() && !self.modes.contains(&AuthorizationMode::AlwaysAllow)
    }

    /// Whether the rights of a user depend on the pods of a node, so that they cannot be listed.
    pub(crate) fn is_restricted_node(&self, user: &UserInfo) -> bool {
        self.modes.contains(&AuthorizationMode::Node) && node::node_name(user).is_some()
    }

    /// Reads the relations of nodes, if a mode uses them.
    pub(crate) async fn read_relations(&self) {
        if self.modes.contains(&AuthorizationMode::Node) {
            self.graph.clone().catch_up().await;
        }
    }

    /// Keeps the relations of nodes up to date, if a mode uses them.
    pub(crate) async fn keep_current(&self) {
        if self.modes.contains(&AuthorizationMode::Node) {
            self.graph.clone().keep_current().await;
        }
    }

    /// Whether some request of this user may be rejected.
    pub(crate) fn restricts(&self, user: &UserInfo) -> bool {
        let may_deny = |mode: &AuthorizationMode| match mode {
            AuthorizationMode::Webhook(_) => true,
            AuthorizationMode::AlwaysAllow
            | AuthorizationMode::AlwaysDeny
            | AuthorizationMode::Node
            | AuthorizationMode::Rbac => false,
        };
        // Modes before `AlwaysAllow` matter only if they can reject.
        let always = self.modes.iter().position(|mode| *mode == AuthorizationMode::AlwaysAllow);
        let permits_all = always.is_some_and(|at| !self.modes[..at].iter().any(may_deny));
        !permits_all && !user.groups.iter().any(|group| group == MASTERS)
    }

    /// Whether the rights of users cannot be listed completely, because a webhook decides too.
    pub(crate) fn asks_webhooks(&self) -> bool {
        !self.webhooks.is_empty()
    }

    /// Decides about a request if this takes little time and needs no webhook.
    ///
    /// # Errors
    /// The opinions so far, to continue with.
    pub(crate) fn decide_briefly(
        &self,
        user: &UserInfo,
        request: &RequestInfo,
    ) -> Result<AuthorizationDecision, Progress> {
        let mut progress = Progress::default();
        match self.step(&mut progress, user, request, LIGHT_ITEMS) {
            Step::Decided(decision) => Ok(decision),
            Step::Ask(_) | Step::TooLong => Err(progress),
        }
    }

    /// Continues a decision with webhooks on a thread for connections.
    ///
    /// # Errors
    /// The opinions so far, if there are too many rules to compare there.
    pub(crate) async fn decide_here(
        &self,
        progress: Progress,
        user: &UserInfo,
        request: &RequestInfo,
    ) -> Result<AuthorizationDecision, Progress> {
        self.decide_within(progress, user, request, LIGHT_ITEMS).await
    }

    /// Continues a decision on a thread for expensive requests.
    pub(crate) async fn decide_all(
        &self,
        progress: Progress,
        user: &UserInfo,
        request: &RequestInfo,
    ) -> AuthorizationDecision {
        let decided = self.decide_within(progress, user, request, usize::MAX).await;
        decided.unwrap_or_else(|mut progress| progress.end())
    }

    /// Decides about a request.
    pub(crate) async fn decide(&self, user: &UserInfo, request: &RequestInfo) -> AuthorizationDecision {
        self.decide_all(Progress::default(), user, request).await
    }

    /// Decides about a request.
    ///
    /// # Errors
    /// The opinions so far, if the next mode compares more than `most` items of rules.
    async fn decide_within(
        &self,
        mut progress: Progress,
        user: &UserInfo,
        request: &RequestInfo,
        most: usize,
    ) -> Result<AuthorizationDecision, Progress> {
        loop {
            match self.step(&mut progress, user, request, most) {
                Step::Decided(decision) => return Ok(decision),
                Step::TooLong => return Err(progress),
                Step::Ask(webhook) => {
                    if let Some(decision) = progress.add(webhook.decide(user, request).await) {
                        return Ok(decision);
                    }
                }
            }
        }
    }

    /// Decides about a request in code that cannot wait for a future, such as the evaluation of an expression. If a webhook must
    /// be called, the thread waits for it.
    pub(crate) fn decide_blocking(&self, user: &UserInfo, request: &RequestInfo) -> AuthorizationDecision {
        let mut progress = Progress::default();
        loop {
            match self.step(&mut progress, user, request, usize::MAX) {
                Step::Decided(decision) => return decision,
                Step::TooLong => return progress.end(),
                Step::Ask(webhook) => {
                    if let Some(decision) = progress.add(webhook.decide_blocking(user, request)) {
                        return decision;
                    }
                }
            }
        }
    }

    /// Asks the modes up to the next webhook. Roles compare at most `most` items of rules. With a limit, no large objects are read, either.
    fn step(&self, progress: &mut Progress, user: &UserInfo, request: &RequestInfo, most: usize) -> Step<'_> {
        if !self.restricts(user) {
            return Step::Decided(AuthorizationDecision::allow(String::new()));
        }
        while let Some(mode) = self.modes.get(progress.asked) {
            let reason = match mode {
                AuthorizationMode::AlwaysAllow => {
                    return Step::Decided(AuthorizationDecision::allow(String::new()));
                }
                AuthorizationMode::AlwaysDeny => "Everything is forbidden.".to_owned(),
                AuthorizationMode::Node => {
                    let is_read = Cell::new(true);
                    let is_related = |node: &str, kind, namespace: &str, name: &str| {
                        if most == usize::MAX {
                            return self.graph.is_related(node, kind, namespace, name);
                        }
                        let related = self.graph.is_related_briefly(node, kind, namespace, name);
                        related.unwrap_or_else(|| {
                            is_read.set(false);
                            false
                        })
                    };
                    match node::decide(user, request, is_related) {
                        NodeDecision::Allow => {
                            return Step::Decided(AuthorizationDecision::allow(String::new()));
                        }
                        NodeDecision::NoOpinion(_) if !is_read.get() => return Step::TooLong,
                        NodeDecision::NoOpinion(reason) => reason,
                    }
                }
                AuthorizationMode::Rbac => {
                    let index =
                        if most == usize::MAX { Some(self.rbac.now()) } else { self.rbac.now_briefly() };
                    let Some(index) = index else { return Step::TooLong };
                    match index.permits(user, request, most) {
                        PermittedBy::Binding(reason) => {
                            return Step::Decided(AuthorizationDecision::allow(reason));
                        }
                        PermittedBy::None(reason) => reason,
                        PermittedBy::TooLong => return Step::TooLong,
                    }
                }
                AuthorizationMode::Webhook(index) => match self.webhooks.get(*index) {
                    Some(webhook) => return Step::Ask(webhook),
                    None => String::new(),
                },
            };
            progress.asked += 1;
            progress.reasons.push(reason);
        }
        Step::Decided(progress.end())
    }
}

#[cfg(test)]
mod tests;
