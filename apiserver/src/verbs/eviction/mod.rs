//! `pods/NAME/eviction`: deletes a pod if its disruption budgets allow it.

mod decision;

use axum::response::Response;
use jiff::Timestamp;
use orlop_store::Record;
use serde_json::{Map, Value, json};
use std::sync::Arc;

use crate::admission::matching::{AdmissionOperation, GroupVersionKind};
use crate::dispatch;
use crate::encode::negotiate::Endpoint;
use crate::encode::{answer, stored};
use crate::projection::Projection;
use crate::registry::{self, Kind, Names};
use crate::verbs::attempts::attempts;
use crate::verbs::delete::{check_preconditions, delete_named};
use crate::verbs::delete_options::DeleteOptions;
use crate::verbs::options::WriteOptions;
use crate::verbs::request::Request;
use crate::verbs::write::{self, StoreError};
use decision::{EvictionDecision, decide};
use orlop_api::object::{Object, show_time};
use orlop_api::status::{ApiError, Details};
use orlop_api::validate::Cause;
use orlop_codec::decode::{FieldValidation, decode_named};
use orlop_codec::managed_fields::{self, Writer};

const EVICTION: Names = Names {
    group: "policy",
    version: "v1",
    kind: "Eviction",
    plural: "evictions",
    singular: "eviction",
    short: &[],
    categories: &[],
    schema: "io.k8s.api.policy.v1.Eviction",
};

/// The version that old clients send; its fields are the same.
const OLD_EVICTION: Names = Names { version: "v1beta1", ..EVICTION };

/// Key prefix of budgets in the store.
const BUDGETS: &str = "/registry/poddisruptionbudgets/";

/// The field manager of the budget updates.
const MANAGER: &str = "kube-apiserver";

/// Seconds until a client should retry when the status of a budget is outdated.
const RETRY_SECONDS: u32 = 10;

/// Evicts the pod in the path.
pub(crate) async fn evict(request: &Request) -> Result<Response, ApiError> {
    let wanted = request.wanted(Endpoint::Single)?;
    let options = WriteOptions::parse("CreateOptions", &request.query)?;
    let (mut eviction, warnings) = read(request, options.validation)?;
    write::settle_namespace(request, &mut eviction)?;
    write::admit_body(request, &mut eviction)?;
    if eviction.name() != request.resource.name {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    let empty = Map::new();
    let given = eviction.at(&["deleteOptions"]).and_then(Value::as_object).unwrap_or(&empty);
    let mut delete = DeleteOptions::from_body(given)?;
    delete.dry_run |= options.dry_run;
    let mut warnings = warnings;
    let kind = GroupVersionKind::of(&EVICTION);
    let operation = AdmissionOperation::Create;
    write::admit_subresource(request, operation, kind, &eviction, delete.dry_run, &mut warnings).await?;
    let mut attempts = attempts(request, &request.resource.name);
    let mut paid = false;
    loop {
        attempts -= 1;
        match once(request, &delete, &mut paid).await {
            Ok(()) => break,
            Err(StoreError::Api(error)) => return Err(error.with_warnings(&warnings)),
            Err(StoreError::Moved(_)) if attempts > 0 => {}
            Err(StoreError::Moved(_)) => {
                return Err(ApiError::conflict(request.names(), &request.resource.name));
            }
        }
    }
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    let mut response = answer::value_answer(201, wanted, &status)?;
    answer::add_warnings(response.headers_mut(), &warnings);
    Ok(response)
}

fn read(request: &Request, validation: FieldValidation) -> Result<(Object, Vec<String>), ApiError> {
    let media = request.media()?;
    let decoded = match decode_named(&EVICTION, media, &request.body, validation) {
        Ok(decoded) => decoded,
        Err(why) => decode_named(&OLD_EVICTION, media, &request.body, validation).map_err(|_| why)?,
    };
    Ok((decoded.object, decoded.warnings))
}

/// The condition under which a pod may be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Terms {
    /// Unconditional.
    Free,
    /// The budget has been charged.
    Paid,
    /// Only at the checked version: the eviction is free while the pod is not healthy.
    AsJudged,
}

/// Evicts the current version of the pod. `paid` records across attempts whether the budget has been charged. If
/// the pod is not deleted in the end, the budget's controller corrects the charge.
async fn once(request: &Request, delete: &DeleteOptions, paid: &mut bool) -> Result<(), StoreError> {
    let record = request.record(&request.head())?;
    let pod = stored::decode_as(request.kind(), &record)?;
    check_preconditions(request, delete, &pod)?;
    let terms = if decision::has_ended(&pod) {
        Terms::Free
    } else if decision::needs_no_budget(&pod) {
        Terms::AsJudged
    } else if *paid {
        Terms::Paid
    } else {
        spend_budget(request, &pod, delete.dry_run).await?
    };
    *paid |= terms == Terms::Paid;
    let only_as_judged = terms == Terms::AsJudged;
    let marked = if delete.dry_run { record } else { mark(request, &record, pod).await? };
    let mut last = delete.clone();
    if last.resource_version.is_some() || only_as_judged {
        last.resource_version = Some(marked.mod_revision.to_string());
    }
    match delete_named(request, &request.resource.name, &last, &mut Vec::new()).await {
        Ok(_) => Ok(()),
        Err(error) if error.reason == "Conflict" && delete.resource_version.is_none() && only_as_judged => {
            Err(StoreError::Moved(None))
        }
        Err(error) => Err(error.into()),
    }
}

/// Takes one disruption from the budget of the pod, if it has one.
async fn spend_budget(request: &Request, pod: &Object, dry_run: bool) -> Result<Terms, StoreError> {
    let Some(kind) = registry::by_storage_prefix(BUDGETS) else { return Ok(Terms::Free) };
    let head = request.head();
    let (mut records, mut budgets) = (Vec::<Arc<Record<Projection>>>::new(), Vec::<Object>::new());
    for record in head.range(&dispatch::prefix(kind, pod.namespace()), None) {
        // An unreadable budget may be one of the pod.
        let budget = stored::decode_as(kind, record)?;
        // Two are enough: more than one budget for a pod is an error.
        if decision::selects(&budget, pod) && budgets.len() < 2 {
            records.push(record.clone());
            budgets.push(budget);
        }
    }
    let refuse = |name: &str, why: &str| ApiError::forbidden(&BUDGET, name, why);
    let at = match decide(pod, &budgets) {
        EvictionDecision::NoBudget => return Ok(Terms::Free),
        EvictionDecision::Unhealthy => return Ok(Terms::AsJudged),
        EvictionDecision::Spend(at) => at,
        EvictionDecision::Several => {
            let text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(ApiError::plain_internal(text).into());
        }
        EvictionDecision::NotObserved(name) => {
            let why = format!("The disruption budget {name} is still being processed by the server.");
            return Err(ApiError::too_many_disruptions(cause(why), Some(RETRY_SECONDS)).into());
        }
        EvictionDecision::Exhausted(why) => {
            return Err(ApiError::too_many_disruptions(cause(why), None).into());
        }
        EvictionDecision::Negative(name) => {
            return Err(refuse(&name, "pdb disruptions allowed is negative").into());
        }
        EvictionDecision::TooManyPending(name) => {
            let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
            return Err(refuse(&name, why).into());
        }
    };
    if !dry_run {
        let (Some(record), Some(before)) = (records.get(at), budgets.get(at)) else { return Ok(Terms::Free) };
        let after = spent(kind, before, pod.name(), request.now());
        write::put_as(request, kind, record, after).await?;
    }
    Ok(Terms::Paid)
}

/// The budget's resource in errors, in the singular as in upstream's.
const BUDGET: Names = Names {
    group: "policy",
    version: "v1",
    kind: "PodDisruptionBudget",
    plural: "poddisruptionbudget",
    singular: "poddisruptionbudget",
    short: &[],
    categories: &[],
    schema: "io.k8s.api.policy.v1.PodDisruptionBudget",
};

fn cause(message: String) -> Details {
    let cause = Cause { reason: "DisruptionBudget", message, field: String::new() };
    Details { causes: vec![cause], ..Details::default() }
}

/// The budget after an eviction, with its managed fields.
fn spent(kind: &'static dyn Kind, before: &Object, pod: &str, now: Timestamp) -> Object {
    let now = show_time(now);
    let mut after = decision::spent(before, pod, &now);
    let time = now.as_str().unwrap_or_default();
    let writer = Writer { kind, subresource: "status", manager: MANAGER, now: time };
    managed_fields::track(&writer, Some(before), &mut after);
    after
}

/// Records in the pod's conditions why it is deleted, so that watchers see the reason.
async fn mark(
    request: &Request,
    record: &Arc<Record<Projection>>,
    mut pod: Object,
) -> Result<Arc<Record<Projection>>, StoreError> {
    decision::mark(&mut pod, &show_time(request.now()));
    write::put(request, record, pod).await
}
