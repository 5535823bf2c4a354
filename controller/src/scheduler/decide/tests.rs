//! The message about a pod, from all rules together.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::super::cluster::NodeFacts;
use super::super::volumes::Caches;
use super::*;

fn cluster(nodes: Value) -> Cluster {
    let mut cluster = Cluster::default();
    for mut node in nodes.as_array().cloned().unwrap() {
        if node.get("status").is_none() {
            node["status"] = json!({"allocatable": {"cpu": "4", "pods": "10"}});
        }
        cluster.put_node(NodeFacts::of(&serde_json::from_value(node).unwrap()));
    }
    cluster
}

fn pod(spec: Value) -> Pod {
    let mut pod = json!({"metadata": {"namespace": "ns", "name": "p"}, "spec": {"containers": [
        {"name": "c", "resources": {"requests": {"cpu": "1"}}}]}});
    crate::testing::merge_into(&mut pod["spec"], &spec);
    serde_json::from_value(pod).unwrap()
}

fn ask(pod: &Pod, cluster: &mut Cluster) -> Result<String, String> {
    let mut volumes = Volumes::new(Caches::empty());
    match decide(pod, &PodFacts::of(pod), cluster, &mut volumes).unwrap() {
        Decision::Place { node, .. } => Ok(node),
        Decision::Unfit { message, .. } => Err(message),
    }
}

#[test]
fn node_reports_the_reasons_of_its_first_failed_rule() {
    let mut three = cluster(json!([
        {"metadata": {"name": "a"}, "spec": {"unschedulable": true, "taints": [{"key": "t", "effect": "NoSchedule"}]}},
        {"metadata": {"name": "b"}, "spec": {"taints": [{"key": "t", "effect": "NoSchedule"}]},
            "status": {"allocatable": {"pods": "0"}}},
        {"metadata": {"name": "c"}, "status": {"allocatable": {"cpu": "500m", "pods": "10"}}},
    ]));
    let tail = "no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for \
                scheduling.";
    let said = format!(
        "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable. {tail}"
    );
    assert_eq!(ask(&pod(json!({})), &mut three), Err(said));
    let named = |name: &str| {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms":
            [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}]}}}})
    };
    let said = format!(
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]. {tail}"
    );
    assert_eq!(ask(&pod(named("c")), &mut three), Err(said));
    let mut never = named("c");
    never["preemptionPolicy"] = json!("Never");
    let said = "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]. no new claims \
                to deallocate, preemption: not eligible due to preemptionPolicy=Never.";
    assert_eq!(ask(&pod(never), &mut three), Err(said.to_owned()));
    let said = format!(
        "0/3 nodes are available: the pod has resource claims (spec.resourceClaims), which this scheduler does not allocate. {tail}"
    );
    assert_eq!(ask(&pod(json!({"resourceClaims": [{"name": "gpu"}]})), &mut three), Err(said));
}

#[test]
fn message_states_whether_preemption_would_help() {
    let mut one =
        cluster(json!([{"metadata": {"name": "a"}, "status": {"allocatable": {"cpu": "1", "pods": "10"}}}]));
    assert_eq!(ask(&pod(json!({})), &mut one), Ok("a".to_owned()));
    let mut there = PodFacts::of(&pod(json!({"priority": 5})));
    there.key = "ns/there".into();
    one.put_pod(there, "a");
    let tail = |word: &str| {
        format!(
            "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are \
             available: 1 {word}."
        )
    };
    assert_eq!(ask(&pod(json!({})), &mut one), Err(tail(message::NO_VICTIMS)));
    assert_eq!(ask(&pod(json!({"priority": 9})), &mut one), Err(tail(message::NO_PREEMPTION)));
}
