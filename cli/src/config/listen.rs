//! Where the API server listens, and which combinations of address, TLS and authentication are safe.
//!
//! A client that reaches a server without authentication can do everything. Without TLS and authentication, only
//! loopback addresses are therefore allowed.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::args::ListenArgs;

/// Where and how the API server listens; validated.
#[derive(Debug)]
pub struct ListenConfig {
    /// Address and port.
    pub address: SocketAddr,
    /// The certificate and its key. `None` means plain HTTP.
    pub tls: Option<TlsFiles>,
    /// The authorities of client certificates.
    pub client_ca_file: Option<PathBuf>,
    /// The file of bearer tokens.
    pub token_auth_file: Option<PathBuf>,
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

/// The server's certificate and its key.
#[derive(Debug)]
pub struct TlsFiles {
    /// The certificate with its chain (PEM).
    pub certificate: PathBuf,
    /// The private key (PEM).
    pub key: PathBuf,
}

/// Flags that conflict.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ListenConfigError {
    /// Only one of the certificate and the key is set.
    #[error("--tls-cert-file and --tls-private-key-file must be set together")]
    HalfTls,
    /// Client certificates require TLS.
    #[error("--client-ca-file requires TLS: set --tls-cert-file and --tls-private-key-file as well")]
    ClientCaWithoutTls,
    /// The address is reachable from other machines.
    #[error(
        "--listen {address} can be reached from other machines, so it needs {missing}; or listen on an address of \
         this machine alone, such as 127.0.0.1:{}", address.port()
    )]
    Open { address: SocketAddr, missing: &'static str },
}

impl ListenConfig {
    /// Checks that the flags fit together.
    pub(super) fn new(args: ListenArgs) -> Result<Self, ListenConfigError> {
        let tls = match (args.tls_cert_file, args.tls_private_key_file) {
            (Some(certificate), Some(key)) => Some(TlsFiles { certificate, key }),
            (None, None) => None,
            (Some(_), None) | (None, Some(_)) => return Err(ListenConfigError::HalfTls),
        };
        if args.client_ca_file.is_some() && tls.is_none() {
            return Err(ListenConfigError::ClientCaWithoutTls);
        }
        let authenticates = args.client_ca_file.is_some() || args.token_auth_file.is_some();
        if !args.listen.ip().to_canonical().is_loopback() {
            let missing = match (tls.is_some(), authenticates) {
                (true, true) => None,
                (true, false) => Some("authentication: set --token-auth-file or --client-ca-file"),
                (false, true) => Some("TLS: set --tls-cert-file and --tls-private-key-file"),
                (false, false) => Some(
                    "TLS and authentication: set --tls-cert-file and --tls-private-key-file, and --token-auth-file or \
                     --client-ca-file",
                ),
            };
            if let Some(missing) = missing {
                return Err(ListenConfigError::Open { address: args.listen, missing });
            }
        }
        Ok(ListenConfig {
            address: args.listen,
            tls,
            client_ca_file: args.client_ca_file,
            token_auth_file: args.token_auth_file,
            address_file: args.address_file,
            read_header_timeout: args.read_header_timeout,
            idle_timeout: args.idle_timeout,
            write_timeout: args.write_timeout,
            max_connections: args.max_connections,
            shutdown_delay: args.shutdown_delay_duration,
            shutdown_grace: args.shutdown_grace,
        })
    }

    /// Whether clients speak TLS.
    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// The file with the server's certificate and its chain; `None` without TLS.
    pub fn certificate(&self) -> Option<&Path> {
        self.tls.as_ref().map(|files| files.certificate.as_path())
    }

    /// A `kubectl` command line that reaches the server.
    pub fn kubectl(&self, url: &str) -> String {
        let mut line = format!("kubectl --server {url}");
        if let Some(files) = &self.tls {
            line.push_str(&format!(" --certificate-authority {}", files.certificate.display()));
        }
        if self.token_auth_file.is_some() {
            line.push_str(" --token TOKEN");
        } else if self.client_ca_file.is_some() {
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
        let args = ["orlop", "apiserver"].iter().chain(flags);
        let Command::Apiserver(args) = Cli::try_parse_from(args).unwrap().command else {
            panic!("no server")
        };
        ListenConfig::new(args.listen)
    }

    #[test]
    fn only_loopback_is_allowed_without_authentication() {
        let tls = ["--tls-cert-file", "c", "--tls-private-key-file", "k"];
        let token = ["--token-auth-file", "t"];
        let ca = ["--client-ca-file", "a"];
        let cases: [(&str, &[&[&str]], bool); 13] = [
            ("127.0.0.1:0", &[], true),
            ("127.9.9.9:0", &[], true),
            ("[::1]:0", &[], true),
            ("[::ffff:127.0.0.1]:0", &[], true),
            ("localhost:0", &[], true),
            ("127.0.0.1:0", &[&token], true),
            ("0.0.0.0:0", &[], false),
            ("[::]:0", &[], false),
            ("192.168.1.1:0", &[&token], false),
            ("192.168.1.1:0", &[&tls], false),
            ("192.168.1.1:0", &[&tls, &token], true),
            ("192.168.1.1:0", &[&tls, &ca], true),
            ("[::ffff:192.168.1.1]:0", &[&tls], false),
        ];
        for (address, flags, allowed) in cases {
            let mut args = vec!["--listen", address];
            args.extend(flags.iter().flat_map(|flags| flags.iter()));
            assert_eq!(endpoint(&args).is_ok(), allowed, "{args:?}");
        }
    }

    #[test]
    fn certificate_without_key_is_refused() {
        assert_eq!(endpoint(&["--tls-cert-file", "c"]).unwrap_err(), ListenConfigError::HalfTls);
        assert_eq!(endpoint(&["--tls-private-key-file", "k"]).unwrap_err(), ListenConfigError::HalfTls);
        assert_eq!(endpoint(&["--client-ca-file", "a"]).unwrap_err(), ListenConfigError::ClientCaWithoutTls);
    }

    #[test]
    fn kubectl_command_line_has_the_required_flags() {
        let plain = endpoint(&[]).unwrap();
        assert_eq!(plain.kubectl("http://127.0.0.1:8080"), "kubectl --server http://127.0.0.1:8080 get ns");
        let flags = ["--tls-cert-file", "c", "--tls-private-key-file", "k", "--token-auth-file", "t"];
        let line = endpoint(&flags).unwrap().kubectl("https://a:1");
        assert_eq!(line, "kubectl --server https://a:1 --certificate-authority c --token TOKEN get ns");
    }
}
