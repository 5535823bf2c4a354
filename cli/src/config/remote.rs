//! The API server that a client connects to.

use std::net::IpAddr;
use std::path::Path;

use orlop_apimachinery::input_file::{self, MAX_CONFIG};
use orlop_client::client::{Endpoint, read_kubeconfig};

use super::caller::Caller;
use super::error::{ConfigError, wrong};
use crate::args::RemoteArgs;

/// The endpoint that the flags specify.
pub(super) fn remote(args: RemoteArgs, caller: Caller) -> Result<Endpoint, ConfigError> {
    if args.leader_elect {
        return Err(wrong(
            "--leader-elect=true is not possible: run one controller process, with --leader-elect=false",
        ));
    }
    let server = match (args.server, args.master) {
        (Some(server), Some(master)) if server != master => {
            return Err(wrong("--server and --master name different servers: use one of them"));
        }
        (server, master) => server.or(master),
    };
    if args.token.is_some() && args.token_file.is_some() {
        return Err(wrong("use --token or --token-file, not both"));
    }
    let token = match args.token_file {
        Some(path) => Some(read_token(&path)?),
        None => args.token,
    };
    match (args.kubeconfig, server) {
        (Some(path), server) => {
            if token.is_some() || args.certificate_authority.is_some() || args.insecure_skip_tls_verify {
                return Err(wrong(
                    "with --kubeconfig, credentials and CA certificates come from that file: omit --token, \
                     --token-file, --certificate-authority and --insecure-skip-tls-verify",
                ));
            }
            Ok(Endpoint::Kubeconfig { path: Some(path), context: None, server })
        }
        (None, Some(url)) => Ok(Endpoint::Url {
            url,
            token,
            ca_file: args.certificate_authority,
            insecure: args.insecure_skip_tls_verify,
        }),
        (None, None) if caller == Caller::Kubectl => {
            Ok(Endpoint::Kubeconfig { path: None, context: None, server: None })
        }
        (None, None) => {
            Err(wrong("no API server: set --server URL (such as http://127.0.0.1:8080) or --kubeconfig FILE"))
        }
    }
}

pub(super) fn read_token(path: &Path) -> Result<String, ConfigError> {
    let text = input_file::read_text(path, MAX_CONFIG)
        .map_err(|error| wrong(&format!("--token-file {} cannot be read: {error}", path.display())))?;
    match text.trim() {
        "" => Err(wrong(&format!("--token-file {} is empty", path.display()))),
        token => Ok(token.to_owned()),
    }
}

/// The URL of a server.
pub fn url_of(endpoint: &Endpoint) -> Option<String> {
    match endpoint {
        Endpoint::Url { url, .. } => Some(url.clone()),
        Endpoint::Certificate(certificate) => Some(certificate.url.clone()),
        Endpoint::Kubeconfig { server: Some(server), .. } => Some(server.clone()),
        Endpoint::Kubeconfig { path, context, server: None } => {
            let config = read_kubeconfig(path.as_deref()).ok()?;
            let name = context.as_deref().or(config.current_context.as_deref())?;
            let context = config.contexts.iter().find(|found| found.name == name)?.context.as_ref()?;
            let cluster = config.clusters.iter().find(|cluster| cluster.name == context.cluster)?;
            cluster.cluster.as_ref()?.server.clone()
        }
    }
}

/// Host and port of a server.
pub fn host_of(endpoint: &Endpoint) -> Option<(String, u16)> {
    let url = url_of(endpoint)?;
    let url: http::Uri = url.parse().ok()?;
    let default = if url.scheme_str() == Some("http") { 80 } else { 443 };
    Some((url.host()?.to_owned(), url.port_u16().unwrap_or(default)))
}

/// Whether the URL of a server is an address of this machine. The agent then listens on loopback only.
pub(crate) fn is_here(endpoint: &Endpoint) -> bool {
    let host = host_of(endpoint).map(|(host, _)| host).unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_locality_come_from_the_url() {
        for (url, expected, here) in [
            ("http://127.0.0.1:8080", Some(("127.0.0.1", 8080)), true),
            ("https://localhost", Some(("localhost", 443)), true),
            ("https://api.example", Some(("api.example", 443)), false),
            ("https://10.0.0.1", Some(("10.0.0.1", 443)), false),
            ("http://[::1]:80/x", Some(("[::1]", 80)), true),
            ("http://[::ffff:127.0.0.1]:80", Some(("[::ffff:127.0.0.1]", 80)), true),
            ("http://[::ffff:10.0.0.1]:80", Some(("[::ffff:10.0.0.1]", 80)), false),
            ("nonsense url", None, false),
        ] {
            let endpoint = Endpoint::Url { url: url.to_owned(), token: None, ca_file: None, insecure: false };
            let expected = expected.map(|(host, port)| (host.to_owned(), port));
            assert_eq!((host_of(&endpoint), is_here(&endpoint)), (expected, here), "{url}");
        }
    }
}
