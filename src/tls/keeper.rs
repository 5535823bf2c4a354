//! Keeps the TLS configuration of a running server current: it reads changed files again, and renews the server's own certificate
//! before it ends. New connections use the new configuration.

use std::sync::Arc;

use axum_server::tls_rustls::RustlsConfig;
use jiff::Timestamp;
use orlop_apiserver::peer_certificates::ClientAuthorities;
use orlop_auth::file_version::FileVersion;
use orlop_cli::config::TlsFiles;
use orlop_pki::authority::{Authority, is_due};
use rustls::ServerConfig;

use super::clients::{ClientAuthorityFiles, ClientCertificates};
use super::{ServerKey, TlsError, server_config};

/// The origin of the server's certificate.
pub(crate) enum TlsOrigin {
    /// Given files.
    Files(TlsFiles),
    /// The server's own authority, and the names that the certificate must have at this time.
    Own { authority: Arc<Authority>, names: Box<dyn Fn() -> Vec<String> + Send + Sync> },
}

/// The TLS configuration and its inputs.
pub(crate) struct TlsKeeper {
    origin: TlsOrigin,
    clients: ClientAuthorityFiles,
    /// The authorities in use.
    authorities: Arc<ClientAuthorities>,
    config: RustlsConfig,
    made: Made,
    /// The problem of the last attempt to replace the configuration, if it failed.
    problem: Option<String>,
}

impl std::fmt::Debug for TlsKeeper {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("TlsKeeper").finish_non_exhaustive()
    }
}

/// The inputs of a configuration.
#[derive(Debug, PartialEq, Eq)]
struct Made {
    files: Vec<Option<FileVersion>>,
    names: Vec<String>,
    signed: Option<Timestamp>,
}

impl TlsKeeper {
    /// Builds the configuration, and sets the authorities of client certificates.
    pub(crate) fn new(
        origin: TlsOrigin,
        clients: ClientAuthorityFiles,
        authorities: Arc<ClientAuthorities>,
        now: Timestamp,
    ) -> Result<Self, TlsError> {
        let made = inputs(&origin, &clients, Some(now));
        let config = make(&origin, &clients, &authorities, &made.names, now)?;
        Ok(TlsKeeper {
            origin,
            clients,
            authorities,
            config: RustlsConfig::from_config(config),
            made,
            problem: None,
        })
    }

    /// The authorities that verify client certificates.
    pub(crate) fn authorities(&self) -> Arc<ClientAuthorities> {
        self.authorities.clone()
    }

    /// The configuration, which [`TlsKeeper::check`] replaces.
    pub(crate) fn config(&self) -> RustlsConfig {
        self.config.clone()
    }

    /// Replaces the configuration if it is outdated. If it cannot be made, the previous one stays.
    pub(crate) fn check(&mut self, now: Timestamp) {
        let current = inputs(&self.origin, &self.clients, self.made.signed);
        let is_due = match &self.origin {
            TlsOrigin::Files(_) => false,
            TlsOrigin::Own { .. } => self.made.signed.is_none_or(|signed| is_due(signed, now)),
        };
        if current == self.made && !is_due {
            return;
        }
        match make(&self.origin, &self.clients, &self.authorities, &current.names, now) {
            Ok(config) => {
                self.config.reload_from_config(config);
                tracing::info!("the changed certificates are in use");
                self.made = Made { signed: Some(now), ..current };
                self.problem = None;
            }
            // The next check tries again: the error may be temporary, and the previous authorities may have to end.
            Err(error) => {
                let problem = error.to_string();
                if self.problem.as_ref() != Some(&problem) {
                    tracing::error!(
                        "the previous certificates and client authorities stay in use: {problem}"
                    );
                    self.problem = Some(problem);
                }
            }
        }
    }
}

fn inputs(origin: &TlsOrigin, clients: &ClientAuthorityFiles, signed: Option<Timestamp>) -> Made {
    let (files, names) = match origin {
        TlsOrigin::Files(TlsFiles { certificate, key }) => {
            (vec![FileVersion::of(certificate), FileVersion::of(key)], Vec::new())
        }
        TlsOrigin::Own { names, .. } => (Vec::new(), names()),
    };
    let clients = clients.users.iter().chain(&clients.proxies).map(|path| FileVersion::of(path));
    Made { files: files.into_iter().chain(clients).collect(), names, signed }
}

/// Builds the configuration. On success, replaces the authorities of client certificates.
fn make(
    origin: &TlsOrigin,
    clients: &ClientAuthorityFiles,
    authorities: &ClientAuthorities,
    names: &[String],
    now: Timestamp,
) -> Result<Arc<ServerConfig>, TlsError> {
    let own = match origin {
        TlsOrigin::Files(_) => None,
        TlsOrigin::Own { authority, .. } => Some(authority.certificate()),
    };
    let clients = ClientCertificates::read(clients, own)?;
    let subjects = clients.names().map_err(TlsError::Clients)?;
    let config = match origin {
        TlsOrigin::Files(files) => {
            let server = ServerKey::of_files(&files.certificate, &files.key)?;
            server_config(server, subjects).map_err(|problem| TlsError::Pair {
                certificate: files.certificate.clone(),
                key: files.key.clone(),
                problem,
            })
        }
        TlsOrigin::Own { authority, .. } => {
            let server = ServerKey::signed(&authority.server(names, now)?, authority.certificate())?;
            server_config(server, subjects).map_err(TlsError::Own)
        }
    }?;
    let replaced = authorities.replace(clients.users, clients.proxies);
    replaced.map_err(|error| TlsError::Clients(error.to_string()))?;
    Ok(config)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use parking_lot::Mutex;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn authority() -> Arc<Authority> {
        Arc::new(Authority::read(&Authority::create(at("2026-11-26T00:00:00Z")).unwrap()).unwrap())
    }

    fn same(one: &Arc<ServerConfig>, other: &Arc<ServerConfig>) -> bool {
        Arc::ptr_eq(one, other)
    }

    #[test]
    fn own_certificate_is_renewed_in_time_and_with_new_names() {
        let names = Arc::new(Mutex::new(vec!["localhost".to_owned()]));
        let read = names.clone();
        let names_now = Box::new(move || read.lock().clone());
        let origin = TlsOrigin::Own { authority: authority(), names: names_now };
        let mut keeper =
            TlsKeeper::new(origin, Default::default(), Arc::default(), at("2026-11-26T00:00:00Z")).unwrap();
        let mut before = keeper.config().get_inner();
        for (case, now, name, renewed) in [
            ("1 fresh", "2026-11-26T00:01:00Z", None, false),
            ("2 half of its time", "2027-05-26T00:00:00Z", None, false),
            ("3 another name", "2027-05-26T00:01:00Z", Some("example.org"), true),
            ("4 signed then", "2027-12-26T00:00:00Z", None, false),
            ("5 two thirds over", "2028-01-26T00:00:00Z", None, true),
            ("6 a name that cannot be in it", "2028-01-26T00:01:00Z", Some("a b"), false),
            ("7 a good one again", "2028-01-26T00:02:00Z", Some("example.com"), true),
        ] {
            if let Some(name) = name {
                *names.lock() = vec![name.to_owned()];
            }
            keeper.check(at(now));
            let after = keeper.config().get_inner();
            assert_eq!(!same(&before, &after), renewed, "{case}");
            before = after;
        }
    }

    #[test]
    fn changed_files_are_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let files = TlsFiles { certificate: dir.path().join("tls.crt"), key: dir.path().join("tls.key") };
        let (authority, now) = (authority(), at("2026-11-26T00:00:00Z"));
        let write = || {
            let pair = authority.server(&["localhost".to_owned()], now).unwrap();
            std::fs::write(&files.certificate, pair.certificate).unwrap();
            std::fs::write(&files.key, pair.key).unwrap();
        };
        write();
        let users = dir.path().join("clients.crt");
        std::fs::write(&users, authority.certificate()).unwrap();
        let clients = ClientAuthorityFiles { users: Some(users.clone()), proxies: None };
        let authorities: Arc<ClientAuthorities> = Arc::default();
        let origin = TlsOrigin::Files(files.clone());
        let mut keeper = TlsKeeper::new(origin, clients, authorities.clone(), now).unwrap();
        let first = keeper.config().get_inner();
        keeper.check(now);
        assert!(same(&first, &keeper.config().get_inner()), "unchanged");
        std::fs::write(&files.key, "no key").unwrap();
        keeper.check(now);
        assert!(same(&first, &keeper.config().get_inner()), "a broken file changes nothing");
        std::fs::remove_file(&files.key).unwrap();
        keeper.check(now);
        assert!(same(&first, &keeper.config().get_inner()), "nor does a missing one");
        write();
        keeper.check(now);
        let second = keeper.config().get_inner();
        assert!(!same(&first, &second), "the new pair is in use");

        let count = |want: &str| assert_eq!(format!("{authorities:?}"), format!("ClientAuthorities({want})"));
        count("(1, 0)");
        std::fs::write(&users, authority.certificate().repeat(2)).unwrap();
        keeper.check(now);
        count("(2, 0)");
        for damaged in [
            "",
            "-----BEGIN CERTIFICATE-----",
            "-----BEGIN CERTIFICATE-----\nAQ==\n-----END CERTIFICATE-----\n",
        ] {
            std::fs::write(&users, damaged).unwrap();
            keeper.check(now);
            count("(2, 0)");
        }
    }
}
