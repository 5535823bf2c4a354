//! The rule for resources: the node needs enough free capacity of every requested resource, and a free pod slot.

use orlop_apimachinery::quantity::Quantity;

use super::super::amounts::{Amounts, PODS};
use super::super::cluster::NodeState;
use super::{Misfit, Rule};

/// Resources listed per node. A pod can request tens of thousands, and the reasons of all nodes are kept.
const LISTED: usize = 16;
/// The reason when there are more.
const MORE: &str = "Insufficient other resources";

/// The requests that must fit on a node.
pub fn wanted(requests: &Amounts) -> Vec<(&str, &Quantity)> {
    requests.iter().filter(|(name, amount)| *name != PODS && !amount.is_zero()).collect()
}

/// The rule. Resources used by other pods may be freed; a request above the node's allocatable can never be met.
pub fn check(wanted: &[(&str, &Quantity)], node: &NodeState) -> Result<(), Misfit> {
    let allocatable = &node.facts.allocatable;
    let mut misfit = Misfit { reasons: Vec::new(), resolvable: true, rule: Rule::Resources };
    if Quantity::from_integer(i64::try_from(node.pods.len()).unwrap_or(i64::MAX)) >= allocatable.of(PODS) {
        misfit.reasons.push("Too many pods".to_owned());
    }
    for (name, amount) in wanted {
        let has = allocatable.of(name);
        if node.used.of(name).plus(amount) > has {
            if misfit.reasons.len() >= LISTED {
                misfit.reasons.push(MORE.to_owned());
                return Err(misfit);
            }
            misfit.reasons.push(format!("Insufficient {name}"));
            misfit.resolvable &= **amount <= has;
        }
    }
    if misfit.reasons.is_empty() { Ok(()) } else { Err(misfit) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::super::cluster::{Cluster, NodeFacts};
    use super::super::super::pod::PodFacts;
    use super::*;

    fn amounts(of: &[(&str, &str)]) -> Amounts {
        let mut amounts = Amounts::default();
        for (name, text) in of {
            amounts.set(name, Quantity::parse(text).unwrap_or(Quantity::ZERO));
        }
        amounts
    }

    #[test]
    fn requests_must_fit_the_free_resources() {
        let mut cluster = Cluster::default();
        let allocatable =
            amounts(&[("cpu", "4"), ("memory", "8Gi"), ("pods", "2"), ("example.com/gpu", "1")]);
        cluster.put_node(NodeFacts { name: "n".to_owned(), allocatable, ..NodeFacts::default() });
        let mut there = PodFacts::of(&k8s_openapi::api::core::v1::Pod::default());
        there.requests = amounts(&[("cpu", "1500m"), ("memory", "8Gi")]);
        cluster.assume(Arc::new(there), "n");
        let node = cluster.node("n").cloned().unwrap_or_default();
        let table: [(&str, Amounts, Vec<&str>, bool); 8] = [
            ("nothing", amounts(&[]), vec![], true),
            ("just enough", amounts(&[("cpu", "2500m")]), vec![], true),
            ("a little more", amounts(&[("cpu", "2501m")]), vec!["Insufficient cpu"], true),
            ("more than there is at all", amounts(&[("cpu", "5")]), vec!["Insufficient cpu"], false),
            (
                "two things",
                amounts(&[("cpu", "3"), ("memory", "1")]),
                vec!["Insufficient cpu", "Insufficient memory"],
                true,
            ),
            (
                "one of them for good",
                amounts(&[("cpu", "5"), ("memory", "1")]),
                vec!["Insufficient cpu", "Insufficient memory"],
                false,
            ),
            ("an extended resource", amounts(&[("example.com/gpu", "1")]), vec![], true),
            (
                "one that the node has not",
                amounts(&[("example.com/fpga", "1"), ("hugepages-2Mi", "0")]),
                vec!["Insufficient example.com/fpga"],
                false,
            ),
        ];
        for (name, requests, reasons, resolvable) in table {
            let wanted = match reasons.is_empty() {
                true => Ok(()),
                false => Err(Misfit {
                    reasons: reasons.into_iter().map(str::to_owned).collect(),
                    resolvable,
                    rule: Rule::Resources,
                }),
            };
            assert_eq!(check(&super::wanted(&requests), &node), wanted, "{name}");
        }
        let full = NodeState {
            facts: Arc::new(NodeFacts { allocatable: amounts(&[("pods", "1")]), ..NodeFacts::default() }),
            ..node
        };
        assert_eq!(check(&[], &full), Err(Misfit::passing(Rule::Resources, "Too many pods")));
    }

    #[test]
    fn reasons_of_a_node_are_few() {
        let names: Vec<String> = (0..10_000).map(|n| format!("a.b/{n}")).collect();
        let requests = amounts(&names.iter().map(|name| (name.as_str(), "1")).collect::<Vec<_>>());
        let node = NodeState {
            facts: Arc::new(NodeFacts { allocatable: amounts(&[("pods", "1")]), ..NodeFacts::default() }),
            ..NodeState::default()
        };
        let reasons =
            check(&wanted(&requests), &node).map_err(|misfit| misfit.reasons).err().unwrap_or_default();
        assert_eq!((reasons.len(), reasons.last().map(String::as_str)), (LISTED + 1, Some(MORE)));
    }
}
