//! The rules of topology (upstream: external-provisioner's topology_test.go has the same cases).
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::*;

struct Fixed {
    keys: Option<Vec<String>>,
    terms: BTreeSet<Term>,
}

impl Cluster for Fixed {
    fn keys(&self) -> Option<Vec<String>> {
        self.keys.clone()
    }

    fn terms(&self, _: &[String]) -> BTreeSet<Term> {
        self.terms.clone()
    }
}

fn term(pairs: &[(&str, &str)]) -> Term {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn zone(name: &str) -> Term {
    term(&[("zone", name)])
}

fn zones(names: &[&str]) -> Fixed {
    Fixed { keys: Some(vec!["zone".to_owned()]), terms: names.iter().map(|name| zone(name)).collect() }
}

fn node(labels: Value) -> Node {
    serde_json::from_value(json!({"metadata": {"name": "n", "labels": labels}})).unwrap()
}

fn csi_node(keys: &[&str]) -> CSINode {
    let driver = json!({"name": "d", "nodeID": "n", "topologyKeys": keys});
    serde_json::from_value(json!({"metadata": {"name": "n"}, "spec": {"drivers": [driver]}})).unwrap()
}

fn allowed(terms: Value) -> Vec<TopologySelectorTerm> {
    serde_json::from_value(terms).unwrap()
}

fn question<'a>(
    allowed: &'a [TopologySelectorTerm],
    selected: Option<(&'a Node, &'a CSINode)>,
    strict: bool,
) -> Question<'a> {
    Question { driver: "d", claim: "claim", allowed, selected, strict, immediate: true }
}

#[test]
fn values_are_ored_and_expressions_are_anded() {
    let given = allowed(json!([
        {"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}, {"key": "rack", "values": ["1", "2"]}]},
        {"matchLabelExpressions": [{"key": "zone", "values": ["c"]}]}]));
    let both = |zone, rack| term(&[("zone", zone), ("rack", rack)]);
    assert_eq!(
        flatten(&given).unwrap(),
        [both("a", "1"), both("b", "1"), both("a", "2"), both("b", "2"), zone("c")]
    );
}

/// 10^12 combinations of values.
fn huge() -> Vec<TopologySelectorTerm> {
    let values: Vec<String> = (0..10).map(|n| n.to_string()).collect();
    let keys = ["zone".to_owned()].into_iter().chain((1..12).map(|n| format!("k{n}")));
    let expressions: Vec<Value> = keys.map(|key| json!({"key": key, "values": values})).collect();
    allowed(json!([{"matchLabelExpressions": expressions}]))
}

#[test]
fn too_many_combinations_are_an_error_before_they_are_made() {
    let given = huge();
    assert_eq!(requirement(&question(&given, None, false), &zones(&["1"])), Err(TopologyError::TooMany));
    let labels: Vec<Value> =
        (0..=MAX_LABELS).map(|n| json!({"key": format!("k{n}"), "values": ["v"]})).collect();
    let given = allowed(json!([{"matchLabelExpressions": labels}]));
    assert_eq!(flatten(&given), Err(TopologyError::TooMany), "one term with too many labels");
    let single = json!({"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]});
    assert!(flatten(&allowed(json!(vec![single.clone(); MAX_TERMS]))).is_ok());
    assert_eq!(flatten(&allowed(json!(vec![single; MAX_TERMS + 1]))), Err(TopologyError::TooMany));
}

#[test]
fn strict_topology_needs_no_combinations() {
    let given = huge();
    let mut labels: serde_json::Map<String, Value> = (1..12).map(|n| (format!("k{n}"), json!("3"))).collect();
    labels.insert("zone".to_owned(), json!("7"));
    let keys: Vec<&str> = labels.keys().map(String::as_str).collect();
    let (known, csi_node) = (node(json!(labels)), csi_node(&keys));
    let found =
        requirement(&question(&given, Some((&known, &csi_node)), true), &zones(&[])).unwrap().unwrap();
    assert_eq!(found.requisite, [term_of(&known, &keys_of(&csi_node, "d")).unwrap()]);
    let other = node(json!(labels.iter().map(|(key, _)| (key.clone(), json!("x"))).collect::<Value>()));
    let error = requirement(&question(&given, Some((&other, &csi_node)), true), &zones(&[]));
    assert!(matches!(error, Err(TopologyError::NotAllowed { .. })), "{error:?}");
}

#[test]
fn segment_of_the_selected_node_is_preferred() {
    let (node, csi_node) = (node(json!({"zone": "b"})), csi_node(&["zone"]));
    let asked = question(&[], Some((&node, &csi_node)), false);
    let found = requirement(&asked, &zones(&["a", "b", "c"])).unwrap().unwrap();
    assert_eq!(found.requisite, [zone("a"), zone("b"), zone("c")]);
    assert_eq!(found.preferred, [zone("b"), zone("c"), zone("a")]);
}

#[test]
fn strict_topology_is_the_selected_node_alone() {
    let (node, csi_node) = (node(json!({"zone": "b"})), csi_node(&["zone"]));
    let given = allowed(json!([{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}]));
    let found = requirement(&question(&given, Some((&node, &csi_node)), true), &zones(&["a", "b"]));
    let found = found.unwrap().unwrap();
    assert_eq!((found.requisite, found.preferred), (vec![zone("b")], vec![zone("b")]));
    let other = allowed(json!([{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}]));
    let error =
        requirement(&question(&other, Some((&node, &csi_node)), true), &zones(&["a", "b"])).unwrap_err();
    assert!(matches!(error, TopologyError::NotAllowed { .. }), "{error}");
    let error =
        requirement(&question(&other, Some((&node, &csi_node)), false), &zones(&["a", "b"])).unwrap_err();
    assert!(matches!(error, TopologyError::NotInRequisite { .. }), "{error}");
}

#[test]
fn allowed_topologies_override_node_topology() {
    let given = allowed(json!([{"matchLabelExpressions": [{"key": "zone", "values": ["x", "x"]}]}]));
    let found = requirement(&question(&given, None, false), &zones(&["a"])).unwrap().unwrap();
    assert_eq!(found.requisite, [zone("x")], "once each");
    let nothing = allowed(json!([{}]));
    assert_eq!(requirement(&question(&nothing, None, false), &zones(&["a"])), Ok(None));
}

#[test]
fn contradicting_nodes_and_labels_are_errors() {
    let (bare, known) = (node(json!({})), node(json!({"zone": "a"})));
    let error = |node: &Node, csi_node: &CSINode, cluster: &Fixed| {
        requirement(&question(&[], Some((node, csi_node)), false), cluster).unwrap_err()
    };
    let (none, keys) = (csi_node(&[]), csi_node(&["zone"]));
    assert_eq!(error(&known, &none, &zones(&["a"])).to_string(), "no topology key found on CSINode n");
    assert!(matches!(error(&bare, &keys, &zones(&["a"])), TopologyError::NoLabel { .. }));
    assert!(matches!(error(&known, &keys, &zones(&["b"])), TopologyError::NotInRequisite { .. }));
    let nowhere = Fixed { keys: None, terms: BTreeSet::new() };
    let error = requirement(&question(&[], None, false), &nowhere).unwrap_err();
    assert_eq!(error.to_string(), "no available topology found");
    let lazy = Question { immediate: false, ..question(&[], None, false) };
    assert_eq!(requirement(&lazy, &nowhere), Ok(None));
}

#[test]
fn replicas_spread_and_claims_of_one_replica_share_a_term() {
    // Reference values of 32-bit FNV-1.
    assert_eq!((fnv1(b""), fnv1(b"a"), fnv1(b"foobar")), (0x811c_9dc5, 0x050c_5d7e, 0x31f0_b262));
    let firsts: Vec<usize> = (0..4).map(|n| first_for(&format!("data-db-{n}"), 3)).collect();
    assert_eq!(firsts[3], firsts[0]);
    assert_eq!(BTreeSet::from_iter(&firsts[..3]).len(), 3, "{firsts:?}");
    assert_eq!(first_for("log-db-1", 3), firsts[1], "the same replica");
    assert_eq!(first_for("db-1", 3), firsts[1], "without a claim's name");
    assert_eq!(first_for("plain", 3), fnv1(b"plain") as usize % 3);
    assert_eq!(first_for("data-db-99999999999", 3), fnv1(b"data-db-99999999999") as usize % 3, "no 32 bits");
    let found =
        requirement(&Question { claim: "data-db-1", ..question(&[], None, false) }, &zones(&["a", "b", "c"]));
    let found = found.unwrap().unwrap();
    assert_eq!(found.preferred[0], found.requisite[firsts[1]]);
}
