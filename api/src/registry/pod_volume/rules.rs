//! Validation of the sources that only pods have. Sources that persistent volumes have, too, are validated by
//! [`crate::registry::volume_source`].

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1 as api;
use orlop_apimachinery::quantity::Quantity;
use serde_json::{Value, json};

use crate::kind::Kind;
use crate::object::Object;
use crate::registry::field_refs::{descending_path, field_ref, local_path, resource_field_ref};
use crate::registry::persistent_volume_claim::PersistentVolumeClaim;
use crate::registry::{checks, volume_rules};
use crate::validate::label_selector::validate_labels;
use crate::validate::meta::validate_annotations;
use crate::validate::{FieldErrors, Path};

/// The message for numbers that are not file modes.
const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// Fields of the pod that a file may refer to.
const FILE_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

fn text(value: &Option<String>) -> &str {
    value.as_deref().unwrap_or_default()
}

pub(super) fn empty_dir(source: &api::EmptyDirVolumeSource, path: &Path, errors: &mut FieldErrors) {
    let limit = source.size_limit.as_ref().and_then(|limit| Quantity::parse(&limit.0).ok());
    if limit.is_some_and(|limit| limit.is_negative()) {
        let text = "SizeLimit field must be a valid resource quantity";
        errors.forbidden(&path.child("sizeLimit"), text);
    }
}

pub(super) fn git_repo(source: &api::GitRepoVolumeSource, path: &Path, errors: &mut FieldErrors) {
    checks::required(errors, &path.child("repository"), &source.repository);
    descending_path(text(&source.directory), &path.child("directory"), errors);
}

pub(super) fn secret(source: &api::SecretVolumeSource, path: &Path, errors: &mut FieldErrors) {
    checks::required(errors, &path.child("secretName"), text(&source.secret_name));
    mode(source.default_mode, &path.child("defaultMode"), errors);
    keys(source.items.as_deref(), &path.child("items"), errors);
}

pub(super) fn config_map(source: &api::ConfigMapVolumeSource, path: &Path, errors: &mut FieldErrors) {
    checks::required(errors, &path.child("name"), &source.name);
    mode(source.default_mode, &path.child("defaultMode"), errors);
    keys(source.items.as_deref(), &path.child("items"), errors);
}

pub(super) fn claim(source: &api::PersistentVolumeClaimVolumeSource, path: &Path, errors: &mut FieldErrors) {
    checks::required(errors, &path.child("claimName"), &source.claim_name);
}

pub(super) fn downward(source: &api::DownwardAPIVolumeSource, path: &Path, errors: &mut FieldErrors) {
    mode(source.default_mode, &path.child("defaultMode"), errors);
    for one in source.items.iter().flatten() {
        file(one, path, errors);
    }
}

pub(super) fn csi(source: &api::CSIVolumeSource, path: &Path, errors: &mut FieldErrors) {
    volume_rules::driver_name(&path.child("driver"), &source.driver, errors);
    if let Some(secret) = &source.node_publish_secret_ref {
        let path = path.child("nodePublishSecretRef").child("name");
        if checks::required(errors, &path, &secret.name) {
            checks::subdomain(errors, &path, &secret.name);
        }
    }
}

pub(super) fn image(source: &api::ImageVolumeSource, in_pod: bool, path: &Path, errors: &mut FieldErrors) {
    if in_pod {
        checks::required(errors, &path.child("reference"), text(&source.reference));
    }
    let policies = ["Always", "IfNotPresent", "Never"];
    checks::one_of(errors, &path.child("pullPolicy"), source.pull_policy.as_deref(), &policies);
}

/// Metadata that a claim template must not contain, in the order of upstream's struct, and the name
/// of each field in error paths.
const SERVER_METADATA: [(&str, &str); 13] = [
    ("name", "name"),
    ("generateName", "generateName"),
    ("namespace", "namespace"),
    ("selfLink", "selfLink"),
    ("uid", "uID"),
    ("resourceVersion", "resourceVersion"),
    ("generation", "generation"),
    ("creationTimestamp", "creationTimestamp"),
    ("deletionTimestamp", "deletionTimestamp"),
    ("deletionGracePeriodSeconds", "deletionGracePeriodSeconds"),
    ("ownerReferences", "ownerReferences"),
    ("finalizers", "finalizers"),
    ("managedFields", "managedFields"),
];

/// The claim template of an ephemeral volume is validated like a claim; only the labels and
/// annotations of its metadata may be set.
pub(super) fn ephemeral(source: &api::EphemeralVolumeSource, path: &Path, errors: &mut FieldErrors) {
    let path = path.child("volumeClaimTemplate");
    let Some(template) = &source.volume_claim_template else {
        errors.required(&path, "");
        return;
    };
    let metadata = serde_json::to_value(&template.metadata).unwrap_or_default();
    let at_metadata = path.child("metadata");
    let texts = |field: &str| -> Vec<(String, String)> {
        let members = metadata.get(field).and_then(Value::as_object).into_iter().flatten();
        members.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
    };
    let (annotations, labels) = (texts("annotations"), texts("labels"));
    validate_annotations(
        annotations.iter().map(|(key, value)| (key.as_str(), value.as_str())),
        &at_metadata.child("annotations"),
        errors,
    );
    validate_labels(
        labels.iter().map(|(key, value)| (key.as_str(), value.as_str())),
        &at_metadata.child("labels"),
        errors,
    );
    for (field, shown) in SERVER_METADATA {
        if metadata.get(field).is_some() {
            errors.forbidden(&at_metadata.child(shown), "cannot be set");
        }
    }
    let claim = Object::from_value(json!({ "spec": template.spec }));
    let mut found = FieldErrors::new();
    PersistentVolumeClaim.validate(&claim, &mut found);
    errors.extend_below(&path, found);
}

/// A volume with several sources; the paths of their files must not conflict.
pub(super) fn projected(source: &api::ProjectedVolumeSource, path: &Path, errors: &mut FieldErrors) {
    mode(source.default_mode, &path.child("defaultMode"), errors);
    let mut files = BTreeSet::new();
    for (i, source) in source.sources.iter().flatten().enumerate() {
        let at = path.child("sources").index(i);
        let mut given = 0;
        let mut add = |file: &str, shown: &str, errors: &mut FieldErrors| {
            if !file.is_empty() && !files.insert(file.to_owned()) {
                errors.invalid(path, shown, "conflicting duplicate paths");
            }
        };
        let keyed = [
            ("secret", source.secret.as_ref().map(|one| (one.name.as_str(), one.items.as_deref()))),
            ("configMap", source.config_map.as_ref().map(|one| (one.name.as_str(), one.items.as_deref()))),
        ];
        for (field, one) in keyed {
            let Some((name, items)) = one else { continue };
            given += 1;
            let path = at.child(field);
            checks::required(errors, &path.child("name"), name);
            for (i, item) in items.unwrap_or_default().iter().enumerate() {
                key(item, &path.child("items").index(i), errors);
                add(&item.path, name, errors);
            }
        }
        if let Some(downward) = &source.downward_api {
            given += 1;
            for item in downward.items.iter().flatten() {
                file(item, &at.child("downwardAPI"), errors);
                add(&item.path, &item.path, errors);
            }
        }
        if let Some(token) = &source.service_account_token {
            given += 1;
            service_account_token(token, &at.child("serviceAccountToken"), path, errors);
        }
        if let Some(bundle) = &source.cluster_trust_bundle {
            given += 1;
            trust_bundle(bundle, &at.child("clusterTrustBundle"), errors);
            add(&bundle.path, &bundle.path, errors);
        }
        if let Some(certificate) = &source.pod_certificate {
            given += 1;
            let path = at.child("podCertificate");
            checks::required(errors, &path.child("signerName"), &certificate.signer_name);
        }
        if given > 1 {
            errors.forbidden(&at, "may not specify more than 1 volume type per source");
        }
    }
}

fn service_account_token(
    token: &api::ServiceAccountTokenProjection,
    path: &Path,
    volume: &Path,
    errors: &mut FieldErrors,
) {
    let seconds = token.expiration_seconds.unwrap_or_default();
    let at = path.child("expirationSeconds");
    if seconds < 600 {
        errors.invalid(&at, seconds, "may not specify a duration less than 10 minutes");
    }
    if seconds > 1 << 32 {
        errors.invalid(&at, seconds, "may not specify a duration larger than 2^32 seconds");
    }
    // Upstream uses the volume's path here, not the source's.
    if checks::required(errors, &volume.child("path"), &token.path) {
        local_path(&token.path, &volume.child("path"), errors);
    }
}

fn trust_bundle(bundle: &api::ClusterTrustBundleProjection, path: &Path, errors: &mut FieldErrors) {
    match (&bundle.name, &bundle.signer_name) {
        (Some(_), Some(_)) => {
            let shown = serde_json::to_value(bundle).unwrap_or_default();
            errors.invalid(path, shown, "only one of name and signerName may be used");
        }
        (Some(name), None) => {
            if name.is_empty() {
                errors.required(&path.child("name"), "must be a valid object name");
            }
            if let Some(selector) = &bundle.label_selector {
                let shown = serde_json::to_value(selector).unwrap_or_default();
                let text = "labelSelector must be unset if name is specified";
                errors.invalid(&path.child("labelSelector"), shown, text);
            }
        }
        (None, Some(signer)) => {
            if signer.is_empty() {
                errors.required(&path.child("signerName"), "must be a valid signer name");
            }
        }
        (None, None) => errors.required(path, "either name or signerName must be specified"),
    }
    checks::required(errors, &path.child("path"), &bundle.path);
    local_path(&bundle.path, &path.child("path"), errors);
}

fn mode(mode: Option<i32>, path: &Path, errors: &mut FieldErrors) {
    if let Some(mode) = mode
        && !(0..=0o777).contains(&mode)
    {
        errors.invalid(path, mode, MODE);
    }
}

fn keys(items: Option<&[api::KeyToPath]>, path: &Path, errors: &mut FieldErrors) {
    for (i, item) in items.unwrap_or_default().iter().enumerate() {
        key(item, &path.index(i), errors);
    }
}

/// A key, and the path of its file.
fn key(item: &api::KeyToPath, path: &Path, errors: &mut FieldErrors) {
    checks::required(errors, &path.child("key"), &item.key);
    checks::required(errors, &path.child("path"), &item.path);
    local_path(&item.path, &path.child("path"), errors);
    mode(item.mode, &path.child("mode"), errors);
}

/// A file of the downward API. Upstream uses the path of the whole source.
fn file(file: &api::DownwardAPIVolumeFile, path: &Path, errors: &mut FieldErrors) {
    checks::required(errors, &path.child("path"), &file.path);
    local_path(&file.path, &path.child("path"), errors);
    match (&file.field_ref, &file.resource_field_ref) {
        (Some(reference), other) => {
            field_ref(reference, &FILE_FIELDS, &path.child("fieldRef"), errors);
            if other.is_some() {
                let text = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.invalid(path, "resource", text);
            }
        }
        (None, Some(reference)) => {
            resource_field_ref(reference, true, &path.child("resourceFieldRef"), errors);
        }
        (None, None) => errors.required(path, "one of fieldRef and resourceFieldRef is required"),
    }
    mode(file.mode, &path.child("mode"), errors);
}
