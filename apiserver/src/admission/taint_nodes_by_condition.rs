//! `TaintNodesByCondition`: taints a new node until it is ready (upstream: plugin/pkg/admission/nodetaint).

use serde_json::{Value, json};

use super::plugin::Plugin;
use super::request::{Lookup, Operation, Request};
use orlop_api::status::ApiError;

const TAINT: &str = "node.kubernetes.io/not-ready";
const EFFECT: &str = "NoSchedule";

pub(super) struct TaintNodesByCondition;

impl Plugin for TaintNodesByCondition {
    fn name(&self) -> &'static str {
        "TaintNodesByCondition"
    }

    fn mutate(&self, request: &mut Request<'_>, _lookup: &dyn Lookup) -> Result<(), ApiError> {
        if request.operation != Operation::Create || !request.is("", "nodes") {
            return Ok(());
        }
        let Some(node) = request.object.as_deref_mut() else { return Ok(()) };
        let mut taints = node.at(&["spec", "taints"]).and_then(Value::as_array).cloned().unwrap_or_default();
        let is_ours = |taint: &Value| taint["key"] == TAINT && taint["effect"] == EFFECT;
        if taints.iter().any(is_ours) {
            return Ok(());
        }
        taints.push(json!({"key": TAINT, "effect": EFFECT}));
        node.set(&["spec", "taints"], taints);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::testing::{Facts, Write};

    #[test]
    fn taints() {
        let ours = json!({"key": TAINT, "effect": EFFECT});
        let valued = json!({"key": TAINT, "value": "x", "effect": EFFECT});
        let other = json!({"key": TAINT, "effect": "NoExecute"});
        for (case, given, want) in [
            ("1 none", json!(null), json!([ours])),
            ("2 there already", json!([valued]), json!([valued])),
            ("3 another effect", json!([other]), json!([other, ours])),
        ] {
            let node = json!({"metadata": {"name": "n"}, "spec": {"taints": given}});
            let got = Write::create("nodes", node).mutate(&TaintNodesByCondition, &Facts::none());
            assert_eq!(got.expect("never refuses")["spec"]["taints"], want, "{case}");
        }
    }

    #[test]
    fn updates_stay_as_they_are() {
        let node = json!({"metadata": {"name": "n"}, "spec": {}});
        let got =
            Write::update("nodes", node.clone(), node.clone()).mutate(&TaintNodesByCondition, &Facts::none());
        assert_eq!(got.expect("never refuses"), node);
    }
}
