//! The parameters of a binding.
//!
//! Their number, their size and the cost of decoding them and of evaluating a binding with all of them are limited: tenants may create
//! parameters, and each write that the binding matches reads them. Objects that a selector does not select are not decoded.
//!
//! Upstream: apiserver `pkg/admission/plugin/policy/generic/policy_dispatcher.go` (`CollectParams`).

use std::io;
use std::ops::ControlFlow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use orlop_apimachinery::labels::Selector;
use serde::Deserialize as _;
use serde_json::Value;

use super::budget::PhaseBudget;
use super::cluster::ClusterState;
use crate::encode::undecoded::Undecoded;
use crate::registry::{KindRef, Scope};
use orlop_api::object::Object;

/// Maximum number of parameters of a binding.
const MAX_PARAMS: usize = 1000;
/// Maximum size of the parameters of a binding, bytes of JSON.
const MAX_BYTES: usize = 4 << 20;

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
/// Why the binding is not configured properly, or that it has too many parameters, or that the budget does not suffice to decode them.
pub(super) fn collect(
    param_kind: Option<&(String, String)>,
    param: Option<&ParamRef>,
    namespace: &str,
    cluster: &dyn ClusterState,
    phase: &mut PhaseBudget,
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
    let mut found = Found::default();
    match &param.selector {
        None => {
            if let Some(object) = cluster.object(&kind, namespace, &param.name) {
                phase.decode(size_of(&object)).map_err(|error| error.to_string())?;
                found.add(object)?;
            }
        }
        Some(selector) => {
            let selector = selector.as_ref().map_err(Clone::clone)?;
            let mut result = Ok(());
            cluster.visit_objects(&kind, namespace, &mut |object| {
                if object.may_match(selector) {
                    result = found.decode(object, phase);
                }
                if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            result?;
        }
    }
    let found = found.objects;
    if found.is_empty() && param.denies_without {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    Ok(found.into_iter().map(|object| Some(shown(object, &kind))).collect())
}

/// The parameters of a binding, within its limits.
#[derive(Default)]
struct Found {
    objects: Vec<Object>,
    bytes: usize,
}

impl Found {
    /// Decodes an object only if it fits.
    fn decode(&mut self, object: &dyn Undecoded, phase: &mut PhaseBudget) -> Result<(), String> {
        if self.objects.len() == MAX_PARAMS {
            return Err(format!("paramRef selects more than {MAX_PARAMS} parameters"));
        }
        self.check_size(object.bytes())?;
        phase.decode(object.bytes()).map_err(|error| error.to_string())?;
        // An unreadable object fails the request.
        object.decode().map_or(Ok(()), |object| self.add(object))
    }

    fn add(&mut self, object: Object) -> Result<(), String> {
        // The form that the kind shows may be larger than the stored one.
        self.bytes = self.check_size(size_of(&object))?;
        self.objects.push(object);
        Ok(())
    }

    /// The size with a further object, bytes.
    fn check_size(&self, bytes: usize) -> Result<usize, String> {
        let bytes = self.bytes.saturating_add(bytes);
        match bytes > MAX_BYTES {
            true => Err(format!("the parameters that paramRef selects have more than {MAX_BYTES} bytes")),
            false => Ok(bytes),
        }
    }
}

/// The size of an object as JSON, bytes.
fn size_of(object: &Object) -> usize {
    struct Counter(usize);
    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // JSON values always serialize.
    serde_json::to_writer(&mut counter, &object.0).map_or(usize::MAX, |()| counter.0)
}

fn shown(object: Object, kind: &KindRef) -> Value {
    let mut object = object;
    object.set(&["apiVersion"], kind.names().api_version());
    object.set(&["kind"], kind.names().kind);
    object.into_value()
}
