//! `awsElasticBlockStore` and the driver `ebs.csi.aws.com`.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    AWSElasticBlockStoreVolumeSource, CSIPersistentVolumeSource, PersistentVolume, Volume,
};
use k8s_openapi::api::storage::v1::StorageClass;

use super::parameters::{self, Becomes};
use super::{Plugin, attribute, attributes, inline_volume, topology, with_source};

pub(super) const PLUGIN: Plugin = Plugin {
    name: "kubernetes.io/aws-ebs",
    driver: DRIVER,
    field: "awsElasticBlockStore",
    id_field: "volumeID",
    is_source: |spec| spec.aws_elastic_block_store.is_some(),
    to_csi,
    inline_to_csi,
    from_csi,
    class_to_csi,
};

const DRIVER: &str = "ebs.csi.aws.com";
const ZONE: &str = "topology.ebs.csi.aws.com/zone";
const PARTITION: &str = "partition";

fn csi(source: &AWSElasticBlockStoreVolumeSource) -> Option<CSIPersistentVolumeSource> {
    Some(CSIPersistentVolumeSource {
        driver: DRIVER.to_owned(),
        volume_handle: handle(&source.volume_id)?,
        read_only: source.read_only,
        fs_type: source.fs_type.clone(),
        volume_attributes: attributes([(PARTITION, Some(source.partition.unwrap_or(0).to_string()))]),
        ..CSIPersistentVolumeSource::default()
    })
}

fn to_csi(volume: &PersistentVolume) -> Option<PersistentVolume> {
    let source = csi(volume.spec.as_ref()?.aws_elastic_block_store.as_ref()?)?;
    let mut volume = with_source(volume, |spec| {
        spec.aws_elastic_block_store = None;
        spec.csi = Some(source);
    });
    topology::to_csi(&mut volume, ZONE);
    Some(volume)
}

fn inline_to_csi(volume: &Volume, _namespace: &str) -> Option<PersistentVolume> {
    let source = csi(volume.aws_elastic_block_store.as_ref()?)?;
    let name = format!("{DRIVER}-{}", source.volume_handle);
    Some(inline_volume(name, source, "ReadWriteOnce"))
}

fn from_csi(volume: &PersistentVolume, csi: &CSIPersistentVolumeSource) -> Option<PersistentVolume> {
    let partition = attribute(csi, PARTITION).map(str::parse).transpose().ok()?;
    let source = AWSElasticBlockStoreVolumeSource {
        volume_id: csi.volume_handle.clone(),
        fs_type: csi.fs_type.clone(),
        read_only: csi.read_only,
        partition: partition.filter(|number| *number != 0),
    };
    let mut volume = with_source(volume, |spec| {
        spec.csi = None;
        spec.aws_elastic_block_store = Some(source);
    });
    topology::from_csi(&mut volume, ZONE, Some(region))?;
    Some(volume)
}

fn class_to_csi(class: &StorageClass) -> Option<StorageClass> {
    let mut class = class.clone();
    parameters::map(&mut class, |name| match name {
        // The plugin raised the value to the service's minimum; without this parameter the driver rejects the request.
        "iopspergb" => Becomes::With("allowautoiopspergbincrease", "true"),
        name => parameters::fs_type(name),
    });
    parameters::zones(&mut class, ZONE)?;
    Some(class)
}

/// The service's own ID of a volume: `vol-1` for `aws://ZONE/vol-1` and `aws:///vol-1`.
fn handle(id: &str) -> Option<String> {
    let Some(rest) = id.strip_prefix("aws://") else { return Some(id.to_owned()) };
    let (_zone, path) = rest.split_once('/')?;
    let path = path.split(['?', '#']).next().unwrap_or_default().trim_matches('/');
    (path.starts_with("vol-") && !path.contains('/')).then(|| path.to_owned())
}

fn region(zones: &BTreeSet<String>) -> Option<String> {
    topology::one_region(zones, |zone| {
        let parts: Vec<&str> = zone.split('-').collect();
        match parts.as_slice() {
            // us-west-2a, us-gov-east-1a
            [before @ .., last] if matches!(parts.len(), 3 | 4) && last.len() == 2 => {
                Some(format!("{}-{}", before.join("-"), last.get(..1)?))
            }
            // us-west-2-lax-1a, us-east-1-wl1-bos-wlz-1
            all if matches!(all.len(), 5 | 7) => Some(all[..3].join("-")),
            _ => None,
        }
    })
}
