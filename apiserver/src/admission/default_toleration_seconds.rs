//! `DefaultTolerationSeconds`: pods tolerate a node that is not ready or unreachable for five minutes, unless they have a
//! toleration of their own (upstream: plugin/pkg/admission/defaulttolerationseconds).

use serde_json::{Value, json};

use super::plugin::Plugin;
use super::request::{Lookup, Operation, Request};
use orlop_api::status::ApiError;

/// The taints, in the order in which the tolerations are added.
const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
const SECONDS: i64 = 300;

pub(super) struct DefaultTolerationSeconds;

impl Plugin for DefaultTolerationSeconds {
    fn name(&self) -> &'static str {
        "DefaultTolerationSeconds"
    }

    fn mutate(&self, request: &mut Request<'_>, _lookup: &dyn Lookup) -> Result<(), ApiError> {
        if request.operation == Operation::Delete || !request.is("", "pods") {
            return Ok(());
        }
        let Some(pod) = request.object.as_deref_mut() else { return Ok(()) };
        let given = pod.at(&["spec", "tolerations"]).and_then(Value::as_array);
        let mut tolerations = given.cloned().unwrap_or_default();
        let missing: Vec<&str> =
            TAINTS.into_iter().filter(|taint| !tolerations.iter().any(|one| tolerates(one, taint))).collect();
        if missing.is_empty() {
            return Ok(());
        }
        tolerations.extend(missing.into_iter().map(|taint| {
            json!({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS})
        }));
        pod.set(&["spec", "tolerations"], tolerations);
        Ok(())
    }
}

/// Upstream compares key and effect only: a toleration of one value of the taint counts as well.
fn tolerates(toleration: &Value, taint: &str) -> bool {
    let text = |key: &str| toleration.get(key).and_then(Value::as_str).unwrap_or_default();
    (text("key").is_empty() || text("key") == taint)
        && (text("effect").is_empty() || text("effect") == "NoExecute")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::testing::{Facts, Write};

    fn added(taint: &str) -> Value {
        json!({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
    }

    #[test]
    fn missing_tolerations_are_added() {
        let [not_ready, unreachable] = TAINTS;
        let own =
            json!({"key": not_ready, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60});
        let schedule = json!({"key": not_ready, "operator": "Exists", "effect": "NoSchedule"});
        let everything = json!({"operator": "Exists"});
        for (case, given, want) in [
            ("1 none", json!(null), json!([added(not_ready), added(unreachable)])),
            ("2 one of them", json!([own]), json!([own, added(unreachable)])),
            ("3 everything", json!([everything]), json!([everything])),
            ("4 another effect", json!([schedule]), json!([schedule, added(not_ready), added(unreachable)])),
        ] {
            let pod = json!({"metadata": {"name": "p"}, "spec": {"tolerations": given}});
            let created =
                Write::create("pods", pod.clone()).mutate(&DefaultTolerationSeconds, &Facts::none());
            assert_eq!(created.expect("never refuses")["spec"]["tolerations"], want, "{case}");
            let updated =
                Write::update("pods", pod.clone(), pod).mutate(&DefaultTolerationSeconds, &Facts::none());
            assert_eq!(updated.expect("never refuses")["spec"]["tolerations"], want, "{case}, update");
        }
    }

    #[test]
    fn other_objects_stay_unchanged() {
        let object = json!({"metadata": {"name": "p"}, "spec": {}});
        for mut write in
            [Write::create("nodes", object.clone()), Write::create("pods", object.clone()).to("binding")]
        {
            let got = write.mutate(&DefaultTolerationSeconds, &Facts::none());
            assert_eq!(got.expect("never refuses"), object);
        }
    }
}
