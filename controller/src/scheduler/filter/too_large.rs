//! Pods with so many scheduling terms that comparing them with all nodes and pods would delay the other pods.

use k8s_openapi::api::core::v1::{NodeSelectorTerm, Pod};

use super::super::pod::{MAX_TERMS, PodFacts};
use orlop_volume::affinity::required_node_terms;

/// The requirements of nodes in all required and preferred terms of a pod.
const REQUIREMENTS: usize = 1000;

/// Why a pod is not compared with nodes.
pub fn reason(pod: &Pod, facts: &PodFacts) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let preferred = affinity
        .and_then(|affinity| affinity.preferred_during_scheduling_ignored_during_execution.as_deref())
        .unwrap_or_default();
    let terms = required_node_terms(pod).unwrap_or_default().iter();
    let count = |term: &NodeSelectorTerm| {
        let count = |list: Option<usize>| list.unwrap_or(0);
        // An empty term is compared too.
        1 + count(term.match_expressions.as_ref().map(Vec::len))
            + count(term.match_fields.as_ref().map(Vec::len))
    };
    let requirements: usize = terms.chain(preferred.iter().map(|wish| &wish.preference)).map(count).sum();
    let spread = spec.topology_spread_constraints.as_ref().map_or(0, Vec::len);
    let table = [
        ("required pod affinity terms", facts.affinity.len(), MAX_TERMS),
        ("required pod anti-affinity terms", facts.anti_affinity.len(), MAX_TERMS),
        ("topology spread constraints", spread, MAX_TERMS),
        ("node affinity terms and requirements", requirements, REQUIREMENTS),
    ];
    let (what, _, most) = table.into_iter().find(|(_, count, most)| count > most)?;
    Some(format!("the pod has more than {most} {what}, which this scheduler does not compare"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn reason_of(spec: Value) -> Option<String> {
        let mut pod = json!({"metadata": {"namespace": "ns", "name": "p"}, "spec": {"containers": []}});
        crate::testing::merge_into(&mut pod["spec"], &spec);
        let pod: Pod = serde_json::from_value(pod).unwrap();
        reason(&pod, &PodFacts::of(&pod))
    }

    fn many(one: Value, count: usize) -> Value {
        Value::Array(vec![one; count])
    }

    #[test]
    fn number_of_terms_is_limited() {
        const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
        let exists = json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]});
        type Of = fn(Value) -> Value;
        let table: [(&str, Of, Value, usize); 4] = [
            (
                "required pod affinity terms",
                |terms| json!({"affinity": {"podAffinity": {REQUIRED: terms}}}),
                json!({"topologyKey": "zone"}),
                MAX_TERMS,
            ),
            (
                "required pod anti-affinity terms",
                |terms| json!({"affinity": {"podAntiAffinity": {REQUIRED: terms}}}),
                json!({"topologyKey": "zone"}),
                MAX_TERMS,
            ),
            (
                "topology spread constraints",
                |terms| json!({"topologySpreadConstraints": terms}),
                json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}),
                MAX_TERMS,
            ),
            (
                "node affinity terms",
                |terms| json!({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}),
                exists,
                REQUIREMENTS / 2,
            ),
        ];
        for (name, spec, one, most) in table {
            assert_eq!(reason_of(spec(many(one.clone(), most))), None, "{name}");
            let said = reason_of(spec(many(one, most + 1))).unwrap();
            assert!(said.contains(name), "{name}: {said}");
        }
    }
}
