//! Distributes endpoints with the same ports to slices, with few writes. Pure functions.
//!
//! 1. Endpoints stay in their slices. A slice is updated if one of its endpoints has changed or left, and is deleted if
//!    all of them have left.
//! 2. New endpoints fill the slices that are updated anyway.
//! 3. The rest fills one unchanged slice, if one has enough room, or new slices.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};

use super::endpoint::{has_old_labels, labels};
use crate::endpoints::slice::{EndpointId, EndpointSet, endpoints, same_attributes};
use crate::endpoints::write::SliceChanges;

/// Computes the changes of the slices with one set of ports. `new` creates an empty slice. A slice has at least one
/// endpoint, also if `most` is 0.
pub fn pack(
    service: &Service,
    spec: &ServiceSpec,
    existing: &[Arc<EndpointSlice>],
    mut desired: EndpointSet,
    new: impl Fn() -> EndpointSlice,
    most: usize,
) -> SliceChanges {
    let most = most.max(1);
    let (mut changes, mut unchanged) = (SliceChanges::default(), Vec::new());
    for slice in existing {
        let (mut kept, mut is_changed) = (Vec::new(), false);
        for endpoint in endpoints(slice) {
            match desired.remove(&EndpointId::of(endpoint)) {
                Some(next) => {
                    is_changed |= !same_attributes(&next, endpoint);
                    kept.push(next);
                }
                None => is_changed = true,
            }
        }
        if is_changed && kept.is_empty() {
            changes.delete.push(Arc::clone(slice));
        } else if is_changed || has_old_labels(slice, service) {
            let mut next = EndpointSlice::clone(slice);
            if is_changed {
                next.endpoints = Some(kept);
            }
            next.metadata.labels = Some(labels(service, spec));
            changes.update.push(next);
        } else {
            unchanged.push(Arc::clone(slice));
        }
    }
    // The fullest slices first.
    changes.update.sort_by_key(|slice| std::cmp::Reverse(endpoints(slice).len()));
    for slice in &mut changes.update {
        fill(slice, &mut desired, most);
    }
    while !desired.is_empty() {
        let found = if desired.len() < most { fullest(&unchanged, desired.len(), most) } else { None };
        let (mut slice, is_new) = match found {
            Some(nth) => (EndpointSlice::clone(&unchanged.remove(nth)), false),
            None => (new(), true),
        };
        fill(&mut slice, &mut desired, most);
        if is_new { changes.create.push(slice) } else { changes.update.push(slice) }
    }
    changes
}

fn fill(slice: &mut EndpointSlice, desired: &mut EndpointSet, most: usize) {
    let list: &mut Vec<Endpoint> = slice.endpoints.get_or_insert_default();
    while list.len() < most
        && let Some((_, endpoint)) = desired.pop_first()
    {
        list.push(endpoint);
    }
}

/// The slice that is the fullest with `count` more endpoints, if one has room for them.
fn fullest(slices: &[Arc<EndpointSlice>], count: usize, most: usize) -> Option<usize> {
    let rest = |slice: &Arc<EndpointSlice>| most.checked_sub(count + endpoints(slice).len());
    let with_rest = slices.iter().enumerate().filter_map(|(nth, slice)| Some((rest(slice)?, nth)));
    with_rest.min().map(|(_, nth)| nth)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    /// A slice `NAME=FIRST..LAST`: one endpoint for each number.
    fn slice(text: &str) -> Arc<EndpointSlice> {
        let (name, range) = text.split_once('=').unwrap();
        let mut slice = EndpointSlice::default();
        slice.metadata.name = Some(name.to_owned());
        slice.metadata.labels = Some(labels(&service(), &ServiceSpec::default()));
        slice.endpoints = Some(set(range).into_values().collect());
        Arc::new(slice)
    }

    fn service() -> Service {
        serde_json::from_value(json!({"metadata": {"name": "s", "labels": {"a": "b"}}})).unwrap()
    }

    fn set(range: &str) -> EndpointSet {
        let mut all = EndpointSet::new();
        for range in range.split(',').filter(|range| !range.is_empty()) {
            let (first, last) = range.split_once("..").unwrap_or((range, range));
            for number in first.parse::<u32>().unwrap()..=last.parse().unwrap() {
                let endpoint =
                    Endpoint { addresses: vec![format!("10.0.0.{number:03}")], ..Endpoint::default() };
                all.insert(EndpointId::of(&endpoint), endpoint);
            }
        }
        all
    }

    fn shown(slice: &EndpointSlice) -> String {
        let numbers =
            endpoints(slice).iter().map(|endpoint| endpoint.addresses[0][7..].trim_start_matches('0'));
        let numbers = numbers.collect::<Vec<_>>().join(" ");
        format!("{}={numbers}", slice.metadata.name.as_deref().unwrap_or("new"))
    }

    #[test]
    fn endpoints_stay_in_their_slices_and_new_ones_fill_changed_slices() {
        type Texts = &'static [&'static str];
        // Name, existing slices, desired endpoints, created, updated and deleted slices. A slice has at most 4 endpoints.
        let table: [(&str, Texts, &str, Texts, Texts, Texts); 12] = [
            ("1 nothing", &[], "", &[], &[], &[]),
            ("2 the first", &[], "1..3", &["new=1 2 3"], &[], &[]),
            ("3 several", &[], "1..6", &["new=1 2 3 4", "new=5 6"], &[], &[]),
            ("4 no change", &["a=1..3"], "1..3", &[], &[], &[]),
            ("5 one leaves", &["a=1..3"], "1,3", &[], &["a=1 3"], &[]),
            ("6 all leave", &["a=1..3", "b=4"], "4", &[], &[], &["a=1 2 3"]),
            ("7 replaced", &["a=1..3"], "1,2,9", &[], &["a=1 2 9"], &[]),
            ("8 the fullest one with room", &["a=1", "b=2..3", "c=4..7"], "1..9", &[], &["b=2 3 8 9"], &[]),
            ("9 changed slices first", &["a=1", "b=2..4"], "1,3,4,9", &[], &["b=3 4 9"], &[]),
            ("10 none has room", &["a=1..3", "b=4..6"], "1..8", &["new=7 8"], &[], &[]),
            ("11 too many for one", &["a=1"], "1..5", &["new=2 3 4 5"], &[], &[]),
            ("12 all are replaced", &["a=1..2"], "3..4", &["new=3 4"], &[], &["a=1 2"]),
        ];
        for (name, existing, desired, created, updated, deleted) in table {
            let existing: Vec<_> = existing.iter().map(|text| slice(text)).collect();
            let spec = ServiceSpec::default();
            let changes = pack(&service(), &spec, &existing, set(desired), EndpointSlice::default, 4);
            assert_eq!(changes.create.iter().map(shown).collect::<Vec<_>>(), created, "{name}");
            assert_eq!(changes.update.iter().map(shown).collect::<Vec<_>>(), updated, "{name}");
            assert_eq!(
                changes.delete.iter().map(|slice| shown(slice)).collect::<Vec<_>>(),
                deleted,
                "{name}"
            );
        }
    }

    #[test]
    fn limit_of_zero_is_one() {
        let spec = ServiceSpec::default();
        let changes = pack(&service(), &spec, &[], set("1..2"), EndpointSlice::default, 0);
        assert_eq!(changes.create.iter().map(shown).collect::<Vec<_>>(), ["new=1", "new=2"]);
    }

    #[test]
    fn changed_labels_and_attributes_update_a_slice() {
        let spec = ServiceSpec::default();
        let pack = |service: &Service, desired| {
            pack(service, &spec, &[slice("a=1..2")], desired, EndpointSlice::default, 4).update
        };
        let mut renamed = service();
        renamed.metadata.labels.as_mut().unwrap().insert("c".to_owned(), "d".to_owned());
        let update = pack(&renamed, set("1..2"));
        assert_eq!(update[0].metadata.labels.as_ref().unwrap()["c"], "d");

        let mut desired = set("1..2");
        desired.first_entry().unwrap().get_mut().node_name = Some("n".to_owned());
        let update = pack(&service(), desired);
        assert_eq!(update[0].endpoints.as_ref().unwrap()[0].node_name.as_deref(), Some("n"));
    }
}
