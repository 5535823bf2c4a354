//! Creates pods from templates, and compares templates. Pure functions.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use k8s_openapi::api::core::v1::{Container, EnvVar, Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::ObjectMeta;
use orlop_client::api::Json as _;
use serde_json::Value;

/// Label that distinguishes the pods of a Deployment's templates.
pub const LABEL_TEMPLATE_HASH: &str = "pod-template-hash";

/// A pod from a template, controlled by `owner`, without a name yet.
pub fn pod_from(template: &PodTemplateSpec, namespace: &str, owner: OwnerReference) -> Pod {
    let from = template.metadata.clone().unwrap_or_default();
    let metadata = ObjectMeta {
        generate_name: Some(format!("{}-", owner.name)),
        namespace: Some(namespace.to_owned()),
        labels: from.labels,
        annotations: from.annotations,
        finalizers: from.finalizers,
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    };
    Pod { metadata, spec: template.spec.clone(), status: None }
}

/// Whether the templates are equal, ignoring the label that a Deployment adds.
pub fn is_same(one: &PodTemplateSpec, other: &PodTemplateSpec) -> bool {
    Plain::of(one).is(other)
}

/// A template that is compared with many others. Its plain form is computed once, and only if `differ` finds no difference: the
/// computation takes tens of milliseconds for the largest templates.
pub struct Plain<'a> {
    template: &'a PodTemplateSpec,
    value: OnceLock<Value>,
}

impl<'a> Plain<'a> {
    /// The form of a template.
    pub fn of(template: &'a PodTemplateSpec) -> Self {
        Self { template, value: OnceLock::new() }
    }

    /// Whether the other template is the same, ignoring the label that a Deployment adds.
    pub fn is(&self, other: &PodTemplateSpec) -> bool {
        !differ(self.template, other) && *self.value.get_or_init(|| plain(self.template)) == plain(other)
    }
}

/// Whether the templates differ in a field that most changes concern. If not, they may still differ.
fn differ(one: &PodTemplateSpec, other: &PodTemplateSpec) -> bool {
    let labels = |template: &'_ PodTemplateSpec| -> BTreeMap<String, String> {
        let labels = template.metadata.as_ref().and_then(|meta| meta.labels.clone()).unwrap_or_default();
        labels.into_iter().filter(|(key, _)| key != LABEL_TEMPLATE_HASH).collect()
    };
    let (mine, others) = (containers(one), containers(other));
    let same = |(a, b): (&Container, &Container)| {
        let (vars, other_vars) = (a.env.as_deref().unwrap_or_default(), b.env.as_deref().unwrap_or_default());
        let same_var = |(a, b): (&EnvVar, &EnvVar)| a.name == b.name && a.value == b.value;
        a.name == b.name
            && a.image == b.image
            && a.args.as_deref().unwrap_or_default() == b.args.as_deref().unwrap_or_default()
            && vars.len() == other_vars.len()
            && vars.iter().zip(other_vars).all(same_var)
    };
    mine.len() != others.len() || !mine.iter().zip(others).all(same) || labels(one) != labels(other)
}

fn containers(template: &PodTemplateSpec) -> &[Container] {
    template.spec.as_ref().map(|spec| spec.containers.as_slice()).unwrap_or_default()
}

/// The template without that label and without empty fields that are equivalent to missing ones.
fn plain(template: &PodTemplateSpec) -> Value {
    let mut template = template.clone();
    if let Some(labels) = template.metadata.as_mut().and_then(|meta| meta.labels.as_mut()) {
        labels.remove(LABEL_TEMPLATE_HASH);
    }
    let mut value = template.to_value().unwrap_or_default();
    prune(&mut value);
    value
}

/// Maps for which empty and missing are equivalent. Other objects may be meaningful by presence alone
/// (`emptyDir: {}`).
const MAPS: [&str; 7] =
    ["labels", "annotations", "nodeSelector", "matchLabels", "limits", "requests", "metadata"];

fn prune(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(prune);
            fields.retain(|name, value| match value {
                Value::Null => false,
                Value::Array(list) => !list.is_empty(),
                Value::Object(map) => !map.is_empty() || !MAPS.contains(&name.as_str()),
                Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
            });
        }
        Value::Array(list) => list.iter_mut().for_each(prune),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn template(value: Value) -> PodTemplateSpec {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn template_comparison_ignores_the_hash_label_and_empty_fields() {
        let base = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a", "image": "x"}]}});
        let table = [
            ("itself", json!({}), true),
            ("with the hash", json!({"metadata": {"labels": {"pod-template-hash": "abc"}}}), true),
            ("an empty list and an empty map", json!({"spec": {"volumes": [], "nodeSelector": {}}}), true),
            ("another label", json!({"metadata": {"labels": {"tier": "front"}}}), false),
            ("an annotation", json!({"metadata": {"annotations": {"at": "1"}}}), false),
            (
                "empty arguments and no arguments",
                json!({"spec": {"containers": [
                {"name": "a", "image": "x", "args": [], "env": []}]}}),
                true,
            ),
            (
                "an argument",
                json!({"spec": {"containers": [{"name": "a", "image": "x", "args": ["b"]}]}}),
                false,
            ),
            (
                "a variable",
                json!({"spec": {"containers": [
                {"name": "a", "image": "x", "env": [{"name": "b"}]}]}}),
                false,
            ),
            ("another image", json!({"spec": {"containers": [{"name": "a", "image": "y"}]}}), false),
            ("an empty object that means something", json!({"spec": {"affinity": {}}}), false),
        ];
        for (name, change, wanted) in table {
            let mut other = base.clone();
            crate::testing::merge_into(&mut other, &change);
            assert_eq!(is_same(&template(base.clone()), &template(other)), wanted, "{name}");
        }
    }

    #[test]
    fn pod_copies_its_template_and_references_its_owner() {
        let template = template(json!({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"},
            "finalizers": ["e.f/g"], "name": "not taken"}, "spec": {"containers": [{"name": "a"}]}}));
        let owner = OwnerReference { name: "web".into(), uid: "u".into(), ..OwnerReference::default() };
        let pod = serde_json::to_value(pod_from(&template, "ns", owner)).unwrap();
        assert_eq!(
            pod,
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "web-", "namespace": "ns",
                "labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["e.f/g"],
                "ownerReferences": [{"apiVersion": "", "kind": "", "name": "web", "uid": "u"}]},
                "spec": {"containers": [{"name": "a"}]}})
        );
    }
}
