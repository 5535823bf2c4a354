//! Resolves the secrets that a snapshot class names for each call (upstream: external-snapshotter's GetSecretReference), and the
//! parameters that a driver receives. Pure.

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::core::v1::SecretReference;
use orlop_apimachinery::names::{dns_label, dns_subdomain};

use crate::snapshot::VolumeSnapshot;
use orlop_volume::csi::secrets::{PREFIX, SecretError, resolved};

/// The reserved keys, without the prefix. Those of groups are accepted and unused.
const KNOWN: [&str; 8] = [
    "snapshotter-secret-name",
    "snapshotter-secret-namespace",
    "snapshotter-list-secret-name",
    "snapshotter-list-secret-namespace",
    "group-snapshotter-secret-name",
    "group-snapshotter-secret-namespace",
    "group-snapshotter-get-secret-name",
    "group-snapshotter-get-secret-namespace",
];

/// The purpose of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// CreateSnapshot and DeleteSnapshot.
    Snapshotter,
    /// ListSnapshots.
    List,
}

/// The secret that a class names for a purpose, with its templates resolved. Names of the snapshot are available only where
/// there is one.
///
/// # Errors
/// Parameters that contradict each other, or templates that do not resolve.
pub fn reference(
    purpose: Purpose,
    parameters: &BTreeMap<String, String>,
    content: &str,
    snapshot: Option<&VolumeSnapshot>,
) -> Result<Option<SecretReference>, SecretError> {
    let (key, word) = match purpose {
        Purpose::Snapshotter => ("snapshotter-secret", "Snapshotter"),
        Purpose::List => ("snapshotter-list-secret", "SnapshotterList"),
    };
    let get = |end: &str| {
        let key = format!("{PREFIX}{key}-{end}");
        match parameters.get(&key).map(String::as_str) {
            Some("") => Err(SecretError::Empty(key)),
            value => Ok(value),
        }
    };
    let (name, namespace) = match (get("name")?, get("namespace")?) {
        (Some(name), Some(namespace)) => (name, namespace),
        (None, None) => return Ok(None),
        (Some(_), None) | (None, Some(_)) => return Err(SecretError::Half(word)),
    };
    let of_namespace = |token: &str| match token {
        "volumesnapshotcontent.name" => Some(content.to_owned()),
        "volumesnapshot.namespace" => snapshot.and_then(|snapshot| snapshot.metadata.namespace.clone()),
        _ => None,
    };
    let of_name = |token: &str| match token {
        "volumesnapshot.name" => snapshot.and_then(|snapshot| snapshot.metadata.name.clone()),
        token => of_namespace(token),
    };
    let namespace = resolved(namespace, of_namespace, dns_label)?;
    let name = resolved(name, of_name, dns_subdomain)?;
    Ok(Some(SecretReference { name: Some(name), namespace: Some(namespace) }))
}

/// The parameters that a driver receives.
///
/// # Errors
/// An unknown reserved key.
pub fn parameters(all: &BTreeMap<String, String>) -> Result<HashMap<String, String>, String> {
    let mut forwarded = HashMap::new();
    for (key, value) in all {
        match key.strip_prefix(PREFIX) {
            None => {
                forwarded.insert(key.clone(), value.clone());
            }
            Some(rest) if KNOWN.contains(&rest) => {}
            Some(_) => {
                return Err(format!("found unknown parameter key {key:?} with reserved namespace {PREFIX}"));
            }
        }
    }
    Ok(forwarded)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn map(given: &[(&str, &str)]) -> BTreeMap<String, String> {
        given.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    const NAME: &str = "csi.storage.k8s.io/snapshotter-secret-name";
    const NAMESPACE: &str = "csi.storage.k8s.io/snapshotter-secret-namespace";

    #[test]
    fn secret_templates_are_resolved() {
        let mut snapshot = VolumeSnapshot::default();
        snapshot.metadata.name = Some("s".to_owned());
        snapshot.metadata.namespace = Some("ns".to_owned());
        let of = |given: &[(&str, &str)], snapshot| {
            let found = reference(Purpose::Snapshotter, &map(given), "snapcontent-1", snapshot);
            found
                .map_err(|e| e.to_string())
                .map(|r| r.map(|r| (r.namespace.unwrap_or_default(), r.name.unwrap_or_default())))
        };
        let some = |namespace: &str, name: &str| Ok(Some((namespace.to_owned(), name.to_owned())));
        assert_eq!(of(&[], None), Ok(None));
        let given = [(NAME, "${volumesnapshot.name}"), (NAMESPACE, "${volumesnapshot.namespace}")];
        assert_eq!(of(&given, Some(&snapshot)), some("ns", "s"));
        assert!(of(&given, None).unwrap_err().contains("unknown token"));
        let given = [(NAME, "${volumesnapshotcontent.name}"), (NAMESPACE, "kube-system")];
        assert_eq!(of(&given, None), some("kube-system", "snapcontent-1"));
        for (given, why) in [
            (vec![(NAME, "s")], "either name and namespace for Snapshotter secrets"),
            (vec![(NAME, ""), (NAMESPACE, "ns")], "is empty"),
            (vec![(NAME, "s"), (NAMESPACE, "${volumesnapshot.name}")], "unknown token"),
        ] {
            let error = of(&given, Some(&snapshot)).unwrap_err();
            assert!(error.contains(why), "{given:?}: {error}");
        }
    }

    #[test]
    fn driver_receives_unreserved_parameters_only() {
        let forwarded =
            parameters(&map(&[("tier", "cold"), (NAME, "s"), (NAMESPACE, "ns")])).unwrap_or_default();
        assert_eq!(forwarded, [("tier".to_owned(), "cold".to_owned())].into());
        let error = parameters(&map(&[("csi.storage.k8s.io/odd", "x")])).unwrap_err();
        assert!(error.contains("csi.storage.k8s.io/odd"), "{error}");
    }
}
