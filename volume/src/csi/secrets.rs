//! Resolves the secrets that a class names for each call, and reads them (upstream: external-provisioner's getSecretReference).
//! A value never appears in an error, an event or a log.

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret, SecretReference};
use kube::Client;
use orlop_apimachinery::names::{dns_label, dns_subdomain};
use orlop_client::api::Api;

/// The prefix of every reserved parameter of a class.
pub const PREFIX: &str = "csi.storage.k8s.io/";

/// The purpose of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// CreateVolume and DeleteVolume.
    Provisioner,
    /// ControllerPublishVolume and ControllerUnpublishVolume.
    ControllerPublish,
    /// NodeStageVolume.
    NodeStage,
    /// NodePublishVolume.
    NodePublish,
    /// ControllerExpandVolume.
    ControllerExpand,
    /// NodeExpandVolume.
    NodeExpand,
    /// ControllerModifyVolume.
    ControllerModify,
}

impl Purpose {
    fn word(self) -> &'static str {
        match self {
            Purpose::Provisioner => "provisioner",
            Purpose::ControllerPublish => "controller-publish",
            Purpose::NodeStage => "node-stage",
            Purpose::NodePublish => "node-publish",
            Purpose::ControllerExpand => "controller-expand",
            Purpose::NodeExpand => "node-expand",
            Purpose::ControllerModify => "controller-modify",
        }
    }

    /// The deprecated keys of name and namespace without the prefix, if any.
    fn old_keys(self) -> Option<(&'static str, &'static str)> {
        match self {
            Purpose::Provisioner => Some(("csiProvisionerSecretName", "csiProvisionerSecretNamespace")),
            Purpose::ControllerPublish => {
                Some(("csiControllerPublishSecretName", "csiControllerPublishSecretNamespace"))
            }
            Purpose::NodeStage => Some(("csiNodeStageSecretName", "csiNodeStageSecretNamespace")),
            Purpose::NodePublish => Some(("csiNodePublishSecretName", "csiNodePublishSecretNamespace")),
            Purpose::ControllerExpand | Purpose::NodeExpand | Purpose::ControllerModify => None,
        }
    }
}

/// Why the secret of a class cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The deprecated and the current key are both set.
    #[error("both {old:?} and {new:?} are set in the parameters of the class; keep the second")]
    Both {
        /// The deprecated key.
        old: String,
        /// The current key.
        new: String,
    },
    /// Only one of name and namespace is set.
    #[error("either name and namespace for {0} secrets specified, Both must be specified")]
    Half(&'static str),
    /// A key without a value.
    #[error("parameter {0:?} of the class is empty")]
    Empty(String),
    /// A template that cannot be resolved.
    #[error("cannot resolve {template:?} of the class: unknown token {token:?}")]
    Token {
        /// The whole value.
        template: String,
        /// The unknown token.
        token: String,
    },
    /// The result is not a valid name.
    #[error("{template:?} of the class resolves to {value:?}, which is not a valid name")]
    Name {
        /// The whole value.
        template: String,
        /// The value with its tokens resolved.
        value: String,
    },
    /// The secret cannot be read.
    #[error("error getting secret {name} in namespace {namespace}: {cause}")]
    Read {
        /// The name of the secret.
        name: String,
        /// The namespace of the secret.
        namespace: String,
        /// The server's error.
        cause: kube::Error,
    },
}

/// The secret that a class names for a purpose, with its templates resolved. None when it names none.
///
/// # Errors
/// Parameters that contradict each other, or templates that do not resolve.
pub fn reference(
    purpose: Purpose,
    parameters: &BTreeMap<String, String>,
    volume: &str,
    claim: &PersistentVolumeClaim,
) -> Result<Option<SecretReference>, SecretError> {
    let (Some(name), Some(namespace)) = templates(purpose, parameters)? else { return Ok(None) };
    let namespace_of_claim = claim.metadata.namespace.as_deref().unwrap_or_default();
    let name_of_claim = claim.metadata.name.as_deref().unwrap_or_default();
    let simple = |token: &str| match token {
        "pv.name" => Some(volume.to_owned()),
        "pvc.namespace" => Some(namespace_of_claim.to_owned()),
        _ => None,
    };
    let full = |token: &str| {
        let annotation = token.strip_prefix("pvc.annotations['").and_then(|rest| rest.strip_suffix("']"));
        match (token, annotation) {
            ("pvc.name", _) => Some(name_of_claim.to_owned()),
            (_, Some(key)) => claim.metadata.annotations.as_ref()?.get(key).cloned(),
            (token, None) => simple(token),
        }
    };
    let namespace = resolved(namespace, simple, dns_label)?;
    let name = resolved(name, full, dns_subdomain)?;
    Ok(Some(SecretReference { name: Some(name), namespace: Some(namespace) }))
}

/// The value of a key that is set; an empty one is an error.
type Template<'a> = Option<&'a str>;

fn templates<'a>(
    purpose: Purpose,
    parameters: &'a BTreeMap<String, String>,
) -> Result<(Template<'a>, Template<'a>), SecretError> {
    let word = purpose.word();
    let keys = |end: &str| (format!("{PREFIX}{word}-secret-{end}"), format!("{PREFIX}secret-{end}"));
    let get = |new: &str, old: Option<&str>| {
        let value = |key: &str| parameters.get(key).map(|value| (key.to_owned(), value.as_str()));
        let (today, before) = (value(new), old.and_then(value));
        if let (Some((new, _)), Some((old, _))) = (&today, &before) {
            return Err(SecretError::Both { old: old.clone(), new: new.clone() });
        }
        match today.or(before) {
            Some((key, "")) => Err(SecretError::Empty(key)),
            found => Ok(found.map(|(_, value)| value)),
        }
    };
    let ((name_key, any_name), (namespace_key, any_namespace)) = (keys("name"), keys("namespace"));
    let old = purpose.old_keys();
    let own = (get(&name_key, old.map(|keys| keys.0))?, get(&namespace_key, old.map(|keys| keys.1))?);
    let found = match own {
        (None, None) => (get(&any_name, None)?, get(&any_namespace, None)?),
        own => own,
    };
    match found {
        (Some(_), None) | (None, Some(_)) => Err(SecretError::Half(word)),
        both => Ok(both),
    }
}

/// A template with its `${...}` tokens replaced by their values.
///
/// # Errors
/// A token has no value, or the result is not a valid name according to `faults`.
pub fn resolved(
    template: &str,
    value_of: impl Fn(&str) -> Option<String>,
    faults: impl Fn(&str) -> Vec<String>,
) -> Result<String, SecretError> {
    let mut value = String::new();
    let mut rest = template;
    while let Some((before, tail)) = rest.split_once("${") {
        value.push_str(before);
        let (token, after) = tail.split_once('}').unwrap_or((tail, ""));
        let unknown = || SecretError::Token { template: template.to_owned(), token: token.to_owned() };
        value.push_str(&value_of(token).ok_or_else(unknown)?);
        rest = after;
    }
    value.push_str(rest);
    if !faults(&value).is_empty() {
        return Err(SecretError::Name { template: template.to_owned(), value });
    }
    Ok(value)
}

/// Reads the values of a secret for a request. The result is empty for `None`.
///
/// # Errors
/// The secret is missing or cannot be read.
pub async fn read(
    client: &Client,
    reference: Option<&SecretReference>,
) -> Result<HashMap<String, String>, SecretError> {
    let Some(SecretReference { name: Some(name), namespace: Some(namespace) }) = reference else {
        return Ok(HashMap::new());
    };
    let secret: Secret = Api::namespaced(client.clone(), namespace)
        .get(name)
        .await
        .map_err(|cause| SecretError::Read { name: name.clone(), namespace: namespace.clone(), cause })?;
    let values = secret.data.unwrap_or_default().into_iter();
    // CSI's secrets are strings; other bytes cannot be sent as one.
    Ok(values.map(|(key, value)| (key, String::from_utf8_lossy(&value.0).into_owned())).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn claim() -> PersistentVolumeClaim {
        let text = r#"{"metadata":{"name":"c","namespace":"ns","annotations":{"team":"blue"}}}"#;
        serde_json::from_str(text).expect("a claim")
    }

    fn found(purpose: Purpose, given: &[(&str, &str)]) -> Result<Option<(String, String)>, String> {
        let parameters = given.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let reference = reference(purpose, &parameters, "pvc-1", &claim()).map_err(|e| e.to_string())?;
        Ok(reference.map(|r| (r.namespace.unwrap_or_default(), r.name.unwrap_or_default())))
    }

    fn some(namespace: &str, name: &str) -> Result<Option<(String, String)>, String> {
        Ok(Some((namespace.to_owned(), name.to_owned())))
    }

    const NAME: &str = "csi.storage.k8s.io/provisioner-secret-name";
    const NAMESPACE: &str = "csi.storage.k8s.io/provisioner-secret-namespace";

    #[test]
    fn templates_are_resolved() {
        let of = |name, namespace| found(Purpose::Provisioner, &[(NAME, name), (NAMESPACE, namespace)]);
        assert_eq!(of("s", "kube-system"), some("kube-system", "s"));
        assert_eq!(of("${pvc.name}-${pv.name}", "${pvc.namespace}"), some("ns", "c-pvc-1"));
        assert_eq!(of("s-${pvc.annotations['team']}", "ns"), some("ns", "s-blue"));
        for (name, namespace, why) in [
            ("${pvc.annotations['none']}", "ns", "unknown token"),
            ("s", "${pvc.name}", "unknown token"),
            ("s", "a.b", "not a valid name"),
            ("S", "ns", "not a valid name"),
            ("${pvc.name", "n${", "unknown token"),
            ("", "ns", "is empty"),
        ] {
            let error = of(name, namespace).unwrap_err();
            assert!(error.contains(why), "{name:?} {namespace:?}: {error}");
        }
    }

    #[test]
    fn contradicting_keys_are_errors() {
        assert_eq!(found(Purpose::NodeStage, &[]), Ok(None));
        let half = found(Purpose::Provisioner, &[(NAME, "s")]).unwrap_err();
        assert_eq!(
            half,
            "either name and namespace for provisioner secrets specified, Both must be specified"
        );
        let all = [("csi.storage.k8s.io/secret-name", "any"), ("csi.storage.k8s.io/secret-namespace", "ns")];
        assert_eq!(found(Purpose::NodeExpand, &all), some("ns", "any"), "for all purposes");
        let own = [all[0], all[1], (NAME, "own"), (NAMESPACE, "ns")];
        assert_eq!(found(Purpose::Provisioner, &own), some("ns", "own"), "its own wins");
        let old = [("csiNodeStageSecretName", "old"), ("csiNodeStageSecretNamespace", "ns")];
        assert_eq!(found(Purpose::NodeStage, &old), some("ns", "old"));
        let both = [old[0], old[1], ("csi.storage.k8s.io/node-stage-secret-name", "new")];
        assert!(found(Purpose::NodeStage, &both).unwrap_err().contains("keep the second"));
    }
}
