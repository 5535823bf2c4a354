//! `pods/NAME/binding`: binds a pod to a node.

use axum::response::Response;
use serde_json::{Map, Value, json};

use crate::admission::matching::{AdmissionOperation, GroupVersionKind};
use crate::encode::negotiate::Endpoint;
use crate::encode::{answer, stored};
use crate::registry::Names;
use crate::verbs::attempts::attempts;
use crate::verbs::options::WriteOptions;
use crate::verbs::request::Request;
use crate::verbs::write::{self, StoreError};
use orlop_api::object::{Object, show_time};
use orlop_api::status::{ApiError, Details};
use orlop_codec::decode::decode_named;

const BINDING: Names = Names {
    group: "",
    version: "v1",
    kind: "Binding",
    plural: "bindings",
    singular: "binding",
    short: &[],
    categories: &[],
    schema: "io.k8s.api.core.v1.Binding",
};

const VERSION: [&str; 2] = ["metadata", "resourceVersion"];

/// Binds the pod in the path to the node in the body.
pub(crate) async fn bind(request: &Request) -> Result<Response, ApiError> {
    let wanted = request.wanted(Endpoint::Single)?;
    let options = WriteOptions::parse("CreateOptions", &request.query)?;
    let decoded = decode_named(&BINDING, request.media()?, &request.body, options.validation)?;
    let mut binding = decoded.object;
    write::settle_namespace(request, &mut binding)?;
    write::admit_body(request, &mut binding)?;
    let name = match request.resource.name.as_str() {
        "" => binding.name().to_owned(),
        name if !binding.name().is_empty() && binding.name() != name => {
            return Err(ApiError::bad_request("name in URL does not match name in Binding object"));
        }
        name => name.to_owned(),
    };
    let node = check_target(&binding)?;
    let mut warnings = decoded.warnings;
    let kind = GroupVersionKind::of(&BINDING);
    let operation = AdmissionOperation::Create;
    write::admit_subresource(request, operation, kind, &binding, options.dry_run, &mut warnings).await?;
    for _ in 0..attempts(request, &name) {
        let key = request.resource.key(&name);
        let record = request
            .found(&request.head(), &name)?
            .ok_or_else(|| ApiError::not_found(request.names(), &name))?;
        let old = stored::decode(&record)?;
        if !binding.uid().is_empty() && binding.uid() != old.uid() {
            return Err(write::uid_conflict(request.kind(), &key, binding.uid(), old.uid()));
        }
        let (given, actual) = (binding.str_at(&VERSION), old.str_at(&VERSION));
        if !given.is_empty() && given != actual {
            return Err(write::version_conflict(request.kind(), &key, given, actual));
        }
        let bound = bound_pod(request, &binding, &old, &name, &node)?;
        if !options.dry_run {
            match write::store_changed(request, &record, bound).await {
                Ok(_) => {}
                Err(StoreError::Api(error)) => return Err(error),
                Err(StoreError::Moved(_)) => continue,
            }
        }
        let status =
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
        let mut response = answer::value_answer(201, wanted, &status)?;
        answer::add_warnings(response.headers_mut(), &warnings);
        return Ok(response);
    }
    Err(ApiError::conflict(request.names(), &name))
}

fn check_target(binding: &Object) -> Result<String, ApiError> {
    let kind = binding.str_at(&["target", "kind"]);
    let node = binding.str_at(&["target", "name"]);
    let mut errors: Vec<String> = Vec::new();
    if !matches!(kind, "" | "Node") {
        errors.push(format!(
            "target.kind: Unsupported value: {kind:?}: supported values: \"Node\", \"<empty>\""
        ));
    }
    if node.is_empty() {
        errors.push("target.name: Required value".to_owned());
    }
    match errors.as_slice() {
        [] => Ok(node.to_owned()),
        [one] => Err(ApiError::plain_internal(one.clone())),
        many => Err(ApiError::plain_internal(format!("[{}]", many.join(", ")))),
    }
}

fn bound_pod(
    request: &Request,
    binding: &Object,
    old: &Object,
    name: &str,
    node: &str,
) -> Result<Object, ApiError> {
    let refuse = |why: String| {
        let details =
            Details { name: name.to_owned(), kind: "pods/binding".to_owned(), ..Details::default() };
        ApiError::conflict_because("pods/binding", details, &why)
    };
    if old.is_terminating() {
        return Err(refuse(format!("pod {name} is being deleted, cannot be assigned to a host")));
    }
    let assigned = old.str_at(&["spec", "nodeName"]);
    if !assigned.is_empty() {
        return Err(refuse(format!("pod {name} is already assigned to node {assigned:?}")));
    }
    let gates = old.at(&["spec", "schedulingGates"]).and_then(Value::as_array);
    if gates.is_some_and(|gates| !gates.is_empty()) {
        return Err(refuse(format!("pod {name} has non-empty .spec.schedulingGates")));
    }
    let mut pod = old.clone();
    pod.set(&["spec", "nodeName"], node);
    for member in ["annotations", "labels"] {
        let given = binding.at(&["metadata", member]).and_then(Value::as_object);
        for (key, value) in given.into_iter().flatten() {
            pod.set(&["metadata", member, key], value.clone());
        }
    }
    if let Some(status) = pod.object_at(&["status"]).get_mut("nominatedNodeName") {
        *status = Value::Null;
        pod.remove(&["status", "nominatedNodeName"]);
    }
    set_scheduled(&mut pod, show_time(request.now()));
    Ok(pod)
}

fn set_scheduled(pod: &mut Object, now: Value) {
    let mut condition = Map::new();
    condition.insert("type".to_owned(), "PodScheduled".into());
    condition.insert("status".to_owned(), "True".into());
    condition.insert("lastProbeTime".to_owned(), Value::Null);
    condition.insert("lastTransitionTime".to_owned(), now);
    let conditions =
        pod.object_at(&["status"]).entry("conditions").or_insert_with(|| Value::Array(Vec::new()));
    let Some(conditions) = conditions.as_array_mut() else { return };
    let found = conditions.iter_mut().find(|one| one.get("type").is_some_and(|ty| ty == "PodScheduled"));
    match found {
        Some(found) => *found = Value::Object(condition),
        None => conditions.push(Value::Object(condition)),
    }
}
