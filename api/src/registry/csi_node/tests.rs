//! Tests of the `CSINode` kind.

use serde_json::json;

use super::*;
use crate::registry::volume_testing::*;

fn node(drivers: Value) -> Value {
    json!({"metadata": {"name": "n"}, "spec": {"drivers": drivers}})
}

#[test]
fn new_objects_are_validated() {
    let long = "d".repeat(64);
    for (case, drivers, want) in [
        ("1 none", json!(null), vec![]),
        (
            "2 good",
            json!([{"name": "D.example.com", "nodeID": "i", "topologyKeys": ["a/b"], "allocatable": {"count": 0}}]),
            vec![],
        ),
        (
            "3 nothing said",
            json!([{"name": "", "nodeID": ""}]),
            vec![
                "spec.drivers[0].name: Required value".to_owned(),
                "spec.drivers[0].nodeID: Required value".to_owned(),
            ],
        ),
        (
            "4 too long",
            json!([{"name": long, "nodeID": "i".repeat(257)}]),
            vec![
                "spec.drivers[0].name: Too long: may not be more than 63 bytes".to_owned(),
                format!(
                    "spec.drivers[0].nodeID: Invalid value: \"{}\": must be 256 characters or less",
                    "i".repeat(257)
                ),
            ],
        ),
        (
            "5 a driver twice",
            json!([{"name": "d", "nodeID": "i"}, {"name": "d", "nodeID": "i"}]),
            vec!["spec.drivers[1].name: Duplicate value: \"d\"".to_owned()],
        ),
        (
            "6 negative count",
            json!([{"name": "d", "nodeID": "i", "allocatable": {"count": -1}}]),
            vec![
                "spec.drivers[0].allocatable.count: Invalid value: -1: must be greater than or equal to 0"
                    .to_owned(),
            ],
        ),
        (
            "7 topology keys",
            json!([{"name": "d", "nodeID": "i", "topologyKeys": ["a", "a", "", "b c"]}]),
            vec![
                "spec.drivers[0]: Duplicate value: \"a\"".to_owned(),
                "spec.drivers[0]: Required value".to_owned(),
                "spec.drivers[0]: Invalid value: \"\": name part must be non-empty".to_owned(),
                format!("spec.drivers[0]: Invalid value: \"\": {NAME_PART}"),
                format!("spec.drivers[0]: Invalid value: \"b c\": {NAME_PART}"),
            ],
        ),
    ] {
        check(case, &create_errors(&CsiNode, &node(drivers)), &want);
    }
}

#[test]
fn updates_are_validated() {
    let old = node(json!([{"name": "d", "nodeID": "i", "topologyKeys": ["k"], "allocatable": {"count": 3}}]));
    for (case, drivers, want) in [
        ("1 gone", json!([]), vec![]),
        (
            "2 one more, and another count",
            json!([{"name": "e", "nodeID": "i"}, {"name": "d", "nodeID": "i", "topologyKeys": ["k"], "allocatable": {"count": 4}}]),
            vec![],
        ),
        (
            "3 changed",
            json!([{"name": "d", "nodeID": "j", "topologyKeys": ["k"]}]),
            vec![
                "spec.drivers: Invalid value: {\"Name\":\"d\",\"NodeID\":\"j\",\"TopologyKeys\":[\"k\"],\"Allocatable\":null}: field is immutable",
            ],
        ),
    ] {
        check(case, &update_errors(&CsiNode, &old, &node(drivers)), &want);
    }
}

#[test]
fn table_row_counts_the_drivers() {
    assert_eq!(row(&CsiNode, &node(json!(null))), json!(["n", 0, "10s"]));
    assert_eq!(row(&CsiNode, &node(json!([{"name": "d"}]))), json!(["n", 1, "10s"]));
}
