//! Collects the content of a volume: every kind of volume here is handled as a projected one (upstream:
//! pkg/volume/projected), most with one source. The decisions are pure; [`collect`] reads the objects that they
//! need.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ConfigMapProjection, DownwardAPIProjection, Pod, SecretProjection, Volume, VolumeProjection,
};

use super::object_watches::{Reader, VolumeUse};
use super::payload::{Files, SharedContent, aggregate, put};
use super::tokens::TokenKey;
use super::{config_map, downward, secret};
use crate::host::Host;
use crate::objects::Objects;

/// Default mode of files.
const MODE: u32 = 0o644;
/// Mode of tokens when the containers run as different users: the pod's group gets additional rights.
const TOKEN_MODE: u32 = 0o600;

/// The kinds of volumes with content from the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentKind {
    ConfigMap,
    Secret,
    DownwardApi,
    Projected,
}

impl ContentKind {
    pub(super) const ALL: [Self; 4] = [Self::ConfigMap, Self::Secret, Self::DownwardApi, Self::Projected];

    /// The name of the plugin, as upstream.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ConfigMap => "kubernetes.io/configmap",
            Self::Secret => "kubernetes.io/secret",
            Self::DownwardApi => "kubernetes.io/downward-api",
            Self::Projected => "kubernetes.io/projected",
        }
    }

    /// Whether the content must not be written to a disk.
    pub(super) fn is_in_memory(self) -> bool {
        match self {
            Self::Secret | Self::Projected => true,
            Self::ConfigMap | Self::DownwardApi => false,
        }
    }

    pub(super) fn is_of(self, volume: &Volume) -> bool {
        match self {
            Self::ConfigMap => volume.config_map.is_some(),
            Self::Secret => volume.secret.is_some(),
            Self::DownwardApi => volume.downward_api.is_some(),
            Self::Projected => volume.projected.is_some(),
        }
    }

    /// The sources of a volume of this kind, and the mode of its files.
    pub(super) fn sources(self, volume: &Volume) -> Option<(Vec<VolumeProjection>, u32)> {
        let (sources, mode) = match self {
            Self::ConfigMap => {
                let source = volume.config_map.as_ref()?;
                let (name, items) = (source.name.clone(), source.items.clone());
                let config_map = Some(ConfigMapProjection { name, items, optional: source.optional });
                (vec![VolumeProjection { config_map, ..VolumeProjection::default() }], source.default_mode)
            }
            Self::Secret => {
                let source = volume.secret.as_ref()?;
                let (name, items) = (source.secret_name.clone().unwrap_or_default(), source.items.clone());
                let secret = Some(SecretProjection { name, items, optional: source.optional });
                (vec![VolumeProjection { secret, ..VolumeProjection::default() }], source.default_mode)
            }
            Self::DownwardApi => {
                let source = volume.downward_api.as_ref()?;
                let downward_api = Some(DownwardAPIProjection { items: source.items.clone() });
                (vec![VolumeProjection { downward_api, ..VolumeProjection::default() }], source.default_mode)
            }
            Self::Projected => {
                let source = volume.projected.as_ref()?;
                (source.sources.clone().unwrap_or_default(), source.default_mode)
            }
        };
        Some((sources, mode.and_then(|mode| u32::try_from(mode).ok()).unwrap_or(MODE)))
    }
}

/// The common user of all containers of a pod, if the pod specifies one (upstream: FsUserFrom).
pub(super) fn user_of(pod: &Pod) -> Option<u32> {
    let spec = pod.spec.as_ref()?;
    let of_pod = spec.security_context.as_ref().and_then(|context| context.run_as_user);
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let mut users = containers.map(|container| {
        container.security_context.as_ref().and_then(|context| context.run_as_user).or(of_pod)
    });
    let first = users.next()??;
    users.all(|user| user == Some(first)).then_some(())?;
    u32::try_from(first).ok()
}

/// `fsGroup` of a pod.
pub(super) fn group_of(pod: &Pod) -> Option<u32> {
    let group = pod.spec.as_ref()?.security_context.as_ref()?.fs_group?;
    u32::try_from(group).ok()
}

/// The content of a volume, and the time of the next set-up, when a token must be renewed.
#[derive(Debug)]
pub(super) struct Collected {
    pub(super) files: Files,
    pub(super) renewal: Option<Timestamp>,
}

/// Reads all objects of a volume. They are watched from then on, also when this fails.
///
/// # Errors
/// Some objects are missing, or the volume is too large; the text lists all errors, and contains none of the
/// content.
pub(super) async fn collect(
    host: &Host,
    reader: &Reader<'_>,
    used: &mut VolumeUse,
    pod: &Pod,
    sources: &[VolumeProjection],
    mode: u32,
) -> Result<Collected, String> {
    let mut collected = Collected { files: Files::default(), renewal: None };
    let mut wrong = Vec::new();
    for source in sources {
        if let Err(error) = collect_one(host, reader, used, pod, source, mode, &mut collected).await {
            wrong.push(error);
        }
    }
    aggregate(wrong).map(|()| collected)
}

async fn collect_one(
    host: &Host,
    reader: &Reader<'_>,
    used: &mut VolumeUse,
    pod: &Pod,
    source: &VolumeProjection,
    mode: u32,
    collected: &mut Collected,
) -> Result<(), String> {
    let into = &mut collected.files;
    if let Some(asked) = &source.secret {
        let optional = asked.optional == Some(true);
        return match reader.secret(used, &asked.name).await? {
            Some(object) => secret::files(into, &object, asked.items.as_deref(), mode, optional),
            None if optional => Ok(()),
            None => Err(format!("secret \"{}\" not found", asked.name)),
        };
    }
    if let Some(asked) = &source.config_map {
        let optional = asked.optional == Some(true);
        return match reader.config_map(used, &asked.name).await? {
            Some(object) => config_map::files(into, &object, asked.items.as_deref(), mode, optional),
            None if optional => Ok(()),
            None => Err(format!("configmap \"{}\" not found", asked.name)),
        };
    }
    if let Some(asked) = &source.downward_api {
        let items = asked.items.as_deref().unwrap_or_default();
        let node = match downward::needs_node(items) {
            true => {
                let node = Objects::new(host.client.clone()).node(&host.config.name).await;
                Some(node.map_err(|error| format!("the node cannot be read for its allocatable: {error}"))?)
            }
            false => None,
        };
        let allocatable = node.as_ref().and_then(|node| node.status.as_ref()?.allocatable.as_ref());
        return downward::files(into, items, pod, allocatable, mode);
    }
    if let Some(asked) = &source.service_account_token {
        let token = reader.token(used, pod, &TokenKey::of(asked), host.clock.now()).await?;
        let (user, group) = (user_of(pod), group_of(pod));
        let mode = if user.is_some() || group.is_some() { TOKEN_MODE } else { mode };
        let renewal = token.renewal();
        collected.renewal = Some(collected.renewal.map_or(renewal, |other| other.min(renewal)));
        return put(into, &asked.path, SharedContent { bytes: token.text.into(), mode, uid: user });
    }
    if source.cluster_trust_bundle.is_some() {
        return Err("clusterTrustBundle sources are not served by this node; mount a ConfigMap with the \
                    certificates instead"
            .to_owned());
    }
    if source.pod_certificate.is_some() {
        return Err(
            "podCertificate sources are not served by this node; mount a Secret with the certificate \
                    instead"
                .to_owned(),
        );
    }
    Err("a source of the volume is of no kind that this node knows".to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn each_kind_of_volume_has_its_sources() {
        for (kind, volume, want, mode) in [
            (
                ContentKind::ConfigMap,
                json!({"configMap": {"name": "m", "optional": true}}),
                json!([{"configMap": {"name": "m", "optional": true}}]),
                0o644,
            ),
            (
                ContentKind::Secret,
                json!({"secret": {"secretName": "s", "defaultMode": 0o400}}),
                json!([{"secret": {"name": "s"}}]),
                0o400,
            ),
            (
                ContentKind::DownwardApi,
                json!({"downwardAPI": {"items": []}}),
                json!([{"downwardAPI": {"items": []}}]),
                0o644,
            ),
            (
                ContentKind::Projected,
                json!({"projected": {"sources": [{"secret": {"name": "s"}}], "defaultMode": 0}}),
                json!([{"secret": {"name": "s"}}]),
                0,
            ),
            (ContentKind::Projected, json!({"projected": {}}), json!([]), 0o644),
        ] {
            let mut volume = volume;
            volume["name"] = json!("v");
            let volume: Volume = serde_json::from_value(volume).unwrap();
            for other in ContentKind::ALL {
                assert_eq!(other.is_of(&volume), other == kind, "{other:?}");
                assert_eq!(other.sources(&volume).is_some(), other == kind, "{other:?}");
            }
            let (sources, found) = kind.sources(&volume).unwrap();
            assert_eq!((serde_json::to_value(sources).unwrap(), found), (want, mode), "{kind:?}");
        }
    }

    #[test]
    fn common_user_of_all_containers_is_found() {
        let pod = |of_pod: Value, containers: Value| -> Pod {
            serde_json::from_value(
                json!({"metadata": {}, "spec": {"securityContext": of_pod, "containers": containers}}),
            )
            .unwrap()
        };
        let of = |user: Value| json!({"name": "c", "securityContext": {"runAsUser": user}});
        for (of_pod, containers, want) in [
            (json!({}), json!([of(json!(5))]), Some(5)),
            (json!({"runAsUser": 7}), json!([of(Value::Null), of(json!(7))]), Some(7)),
            (json!({"runAsUser": 7}), json!([of(Value::Null), of(json!(8))]), None),
            (json!({}), json!([of(json!(5)), of(Value::Null)]), None),
            (json!({"runAsUser": 0}), json!([of(Value::Null)]), Some(0)),
            (json!({}), json!([]), None),
        ] {
            assert_eq!(user_of(&pod(of_pod.clone(), containers.clone())), want, "{of_pod} {containers}");
        }
        assert_eq!(group_of(&pod(json!({"fsGroup": 9}), json!([]))), Some(9));
        assert_eq!(group_of(&pod(json!({}), json!([]))), None);
    }
}
