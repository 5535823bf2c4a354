//! The pods that a term of pod (anti-)affinity or a spread constraint matches. Pure.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{PodAffinityTerm, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Expression, Selector, SelectorExt};

/// Labels of objects.
pub type Labels = BTreeMap<String, String>;

/// A label selector. A missing or invalid one selects nothing; an empty one selects everything.
#[derive(Clone, Debug)]
pub enum Selects {
    /// Nothing.
    Nothing,
    /// The objects that match this selector.
    These(Selector),
}

impl Selects {
    /// Reads a selector.
    pub fn read(selector: Option<&LabelSelector>) -> Self {
        match selector.cloned().map(Selector::try_from) {
            Some(Ok(selector)) => Self::These(selector),
            Some(Err(_)) | None => Self::Nothing,
        }
    }

    /// Whether these labels are selected.
    pub fn matches(&self, labels: &Labels) -> bool {
        match self {
            Self::Nothing => false,
            Self::These(selector) => selector.matches(labels),
        }
    }

    /// Narrowed by the pod's own values of some keys: equal ones, or different ones.
    fn narrowed(self, own: &Labels, equal: Option<&Vec<String>>, other: Option<&Vec<String>>) -> Self {
        let Self::These(mut selector) = self else { return self };
        let value = |key: &String| Some((key.clone(), BTreeSet::from([own.get(key)?.clone()])));
        selector
            .extend(equal.into_iter().flatten().filter_map(value).map(|(k, v)| Expression::In(k, v)))
            .extend(other.into_iter().flatten().filter_map(value).map(|(k, v)| Expression::NotIn(k, v)));
        Self::These(selector)
    }
}

/// A required term of a pod affinity or anti-affinity.
#[derive(Clone, Debug)]
pub struct Term {
    /// The node label that defines the domains.
    pub topology_key: String,
    namespaces: BTreeSet<String>,
    namespace_selector: Option<Selects>,
    pods: Selects,
}

impl Term {
    /// Reads a term of a pod with these labels in this namespace. Without namespaces and selector it applies to the pod's own
    /// namespace.
    pub fn read(term: &PodAffinityTerm, namespace: &str, own: &Labels) -> Self {
        let mut namespaces: BTreeSet<String> = term.namespaces.iter().flatten().cloned().collect();
        if namespaces.is_empty() && term.namespace_selector.is_none() {
            namespaces.insert(namespace.to_owned());
        }
        let pods = Selects::read(term.label_selector.as_ref());
        Self {
            topology_key: term.topology_key.clone(),
            namespaces,
            namespace_selector: term
                .namespace_selector
                .as_ref()
                .map(|selector| Selects::read(Some(selector))),
            pods: pods.narrowed(own, term.match_label_keys.as_ref(), term.mismatch_label_keys.as_ref()),
        }
    }

    /// Whether the term matches a pod with these labels in this namespace. `of_namespace` returns the labels of a namespace.
    pub fn matches<'a>(
        &self,
        namespace: &str,
        labels: &Labels,
        of_namespace: impl Fn(&str) -> Option<&'a Labels>,
    ) -> bool {
        let nothing = Labels::new();
        let here = self.namespaces.contains(namespace)
            || self
                .namespace_selector
                .as_ref()
                .is_some_and(|selector| selector.matches(of_namespace(namespace).unwrap_or(&nothing)));
        here && self.pods.matches(labels)
    }
}

/// A required spread constraint.
#[derive(Clone, Debug)]
pub struct Spread {
    /// The node label whose values are the domains.
    pub topology_key: String,
    /// The maximum excess over the domain with the fewest pods.
    pub max_skew: i64,
    /// With fewer domains than this, the minimum counts as zero.
    pub min_domains: i64,
    /// Nodes that the pod's selector and affinity exclude do not count.
    pub honors_affinity: bool,
    /// Nodes whose taints the pod does not tolerate do not count.
    pub honors_taints: bool,
    /// The pods to count.
    pub pods: Selects,
}

impl Spread {
    /// Reads a constraint of a pod with these labels; none for a ScheduleAnyway constraint.
    pub fn read(constraint: &TopologySpreadConstraint, own: &Labels) -> Option<Self> {
        if constraint.when_unsatisfiable != "DoNotSchedule" {
            return None;
        }
        let pods = Selects::read(constraint.label_selector.as_ref());
        Some(Self {
            topology_key: constraint.topology_key.clone(),
            max_skew: i64::from(constraint.max_skew),
            min_domains: i64::from(constraint.min_domains.unwrap_or(1)),
            honors_affinity: constraint.node_affinity_policy.as_deref() != Some("Ignore"),
            honors_taints: constraint.node_taints_policy.as_deref() == Some("Honor"),
            pods: pods.narrowed(own, constraint.match_label_keys.as_ref(), None),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn labels(of: Value) -> Labels {
        serde_json::from_value(of).unwrap()
    }

    #[test]
    fn term_matches_pods_by_namespace_and_labels() {
        let app = json!({"matchLabels": {"app": "db"}});
        let table = [
            ("its own namespace", json!({"labelSelector": app}), "ns", json!({"app": "db"}), true),
            ("another namespace", json!({"labelSelector": app}), "other", json!({"app": "db"}), false),
            ("other labels", json!({"labelSelector": app}), "ns", json!({"app": "web"}), false),
            ("no selector", json!({}), "ns", json!({"app": "db"}), false),
            ("an empty selector", json!({"labelSelector": {}}), "ns", json!({}), true),
            (
                "a named namespace",
                json!({"labelSelector": app, "namespaces": ["other"]}),
                "other",
                json!({"app": "db"}),
                true,
            ),
            (
                "then not its own",
                json!({"labelSelector": app, "namespaces": ["other"]}),
                "ns",
                json!({"app": "db"}),
                false,
            ),
            (
                "all namespaces",
                json!({"labelSelector": app, "namespaceSelector": {}}),
                "other",
                json!({"app": "db"}),
                true,
            ),
            (
                "some namespaces",
                json!({"labelSelector": app, "namespaceSelector": {"matchLabels": {"team": "a"}}}),
                "other",
                json!({"app": "db"}),
                true,
            ),
            (
                "not others",
                json!({"labelSelector": app, "namespaceSelector": {"matchLabels": {"team": "b"}}}),
                "other",
                json!({"app": "db"}),
                false,
            ),
            (
                "the same version",
                json!({"labelSelector": app, "matchLabelKeys": ["v"]}),
                "ns",
                json!({"app": "db", "v": "1"}),
                true,
            ),
            (
                "another version",
                json!({"labelSelector": app, "matchLabelKeys": ["v"]}),
                "ns",
                json!({"app": "db", "v": "2"}),
                false,
            ),
            (
                "all versions but the own",
                json!({"labelSelector": app, "mismatchLabelKeys": ["v"]}),
                "ns",
                json!({"app": "db", "v": "1"}),
                false,
            ),
            (
                "a key that the pod has not",
                json!({"labelSelector": app, "matchLabelKeys": ["w"]}),
                "ns",
                json!({"app": "db"}),
                true,
            ),
        ];
        let team = labels(json!({"team": "a"}));
        for (name, mut term, namespace, of, wanted) in table {
            term["topologyKey"] = json!("zone");
            let term = Term::read(&serde_json::from_value(term).unwrap(), "ns", &labels(json!({"v": "1"})));
            let known = |namespace: &str| (namespace == "other").then_some(&team);
            assert_eq!(term.matches(namespace, &labels(of), known), wanted, "{name}");
        }
    }
}
