//! Explains kinds without rules of their own by the newest event that reports a refusal, and a Deployment by its condition. Mostly
//! these are pod sets whose claims exceed a quota or whose service account is missing: the claims and pods do not exist, so
//! they cannot be explained themselves.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceQuota;
use orlop_apimachinery::quantity::Quantity;
use serde_json::{Map, Value, json};

use super::cluster_view::ClusterView;
use super::model::{Cause, Code, Fix, Reference, Severity, Why};
use super::subject::Other;
use super::words;
use orlop_client::names::reason;

/// Explains an object of any other kind that is not being deleted.
pub fn explain(world: &dyn ClusterView, subject: &Other, why: &mut Why) {
    let (reference, object) = (&subject.reference, &subject.object);
    let phase = object.pointer("/status/phase").and_then(Value::as_str);
    let number = |path: &str| object.pointer(path).and_then(Value::as_u64);
    let wanted = number("/spec/replicas");
    let ready = number("/status/readyReplicas").unwrap_or_default();
    why.state = phase.unwrap_or("Present").to_owned();
    let complete = wanted.is_none_or(|wanted| ready >= wanted);
    let refused = world.event(reference, &[reason::FAILED_CREATE, reason::REPLICA_SET_CREATE_ERROR]);
    let failure = || condition_message(object, "ReplicaFailure");
    match refused.and_then(|event| event.message.as_deref()).or_else(failure).filter(|_| !complete) {
        Some(said) => refusal(reference.namespace.as_deref().unwrap_or_default(), said, why),
        None => {
            why.summary = match wanted {
                Some(wanted) if !complete => {
                    let inside = reference.namespace.as_deref().map(|one| format!(" -n {one}"));
                    format!(
                        "{} has {ready} of {wanted} pods ready. Explain one of its pods: `orlop why pod/NAME{}`.",
                        reference.words(),
                        inside.unwrap_or_default()
                    )
                }
                Some(wanted) => format!("{} has all of its {wanted} pods.", reference.words()),
                None => format!("{} exists and is not known to wait for anything.", reference.words()),
            };
            if !complete {
                why.severity = Severity::Waiting;
            }
        }
    }
}

/// The message of a condition that is true.
fn condition_message<'o>(object: &'o Value, name: &str) -> Option<&'o str> {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array)?;
    let is_it = |one: &&Value| one["type"] == name && one["status"] == "True";
    conditions.iter().find(is_it)?["message"].as_str()
}

/// The namespace and the name of a service account that the server does not find (upstream:
/// plugin/pkg/admission/serviceaccount).
fn missing_account(said: &str) -> Option<(&str, &str)> {
    let (_, rest) = said.split_once("error looking up service account ")?;
    let (account, rest) = rest.split_once(": serviceaccount ")?;
    rest.contains("not found").then_some(())?;
    account.split_once('/')
}

/// Explains a failed creation by the message of the refusal.
fn refusal(namespace: &str, said: &str, why: &mut Why) {
    if let Some((namespace, name)) = missing_account(said) {
        let message = format!(
            "Pods cannot be created: service account {name} of namespace {namespace} does not exist."
        );
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": namespace, "name": name},
        });
        let fix = Fix::create(account, "Creates the service account; the controller then creates the pods.");
        let cause = Cause::new(Code::ServiceAccountMissing, message, Vec::new()).fixed_by(Some(fix));
        why.push(Severity::Attention, cause);
        return;
    }
    let Some(quota) = Quota::read(said) else {
        let message = format!("A required object could not be created: {}.", words::open(said));
        why.push(Severity::Attention, Cause::new(Code::CreationFailed, message, Vec::new()));
        return;
    };
    let target = Reference::named::<ResourceQuota>(Some(namespace), quota.name);
    let short: Vec<String> = quota
        .short
        .iter()
        .map(|one| {
            format!("{} (it requests {}, {} of {} are used)", one.what, one.asked, one.used, one.limit)
        })
        .collect();
    let message = format!(
        "{} cannot be created: quota {} of namespace {namespace} allows no more {}.",
        quota.refused,
        quota.name,
        words::list(&short)
    );
    let mut hard = Map::new();
    for one in &quota.short {
        hard.insert(one.what.to_owned(), json!(one.needed.to_string()));
    }
    let fix = Fix::merge(
        target.clone(),
        json!({"spec": {"hard": hard}}),
        format!(
            "Raises quota {} so that the object can be created. Alternatively, request less.",
            quota.name
        ),
    );
    let cause = Cause::new(Code::QuotaExceeded, message, vec![target]).fixed_by(Some(fix));
    why.push(Severity::Attention, cause);
}

/// A quota error in the server's format (upstream: plugin/pkg/admission/resourcequota).
#[derive(Debug)]
struct Quota<'a> {
    name: &'a str,
    refused: String,
    short: Vec<Short<'a>>,
}

#[derive(Debug)]
struct Short<'a> {
    what: &'a str,
    asked: &'a str,
    used: &'a str,
    limit: &'a str,
    needed: Quantity,
}

impl<'a> Quota<'a> {
    /// Parses `claims "c" is forbidden: exceeded quota: q, requested: a=1,b=2, used: a=3,b=4, limited: a=3,b=5`.
    fn read(said: &'a str) -> Option<Self> {
        let (before, rest) = said.split_once(" is forbidden: exceeded quota: ")?;
        let (name, rest) = rest.split_once(", requested: ")?;
        let (asked, rest) = rest.split_once(", used: ")?;
        let (used, limited) = rest.split_once(", limited: ")?;
        let mut words = before.rsplitn(3, ' ');
        let (object, kind) = (words.next()?.trim_matches('"'), words.next()?);
        let values = |list: &'a str| -> BTreeMap<&'a str, &'a str> {
            // The first of equal names counts.
            list.split(',').rev().filter_map(|one| one.trim().split_once('=')).collect()
        };
        let (used_of, limit_of) = (values(used), values(limited));
        let short: Option<Vec<Short<'a>>> = asked
            .split(',')
            .map(|one| {
                let (what, asked) = one.trim().split_once('=')?;
                let (used, limit) = (*used_of.get(what)?, *limit_of.get(what)?);
                let limit = limit.trim_end_matches(['.', ' ']);
                let needed = Quantity::parse(used).ok()?.plus(&Quantity::parse(asked).ok()?);
                Some(Short { what, asked, used, limit, needed })
            })
            .collect();
        let one = match kind {
            "persistentvolumeclaims" => "Claim".to_owned(),
            "pods" => "Pod".to_owned(),
            kind => kind.trim_end_matches('s').to_owned(),
        };
        Some(Self { name, refused: format!("{one} {object}"), short: short? })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn quota_errors_are_parsed() {
        let said = "create Claim data-web-0 for Pod web-0 in StatefulSet web failed error: persistentvolumeclaims \
                    \"data-web-0\" is forbidden: exceeded quota: q, requested: \
                    persistentvolumeclaims=1,requests.storage=5Gi, used: persistentvolumeclaims=2,requests.storage=8Gi, \
                    limited: persistentvolumeclaims=2,requests.storage=10Gi";
        let quota = Quota::read(said).unwrap();
        assert_eq!((quota.name, quota.refused.as_str()), ("q", "Claim data-web-0"));
        let short: Vec<String> =
            quota.short.iter().map(|one| format!("{} {} {}", one.what, one.limit, one.needed)).collect();
        assert_eq!(short, ["persistentvolumeclaims 2 3", "requests.storage 10Gi 13Gi"]);
        // Names that start with another one, and the first of equal names.
        let said = "pods \"p\" is forbidden: exceeded quota: q, requested: a=1, used: ab=9,a=2,a=7, limited: ab=9,a=2,a=7";
        let quota = Quota::read(said).unwrap();
        assert_eq!(quota.short.iter().map(|one| (one.used, one.limit)).collect::<Vec<_>>(), [("2", "2")]);
        for odd in [
            "",
            "x is forbidden: exceeded quota: q",
            "x is forbidden: exceeded quota: q, requested: a, used: b, limited: c",
        ] {
            assert!(Quota::read(odd).is_none(), "{odd}");
        }
    }
    #[test]
    fn cost_of_a_long_message_is_linear() {
        let message = |count: usize| {
            let list = |value: usize| -> String {
                (0..count).map(|n| format!("r{n}={value}")).collect::<Vec<_>>().join(",")
            };
            let reversed: Vec<String> = (0..count).rev().map(|n| format!("r{n}=1")).collect();
            let (asked, used) = (list(1), reversed.join(","));
            format!(
                "pods \"p\" is forbidden: exceeded quota: q, requested: {asked}, used: {used}, limited: {used}"
            )
        };
        orlop_apimachinery::thread_time::assert_linear("quota", 300, message, |said| {
            Quota::read(said).unwrap().short.len()
        });
    }
}
