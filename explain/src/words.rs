//! Helpers for sentences.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// Number of names before "and n more".
const NAMES: usize = 3;

/// A list: `a`, `a and b`, `a, b, c and 4 more`.
pub(super) fn list<T: AsRef<str>>(names: &[T]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.as_slice() {
        [] => "none".to_owned(),
        [one] => (*one).to_owned(),
        many if many.len() > NAMES => {
            format!("{} and {} more", many[..NAMES].join(", "), many.len() - NAMES)
        }
        [front @ .., last] => format!("{} and {last}", front.join(", ")),
    }
}

/// A count: `one pod`, `3 pods`.
pub(super) fn count(number: usize, one: &str) -> String {
    match number {
        1 => format!("one {one}"),
        number => format!("{number} {one}s"),
    }
}

/// A name, or `none`.
pub(super) fn or_none(name: &str) -> &str {
    if name.is_empty() { "none" } else { name }
}

/// Access modes by their short names.
pub(super) fn modes(modes: &[String]) -> String {
    if modes.is_empty() {
        return "none".to_owned();
    }
    let short = |mode: &String| orlop_volume::modes::short(mode).unwrap_or("an unknown mode");
    modes.iter().map(short).collect::<Vec<_>>().join(",")
}

/// Removes the full stop at the end, so that the sentence can be continued.
pub(super) fn open(sentence: &str) -> &str {
    sentence.trim_end_matches(['.', ' ', '\n'])
}

/// The node affinity of a volume as text.
pub(super) fn affinity(volume: &PersistentVolume) -> String {
    let required = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref()?.required.as_ref());
    let Some(required) = required else { return "every node".to_owned() };
    let term = |term: &k8s_openapi::api::core::v1::NodeSelectorTerm| {
        let wanted = term.match_expressions.iter().flatten();
        let wanted = wanted.map(|wanted| {
            let values = wanted.values.as_deref().unwrap_or_default();
            match (wanted.operator.as_str(), values) {
                ("In", [value]) => format!("{}={value}", wanted.key),
                (operator, []) => format!("{} {operator}", wanted.key),
                (operator, values) => format!("{} {operator} {}", wanted.key, values.join(",")),
            }
        });
        wanted.collect::<Vec<_>>().join(" and ")
    };
    let terms: Vec<String> = required.node_selector_terms.iter().map(term).collect();
    format!("nodes with {}", terms.join(" or "))
}

/// A selector as text, such as `tier=fast and rack In r1,r2`.
pub(super) fn selector(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}={value}"));
    let expressions = selector.match_expressions.iter().flatten().map(|wanted| {
        match wanted.values.as_deref().unwrap_or_default() {
            [] => format!("{} {}", wanted.key, wanted.operator),
            values => format!("{} {} {}", wanted.key, wanted.operator, values.join(",")),
        }
    });
    labels.chain(expressions).collect::<Vec<_>>().join(" and ")
}

/// Labels as text: `k=v, k=v`.
pub(super) fn labels(labels: &BTreeMap<String, String>) -> String {
    labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_end_with_a_count() {
        let table: [(&[&str], &str); 4] = [
            (&["a"], "a"),
            (&["a", "b"], "a and b"),
            (&["a", "b", "c"], "a, b and c"),
            (&["a", "b", "c", "d", "e"], "a, b, c and 2 more"),
        ];
        for (names, wanted) in table {
            assert_eq!(list(names), wanted);
        }
        assert_eq!(count(1, "pod"), "one pod");
        assert_eq!(count(3, "pod"), "3 pods");
    }
}
