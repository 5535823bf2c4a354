//! The functions of `authorizer`: they build a question about the rights of a user, and answer it.
//!
//! Upstream: apiserver `pkg/cel/library/authz.go`.

use std::rc::Rc;

use orlop_apimachinery::names;

use super::Val;
use super::access_question::{Access, AccessQuestion, AccessTarget, DecidesAccess};
use super::cost::{Meter, Result, fail};

/// The cost of a check, as upstream: at most two fit into an expression.
const CHECK_COST: u64 = 350_000;

const KNOWN: [&str; 13] = [
    "path",
    "group",
    "serviceAccount",
    "resource",
    "subresource",
    "namespace",
    "name",
    "fieldSelector",
    "labelSelector",
    "check",
    "allowed",
    "reason",
    "errored",
];

/// Calls a function; `None` if there is none of that name for these values. The receiver is the first argument.
pub(super) fn call<'v>(
    meter: &mut Meter,
    name: &str,
    args: &[Val<'v>],
    decides: Option<&'v dyn DecidesAccess>,
) -> Option<Result<Val<'v>>> {
    let [Val::Access(access), rest @ ..] = args else { return None };
    if !KNOWN.contains(&name) && name != "error" {
        return None;
    }
    let made = |access| Some(Ok(Val::Access(Rc::new(access))));
    match (name, access.as_ref(), rest) {
        ("path", Access::Authorizer(user), [Val::Text(path)]) => {
            if path.trim().is_empty() {
                return Some(fail("path must not be empty"));
            }
            made(Access::Check(user.clone(), AccessTarget::Path(path.to_string())))
        }
        ("group", Access::Authorizer(user), [Val::Text(group)]) => {
            made(Access::Group(user.clone(), group.to_string()))
        }
        ("serviceAccount", Access::Authorizer(_), [Val::Text(namespace), Val::Text(account)]) => {
            if !names::dns_subdomain(account).is_empty() {
                return Some(fail("Invalid service account name"));
            }
            if !names::dns_label(namespace).is_empty() {
                return Some(fail("Invalid service account namespace"));
            }
            made(Access::Authorizer(Some((namespace.to_string(), account.to_string()))))
        }
        ("resource", Access::Group(user, group), [Val::Text(resource)]) => {
            if resource.trim().is_empty() {
                return Some(fail("resource must not be empty"));
            }
            let target = AccessTarget::Resource {
                group: group.clone(),
                resource: resource.to_string(),
                subresource: String::new(),
                namespace: String::new(),
                name: String::new(),
                field_selector: String::new(),
                label_selector: String::new(),
            };
            made(Access::Check(user.clone(), target))
        }
        (part, Access::Check(user, target @ AccessTarget::Resource { .. }), [Val::Text(text)])
            if part != "check" =>
        {
            let mut target = target.clone();
            if let AccessTarget::Resource {
                subresource,
                namespace,
                name,
                field_selector,
                label_selector,
                ..
            } = &mut target
            {
                let place = match part {
                    "subresource" => subresource,
                    "namespace" => namespace,
                    "name" => name,
                    "fieldSelector" => field_selector,
                    "labelSelector" => label_selector,
                    _ => return None,
                };
                *place = text.to_string();
            }
            made(Access::Check(user.clone(), target))
        }
        ("check", Access::Check(user, target), [Val::Text(verb)]) => {
            if let Err(failure) = meter.pay(CHECK_COST) {
                return Some(Err(failure));
            }
            let decides = decides?;
            let question = AccessQuestion {
                service_account: user.clone(),
                target: target.clone(),
                verb: verb.to_string(),
            };
            made(Access::Decision(decides.decide(&question)))
        }
        ("allowed", Access::Decision(answer), []) => Some(Ok(Val::Bool(answer.allowed))),
        ("reason", Access::Decision(answer), []) => Some(Ok(Val::text(&answer.reason))),
        // Decisions are made in memory and cannot fail.
        ("errored", Access::Decision(_), []) => Some(Ok(Val::Bool(false))),
        ("error", Access::Decision(_), []) => Some(Ok(Val::text(""))),
        _ => None,
    }
}
