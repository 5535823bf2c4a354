//! The rule for required spread constraints: no domain may exceed the minimum number of matching pods by more than the maximum
//! skew.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;

use super::super::cluster::{Cluster, NodeFacts, NodeState};
use super::super::pod::PodFacts;
use super::super::terms::Spread;
use super::node_terms::NodeTerms;
use super::taints::Tolerations;
use super::{Misfit, Rule, taints};

const REASON: &str = "node(s) didn't match pod topology spread constraints";
const NO_LABEL: &str = "node(s) didn't match pod topology spread constraints (missing required label)";

/// A constraint with the number of matching pods per domain.
#[derive(Debug)]
pub struct Counted {
    constraint: Spread,
    pods: BTreeMap<String, i64>,
    /// The number of matching pods of the domain with the fewest; none if there are no domains.
    fewest: Option<i64>,
    /// 1 if the pod matches its own constraint.
    own: i64,
}

/// Counts the matching pods of all domains, for one pod.
pub fn count(pod: &Pod, facts: &PodFacts, cluster: &Cluster) -> Vec<Counted> {
    let constraints = pod.spec.iter().flat_map(|spec| spec.topology_spread_constraints.iter().flatten());
    let constraints: Vec<Spread> =
        constraints.filter_map(|constraint| Spread::read(constraint, &facts.labels)).collect();
    let tolerations = Tolerations::of(pod);
    let terms = NodeTerms::of(pod);
    let counts = |constraint, node| counts(constraint, &terms, &tolerations, node);
    let keys: BTreeSet<&str> =
        constraints.iter().map(|constraint| constraint.topology_key.as_str()).collect();
    let has_all = |node: &NodeFacts| keys.iter().all(|key| node.labels.contains_key(*key));
    let nodes: Vec<&NodeState> = cluster.nodes().filter(|node| has_all(&node.facts)).collect();
    let counted = constraints.iter().map(|constraint| {
        let mut pods = BTreeMap::new();
        for node in nodes.iter().filter(|node| counts(constraint, &node.facts)) {
            let Some(domain) = node.facts.labels.get(&constraint.topology_key) else { continue };
            let matching = node.pods.values().filter(|other| {
                !other.terminating
                    && other.namespace == facts.namespace
                    && constraint.pods.matches(&other.labels)
            });
            *pods.entry(domain.clone()).or_insert(0) += i64::try_from(matching.count()).unwrap_or(i64::MAX);
        }
        let own = i64::from(constraint.pods.matches(&facts.labels));
        let fewest = pods.values().min().copied();
        Counted { constraint: constraint.clone(), pods, fewest, own }
    });
    counted.collect()
}

fn counts(
    constraint: &Spread,
    terms: &NodeTerms<'_>,
    tolerations: &Tolerations<'_>,
    node: &NodeFacts,
) -> bool {
    (!constraint.honors_affinity || terms.accept(node))
        && (!constraint.honors_taints || taints::check(tolerations, node).is_ok())
}

/// The rule.
pub fn check(constraints: &[Counted], node: &NodeFacts) -> Result<(), Misfit> {
    for Counted { constraint, pods, fewest, own } in constraints {
        let Some(domain) = node.labels.get(&constraint.topology_key) else {
            return Err(Misfit::fixed(Rule::Spread, NO_LABEL));
        };
        let domains = i64::try_from(pods.len()).unwrap_or(i64::MAX);
        let fewest = match fewest {
            Some(_) if domains < constraint.min_domains => 0,
            Some(fewest) => *fewest,
            None if constraint.min_domains > 0 => 0,
            None => continue,
        };
        let there = pods.get(domain).copied().unwrap_or(0);
        if there + own - fewest > constraint.max_skew {
            return Err(Misfit::passing(Rule::Spread, REASON));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    /// Nodes a1, a2 (zone a), b1 (zone b), c1 (zone c, tainted), bare (no zone).
    fn cluster(pods: &[(&str, &str)]) -> Cluster {
        let mut cluster = Cluster::default();
        for (name, zone) in
            [("a1", Some("a")), ("a2", Some("a")), ("b1", Some("b")), ("c1", Some("c")), ("bare", None)]
        {
            let mut node = json!({"metadata": {"name": name, "labels": {}}, "spec": {}});
            if let Some(zone) = zone {
                node["metadata"]["labels"]["zone"] = json!(zone);
            }
            if name == "c1" {
                node["spec"]["taints"] = json!([{"key": "t", "effect": "NoSchedule"}]);
            }
            cluster.put_node(NodeFacts::of(&serde_json::from_value(node).unwrap()));
        }
        for (name, node) in pods {
            let there = pod(name, json!([]));
            cluster.put_pod(PodFacts::of(&there), node);
        }
        cluster
    }

    fn pod(name: &str, constraints: Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": name, "labels": {"app": "x"}},
            "spec": {"containers": [], "topologySpreadConstraints": constraints}}))
        .unwrap()
    }

    fn constraint(more: Value) -> Value {
        let mut constraint = json!({"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "x"}}});
        crate::testing::merge_into(&mut constraint, &more);
        json!([constraint])
    }

    #[test]
    fn skew_restricts_nodes() {
        let skip_c = json!({"nodeTaintsPolicy": "Honor"});
        let other = json!({"labelSelector": {"matchLabels": {"app": "y"}}});
        type There<'a> = &'a [(&'a str, &'a str)];
        let table: [(&str, There<'_>, Value, &[&str]); 9] = [
            ("no pods", &[], json!({}), &["a1", "a2", "b1", "c1"]),
            ("one in a", &[("1", "a1")], json!({}), &["b1", "c1"]),
            (
                "one in a, b and c",
                &[("1", "a1"), ("2", "b1"), ("3", "c1")],
                json!({}),
                &["a1", "a2", "b1", "c1"],
            ),
            ("c does not count", &[("1", "a1"), ("2", "b1")], skip_c, &["a1", "a2", "b1", "c1"]),
            ("more may be", &[("1", "a1")], json!({"maxSkew": 2}), &["a1", "a2", "b1", "c1"]),
            ("too few domains", &[("1", "a1"), ("2", "b1"), ("3", "c1")], json!({"minDomains": 4}), &[]),
            (
                "only a wish",
                &[("1", "a1")],
                json!({"whenUnsatisfiable": "ScheduleAnyway"}),
                &["a1", "a2", "b1", "bare", "c1"],
            ),
            ("others count", &[("1", "a1")], other, &["a1", "a2", "b1", "c1"]),
            (
                "a constraint without a selector matches no pods",
                &[("1", "a1"), ("2", "a1")],
                json!({"labelSelector": null}),
                &["a1", "a2", "b1", "c1"],
            ),
        ];
        for (name, there, more, wanted) in table {
            let cluster = cluster(there);
            let pod = pod("p", constraint(more));
            let counted = count(&pod, &PodFacts::of(&pod), &cluster);
            let fits = cluster.nodes().filter(|node| check(&counted, &node.facts).is_ok());
            let fits: Vec<&str> = fits.map(|node| node.facts.name.as_str()).collect();
            assert_eq!(fits, wanted, "{name}");
        }
        let cluster = cluster(&[("1", "a1")]);
        let pod = pod("p", constraint(json!({})));
        let counted = count(&pod, &PodFacts::of(&pod), &cluster);
        let why = |node: &str| check(&counted, &cluster.node(node).unwrap().facts);
        assert_eq!(why("a1"), Err(Misfit::passing(Rule::Spread, REASON)));
        assert_eq!(why("bare"), Err(Misfit::fixed(Rule::Spread, NO_LABEL)));
    }

    #[test]
    fn many_domains_cost_linear_time() {
        let cluster_of = |count: usize| {
            let mut cluster = Cluster::default();
            for n in 0..count {
                let node =
                    json!({"metadata": {"name": format!("n{n}"), "labels": {"zone": format!("z{n}")}}});
                cluster.put_node(NodeFacts::of(&serde_json::from_value(node).unwrap()));
            }
            cluster
        };
        let pod = pod("p", constraint(json!({})));
        let facts = PodFacts::of(&pod);
        orlop_apimachinery::thread_time::assert_linear("domains", 250, cluster_of, |cluster| {
            let counted = count(&pod, &facts, cluster);
            assert!(cluster.nodes().all(|node| check(&counted, &node.facts).is_ok()));
        });
    }
}
