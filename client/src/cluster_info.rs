//! The ConfigMap `cluster-info` in `kube-public`: how a machine that is not part of the cluster reaches the server, and verifies it.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::config::Kubeconfig;

use crate::bootstrap_token::CLUSTER_INFO_KEY;

/// The content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterInfo {
    /// The URL of the server.
    pub server: String,
    /// The certificates of its authorities, in PEM.
    pub authority: String,
}

impl ClusterInfo {
    /// Reads the ConfigMap; `None` if it has no cluster, or no authority.
    pub fn read(map: &ConfigMap) -> Option<Self> {
        let config = Kubeconfig::from_yaml(map.data.as_ref()?.get(CLUSTER_INFO_KEY)?).ok()?;
        let cluster = config.clusters.first()?.cluster.as_ref()?;
        let encoded = cluster.certificate_authority_data.clone()?;
        let bytes: ByteString = serde_json::from_value(encoded.into()).ok()?;
        Some(ClusterInfo { server: cluster.server.clone()?, authority: String::from_utf8(bytes.0).ok()? })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn server_and_authority_are_read() {
        let read = |text: &str| {
            let data = BTreeMap::from([(CLUSTER_INFO_KEY.to_owned(), text.to_owned())]);
            ClusterInfo::read(&ConfigMap { data: Some(data), ..ConfigMap::default() })
        };
        let good = "clusters:\n- name: ''\n  cluster:\n    server: https://h\n    certificate-authority-data: Y2E=\n";
        let want = ClusterInfo { server: "https://h".to_owned(), authority: "ca".to_owned() };
        assert_eq!(read(good), Some(want));
        for text in ["", "clusters: []", "[", "clusters:\n- name: ''\n  cluster:\n    server: https://h\n"] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }
}
