//! Creates the pods of a Job. Pure functions.

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod};
use kube::ResourceExt;
use orlop_client::names::{
    ANN_JOB_COMPLETION_INDEX, ANN_JOB_INDEX_FAILURE_COUNT, ANN_JOB_INDEX_IGNORED_FAILURE_COUNT,
    FINALIZER_JOB_TRACKING,
};

use super::failure_policy::{Effect, effect};
use super::pod_facts::{failures, ignored_failures};
use super::spec::is_indexed;
use crate::workload::owned::controller_reference;
use crate::workload::template::pod_from;

/// The environment variable with the index.
const VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// The longest prefix of a generated name. Upstream: MaxGeneratedNameLength.
const LONGEST_PREFIX: usize = 58;

/// A pod of the Job, without an index.
pub fn base_pod(job: &Job, spec: &JobSpec) -> Pod {
    let mut pod = pod_from(&spec.template, &job.namespace().unwrap_or_default(), controller_reference(job));
    let finalizers = pod.metadata.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|finalizer| finalizer == FINALIZER_JOB_TRACKING) {
        finalizers.push(FINALIZER_JOB_TRACKING.to_owned());
    }
    if is_indexed(spec)
        && let Some(spec) = &mut pod.spec
    {
        let containers = spec.init_containers.iter_mut().flatten().chain(&mut spec.containers);
        containers.for_each(add_variable);
    }
    pod
}

/// The pod of an index. `replaced` is the last failed pod of the index.
pub fn indexed_pod(base: &Pod, spec: &JobSpec, job_name: &str, index: i64, replaced: Option<&Pod>) -> Pod {
    let mut pod = base.clone();
    let meta = &mut pod.metadata;
    meta.generate_name = Some(name_prefix(job_name, index));
    let annotations = meta.annotations.get_or_insert_default();
    annotations.insert(ANN_JOB_COMPLETION_INDEX.to_owned(), index.to_string());
    if spec.backoff_limit_per_index.is_some() {
        let (failed, ignored) = inherited_failures(spec, replaced);
        annotations.insert(ANN_JOB_INDEX_FAILURE_COUNT.to_owned(), failed.to_string());
        if ignored > 0 {
            annotations.insert(ANN_JOB_INDEX_IGNORED_FAILURE_COUNT.to_owned(), ignored.to_string());
        }
    }
    meta.labels.get_or_insert_default().insert(ANN_JOB_COMPLETION_INDEX.to_owned(), index.to_string());
    if let Some(spec) = &mut pod.spec {
        spec.hostname = Some(format!("{job_name}-{index}"));
    }
    pod
}

/// The counted and the ignored failures of the index, including the replaced pod.
fn inherited_failures(spec: &JobSpec, replaced: Option<&Pod>) -> (i64, i64) {
    let Some(pod) = replaced else { return (0, 0) };
    match effect(spec.pod_failure_policy.as_ref(), pod) {
        Effect::Ignore => (failures(pod), ignored_failures(pod) + 1),
        Effect::Count | Effect::FailIndex | Effect::FailJob(_) => (failures(pod) + 1, ignored_failures(pod)),
    }
}

/// The prefix of the pod's name. A long name of the Job is cut.
fn name_prefix(job: &str, index: i64) -> String {
    let suffix = format!("-{index}-");
    let length = job.len().min(LONGEST_PREFIX.saturating_sub(suffix.len()));
    format!("{}{suffix}", &job[..job.floor_char_boundary(length)])
}

fn add_variable(container: &mut Container) {
    let variables = container.env.get_or_insert_default();
    if variables.iter().any(|variable| variable.name == VARIABLE) {
        return;
    }
    let field = ObjectFieldSelector {
        field_path: format!("metadata.labels['{ANN_JOB_COMPLETION_INDEX}']"),
        ..ObjectFieldSelector::default()
    };
    variables.push(EnvVar {
        name: VARIABLE.to_owned(),
        value: None,
        value_from: Some(EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() }),
    });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;

    fn job(spec: Value) -> Job {
        let mut job = json!({"metadata": {"namespace": "ns", "name": "j", "uid": "u"}, "spec": {"template": {
            "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}], "restartPolicy": "Never"}}}});
        crate::testing::merge_into(&mut job["spec"], &spec);
        serde_json::from_value(job).unwrap()
    }

    #[test]
    fn pods_have_the_finalizer_and_their_index() {
        let plain = job(json!({}));
        let base = serde_json::to_value(base_pod(&plain, plain.spec.as_ref().unwrap())).unwrap();
        assert_eq!(
            base["metadata"],
            json!({"generateName": "j-", "namespace": "ns", "labels": {"a": "b"}, "finalizers": [FINALIZER_JOB_TRACKING],
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": true,
                    "blockOwnerDeletion": true}]})
        );
        assert_eq!(base["spec"]["containers"], json!([{"name": "c"}]));

        let indexed = job(json!({"completionMode": "Indexed", "completions": 3}));
        let spec = indexed.spec.as_ref().unwrap();
        let pod = indexed_pod(&base_pod(&indexed, spec), spec, "j", 2, None);
        let pod = serde_json::to_value(pod).unwrap();
        assert_eq!(pod["metadata"]["generateName"], "j-2-");
        assert_eq!(pod["metadata"]["annotations"], json!({ANN_JOB_COMPLETION_INDEX: "2"}));
        assert_eq!(pod["metadata"]["labels"], json!({"a": "b", ANN_JOB_COMPLETION_INDEX: "2"}));
        assert_eq!(pod["spec"]["hostname"], "j-2");
        assert_eq!(
            pod["spec"]["containers"][0]["env"],
            json!([{"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef":
                {"fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']"}}}])
        );
    }

    #[test]
    fn failures_are_inherited_with_a_limit_per_index() {
        let rules = json!([{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]);
        let job = job(json!({"completionMode": "Indexed", "completions": 3, "backoffLimitPerIndex": 5,
            "podFailurePolicy": {"rules": rules}}));
        let spec = job.spec.as_ref().unwrap();
        let failed = |failed: &str, ignored: &str, condition: &str| -> Pod {
            serde_json::from_value(json!({"metadata": {"annotations": {ANN_JOB_INDEX_FAILURE_COUNT: failed,
                ANN_JOB_INDEX_IGNORED_FAILURE_COUNT: ignored}}, "status": {"phase": "Failed",
                "conditions": [{"type": condition, "status": "True"}]}}))
            .unwrap()
        };
        let table = [
            ("1 first pod", None, "0", None),
            ("2 counted", Some(failed("1", "", "")), "2", None),
            ("3 ignored", Some(failed("1", "", "DisruptionTarget")), "1", Some("1")),
            ("4 counted after an ignored one", Some(failed("1", "2", "")), "2", Some("2")),
        ];
        for (name, replaced, counted, ignored) in table {
            let pod = indexed_pod(&base_pod(&job, spec), spec, "j", 0, replaced.as_ref());
            let annotations = pod.metadata.annotations.unwrap();
            let value = |name: &str| annotations.get(name).map(String::as_str);
            assert_eq!(value(ANN_JOB_INDEX_FAILURE_COUNT), Some(counted), "{name}");
            assert_eq!(value(ANN_JOB_INDEX_IGNORED_FAILURE_COUNT), ignored, "{name}");
        }
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(name_prefix("job", 12), "job-12-");
        let long = name_prefix(&"a".repeat(63), 12);
        assert_eq!((long.len(), long.ends_with("aaa-12-")), (58, true));
    }
}
