//! Zones and regions of volumes: Kubernetes' labels, their deprecated names, and the drivers' keys.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, PersistentVolume};

const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";
/// Separates the zones in the label of a volume with several zones.
const BETWEEN_ZONES: &str = "__";

/// Returns the region of the zones, if all are in the same one.
pub(super) type RegionOf = fn(&BTreeSet<String>) -> Option<String>;

/// The label names that a volume uses.
#[derive(Clone, Copy)]
struct Labels {
    zone: &'static str,
    region: &'static str,
}

/// Whether a key is a zone key, current or deprecated.
pub(super) fn is_zone(key: &str) -> bool {
    key == ZONE || key == BETA_ZONE
}

/// The zones in a volume's label; the deprecated label takes precedence.
pub(super) fn zones_of_label(volume: &PersistentVolume) -> BTreeSet<String> {
    let text =
        [BETA_ZONE, ZONE].into_iter().filter_map(|key| label(volume, key)).find(|text| !text.is_empty());
    zones_in(text.unwrap_or_default())
}

fn zones_in(label: &str) -> BTreeSet<String> {
    let zones = label.split(BETWEEN_ZONES).map(str::trim).filter(|zone| !zone.is_empty());
    zones.map(str::to_owned).collect()
}

fn label<'v>(volume: &'v PersistentVolume, key: &str) -> Option<&'v str> {
    volume.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

fn terms(volume: &PersistentVolume) -> &[NodeSelectorTerm] {
    let affinity = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required.as_ref());
    required.map_or(&[], |required| &required.node_selector_terms)
}

fn expressions(volume: &PersistentVolume) -> impl Iterator<Item = &NodeSelectorRequirement> {
    terms(volume).iter().flat_map(|term| term.match_expressions.iter().flatten())
}

fn terms_mut(volume: &mut PersistentVolume) -> &mut Vec<NodeSelectorTerm> {
    let affinity = volume.spec.get_or_insert_default().node_affinity.get_or_insert_default();
    &mut affinity.required.get_or_insert_default().node_selector_terms
}

/// The values for a key in the node affinity. The operator is ignored: drivers use only one.
fn values(volume: &PersistentVolume, key: &str) -> BTreeSet<String> {
    let found = expressions(volume).filter(|expression| expression.key == key);
    found.flat_map(|expression| expression.values.iter().flatten().cloned()).collect()
}

/// The names in use: those in the affinity take precedence over labels, and current names over deprecated ones.
fn labels_of(volume: &PersistentVolume) -> Labels {
    let new = Labels { zone: ZONE, region: REGION };
    let old = Labels { zone: BETA_ZONE, region: BETA_REGION };
    let says = |key: &str| expressions(volume).any(|expression| expression.key == key);
    match () {
        () if says(ZONE) => new,
        () if says(BETA_ZONE) => old,
        () if label(volume, ZONE).is_some() => new,
        () if label(volume, BETA_ZONE).is_some() => old,
        () => new,
    }
}

fn rename(volume: &mut PersistentVolume, old: &str, new: &str) {
    if terms(volume).is_empty() {
        return;
    }
    let expressions =
        terms_mut(volume).iter_mut().flat_map(|term| term.match_expressions.iter_mut().flatten());
    for expression in expressions.filter(|expression| expression.key == old) {
        new.clone_into(&mut expression.key);
    }
}

fn is_in(key: &str, values: BTreeSet<String>) -> NodeSelectorRequirement {
    NodeSelectorRequirement {
        key: key.to_owned(),
        operator: "In".to_owned(),
        values: Some(values.into_iter().collect()),
    }
}

/// Adds a requirement to every term, because terms are alternatives.
fn require(volume: &mut PersistentVolume, key: &str, wanted: &BTreeSet<String>) {
    if wanted.is_empty() {
        return;
    }
    let terms = terms_mut(volume);
    if terms.is_empty() {
        terms.push(NodeSelectorTerm::default());
    }
    for term in terms {
        term.match_expressions.get_or_insert_default().push(is_in(key, wanted.clone()));
    }
}

fn set_label(volume: &mut PersistentVolume, key: &str, value: String) {
    volume.metadata.labels.get_or_insert_default().entry(key.to_owned()).or_insert(value);
}

/// Moves zones to the driver's key. The node affinity takes precedence over labels. The deprecated region key is
/// replaced with the current one, because nodes may no longer have the deprecated one.
pub(super) fn to_csi(volume: &mut PersistentVolume, key: &str) {
    let labels = labels_of(volume);
    if !values(volume, labels.zone).is_empty() {
        rename(volume, labels.zone, key);
    } else if let Some(text) = label(volume, labels.zone) {
        let zones = zones_in(text);
        require(volume, key, &zones);
    }
    if labels.region == BETA_REGION {
        rename(volume, BETA_REGION, REGION);
    }
}

/// Moves zones to Kubernetes' key, adds the region if `region_of` is set, and adds both as labels. `None` if the
/// zones are in no region or in several.
pub(super) fn from_csi(volume: &mut PersistentVolume, key: &str, region_of: Option<RegionOf>) -> Option<()> {
    let zone = labels_of(volume).zone;
    rename(volume, key, zone);
    if let Some(region_of) = region_of
        && !terms(volume).is_empty()
    {
        add_regions(volume, region_of)?;
    }
    let zones = values(volume, zone);
    if !zones.is_empty() {
        let zones: Vec<String> = zones.into_iter().collect();
        set_label(volume, zone, zones.join(BETWEEN_ZONES));
    }
    Some(())
}

fn add_regions(volume: &mut PersistentVolume, region_of: RegionOf) -> Option<()> {
    let labels = labels_of(volume);
    for term in terms_mut(volume) {
        let all = term.match_expressions.get_or_insert_default();
        if all.iter().any(|expression| expression.key == labels.region) {
            continue;
        }
        let zones = all.iter().filter(|expression| expression.key == labels.zone);
        let zones = zones.flat_map(|expression| expression.values.iter().flatten().cloned()).collect();
        all.push(is_in(labels.region, BTreeSet::from([region_of(&zones)?])));
    }
    let regions = values(volume, labels.region);
    if regions.len() == 1 {
        regions.into_iter().for_each(|region| set_label(volume, labels.region, region));
    }
    Some(())
}

/// The single region of the zones, derived from the zones' names.
pub(super) fn one_region(zones: &BTreeSet<String>, of: fn(&str) -> Option<String>) -> Option<String> {
    let regions: BTreeSet<String> = zones.iter().map(|zone| of(zone)).collect::<Option<_>>()?;
    if regions.len() == 1 { regions.into_iter().next() } else { None }
}

/// Like `to_csi`, for a driver with a region key and one zone per volume: label values are used as they are.
pub(super) fn to_csi_with_region(volume: &mut PersistentVolume, zone_key: &str, region_key: &str) {
    let labels = labels_of(volume);
    for (own, key) in [(labels.zone, zone_key), (labels.region, region_key)] {
        if !values(volume, own).is_empty() {
            rename(volume, own, key);
        } else if let Some(text) = label(volume, own).map(str::trim).filter(|text| !text.is_empty()) {
            let wanted = BTreeSet::from([text.to_owned()]);
            require(volume, key, &wanted);
        }
    }
}

/// The inverse of [`to_csi_with_region`].
pub(super) fn from_csi_with_region(volume: &mut PersistentVolume, zone_key: &str, region_key: &str) {
    let labels = labels_of(volume);
    for (own, key) in [(labels.zone, zone_key), (labels.region, region_key)] {
        rename(volume, key, own);
        if let Some(first) = values(volume, own).into_iter().next() {
            set_label(volume, own, first);
        }
    }
}
