//! The request around a write, for the validation of kinds that depend on it.

use std::borrow::Cow;

use crate::admission::Lookup as _;
use crate::authorization::forbidden;
use crate::registry::{self, Permission, WriteContext};
use crate::verbs::request::Request;
use orlop_auth::request_info::{RequestInfo, RequestTarget, ResourceTarget};

/// The attribute of a service account's user with the node of the pod to which the token is bound.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

impl WriteContext for Request {
    fn verb(&self) -> &'static str {
        // The format of the body distinguishes a PATCH from a PUT.
        let is_patch = self.content_type.as_deref().is_some_and(|media| media.contains("-patch"));
        match (self.resource.name.is_empty(), is_patch) {
            (true, _) => "create",
            (false, true) => "patch",
            (false, false) => "update",
        }
    }

    fn namespace_label(&self, key: &str) -> Option<String> {
        let kind = registry::by_resource("", "v1", "namespaces")?;
        // The label permits more, so an unreadable namespace has none.
        let namespace = self.look_up(|lookup| lookup.head(kind, "", &self.resource.namespace)).ok()??;
        namespace.label(key).map(str::to_owned)
    }

    fn check(&self, permission: Permission<'_>) -> Result<(), String> {
        let names = self.names();
        let info = RequestInfo {
            verb: Cow::Owned(permission.verb.to_owned()),
            target: RequestTarget::Resource(ResourceTarget {
                group: names.group.to_owned(),
                version: names.version.to_owned(),
                namespace: permission.namespace.to_owned(),
                resource: names.plural.to_owned(),
                subresource: permission.subresource.to_owned(),
                name: permission.name.to_owned(),
                ..ResourceTarget::default()
            }),
        };
        let decision = self.server.authorizer.decide_blocking(&self.user, &info);
        if decision.allowed {
            return Ok(());
        }
        Err(forbidden(&self.user, &info, &decision.reason).message)
    }

    fn service_account_node(&self) -> Option<String> {
        if !self.user.username.starts_with(SERVICE_ACCOUNT) {
            return None;
        }
        match self.user.extra.get(NODE_NAME)?.as_slice() {
            [node] => Some(node.clone()),
            _ => None,
        }
    }
}
