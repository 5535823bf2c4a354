//! Where the API server listens, and which combinations of address, TLS and authentication are safe.
//!
//! A client that reaches a server without authentication can do everything. A server on an address that other machines
//! reach therefore has TLS and authentication: with given certificates, or with those of its own authority. A server on loopback that
//! requires credentials creates those of its administrator, too; it also accepts plain HTTP there, for the web page.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::authentication::AuthenticationOptions;
use super::loopback::{CredentialDemand, LoopbackAccess};
use super::tls_files::TlsFiles;
use crate::args::ListenArgs;

/// Where and how the API server listens; validated.
#[derive(Debug)]
pub struct ListenConfig {
    /// Address and port.
    pub address: SocketAddr,
    /// The source of the certificate. `None` means plain HTTP.
    pub tls: Option<TlsSource>,
    /// How clients authenticate.
    pub authentication: AuthenticationOptions,
    /// The clients on loopback that need no credentials. On other addresses, all clients need them.
    pub loopback: LoopbackAccess,
    /// Whether the port accepts both TLS and plain HTTP. Clients have to authenticate over both.
    pub accepts_http: bool,
    /// Whether the process runs a node agent.
    pub has_node: bool,
    /// Whether requests without credentials are permitted on the public paths only, whatever the authorization mode.
    pub only_public_paths: bool,
    /// The file to which the URL is written.
    pub address_file: Option<PathBuf>,
    /// Time limit for the head of a request.
    pub read_header_timeout: Duration,
    /// Time limit for a connection without a request.
    pub idle_timeout: Duration,
    /// Time limit for a client that does not read.
    pub write_timeout: Duration,
    /// Maximum number of connections; 0 means no limit.
    pub max_connections: usize,
    /// How long requests are still accepted after a stop signal.
    pub shutdown_delay: Duration,
    /// How long requests in progress may take after that.
    pub shutdown_grace: Duration,
}

/// The source of the server's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsSource {
    /// Given files.
    Files(TlsFiles),
    /// The server's own authority, whose certificates also identify users.
    OwnAuthority {
        /// Further DNS names and IP addresses of the certificate.
        names: Vec<String>,
    },
}

/// Flags that conflict.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ListenConfigError {
    /// Only one of the certificate and the key is set.
    #[error("--tls-cert-file and --tls-private-key-file must be set together")]
    HalfTls,
    /// Client certificates require TLS.
    #[error(
        "--client-ca-file and --requestheader-client-ca-file require TLS: set --tls-cert-file and --tls-private-key-file \
         as well"
    )]
    ClientCaWithoutTls,
    /// Containers could act as the administrator.
    #[error(
        "--insecure-loopback is not possible with --node: containers and probes of pods would have full access. Omit \
         --insecure-loopback: the server then writes the administrator's kubeconfig to its data directory"
    )]
    InsecureNode,
    /// No flag identifies the administrator.
    #[error(
        "with {reason}, clients on loopback need credentials, but with --tls-cert-file the server creates none. Set --token-auth-file \
         or --client-ca-file, or omit --tls-cert-file: the server then writes a kubeconfig to its data directory"
    )]
    NoUsers {
        /// The flags that require credentials.
        reason: &'static str,
    },
    /// The address is reachable from other machines.
    #[error(
        "--listen {address} can be reached from other machines, so it needs authentication: set --token-auth-file, \
         --client-ca-file, --oidc-issuer-url or --authentication-token-webhook-config-file; or listen on a \
         loopback address, such as 127.0.0.1:{}", address.port()
    )]
    Open {
        /// The address.
        address: SocketAddr,
    },
}

impl ListenConfig {
    /// Checks that the flags fit together.
    pub(super) fn new(
        args: ListenArgs,
        authentication: AuthenticationOptions,
        demand: CredentialDemand,
    ) -> Result<Self, ListenConfigError> {
        let is_loopback = args.listen.ip().to_canonical().is_loopback();
        let loopback = match is_loopback {
            true => demand.access(args.insecure_loopback).map_err(|_| ListenConfigError::InsecureNode)?,
            false => LoopbackAccess::Closed,
        };
        let is_closed = is_loopback && loopback == LoopbackAccess::Closed;
        // kubectl sends tokens over TLS only, so a server with a node needs the authority even if flags configure tokens.
        let needs_admin = is_closed && (demand.has_node || !authentication.identifies_users());
        let has_names = !args.tls_san.is_empty();
        let tls = match (args.tls_cert_file, args.tls_private_key_file) {
            (Some(_), Some(_)) if is_closed && !authentication.identifies_users() => {
                let reason = match demand.has_node {
                    true => "--node",
                    false => "flags of authentication or authorization",
                };
                return Err(ListenConfigError::NoUsers { reason });
            }
            (Some(certificate), Some(key)) => Some(TlsSource::Files(TlsFiles { certificate, key })),
            (None, None) if is_loopback && !has_names && !needs_admin => None,
            (None, None) => Some(TlsSource::OwnAuthority { names: args.tls_san }),
            (Some(_), None) | (None, Some(_)) => return Err(ListenConfigError::HalfTls),
        };
        if authentication.has_client_authorities() && tls.is_none() {
            return Err(ListenConfigError::ClientCaWithoutTls);
        }
        if !is_loopback && !authentication.identifies_users() && matches!(tls, Some(TlsSource::Files(_))) {
            return Err(ListenConfigError::Open { address: args.listen });
        }
        let accepts_http = needs_admin && !has_names && matches!(tls, Some(TlsSource::OwnAuthority { .. }));
        Ok(ListenConfig {
            address: args.listen,
            tls,
            authentication,
            loopback,
            accepts_http,
            has_node: demand.has_node,
            only_public_paths: is_closed && !demand.has_flags,
            address_file: args.address_file,
            read_header_timeout: args.read_header_timeout,
            idle_timeout: args.idle_timeout,
            write_timeout: args.write_timeout,
            max_connections: args.max_connections,
            shutdown_delay: args.shutdown_delay_duration,
            shutdown_grace: args.shutdown_grace,
        })
    }

    /// Whether only this machine reaches the server.
    pub fn is_loopback(&self) -> bool {
        self.address.ip().to_canonical().is_loopback()
    }

    /// Whether clients speak TLS.
    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether clients authenticate.
    pub fn authenticates(&self) -> bool {
        self.has_own_authority()
            || self.authentication.is_required()
            || self.loopback == LoopbackAccess::Closed
    }

    /// Whether the server creates its own certificates.
    pub fn has_own_authority(&self) -> bool {
        matches!(self.tls, Some(TlsSource::OwnAuthority { .. }))
    }

    /// Whether the web page can sign in: on loopback, if the server creates its own certificates.
    pub fn has_page_sign_in(&self) -> bool {
        self.is_loopback() && self.has_own_authority()
    }

    /// Whether the server creates certificates so that other machines can join.
    pub fn serves_other_machines(&self) -> bool {
        self.has_own_authority() && !self.accepts_http
    }

    /// Whether bootstrap tokens are accepted: with them, machines join a server with its own authority.
    pub fn accepts_bootstrap_tokens(&self) -> bool {
        self.authentication.bootstrap_tokens.unwrap_or(self.serves_other_machines())
    }

    /// The given file with the server's certificate and its chain.
    pub fn certificate(&self) -> Option<&Path> {
        match &self.tls {
            Some(TlsSource::Files(files)) => Some(&files.certificate),
            Some(TlsSource::OwnAuthority { .. }) | None => None,
        }
    }

    /// A command line that reaches the server. `kubeconfig` is that of the administrator, if the server created one.
    pub fn first_command(&self, url: &str, kubeconfig: Option<&Path>) -> String {
        if let Some(kubeconfig) = kubeconfig {
            return format!("kubectl --kubeconfig {} get ns", kubeconfig.display());
        }
        if self.tls.is_none() && self.authentication.token_auth_file.is_some() {
            // kubectl sends no token without TLS.
            return format!("curl -H \"Authorization: Bearer TOKEN\" {url}/api/v1/namespaces");
        }
        let mut line = format!("kubectl --server {url}");
        if let Some(certificate) = self.certificate() {
            line.push_str(&format!(" --certificate-authority {}", certificate.display()));
        }
        if self.authentication.token_auth_file.is_some() {
            line.push_str(" --token TOKEN");
        } else if self.authentication.client_ca_file.is_some() {
            line.push_str(" --client-certificate FILE --client-key FILE");
        }
        line.push_str(" get ns");
        line
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};

    fn endpoint(flags: &[&str]) -> Result<ListenConfig, ListenConfigError> {
        endpoint_with(flags, false)
    }

    fn endpoint_with(flags: &[&str], has_node: bool) -> Result<ListenConfig, ListenConfigError> {
        let args = ["orlop", "apiserver"].iter().chain(flags);
        let Command::Apiserver(args) = Cli::try_parse_from(args).unwrap().command else {
            panic!("no server")
        };
        let demand = CredentialDemand::of(&args.authentication, &args.authorization, has_node);
        ListenConfig::new(args.listen, AuthenticationOptions::new(args.authentication).unwrap(), demand)
    }

    #[test]
    fn only_loopback_has_no_tls_and_no_authentication() {
        let tls = ["--tls-cert-file", "c", "--tls-private-key-file", "k"];
        let token = ["--token-auth-file", "t"];
        let ca = ["--client-ca-file", "a"];
        // Address, further flags, the source of the certificate; `None` is refused.
        type Case<'a> = (&'a str, &'a [&'a [&'a str]], Option<&'a str>);
        let cases: [Case<'_>; 16] = [
            ("127.0.0.1:0", &[], Some("http")),
            ("127.9.9.9:0", &[], Some("http")),
            ("[::1]:0", &[], Some("http")),
            ("[::ffff:127.0.0.1]:0", &[], Some("http")),
            ("localhost:0", &[], Some("http")),
            ("127.0.0.1:0", &[&token], Some("http")),
            ("127.0.0.1:0", &[&["--tls-san", "a"]], Some("own")),
            ("127.0.0.1:0", &[&tls], Some("files")),
            ("0.0.0.0:0", &[], Some("own")),
            ("[::]:0", &[], Some("own")),
            ("192.168.1.1:0", &[&token], Some("own")),
            ("192.168.1.1:0", &[&ca], Some("own")),
            ("192.168.1.1:0", &[&tls], None),
            ("192.168.1.1:0", &[&tls, &token], Some("files")),
            ("192.168.1.1:0", &[&tls, &ca], Some("files")),
            ("[::ffff:192.168.1.1]:0", &[&tls], None),
        ];
        for (address, flags, allowed) in cases {
            let mut args = vec!["--listen", address];
            args.extend(flags.iter().flat_map(|flags| flags.iter()));
            let got = endpoint(&args).ok().map(|config| match config.tls {
                None => "http",
                Some(TlsSource::Files(_)) => "files",
                Some(TlsSource::OwnAuthority { .. }) => "own",
            });
            assert_eq!(got, allowed, "{args:?}");
        }
    }

    #[test]
    fn server_on_loopback_has_credentials_for_its_administrator() {
        const TLS: [&str; 2] = ["--tls-cert-file=c", "--tls-private-key-file=k"];
        const TOKENS: &str = "--token-auth-file=t";
        // Flags, with a node, and: clients authenticate, the server's authority, plain HTTP, only public paths.
        type Want = (bool, bool, bool, bool);
        let cases: [(&str, &[&str], bool, Option<Want>); 15] = [
            ("1 no flags", &[], false, Some((false, false, false, false))),
            ("2 a mode", &["--authorization-mode=RBAC"], false, Some((true, true, true, false))),
            ("3 anonymous", &["--anonymous-auth"], false, Some((true, true, true, false))),
            ("4 tokens", &[TOKENS], false, Some((true, false, false, false))),
            ("5 tokens and TLS", &[TOKENS, TLS[0], TLS[1]], false, Some((true, false, false, false))),
            ("6 names", &["--tls-san=a"], false, Some((true, true, false, false))),
            (
                "7 a mode and names",
                &["--tls-san=a", "--authorization-mode=RBAC"],
                false,
                Some((true, true, false, false)),
            ),
            ("8 a mode and TLS", &["--authorization-mode=RBAC", TLS[0], TLS[1]], false, None),
            ("9 a node", &[], true, Some((true, true, true, true))),
            ("10 a node and a mode", &["--authorization-mode=RBAC"], true, Some((true, true, true, false))),
            ("11 a node and tokens", &[TOKENS], true, Some((true, true, true, false))),
            ("12 a node and TLS", &TLS, true, None),
            (
                "13 insecure, a mode",
                &["--insecure-loopback", "--authorization-mode=RBAC"],
                false,
                Some((false, false, false, false)),
            ),
            ("14 insecure, a node", &["--insecure-loopback"], true, None),
            ("15 another address, a node", &["--listen=0.0.0.0:0"], true, Some((true, true, false, false))),
        ];
        for (case, flags, has_node, want) in cases {
            let got = endpoint_with(flags, has_node).ok().map(|config| {
                (
                    config.authenticates(),
                    config.has_own_authority(),
                    config.accepts_http,
                    config.only_public_paths,
                )
            });
            assert_eq!(got, want, "{case}");
        }
        let config = endpoint(&["--authorization-mode=RBAC"]).unwrap();
        assert!(!config.accepts_bootstrap_tokens(), "no machine joins over loopback");
    }

    #[test]
    fn certificate_without_key_is_refused() {
        assert_eq!(endpoint(&["--tls-cert-file", "c"]).unwrap_err(), ListenConfigError::HalfTls);
        assert_eq!(endpoint(&["--tls-private-key-file", "k"]).unwrap_err(), ListenConfigError::HalfTls);
        assert_eq!(endpoint(&["--client-ca-file", "a"]).unwrap_err(), ListenConfigError::ClientCaWithoutTls);
    }

    #[test]
    fn first_command_has_the_required_flags() {
        let plain = endpoint(&[]).unwrap();
        assert_eq!(
            plain.first_command("http://127.0.0.1:8080", None),
            "kubectl --server http://127.0.0.1:8080 get ns"
        );
        let flags = ["--tls-cert-file", "c", "--tls-private-key-file", "k", "--token-auth-file", "t"];
        let line = endpoint(&flags).unwrap().first_command("https://a:1", None);
        assert_eq!(line, "kubectl --server https://a:1 --certificate-authority c --token TOKEN get ns");
        let line =
            endpoint(&["--token-auth-file", "t"]).unwrap().first_command("http://127.0.0.1:8080", None);
        assert_eq!(line, "curl -H \"Authorization: Bearer TOKEN\" http://127.0.0.1:8080/api/v1/namespaces");
        let own = endpoint(&["--listen", "0.0.0.0:0"]).unwrap();
        let line = own.first_command("https://a:1", Some(Path::new("/d/admin.kubeconfig")));
        assert_eq!(line, "kubectl --kubeconfig /d/admin.kubeconfig get ns");
    }
}
