//! Requests the client certificate of a node.

use std::time::Duration;

use kube::Client;
use orlop_client::certificate_request::{CertificateOrder, certificate, submit};
use orlop_pki::private_key::PrivateKey;
use orlop_pki::request::{AlternativeNames, create};
use orlop_pki::signer::{NODE_PREFIX, NODES, Signer};

use super::error::JoinError;

/// How long a node waits for its certificate. The kubelet's time.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// The user of a node.
pub(super) fn user_of(name: &str) -> String {
    format!("{NODE_PREFIX}{name}")
}

/// A new key and its certificate, in one PEM text.
pub(super) async fn order(client: &Client, name: &str) -> Result<String, JoinError> {
    let (key, key_text) = PrivateKey::generate()?;
    let request = create(&key, &user_of(name), &[NODES.to_owned()], &AlternativeNames::default())?;
    let order = CertificateOrder {
        name_prefix: "csr-".to_owned(),
        request,
        signer: Signer::ApiserverClientKubelet.name(),
        usages: &["digital signature", "client auth"],
        lifetime: None,
    };
    let submitted = submit(client, order).await?;
    let request = submitted.metadata.name.as_deref().unwrap_or_default();
    tracing::info!("node {name} waits for the approval of its certificate request {request}");
    let certificate = certificate(client, &submitted, PATIENCE).await?;
    Ok(format!("{}\n{key_text}", certificate.trim_end()))
}
