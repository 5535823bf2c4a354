//! Compares the dependencies between the workspace's crates, as reported by `cargo metadata`, with those that
//! ARCHITECTURE.md allows.

use std::collections::{BTreeMap, BTreeSet};

use super::{metadata, nothing_wrong, root, short_name};

/// The crate that only tests may depend on.
const TEST_SUPPORT: &str = "test_support";
/// Crates that the tests of any other crate may use; apimachinery measures processor time.
const FOR_TESTS: [&str; 3] = [TEST_SUPPORT, "csi_hostpath", "apimachinery"];

/// The table of ARCHITECTURE.md: `a, b -> c, d`, several edges per line, after "Allowed edges".
fn allowed_edges() -> BTreeMap<String, BTreeSet<String>> {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let block = text.split("Allowed edges").nth(1).expect("ARCHITECTURE.md has the allowed edges");
    let mut edges = BTreeMap::new();
    for line in
        block.lines().skip(1).skip_while(|line| line.is_empty()).take_while(|line| line.starts_with("    "))
    {
        for edge in line.split("  ").map(str::trim).filter(|edge| edge.contains("->")) {
            let (from, to) = edge.split_once("->").expect("the arrow is there");
            let to = to.trim();
            let to = match to {
                "nothing" => BTreeSet::new(),
                to => to.split(',').map(|name| name.trim().to_owned()).collect(),
            };
            let from = from.split('(').next().unwrap_or_default().trim();
            edges.insert(from.to_owned(), to);
        }
    }
    edges
}

/// A dependency between two crates of the workspace.
struct Edge {
    from: String,
    to: String,
    dev: bool,
}

/// The names of the workspace's crates, and the edges between them, from every section of their manifests.
fn edges() -> (BTreeSet<String>, Vec<Edge>) {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap();
    let ours: BTreeSet<String> = packages.iter().map(|package| short_name(&package["name"])).collect();
    let mut edges = Vec::new();
    for package in packages {
        for dependency in package["dependencies"].as_array().unwrap() {
            let (from, to) = (short_name(&package["name"]), short_name(&dependency["name"]));
            if ours.contains(&to) {
                edges.push(Edge { from, to, dev: dependency["kind"] == "dev" });
            }
        }
    }
    (ours, edges)
}

/// The fault of an edge, if it has one.
fn fault(edge: &Edge, allowed: &BTreeMap<String, BTreeSet<String>>) -> Option<String> {
    let Edge { from, to, dev } = edge;
    if to == TEST_SUPPORT {
        return (!dev).then(|| format!("{from} must depend on {to} only under [dev-dependencies]"));
    }
    if *dev && FOR_TESTS.contains(&to.as_str()) {
        return None;
    }
    let allowed = allowed.get(from)?;
    (!allowed.contains("all") && !allowed.contains(to)).then(|| format!("{from} must not depend on {to}"))
}

#[test]
fn crates_depend_as_the_architecture_says() {
    let allowed = allowed_edges();
    let (ours, edges) = edges();
    let unknown = ours.iter().filter(|name| !allowed.contains_key(*name));
    let mut wrong: Vec<String> =
        unknown.map(|name| format!("ARCHITECTURE.md does not say what {name} may depend on")).collect();
    wrong.extend(edges.iter().filter_map(|edge| fault(edge, &allowed)));
    nothing_wrong(&wrong);
}

#[test]
fn table_of_edges_is_parsed() {
    let allowed = allowed_edges();
    assert!(allowed["openapi"].is_empty());
    let controller = ["volume", "client", "csi", "pki", "apimachinery"].map(str::to_owned);
    assert_eq!(allowed["controller"], BTreeSet::from(controller));
    assert!(allowed["apiserver"].contains("store") && !allowed["apiserver"].contains("controller"));
    assert!(allowed["orlop"].contains("all"));
}

#[test]
fn edge_outside_the_table_is_found() {
    let allowed = allowed_edges();
    let edge = |from: &str, to: &str, dev| Edge { from: from.to_owned(), to: to.to_owned(), dev };
    assert!(fault(&edge("node", "client", false), &allowed).is_none());
    assert!(fault(&edge("node", "store", true), &allowed).is_some());
    assert!(fault(&edge("node", TEST_SUPPORT, true), &allowed).is_none());
    assert!(fault(&edge("cli", TEST_SUPPORT, false), &allowed).is_some());
    assert!(fault(&edge("cli", "store", false), &allowed).is_none());
}
