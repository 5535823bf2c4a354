//! The parameters of a binding.
//!
//! Upstream: apiserver `pkg/admission/plugin/policy/generic/policy_dispatcher.go` (`CollectParams`).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use orlop_apimachinery::labels::Selector;
use serde::Deserialize as _;
use serde_json::Value;

use super::cluster::ClusterState;
use crate::registry::{KindRef, Scope};
use orlop_api::object::Object;

/// A reference to parameters.
pub(crate) struct ParamRef {
    name: String,
    namespace: String,
    selector: Option<Result<Selector, String>>,
    denies_without: bool,
}

impl ParamRef {
    pub(super) fn of(value: &Value) -> Self {
        let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let selector = value.get("selector").filter(|selector| !selector.is_null()).map(|selector| {
            let typed = LabelSelector::deserialize(selector).map_err(|error| error.to_string())?;
            Selector::from_label_selector(&typed)
        });
        ParamRef {
            name: text("name"),
            namespace: text("namespace"),
            selector,
            denies_without: text("parameterNotFoundAction") == "Deny",
        }
    }
}

/// Returns the parameters with which a policy is evaluated: one evaluation for each. The kind is the `apiVersion` and
/// `kind` of the policy, the reference that of the binding. `None` stands for no parameters.
///
/// # Errors
/// Why the binding is not configured properly.
pub(super) fn collect(
    param_kind: Option<&(String, String)>,
    param: Option<&ParamRef>,
    namespace: &str,
    cluster: &dyn ClusterState,
) -> Result<Vec<Option<Value>>, String> {
    let Some((api_version, kind_name)) = param_kind else { return Ok(vec![None]) };
    let kind = cluster.kind_named(api_version, kind_name);
    let Some(param) = param else { return Ok(vec![None]) };
    let Some(kind) = kind else {
        return Err(format!("paramKind kind `{api_version}, Kind={kind_name}` not known"));
    };
    let namespace = match kind.scope() {
        Scope::Cluster if !param.namespace.is_empty() => {
            return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
        }
        Scope::Cluster => "",
        Scope::Namespaced if !param.namespace.is_empty() => &param.namespace,
        Scope::Namespaced if namespace.is_empty() => {
            let why =
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
            return Err(why.to_owned());
        }
        Scope::Namespaced => namespace,
    };
    let found: Vec<Object> = match &param.selector {
        None => cluster.object(&kind, namespace, &param.name).into_iter().collect(),
        Some(selector) => {
            let selector = selector.as_ref().map_err(Clone::clone)?;
            let selects = |object: &Object| {
                let labels = object.labels().into_iter().flatten();
                selector.matches(labels.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))))
            };
            cluster.objects(&kind, namespace).into_iter().filter(selects).collect()
        }
    };
    if found.is_empty() && param.denies_without {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    Ok(found.into_iter().map(|object| Some(shown(object, &kind))).collect())
}

fn shown(object: Object, kind: &KindRef) -> Value {
    let mut object = object;
    object.set(&["apiVersion"], kind.names().api_version());
    object.set(&["kind"], kind.names().kind);
    object.into_value()
}
