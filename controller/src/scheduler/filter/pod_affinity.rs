//! The rule for required pod affinity and anti-affinity, both of the pod and of existing pods.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use super::super::cluster::{Cluster, NodeFacts};
use super::super::pod::PodFacts;
use super::super::terms::{Labels, Term};
use super::{Misfit, Rule};

const AFFINITY: &str = "node(s) didn't match pod affinity rules";
const ANTI_AFFINITY: &str = "node(s) didn't match pod anti-affinity rules";
const EXISTING: &str = "node(s) didn't satisfy existing pods anti-affinity rules";

/// Topology domains: values of node labels, by label key.
type Values = BTreeMap<String, BTreeSet<String>>;

/// The domains that a pod has to be in and must not be in.
#[derive(Debug, Default)]
pub struct AffinityDomains {
    /// The topology keys of its affinity terms.
    wanted: Vec<String>,
    /// Domains of pods that match all terms of its affinity.
    company: Values,
    /// It matches its own affinity, so that it may be the first.
    may_be_first: bool,
    /// Domains of pods that its anti-affinity matches.
    avoided: Values,
    /// Domains of pods whose anti-affinity matches it.
    forbidden: Values,
}

/// Computes the domains for one pod.
pub fn places(pod: &PodFacts, cluster: &Cluster) -> AffinityDomains {
    let mut places = AffinityDomains {
        wanted: pod.affinity.iter().map(|term| term.topology_key.clone()).collect(),
        may_be_first: meets_all(&pod.affinity, pod, cluster),
        ..AffinityDomains::default()
    };
    for (other, node) in cluster.repelling() {
        let terms = other.anti_affinity.iter().filter(|term| meets(term, pod, cluster));
        terms.for_each(|term| note(&mut places.forbidden, term, node));
    }
    if pod.affinity.is_empty() && pod.anti_affinity.is_empty() {
        return places;
    }
    let mut known = Compared::default();
    for node in cluster.nodes() {
        // Terms that one pod of the node meets are not compared with its other pods.
        let mut has_company = pod.affinity.is_empty();
        let mut terms: Vec<usize> = (0..pod.anti_affinity.len()).collect();
        for other in node.pods.values() {
            if has_company && terms.is_empty() {
                break;
            }
            let met = known.with(pod, other, cluster);
            if met.all_of_affinity && !has_company {
                has_company = true;
                pod.affinity.iter().for_each(|term| note(&mut places.company, term, &node.facts));
            }
            terms.retain(|term| match met.anti_affinity.contains(term) {
                true => {
                    note(&mut places.avoided, &pod.anti_affinity[*term], &node.facts);
                    false
                }
                false => true,
            });
        }
    }
    places
}

/// The terms of a pod that another one meets.
#[derive(Debug)]
struct Met {
    /// It meets all affinity terms, and there are some.
    all_of_affinity: bool,
    /// Numbers of the anti-affinity terms, in order.
    anti_affinity: BTreeSet<usize>,
}

/// The results of comparisons, by namespace and labels: equal pods meet the same terms.
#[derive(Default)]
struct Compared<'a>(HashMap<(&'a str, &'a Labels), Rc<Met>>);

impl<'a> Compared<'a> {
    fn with(&mut self, pod: &PodFacts, other: &'a PodFacts, cluster: &Cluster) -> Rc<Met> {
        let compare = || {
            let terms = pod.anti_affinity.iter().enumerate();
            Rc::new(Met {
                all_of_affinity: !pod.affinity.is_empty() && meets_all(&pod.affinity, other, cluster),
                anti_affinity: terms
                    .filter(|(_, term)| meets(term, other, cluster))
                    .map(|(n, _)| n)
                    .collect(),
            })
        };
        Rc::clone(self.0.entry((&other.namespace, &other.labels)).or_insert_with(compare))
    }
}

fn meets(term: &Term, pod: &PodFacts, cluster: &Cluster) -> bool {
    term.matches(&pod.namespace, &pod.labels, |namespace| cluster.namespace_labels(namespace))
}

fn meets_all(terms: &[Term], pod: &PodFacts, cluster: &Cluster) -> bool {
    terms.iter().all(|term| meets(term, pod, cluster))
}

fn note(places: &mut Values, term: &Term, node: &NodeFacts) {
    let Some(value) = node.labels.get(&term.topology_key) else { return };
    match places.get_mut(&term.topology_key) {
        Some(values) if values.contains(value) => {}
        Some(values) => drop(values.insert(value.clone())),
        None => drop(places.insert(term.topology_key.clone(), BTreeSet::from([value.clone()]))),
    }
}

/// Whether a node is in one of these domains.
fn is_in(node: &NodeFacts, places: &Values) -> bool {
    places.iter().any(|(key, values)| node.labels.get(key).is_some_and(|value| values.contains(value)))
}

impl AffinityDomains {
    /// The rule.
    pub fn check(&self, node: &NodeFacts) -> Result<(), Misfit> {
        if self.wanted.is_empty() && self.avoided.is_empty() && self.forbidden.is_empty() {
            return Ok(());
        }
        let shared = |key: &String| {
            let values = self.company.get(key);
            node.labels.get(key).is_some_and(|value| values.is_some_and(|values| values.contains(value)))
        };
        let all_labels = self.wanted.iter().all(|key| node.labels.contains_key(key));
        let together = || self.wanted.iter().all(shared);
        if !all_labels || !(together() || self.company.is_empty() && self.may_be_first) {
            return Err(Misfit::fixed(Rule::PodAffinity, AFFINITY));
        }
        if is_in(node, &self.avoided) {
            return Err(Misfit::passing(Rule::PodAffinity, ANTI_AFFINITY));
        }
        if is_in(node, &self.forbidden) {
            return Err(Misfit::passing(Rule::PodAffinity, EXISTING));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, app: &str, affinity: Value) -> PodFacts {
        PodFacts::of(
            &serde_json::from_value(
                json!({"metadata": {"namespace": "ns", "name": name, "labels": {"app": app}},
            "spec": {"containers": [], "affinity": affinity}}),
            )
            .unwrap(),
        )
    }

    fn term(app: &str, key: &str) -> Value {
        json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}})
    }

    fn with(terms: Value) -> Value {
        json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})
    }

    fn apart(terms: Value) -> Value {
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})
    }

    /// Nodes a1, a2 in zone a and b1 in zone b, each with its hostname; bare has no labels.
    fn cluster(pods: Vec<(PodFacts, &str)>) -> Cluster {
        let mut cluster = Cluster::default();
        for (name, zone) in [("a1", "a"), ("a2", "a"), ("b1", "b")] {
            let labels = [("zone".to_owned(), zone.to_owned()), ("host".to_owned(), name.to_owned())];
            let labels = labels.into_iter().collect();
            cluster.put_node(NodeFacts { name: name.to_owned(), labels, ..NodeFacts::default() });
        }
        cluster.put_node(NodeFacts { name: "bare".to_owned(), ..NodeFacts::default() });
        for (pod, node) in pods {
            cluster.put_pod(pod, node);
        }
        cluster
    }

    #[test]
    fn affinity_and_anti_affinity_restrict_nodes() {
        let db = |affinity: Value| (pod("db", "db", affinity), "a1");
        let all = ["a1", "a2", "b1", "bare"];
        type There<'a> = Vec<(PodFacts, &'a str)>;
        let table: [(&str, There<'_>, PodFacts, &[&str]); 11] = [
            ("no wishes", vec![db(json!({}))], pod("p", "web", json!({})), &all),
            (
                "together in the zone",
                vec![db(json!({}))],
                pod("p", "web", with(json!([term("db", "zone")]))),
                &["a1", "a2"],
            ),
            (
                "together on the host",
                vec![db(json!({}))],
                pod("p", "web", with(json!([term("db", "host")]))),
                &["a1"],
            ),
            ("affinity without a match", vec![], pod("p", "web", with(json!([term("db", "zone")]))), &[]),
            (
                "the first of its kind",
                vec![],
                pod("p", "db", with(json!([term("db", "zone")]))),
                &["a1", "a2", "b1"],
            ),
            (
                "the second of its kind",
                vec![db(json!({}))],
                pod("p", "db", with(json!([term("db", "zone")]))),
                &["a1", "a2"],
            ),
            (
                "two terms, no pod matches both",
                vec![db(json!({}))],
                pod("p", "web", with(json!([term("db", "zone"), term("web", "zone")]))),
                &[],
            ),
            (
                "apart by host",
                vec![db(json!({}))],
                pod("p", "web", apart(json!([term("db", "host")]))),
                &["a2", "b1", "bare"],
            ),
            (
                "apart by zone",
                vec![db(json!({}))],
                pod("p", "web", apart(json!([term("db", "zone")]))),
                &["b1", "bare"],
            ),
            (
                "kept away",
                vec![db(apart(json!([term("web", "zone")])))],
                pod("p", "web", json!({})),
                &["b1", "bare"],
            ),
            (
                "no anti-affinity match",
                vec![db(apart(json!([term("other", "zone")])))],
                pod("p", "web", json!({})),
                &all,
            ),
        ];
        for (name, there, pod, wanted) in table {
            let cluster = cluster(there);
            let places = places(&pod, &cluster);
            let fits = cluster.nodes().filter(|node| places.check(&node.facts).is_ok());
            let fits: Vec<&str> = fits.map(|node| node.facts.name.as_str()).collect();
            assert_eq!(fits, wanted, "{name}");
        }
    }

    #[test]
    fn each_rule_has_upstreams_reason() {
        let there = |affinity: Value| cluster(vec![(pod("db", "db", affinity), "a1")]);
        let why = |cluster: &Cluster, pod: &PodFacts| {
            places(pod, cluster).check(&cluster.node("a1").unwrap().facts).unwrap_err()
        };
        let plain = there(json!({}));
        let lonely = pod("p", "web", with(json!([term("none", "zone")])));
        assert_eq!(why(&plain, &lonely), Misfit::fixed(Rule::PodAffinity, AFFINITY));
        let shy = pod("p", "web", apart(json!([term("db", "zone")])));
        assert_eq!(why(&plain, &shy), Misfit::passing(Rule::PodAffinity, ANTI_AFFINITY));
        let alone = there(apart(json!([term("web", "zone")])));
        let web = pod("p", "web", json!({}));
        assert_eq!(why(&alone, &web), Misfit::passing(Rule::PodAffinity, EXISTING));
    }

    #[test]
    fn many_terms_and_pods_cost_linear_time() {
        let terms = |count: usize| (0..count).map(|n| term(&format!("x{n}"), "host")).collect::<Vec<_>>();
        orlop_apimachinery::thread_time::assert_linear(
            "terms and equal pods",
            12,
            |count| {
                let there = |n: usize| (pod(&format!("p{n}"), "db", json!({})), "a1");
                (pod("p", "web", apart(json!(terms(count)))), cluster((0..count * 20).map(there).collect()))
            },
            |(pod, cluster)| {
                assert!(places(pod, cluster).check(&cluster.node("a1").unwrap().facts).is_ok());
            },
        );
    }
}
