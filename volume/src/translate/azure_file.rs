//! `azureFile` and the driver `file.csi.azure.com`.

use k8s_openapi::api::core::v1::{
    AzureFilePersistentVolumeSource, CSIPersistentVolumeSource, PersistentVolume, SecretReference, Volume,
};
use k8s_openapi::api::storage::v1::StorageClass;

use super::{Plugin, attributes, inline_volume, with_source};

pub(super) const PLUGIN: Plugin = Plugin {
    name: "kubernetes.io/azure-file",
    driver: DRIVER,
    field: "azureFile",
    id_field: "shareName",
    is_source: |spec| spec.azure_file.is_some(),
    to_csi,
    inline_to_csi,
    from_csi,
    class_to_csi,
};

const DRIVER: &str = "file.csi.azure.com";
const SHARE: &str = "sharename";
const SECRET: &str = "secretname";
const SECRET_NAMESPACE: &str = "secretnamespace";
const RESOURCE_GROUP: &str = "kubernetes.io/azure-file-resource-group";
const DEFAULT_NAMESPACE: &str = "default";

/// The fields common to both forms of the source.
struct Share<'s> {
    name: &'s str,
    secret: &'s str,
    read_only: Option<bool>,
}

/// The CSI source with the handle `group#account#share#volume#namespace`; the volume and the namespace
/// distinguish the shares of different claims.
fn csi(share: &Share<'_>, group: &str, volume: &str, namespace: &str) -> CSIPersistentVolumeSource {
    let account = account(share.secret).unwrap_or(share.secret);
    CSIPersistentVolumeSource {
        driver: DRIVER.to_owned(),
        volume_handle: format!("{group}#{account}#{}#{volume}#{namespace}", share.name),
        read_only: share.read_only,
        volume_attributes: attributes([(SHARE, Some(share.name.to_owned()))]),
        node_stage_secret_ref: Some(SecretReference {
            name: Some(share.secret.to_owned()),
            namespace: Some(namespace.to_owned()),
        }),
        ..CSIPersistentVolumeSource::default()
    }
}

/// The account name in `azure-storage-account-ACCOUNT-secret`.
fn account(secret: &str) -> Option<&str> {
    let (_, rest) = secret.split_once("azure-storage-account-")?;
    let (account, _) = rest.rsplit_once("-secret")?;
    Some(account).filter(|account| !account.is_empty())
}

/// The secret is in the namespace that the source specifies, or else in the claim's; a volume with neither has no
/// CSI form.
fn to_csi(volume: &PersistentVolume) -> Option<PersistentVolume> {
    let spec = volume.spec.as_ref()?;
    let source = spec.azure_file.as_ref()?;
    let of_claim = || spec.claim_ref.as_ref()?.namespace.clone();
    let namespace = source.secret_namespace.clone().or_else(of_claim).filter(|name| !name.is_empty())?;
    let annotations = volume.metadata.annotations.as_ref();
    let group = annotations.and_then(|all| all.get(RESOURCE_GROUP)).map_or("", String::as_str);
    let share = Share { name: &source.share_name, secret: &source.secret_name, read_only: source.read_only };
    let name = volume.metadata.name.as_deref().unwrap_or_default();
    let source = csi(&share, group, name, &namespace);
    Some(with_source(volume, |spec| {
        spec.azure_file = None;
        spec.csi = Some(source);
    }))
}

fn inline_to_csi(volume: &Volume, namespace: &str) -> Option<PersistentVolume> {
    let source = volume.azure_file.as_ref()?;
    let namespace = if namespace.is_empty() { DEFAULT_NAMESPACE } else { namespace };
    let share = Share { name: &source.share_name, secret: &source.secret_name, read_only: source.read_only };
    let source = csi(&share, "", &volume.name, namespace);
    Some(inline_volume(source.volume_handle.clone(), source, "ReadWriteMany"))
}

fn from_csi(volume: &PersistentVolume, csi: &CSIPersistentVolumeSource) -> Option<PersistentVolume> {
    // The driver writes attribute names in upper or lower case.
    let attribute = |name: &str| {
        let mut all = csi.volume_attributes.iter().flatten();
        all.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone())
    };
    let staged = csi.node_stage_secret_ref.as_ref();
    let staged = staged.filter(|secret| secret.name.as_ref().is_some_and(|name| !name.is_empty()));
    let mut share_name = attribute(SHARE).unwrap_or_default();
    let mut secret_name =
        staged.and_then(|secret| secret.name.clone()).or_else(|| attribute(SECRET)).unwrap_or_default();
    let namespace = match staged {
        Some(secret) => secret.namespace.clone().unwrap_or_default(),
        None => attribute(SECRET_NAMESPACE).unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned()),
    };
    let mut group = String::new();
    if share_name.is_empty() || secret_name.is_empty() {
        let parts: Vec<&str> = csi.volume_handle.split('#').collect();
        let [of_group, account, share, ..] = parts.as_slice() else { return None };
        (*of_group).clone_into(&mut group);
        if share_name.is_empty() {
            (*share).clone_into(&mut share_name);
        }
        if secret_name.is_empty() {
            secret_name = format!("azure-storage-account-{account}-secret");
        }
    }
    let source = AzureFilePersistentVolumeSource {
        read_only: csi.read_only,
        secret_name,
        secret_namespace: Some(namespace),
        share_name,
    };
    let mut volume = with_source(volume, |spec| {
        spec.csi = None;
        spec.azure_file = Some(source);
    });
    if !group.is_empty() {
        volume.metadata.annotations.get_or_insert_default().insert(RESOURCE_GROUP.to_owned(), group);
    }
    Some(volume)
}

/// The driver accepts the plugin's parameters.
fn class_to_csi(class: &StorageClass) -> Option<StorageClass> {
    Some(class.clone())
}
