//! Volumes of pods: defaults, and the rule that each volume has one source.

mod rules;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as api;
use orlop_apimachinery::names;
use serde_json::{Map, Value, json};

use super::field_refs::default_api_version;
use super::json_defaults::{list, object, objects, text, value};
use super::pod_owner::Owner;
use super::pull_policy::pull_policy;
use super::{checks, volume_source};
use crate::validate::{FieldErrors, Path};

/// The default mode of files in projected volumes: 0644.
const DEFAULT_MODE: i64 = 0o644;

/// Defaults the fields that the volumes of a pod spec omit.
pub(super) fn defaults(volumes: &mut [Value]) {
    for volume in objects(volumes) {
        // A volume without a source is an emptyDir.
        if !volume.iter().any(|(field, value)| field != "name" && !value.is_null()) {
            volume.insert("emptyDir".into(), json!({}));
        }
        source_defaults(volume);
    }
}

fn source_defaults(volume: &mut Map<String, Value>) {
    for kind in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = object(volume, kind) {
            value(source, "defaultMode", DEFAULT_MODE);
        }
    }
    if let Some(downward) = object(volume, "downwardAPI") {
        files(downward);
    }
    if let Some(projected) = object(volume, "projected") {
        for source in objects(list(projected, "sources")) {
            if let Some(downward) = object(source, "downwardAPI") {
                files(downward);
            }
            if let Some(token) = object(source, "serviceAccountToken") {
                value(token, "expirationSeconds", 3600);
            }
        }
    }
    volume_source::defaults(volume);
    if let Some(image) = object(volume, "image") {
        let reference = image.get("reference").and_then(Value::as_str).unwrap_or_default();
        let policy = pull_policy(reference);
        text(image, "pullPolicy", policy);
    }
    if let Some(claim) = object(volume, "ephemeral").and_then(|source| object(source, "volumeClaimTemplate"))
    {
        value(claim, "metadata", json!({}));
        if let Some(spec) = object(claim, "spec") {
            value(spec, "volumeMode", "Filesystem");
        }
    }
}

/// Files of the downward API.
fn files(downward: &mut Map<String, Value>) {
    for file in objects(list(downward, "items")) {
        default_api_version(file);
    }
}

/// The sources in upstream's order: the first one is validated, further ones are rejected. The
/// second name is the one in the path of that error, with upstream's spelling.
const SOURCES: [(&str, &str); 30] = [
    ("emptyDir", "emptyDir"),
    ("hostPath", "hostPath"),
    ("gitRepo", "gitRepo"),
    ("gcePersistentDisk", "gcePersistentDisk"),
    ("awsElasticBlockStore", "awsElasticBlockStore"),
    ("secret", "secret"),
    ("nfs", "nfs"),
    ("iscsi", "iscsi"),
    ("glusterfs", "glusterfs"),
    ("flocker", "flocker"),
    ("persistentVolumeClaim", "persistentVolumeClaim"),
    ("rbd", "rbd"),
    ("cinder", "cinder"),
    ("cephfs", "cephFS"),
    ("quobyte", "quobyte"),
    ("downwardAPI", "downwarAPI"),
    ("fc", "fc"),
    ("flexVolume", "flexVolume"),
    ("configMap", "configMap"),
    ("azureFile", "azureFile"),
    ("vsphereVolume", "vsphereVolume"),
    ("photonPersistentDisk", "photonPersistentDisk"),
    ("portworxVolume", "portworxVolume"),
    ("azureDisk", "azureDisk"),
    ("storageos", "storageos"),
    ("projected", "projected"),
    ("scaleIO", "scaleIO"),
    ("csi", "csi"),
    ("ephemeral", "ephemeral"),
    ("image", "image"),
];

/// Validates the volumes of a pod spec. Returns the valid ones by name: a mount of an
/// invalid volume fails as if the volume did not exist.
pub(super) fn validate<'a>(
    spec: &Value,
    volumes: &'a [api::Volume],
    owner: Owner<'_>,
    path: &Path,
    errors: &mut FieldErrors,
) -> BTreeMap<&'a str, &'a api::Volume> {
    let mut sound = BTreeMap::new();
    for (i, volume) in volumes.iter().enumerate() {
        let (path, at_name) = (path.index(i), path.index(i).child("name"));
        let mut found = FieldErrors::new();
        let json = spec.pointer(&format!("/volumes/{i}")).unwrap_or(&Value::Null);
        source(json, volume, owner, &path, &mut found);
        if checks::required(&mut found, &at_name, &volume.name) {
            checks::label(&mut found, &at_name, &volume.name);
        }
        if sound.contains_key(volume.name.as_str()) {
            found.duplicate(&at_name, volume.name.as_str());
        }
        if found.is_empty() {
            sound.insert(volume.name.as_str(), volume);
        }
        errors.extend(found);
    }
    sound
}

fn source(json: &Value, volume: &api::Volume, owner: Owner<'_>, path: &Path, errors: &mut FieldErrors) {
    let mut given =
        SOURCES.iter().filter(|(field, _)| json.get(field).is_some_and(|source| !source.is_null()));
    let Some((field, _)) = given.next() else {
        errors.required(path, "must specify a volume type");
        return;
    };
    one_source(field, json, volume, owner, &path.child(field), path, errors);
    for (_, refused_at) in given {
        errors.forbidden(&path.child(refused_at), "may not specify more than 1 volume type");
    }
    if let (Owner::Pod(pod), Some(_)) = (owner, &volume.ephemeral)
        && !pod.is_empty()
        && !volume.name.is_empty()
    {
        let claim = format!("{pod}-{}", volume.name);
        for problem in names::dns_subdomain(&claim) {
            let text = format!("PVC name {claim:?}: {problem}");
            errors.invalid(&path.child("name"), volume.name.as_str(), &text);
        }
    }
}

/// Validates one source, at its own path below the volume's.
fn one_source(
    field: &str,
    json: &Value,
    volume: &api::Volume,
    owner: Owner<'_>,
    at: &Path,
    path: &Path,
    errors: &mut FieldErrors,
) {
    if let ("emptyDir", Some(source)) = (field, &volume.empty_dir) {
        rules::empty_dir(source, at, errors);
    } else if let ("gitRepo", Some(source)) = (field, &volume.git_repo) {
        rules::git_repo(source, at, errors);
    } else if let ("secret", Some(source)) = (field, &volume.secret) {
        rules::secret(source, at, errors);
    } else if let ("persistentVolumeClaim", Some(source)) = (field, &volume.persistent_volume_claim) {
        rules::claim(source, at, errors);
    } else if let ("downwardAPI", Some(source)) = (field, &volume.downward_api) {
        rules::downward(source, at, errors);
    } else if let ("configMap", Some(source)) = (field, &volume.config_map) {
        rules::config_map(source, at, errors);
    } else if let ("projected", Some(source)) = (field, &volume.projected) {
        rules::projected(source, at, errors);
    } else if let ("csi", Some(source)) = (field, &volume.csi) {
        rules::csi(source, at, errors);
    } else if let ("ephemeral", Some(source)) = (field, &volume.ephemeral) {
        rules::ephemeral(source, at, errors);
    } else if let ("image", Some(source)) = (field, &volume.image) {
        rules::image(source, matches!(owner, Owner::Pod(_)), at, errors);
    } else {
        // Sources that persistent volumes have, too, are validated like theirs, separately and without their names.
        let alone = json!({ field: json.get(field) });
        volume_source::validate(&alone, path, "", true, errors);
    }
}

#[cfg(test)]
mod tests;
