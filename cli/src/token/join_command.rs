//! The command that joins a node.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use orlop_apimachinery::input_file::{self, MAX_CONFIG};
use orlop_client::api::Api;
use orlop_client::bootstrap_token::{BootstrapToken, CLUSTER_INFO, PUBLIC_NAMESPACE};
use orlop_client::client::{Endpoint, trusted_by};
use orlop_client::cluster_info::ClusterInfo;
use orlop_pki::certificate::public_key_digest;
use orlop_pki::pem;

use super::error::CommandError;
use crate::config::host_of;

/// The command, with the address and the authority that the server publishes, or else those of this connection.
pub(super) async fn of(
    client: &Client,
    server: &Endpoint,
    token: &BootstrapToken,
) -> Result<String, CommandError> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), PUBLIC_NAMESPACE);
    let map = api.get_opt(CLUSTER_INFO).await;
    let map =
        map.map_err(CommandError::request(format!("read ConfigMap {PUBLIC_NAMESPACE}/{CLUSTER_INFO}")))?;
    let info = map.as_ref().and_then(ClusterInfo::read).or_else(|| of_connection(server));
    let info = info.ok_or(CommandError::NoAuthority)?;
    text(&info, token).ok_or(CommandError::NoAuthority)
}

fn of_connection(server: &Endpoint) -> Option<ClusterInfo> {
    let (host, port) = host_of(server)?;
    let authority = match server {
        Endpoint::Url { ca_file, .. } => input_file::read_text(ca_file.as_ref()?, MAX_CONFIG).ok()?,
        Endpoint::Kubeconfig { path, context, .. } => trusted_by(path.as_deref(), context.as_deref())?,
        Endpoint::Certificate(certificate) => certificate.authority.clone(),
    };
    Some(ClusterInfo { server: format!("https://{host}:{port}"), authority })
}

/// With a digest for each authority. Pure.
fn text(info: &ClusterInfo, token: &BootstrapToken) -> Option<String> {
    let digests: Vec<String> = pem::blocks(info.authority.as_bytes())
        .filter(|block| block.label == pem::CERTIFICATE)
        .filter_map(|block| public_key_digest(&block.bytes))
        .collect();
    let hashes: String = digests.iter().map(|digest| format!(" --ca-hash {digest}")).collect();
    (!digests.is_empty())
        .then(|| format!("orlop node join {} --token {}{hashes}", info.server, token.credential()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use jiff::Timestamp;
    use orlop_pki::authority::Authority;

    use super::*;

    #[test]
    fn command_pins_the_authority() {
        let token = BootstrapToken::new("abcdef", "0123456789abcdef").unwrap();
        let pair = Authority::create(Timestamp::UNIX_EPOCH).unwrap();
        let digest = Authority::read(&pair).unwrap().digest().unwrap();
        let info = |authority: String| ClusterInfo { server: "https://10.0.0.1:6443".to_owned(), authority };
        assert_eq!(
            text(&info(pair.certificate.clone()), &token),
            Some(format!(
                "orlop node join https://10.0.0.1:6443 --token abcdef.0123456789abcdef --ca-hash {digest}"
            ))
        );
        assert_eq!(text(&info(String::new()), &token), None);
    }
}
