//! `orlop kubeconfig create`: a kubeconfig with a client certificate for a user.
//!
//! The certificate comes from the API: the command creates a certificate request, approves it with the rights of the caller, and waits for
//! the signer. So the server authorizes and records each certificate, the command works on any machine, and the private key never
//! leaves it. The server rejects the group `system:masters`: a certificate cannot be revoked.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition, CertificateSigningRequestStatus,
};
use kube::Client;
use kube::api::PostParams;
use orlop_apimachinery::input_file::{self, MAX_CONFIG};
use orlop_client::api::Api;
use orlop_client::certificate_request::{CertificateOrder, OrderError, certificate, submit};
use orlop_client::client::{self, ConnectError, Endpoint, message_of, trusted_by};
use orlop_pki::authority::SignedKey;
use orlop_pki::certificate::facts;
use orlop_pki::kubeconfig::{Kubeconfig as KubeconfigText, KubeconfigUser};
use orlop_pki::private_file;
use orlop_pki::private_key::{KeyError, PrivateKey};
use orlop_pki::request::{AlternativeNames, RequestError, create};
use orlop_pki::signer::Signer;

use crate::config::url_of;
use crate::local_admin;
use crate::output_file;

/// How long the command waits for the signer.
const PATIENCE: Duration = Duration::from_secs(60);
/// The minimum lifetime of a certificate request.
const SHORTEST: Duration = Duration::from_secs(600);

/// The command and its server.
pub(crate) struct KubeconfigOrder {
    pub(crate) user: String,
    pub(crate) groups: Vec<String>,
    pub(crate) lifetime: Duration,
    pub(crate) output: Option<PathBuf>,
    pub(crate) server: Endpoint,
}

/// Why there is no kubeconfig.
#[derive(Debug, thiserror::Error)]
enum CommandError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("the user or a group cannot be in a certificate: {0}")]
    Request(#[from] RequestError),
    #[error(transparent)]
    Order(#[from] OrderError),
    #[error("cannot approve certificate request {name}: {}", message_of(source))]
    Approve { name: String, source: kube::Error },
    #[error(
        "client certificates need TLS: set --server https://HOST:PORT, or --kubeconfig with such a server"
    )]
    NoTls,
    #[error(
        "the authority of the server is unknown: set --certificate-authority FILE, or use a kubeconfig that contains it"
    )]
    NoAuthority,
    #[error("{} cannot be read: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} cannot be written: {source}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    #[error("--validity-period must be at least 10m")]
    Short,
    #[error("cannot start threads: {0}")]
    Threads(#[source] std::io::Error),
}

/// Runs the command and returns the exit code.
pub(crate) fn run(order: KubeconfigOrder) -> ExitCode {
    // The built-in filter is always valid.
    let _ = crate::logging::start_for_tool();
    let all = || -> Result<String, CommandError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let text = runtime.map_err(CommandError::Threads)?.block_on(text(&order))?;
        let Some(path) = &order.output else { return Ok(text) };
        private_file::replace(path, &text)
            .map_err(|source| CommandError::Write { path: path.clone(), source })?;
        Ok(format!("{} written\n", path.display()))
    };
    match all() {
        Ok(text) => {
            // A reader that closed the pipe needs no more output.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Checked first: a certificate that cannot be used should not exist.
fn check(lifetime: Duration, output: Option<&Path>) -> Result<(), CommandError> {
    if lifetime < SHORTEST {
        return Err(CommandError::Short);
    }
    let Some(path) = output else { return Ok(()) };
    output_file::check_replaceable(path)
        .map_err(|source| CommandError::Write { path: path.to_owned(), source })
}

async fn text(order: &KubeconfigOrder) -> Result<String, CommandError> {
    check(order.lifetime, order.output.as_deref())?;
    let server = local_admin::resolve(order.server.clone()).await;
    let url = url_of(&server).filter(|url| url.starts_with("https://")).ok_or(CommandError::NoTls)?;
    let authority = authority_of(&server)?.ok_or(CommandError::NoAuthority)?;
    let (key, key_text) = PrivateKey::generate()?;
    let request = create(&key, &order.user, &order.groups, &AlternativeNames::default())?;
    let client = client::connect(server).await?;
    let submitted = submit(
        &client,
        CertificateOrder {
            name_prefix: "kubeconfig-".to_owned(),
            request,
            signer: Signer::ApiserverClient.name(),
            usages: &["digital signature", "client auth"],
            lifetime: Some(order.lifetime),
        },
    )
    .await?;
    let approved = approve(&client, submitted).await?;
    let certificate = certificate(&client, &approved, PATIENCE).await?;
    warn_if_short(&certificate, order.lifetime);
    let credentials = SignedKey { certificate, key: key_text };
    let user = KubeconfigUser::Inline { name: &order.user, credentials: &credentials };
    Ok(KubeconfigText { server: &url, authority: Some(&authority), user }.to_string())
}

fn authority_of(server: &Endpoint) -> Result<Option<String>, CommandError> {
    match server {
        Endpoint::Url { ca_file: Some(path), .. } => input_file::read_text(path, MAX_CONFIG)
            .map(Some)
            .map_err(|source| CommandError::Read { path: path.clone(), source }),
        Endpoint::Url { ca_file: None, .. } => Ok(None),
        Endpoint::Kubeconfig { path, context, .. } => Ok(trusted_by(path.as_deref(), context.as_deref())),
        Endpoint::Certificate(certificate) => Ok(Some(certificate.authority.clone())),
    }
}

/// Approves the request with the rights of the caller. The write applies only to the version that was created.
async fn approve(
    client: &Client,
    mut request: CertificateSigningRequest,
) -> Result<CertificateSigningRequest, CommandError> {
    let name = request.metadata.name.clone().unwrap_or_default();
    let status = request.status.get_or_insert_with(CertificateSigningRequestStatus::default);
    status.conditions.get_or_insert_default().push(CertificateSigningRequestCondition {
        type_: "Approved".to_owned(),
        status: "True".to_owned(),
        reason: Some("OrlopKubeconfigCreate".to_owned()),
        message: Some("Approved by the user that ran orlop kubeconfig create.".to_owned()),
        ..CertificateSigningRequestCondition::default()
    });
    let api: Api<CertificateSigningRequest> = Api::all(client.clone());
    let approved = api.replace_subresource("approval", &name, &PostParams::default(), &request).await;
    approved.map_err(|source| CommandError::Approve { name, source })
}

fn warn_if_short(certificate: &str, asked: Duration) {
    let Some(facts) = facts(certificate.as_bytes()) else { return };
    let asked = SignedDuration::try_from(asked).unwrap_or(SignedDuration::MAX);
    // A signer may subtract the time by which clocks differ.
    let wanted = Timestamp::now().checked_add(asked - SignedDuration::from_mins(10));
    if wanted.is_ok_and(|wanted| facts.not_after < wanted) {
        eprintln!(
            "warning: the server has shortened the lifetime of the certificate, which now ends at {}",
            facts.not_after
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_kubeconfigs_are_refused_before_a_certificate_is_requested() {
        let hour = Duration::from_secs(3600);
        for (case, lifetime, output, expected) in [
            ("1 stdout", hour, None, None),
            ("2 new file", hour, Some("/nowhere/new"), None),
            ("3 too short", Duration::from_secs(599), None, Some("--validity-period")),
            ("4 device", hour, Some("/dev/null"), Some("a character device")),
        ] {
            let refused = check(lifetime, output.map(Path::new)).err().map(|error| error.to_string());
            assert_eq!(refused.is_some(), expected.is_some(), "{case}: {refused:?}");
            assert!(refused.unwrap_or_default().contains(expected.unwrap_or_default()), "{case}");
        }
    }
}
