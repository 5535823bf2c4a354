//! `ServiceAccount`: assigns pods a service account, its token and its image pull secrets
//! (upstream: plugin/pkg/admission/serviceaccount).
//!
//! [`token_volume`] mounts the token, and [`secrets`] limits the secrets that a pod refers to.

mod secrets;
mod token_volume;

use std::sync::atomic::{AtomicBool, Ordering};

use orlop_api::object::Object;
use orlop_api::status::ApiError;
use orlop_auth::node::{MIRROR_POD, secret_names};
use serde_json::{Value, json};

use super::plugin::Plugin;
use super::request::{Lookup, Operation, Request};
use crate::registry;
use secrets::ContainerList;

/// The name of the plugin.
pub(crate) const SERVICE_ACCOUNT: &str = "ServiceAccount";
/// The account of pods that name none, which a controller creates in every namespace.
pub(crate) const DEFAULT_ACCOUNT: &str = "default";

/// The plugin.
pub(super) struct ServiceAccount {
    /// Whether it applies to every pod. Otherwise it applies only after the controller has created the account `default` of the
    /// namespace `default`, and not to pods whose namespace has no account `default`: the controller may be stopped, and the plugin
    /// would reject these pods.
    pub(super) always: bool,
    /// Whether it has seen that account. From then on it applies until the process ends: otherwise a user could disable it by deleting
    /// the account.
    has_seen_controller: AtomicBool,
}

impl Plugin for ServiceAccount {
    fn name(&self) -> &'static str {
        SERVICE_ACCOUNT
    }

    fn mutate(&self, request: &mut Request<'_>, lookup: &dyn Lookup) -> Result<(), ApiError> {
        if request.operation != Operation::Create || !request.is("", "pods") || !self.applies(request, lookup)
        {
            return Ok(());
        }
        let namespace = request.namespace;
        if let Some(pod) = request.object.as_deref_mut().filter(|pod| !is_mirror_pod(pod)) {
            if account_name(pod).is_empty() {
                pod.set(&["spec", "serviceAccountName"], DEFAULT_ACCOUNT);
            }
            // The deprecated name of the same field.
            let name = account_name(pod).to_owned();
            pod.set(&["spec", "serviceAccount"], name.as_str());
            if let Ok(account) = account(lookup, namespace, &name) {
                if mounts_token(&account, pod) {
                    token_volume::mount(pod);
                }
                add_pull_secrets(&account, pod);
            }
        }
        check_new(request, lookup)
    }

    fn validate(&self, request: &Request<'_>, lookup: &dyn Lookup) -> Result<(), ApiError> {
        let names = request.names();
        if (names.group, names.plural) != ("", "pods") || !self.applies(request, lookup) {
            return Ok(());
        }
        match (request.operation, request.subresource) {
            (Operation::Create, "") => check_new(request, lookup),
            (Operation::Update, "ephemeralcontainers") => check_ephemeral_containers(request, lookup),
            (Operation::Create | Operation::Update | Operation::Delete, _) => Ok(()),
        }
    }
}

impl ServiceAccount {
    pub(super) fn new(always: bool) -> Self {
        ServiceAccount { always, has_seen_controller: AtomicBool::new(false) }
    }

    /// Whether the controller of service accounts has run.
    fn has_controller(&self, lookup: &dyn Lookup) -> bool {
        if self.has_seen_controller.load(Ordering::Relaxed) {
            return true;
        }
        let has = has_default_account(lookup, "default");
        if has {
            self.has_seen_controller.store(true, Ordering::Relaxed);
        }
        has
    }

    /// Whether a new pod waits for the default account, because that account is missing. The controller creates it when it sees the new
    /// namespace.
    pub(super) fn awaits_default_account(&self, pod: &Object, namespace: &str, lookup: &dyn Lookup) -> bool {
        !is_mirror_pod(pod)
            && matches!(account_name(pod), "" | DEFAULT_ACCOUNT)
            && (self.always || self.has_controller(lookup))
            && !has_default_account(lookup, namespace)
    }

    /// Whether the plugin applies to the pod of a request; see [`ServiceAccount::always`].
    fn applies(&self, request: &Request<'_>, lookup: &dyn Lookup) -> bool {
        let awaits = |pod| self.awaits_default_account(pod, request.namespace, lookup);
        self.always || (self.has_controller(lookup) && !request.object.as_deref().is_some_and(awaits))
    }
}

fn is_mirror_pod(pod: &Object) -> bool {
    pod.annotation(MIRROR_POD).is_some()
}

fn account_name(pod: &Object) -> &str {
    pod.str_at(&["spec", "serviceAccountName"])
}

fn has_default_account(lookup: &dyn Lookup, namespace: &str) -> bool {
    let kind = registry::by_resource("", "v1", "serviceaccounts");
    kind.is_some_and(|kind| lookup.head(kind, namespace, DEFAULT_ACCOUNT).is_some())
}

/// The account, or upstream's text.
fn account(lookup: &dyn Lookup, namespace: &str, name: &str) -> Result<Object, String> {
    let kind = registry::by_resource("", "v1", "serviceaccounts");
    kind.and_then(|kind| lookup.get(kind, namespace, name)).ok_or_else(|| {
        format!("error looking up service account {namespace}/{name}: serviceaccount {name:?} not found")
    })
}

/// The account of the pod that is written.
fn account_of(request: &Request<'_>, pod: &Object, lookup: &dyn Lookup) -> Result<Object, ApiError> {
    let namespace = request.namespace;
    let name = account_name(pod);
    if name.is_empty() {
        let why = format!("no service account specified for pod {namespace}/{}", pod.name());
        return Err(request.refuse(&why));
    }
    account(lookup, namespace, name).map_err(|why| request.refuse(&why))
}

/// Checks a new pod.
fn check_new(request: &Request<'_>, lookup: &dyn Lookup) -> Result<(), ApiError> {
    let Some(pod) = request.object.as_deref() else { return Ok(()) };
    if is_mirror_pod(pod) {
        return check_mirror_pod(pod).map_err(|why| request.refuse(why));
    }
    let account = account_of(request, pod, lookup)?;
    secrets::check_pod(&account, pod).map_err(|why| request.refuse(&why))
}

fn check_ephemeral_containers(request: &Request<'_>, lookup: &dyn Lookup) -> Result<(), ApiError> {
    let Some(pod) = request.object.as_deref() else { return Ok(()) };
    let account = account_of(request, pod, lookup)?;
    secrets::check_containers(&account, pod, ContainerList::Ephemeral).map_err(|why| request.refuse(&why))
}

/// Checks a mirror pod. A node creates its mirror pods itself, so they must not grant it access to other objects.
fn check_mirror_pod(pod: &Object) -> Result<(), &'static str> {
    if !account_name(pod).is_empty() {
        return Err("a mirror pod may not reference service accounts");
    }
    let spec = pod.at(&["spec"]).unwrap_or(&Value::Null);
    if secret_names(&json!({ "spec": spec })).next().is_some() {
        return Err("a mirror pod may not reference secrets");
    }
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    let mut sources =
        volumes.flat_map(|volume| volume["projected"]["sources"].as_array().into_iter().flatten());
    if sources.any(|source| !source["serviceAccountToken"].is_null()) {
        return Err("a mirror pod may not use ServiceAccountToken volume projections");
    }
    Ok(())
}

/// Whether the token is mounted: the pod decides, then the account.
fn mounts_token(account: &Object, pod: &Object) -> bool {
    let wishes =
        [pod.at(&["spec", "automountServiceAccountToken"]), account.at(&["automountServiceAccountToken"])];
    wishes.into_iter().flatten().find_map(Value::as_bool).unwrap_or(true)
}

/// Adds the pull secrets of the account to a pod that has none.
fn add_pull_secrets(account: &Object, pod: &mut Object) {
    let list = |object: &Object, path: &[&str]| {
        object.at(path).and_then(Value::as_array).filter(|list| !list.is_empty()).cloned()
    };
    if list(pod, &["spec", "imagePullSecrets"]).is_some() {
        return;
    }
    if let Some(secrets) = list(account, &["imagePullSecrets"]) {
        pod.set(&["spec", "imagePullSecrets"], secrets);
    }
}

#[cfg(test)]
mod tests;
