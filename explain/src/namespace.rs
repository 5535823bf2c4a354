//! Explains why a terminating namespace still exists: the objects in it, and their finalizers.
//!
//! The names of pods and claims come from the caches. Other objects are known only by the conditions of the namespace, which
//! contain resources, counts and finalizers, but no names: not every reader of a namespace may list all of its objects.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use serde_json::Value;

use orlop_client::names::{NAMESPACE_FINALIZER, condition, controller};
use orlop_client::pods;
use orlop_volume::object;

use super::cluster_view::ClusterView;
use super::finalizer_block::FinalizerBlock;
use super::model::Reference;
use super::subject::{Other, Subject};
use super::words;

/// Maximum number of pods, and of claims, that an answer refers to.
const OBJECTS: usize = 20;
/// Maximum number of resources, and of finalizers, that a sentence lists.
const LISTED: usize = 10;

/// The subject, if it is a namespace.
pub(super) fn of(subject: &Subject) -> Option<&Other> {
    if let Subject::Other(other) = subject
        && other.reference.resource == "namespaces"
    {
        return Some(other);
    }
    None
}

/// The finalizers in the spec of a namespace.
pub(super) fn finalizers(namespace: &Other) -> impl Iterator<Item = &str> {
    let all = namespace.object.pointer("/spec/finalizers").and_then(Value::as_array);
    all.into_iter().flatten().filter_map(Value::as_str)
}

/// Explains a finalizer in the spec of a namespace.
pub(super) fn held(world: &dyn ClusterView, namespace: &Other, finalizer: &str) -> FinalizerBlock {
    match finalizer {
        NAMESPACE_FINALIZER => by_content(world, namespace),
        finalizer => FinalizerBlock::attention(
            "unknown",
            format!(
                "Finalizer {finalizer} in its spec must be removed by the component that added it. If that component was \
                 removed permanently, remove the finalizer with `kubectl replace --raw \
                 /api/v1/namespaces/{}/finalize -f FILE`, where FILE is the namespace in JSON without the finalizer.",
                namespace.reference.name
            ),
            Vec::new(),
        ),
    }
}

fn by_content(world: &dyn ClusterView, namespace: &Other) -> FinalizerBlock {
    let name = namespace.reference.name.as_str();
    let reported = Reported::of(&namespace.object);
    let pods = world.pods_in_namespace(name, OBJECTS);
    let claims = world.claims_in_namespace(name, OBJECTS);
    let mut said: Vec<String> = Vec::new();
    if !reported.remaining.is_empty() {
        let resources = reported.remaining.iter().map(|(resource, count)| format!("{resource} ({count})"));
        said.push(format!("It still contains {}.", listed(resources)));
    }
    if !pods.is_empty() {
        let shown: Vec<String> = pods.iter().map(|pod| pod_words(pod)).collect();
        said.push(format!(
            "These pods remain: {}. Other objects are deleted after the pods.",
            words::list(&shown)
        ));
    }
    let protected: Vec<String> = claims.iter().filter_map(|claim| claim_words(claim)).collect();
    if !protected.is_empty() {
        said.push(format!("These claims remain: {}.", words::list(&protected)));
    }
    if !reported.finalizers.is_empty() {
        let finalizers = reported.finalizers.iter().map(|(finalizer, count)| {
            let objects = words::count(usize::try_from(*count).unwrap_or(usize::MAX), "object");
            format!("{finalizer} ({objects})")
        });
        said.push(format!(
            "Its objects wait for these finalizers: {}. Each is removed by the component that added it.",
            listed(finalizers)
        ));
    }
    said.extend(
        reported
            .failures
            .iter()
            .map(|failure| format!("The controller failed and tries again: {}.", words::open(failure))),
    );
    match said.is_empty() {
        true if reported.has_reported => {
            said.push("It contains no objects any more: it will be deleted soon.".to_owned());
        }
        true => said.push(
            "The namespace controller has not reported yet which objects remain. Without a report after one minute, \
             check that a controller process runs."
                .to_owned(),
        ),
        false => said.extend(next_step(&reported, name)),
    }
    let objects = pods.iter().map(|pod| Reference::to(pod.as_ref()));
    let objects = objects.chain(claims.iter().map(|claim| Reference::to(claim.as_ref()))).collect();
    let needs_attention = !reported.failures.is_empty()
        || reported.finalizers.iter().any(|(finalizer, _)| !is_of_kubernetes(finalizer));
    match needs_attention {
        true => FinalizerBlock::attention(controller::NAMESPACE, said.join(" "), objects),
        false => FinalizerBlock::waiting(controller::NAMESPACE, said.join(" "), objects),
    }
}

/// The commands that show the remaining objects, and explain one of them.
fn next_step(reported: &Reported<'_>, namespace: &str) -> Option<String> {
    if reported.remaining.is_empty() {
        return None;
    }
    let resources: Vec<&str> =
        reported.remaining.iter().take(LISTED).map(|(resource, _)| *resource).collect();
    Some(format!(
        "To list them with their finalizers: `kubectl get {} -n {namespace} -o \
         custom-columns=KIND:.kind,NAME:.metadata.name,FINALIZERS:.metadata.finalizers`. To explain one of them: `orlop why \
         KIND/NAME -n {namespace}`.",
        resources.join(",")
    ))
}

fn pod_words(pod: &Pod) -> String {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let node = pods::node_name(pod).map(|node| format!(" on node {node}")).unwrap_or_default();
    match pod.metadata.deletion_timestamp.is_some() {
        true => format!("{name}{node} (being deleted)"),
        false => format!("{name}{node}"),
    }
}

/// A claim with its finalizers; `None` without finalizers, because then it is deleted without a wait.
fn claim_words(claim: &PersistentVolumeClaim) -> Option<String> {
    let finalizers = claim.metadata.finalizers.as_deref().unwrap_or_default();
    let name = object::name(&claim.metadata);
    (!finalizers.is_empty()).then(|| format!("{name} ({})", words::list(finalizers)))
}

/// Whether a component of Kubernetes or of orlop removes this finalizer.
fn is_of_kubernetes(finalizer: &str) -> bool {
    // Finalizers without a domain, such as `foregroundDeletion`, are those of Kubernetes itself.
    let Some((domain, _)) = finalizer.split_once('/') else { return true };
    ["kubernetes.io", "orlop.dev", "external-attacher"]
        .iter()
        .any(|own| domain == *own || domain.strip_suffix(own).is_some_and(|rest| rest.ends_with('.')))
}

fn listed(items: impl ExactSizeIterator<Item = String>) -> String {
    let more = items.len().saturating_sub(LISTED);
    let mut text = items.take(LISTED).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

/// The report of the namespace controller in the conditions of a namespace.
#[derive(Debug, Default, PartialEq, Eq)]
struct Reported<'o> {
    /// There is a report.
    has_reported: bool,
    /// The remaining resources, such as `deployments.apps`, with the number of their objects.
    remaining: Vec<(&'o str, u64)>,
    /// The finalizers of the remaining objects, with the number of these objects.
    finalizers: Vec<(&'o str, u64)>,
    /// The messages of the conditions that report a failure.
    failures: Vec<&'o str>,
}

impl<'o> Reported<'o> {
    fn of(namespace: &'o Value) -> Self {
        let mut reported = Self::default();
        let conditions = namespace.pointer("/status/conditions").and_then(Value::as_array);
        for one in conditions.into_iter().flatten() {
            let text = |name: &str| one.get(name).and_then(Value::as_str).unwrap_or_default();
            let (message, is_true) = (text("message"), text("status") == "True");
            match text("type") {
                condition::NS_CONTENT_REMAINING => {
                    reported.has_reported = true;
                    if is_true {
                        reported.remaining = counts(message, " has ");
                    }
                }
                condition::NS_FINALIZERS_REMAINING if is_true => {
                    reported.finalizers = counts(message, " in ");
                }
                condition::NS_DISCOVERY_FAILURE
                | condition::NS_GV_PARSING_FAILURE
                | condition::NS_CONTENT_FAILURE
                    if is_true =>
                {
                    reported.failures.push(message);
                }
                _ => {}
            }
        }
        reported
    }
}

/// Reads upstream's list `...: NAME has 3 resource instances, NAME has 1 resource instances`; `between` follows the name.
fn counts<'o>(message: &'o str, between: &str) -> Vec<(&'o str, u64)> {
    let Some((_, list)) = message.split_once(": ") else { return Vec::new() };
    let items = list.split(", ").filter_map(|item| {
        let (name, rest) = item.split_once(between)?;
        let count = rest.split(' ').next()?.parse().ok()?;
        // Resources of the core group end with a dot.
        Some((name.trim_end_matches('.'), count))
    });
    items.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn report_is_read_from_the_conditions() {
        let condition = |name: &str, status: &str, message: &str| json!({"type": name, "status": status, "message": message});
        let namespace = json!({"status": {"conditions": [
            condition("NamespaceContentRemaining", "True",
                "Some resources are remaining: configmaps. has 1 resource instances, deployments.apps has 12 resource instances"),
            condition("NamespaceFinalizersRemaining", "True",
                "Some content in the namespace has finalizers remaining: a.test/b in 2 resource instances"),
            condition("NamespaceDeletionContentFailure", "True", "Failed to delete all resource types, 1 remaining: no"),
            condition("NamespaceDeletionDiscoveryFailure", "False", "All resources successfully discovered"),
        ]}});
        let want = Reported {
            has_reported: true,
            remaining: vec![("configmaps", 1), ("deployments.apps", 12)],
            finalizers: vec![("a.test/b", 2)],
            failures: vec!["Failed to delete all resource types, 1 remaining: no"],
        };
        assert_eq!(Reported::of(&namespace), want);
        for odd in ["", "no list", "list: ", "list: a has", "list: a has x resource instances, b"] {
            assert_eq!(counts(odd, " has "), [], "{odd}");
        }
        assert_eq!(Reported::of(&json!({"status": {"conditions": [1, {}]}})), Reported::default());
    }

    #[test]
    fn finalizers_of_kubernetes_are_known_by_their_domain() {
        for (finalizer, want) in [
            ("foregroundDeletion", true),
            ("kubernetes.io/pvc-protection", true),
            ("snapshot.storage.kubernetes.io/volumesnapshot-bound-protection", true),
            ("csi.orlop.dev/provisioning", true),
            ("external-attacher/d-test", true),
            ("example.test/hold", false),
            ("notkubernetes.io/hold", false),
        ] {
            assert_eq!(is_of_kubernetes(finalizer), want, "{finalizer}");
        }
    }
}
