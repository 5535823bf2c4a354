//! Admission of connections to pods, services and nodes.

use crate::admission::matching::{AdmissionOperation, GroupVersionKind};
use crate::verbs::request::Request;
use crate::verbs::write;
use orlop_api::object::Object;
use orlop_api::status::ApiError;

/// Runs the policies and webhooks for a connection. Logs are reads.
pub(crate) async fn admit(request: &Request) -> Result<(), ApiError> {
    let subresource = request.resource.subresource.as_str();
    let kind = match (request.names().plural, subresource) {
        (_, "log") => return Ok(()),
        ("nodes", _) => "NodeProxyOptions",
        ("services", _) => "ServiceProxyOptions",
        (_, "exec") => "PodExecOptions",
        (_, "attach") => "PodAttachOptions",
        (_, "portforward") => "PodPortForwardOptions",
        _ => "PodProxyOptions",
    };
    let kind = GroupVersionKind { group: String::new(), version: "v1".to_owned(), kind: kind.to_owned() };
    let mut options = Object::default();
    for flag in ["stdin", "stdout", "stderr", "tty"] {
        if request.query.flag(flag) {
            options.set(&[flag], true);
        }
    }
    for name in ["container", "path"] {
        let value = request.query.text(name);
        if !value.is_empty() {
            options.set(&[name], value);
        }
    }
    let command: Vec<&str> = request.query.all("command").collect();
    if !command.is_empty() {
        options.set(&["command"], command);
    }
    write::admit_subresource(request, AdmissionOperation::Connect, kind, &options, false, &mut Vec::new())
        .await
}
