//! Reads the iSCSI source of a volume and the secret that it names. Reading the secret is the only effect.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use k8s_openapi::api::core::v1::Secret;
use orlop_client::api::Api;

use crate::host::Host;
use crate::plugin::PluginError;
use crate::plugin::volume_queue::shown;
use crate::volume::{Source, VolumeSpec};

/// The default port of portals.
const PORT: &str = "3260";

/// A disk of an iSCSI target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Disk {
    /// `<portal>:<iqn>:<lun>`, the attach/detach controller's name for it.
    pub(super) name: String,
    /// Addresses with ports; at least one.
    pub(super) portals: Vec<String>,
    pub(super) iqn: String,
    pub(super) lun: i32,
    /// The interface, by default `default`.
    pub(super) iface: String,
    /// The initiator name, when it differs from the node's own.
    pub(super) initiator: Option<String>,
    pub(super) chap_discovery: bool,
    pub(super) chap_session: bool,
    /// The secret.
    secret: Option<SecretName>,
    pub(super) fs_type: Option<String>,
    pub(super) read_only: bool,
}

/// Name of a secret, and its namespace if the volume specifies one.
type SecretName = (String, Option<String>);

/// The data of the secret.
pub(super) type SecretData = BTreeMap<String, String>;

impl Disk {
    pub(super) fn is_in(source: &Source) -> bool {
        match source {
            Source::Inline(volume) => volume.iscsi.is_some(),
            Source::Persistent(volume) => volume.spec.as_ref().is_some_and(|spec| spec.iscsi.is_some()),
        }
    }

    /// Reads the disk of a volume.
    pub(super) fn of(spec: &VolumeSpec) -> Result<Self, PluginError> {
        let missing = || PluginError::plain(format!("{}: it has no iSCSI source", shown(spec)));
        let disk = match &spec.source {
            Source::Inline(volume) => {
                let source = volume.iscsi.as_ref().ok_or_else(missing)?;
                let secret = source.secret_ref.as_ref().map(|secret| (secret.name.clone(), None));
                Self::made(
                    (&source.target_portal, source.portals.as_deref(), &source.iqn, source.lun),
                    (source.iscsi_interface.as_deref(), source.initiator_name.as_deref()),
                    (source.chap_auth_discovery, source.chap_auth_session, secret),
                    (source.fs_type.clone(), source.read_only),
                )
            }
            Source::Persistent(volume) => {
                let source = volume.spec.as_ref().and_then(|spec| spec.iscsi.as_ref()).ok_or_else(missing)?;
                let secret = source.secret_ref.as_ref().and_then(|secret| {
                    let namespace = secret.namespace.clone().filter(|namespace| !namespace.is_empty());
                    Some((secret.name.clone()?, namespace))
                });
                Self::made(
                    (&source.target_portal, source.portals.as_deref(), &source.iqn, source.lun),
                    (source.iscsi_interface.as_deref(), source.initiator_name.as_deref()),
                    (source.chap_auth_discovery, source.chap_auth_session, secret),
                    (source.fs_type.clone(), source.read_only),
                )
            }
        };
        disk.checked().map_err(|why| PluginError::plain(format!("{}: {why}", shown(spec))))
    }

    fn made(
        (portal, portals, iqn, lun): (&str, Option<&[String]>, &str, i32),
        (iface, initiator): (Option<&str>, Option<&str>),
        (chap_discovery, chap_session, secret): (Option<bool>, Option<bool>, Option<SecretName>),
        (fs_type, read_only): (Option<String>, Option<bool>),
    ) -> Self {
        let mut all = vec![with_port(portal)];
        for portal in portals.unwrap_or_default().iter().map(|portal| with_port(portal)) {
            if !all.contains(&portal) {
                all.push(portal);
            }
        }
        let word = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
        Self {
            name: format!("{portal}:{iqn}:{lun}"),
            portals: all,
            iqn: iqn.to_owned(),
            lun,
            iface: word(iface).unwrap_or_else(|| "default".to_owned()),
            initiator: word(initiator),
            chap_discovery: chap_discovery.unwrap_or(false),
            chap_session: chap_session.unwrap_or(false),
            secret: secret.filter(|(name, _)| !name.is_empty()),
            fs_type: fs_type.filter(|fs_type| !fs_type.is_empty()),
            read_only: read_only.unwrap_or(false),
        }
    }

    /// Validates the fields, which become directory names and program arguments.
    fn checked(self) -> Result<Self, String> {
        let portals = self.portals.iter().map(|portal| ("targetPortal", portal));
        let others = [("iqn", &self.iqn), ("iscsiInterface", &self.iface)];
        let words = portals.chain(others).chain(self.initiator.as_ref().map(|word| ("initiatorName", word)));
        for (field, word) in words {
            let is_odd = |letter: char| letter.is_control() || letter.is_whitespace() || letter == '/';
            if word.is_empty() || word.starts_with(['-', '.']) || word.contains(is_odd) {
                return Err(format!("iscsi.{field} {word:?} is none"));
            }
        }
        if self.lun < 0 {
            return Err(format!("iscsi.lun {} is less than 0", self.lun));
        }
        Ok(self)
    }

    /// Its name in /dev/disk/by-path for this portal.
    pub(super) fn by_path(&self, portal: &str) -> String {
        format!("ip-{portal}-iscsi-{}-lun-{}", self.iqn, self.lun)
    }

    /// Reads the names and passwords, when a login needs them.
    pub(super) async fn secret(
        &self,
        host: &Host,
        namespace: Option<&str>,
    ) -> Result<SecretData, PluginError> {
        if !self.chap_discovery && !self.chap_session {
            return Ok(SecretData::new());
        }
        let plain = |why: String| PluginError::plain(format!("iSCSI disk {}: {why}", self.name));
        let Some((name, own)) = &self.secret else {
            return Err(plain("CHAP is enabled, but no secret is specified (iscsi.secretRef)".to_owned()));
        };
        let Some(namespace) = own.as_deref().or(namespace) else {
            return Err(plain(format!("the namespace of its secret {name} is not specified")));
        };
        let secrets: Api<Secret> = Api::namespaced(host.client.clone(), namespace);
        let secret = secrets.get(name).await.map_err(|error| {
            PluginError::plain(format!("couldn't get secret {namespace}/{name} error: {error}")).caused(error)
        })?;
        let mut words = SecretData::new();
        for (key, value) in secret.data.unwrap_or_default() {
            let value = String::from_utf8(value.0)
                .map_err(|_| plain(format!("{key} in secret {namespace}/{name} is no text")))?;
            words.insert(key, value);
        }
        Ok(words)
    }
}

fn with_port(portal: &str) -> String {
    if portal.parse::<Ipv6Addr>().is_ok() {
        return format!("[{portal}]:{PORT}");
    }
    let has_port = if portal.starts_with('[') { !portal.ends_with(']') } else { portal.contains(':') };
    if has_port || portal.is_empty() { portal.to_owned() } else { format!("{portal}:{PORT}") }
}
