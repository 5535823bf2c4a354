//! The administrator's kubeconfig of a server on this machine: commands of the server's user and of root find it themselves.
//!
//! A server that requires credentials on loopback writes `admin.kubeconfig` to its data directory. A command without credentials for
//! such a server uses this file, if it is in `ORLOP_DATA_DIR`, in the default data directory of the user or in that of the system. The
//! mode of the file permits no other user to read it. Controllers and node agents never use it.
//!
//! Root also uses the file of another user: `packaging/orlop.service` runs the server as a user of its own. The command therefore reads
//! only the certificates from it. Any other content of a kubeconfig, such as commands to run and files to read, has no effect.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use kube::Client;
use orlop_client::client::{self, ClientCertificate, ConnectError, Endpoint};
use orlop_pki::kubeconfig::KubeconfigParts;
use rustix::fs::{Mode, OFlags};

use crate::anonymous::{self, AnonymousResponse};
use crate::config::{host_of, is_here};
use crate::data_dir;

/// The file in the data directory.
const FILE: &str = "admin.kubeconfig";
/// Maximum size of the file, bytes.
const MAX_FILE: u64 = 64 * 1024;

/// Connects to a server, as its administrator if the server requires credentials and the endpoint has none.
///
/// # Errors
/// As [`client::connect`].
pub(crate) async fn connect(endpoint: Endpoint) -> Result<Client, ConnectError> {
    client::connect(resolve(endpoint).await).await
}

/// The endpoint with the administrator's credentials, if the server requires credentials and the endpoint has none.
pub(crate) async fn resolve(endpoint: Endpoint) -> Endpoint {
    let dirs = dirs(rustix::process::geteuid().is_root(), |name| std::env::var_os(name));
    let Some(admin) = candidate(&endpoint, dirs.into_iter()) else { return endpoint };
    match anonymous::ask(&endpoint).await {
        // The server may use TLS only, or belong to another user: the certificate of the server is in the file.
        AnonymousResponse::Rejected | AnonymousResponse::Invalid => admin,
        // The file may be one of an earlier start with other flags.
        AnonymousResponse::Accepted | AnonymousResponse::NoServer => endpoint,
    }
}

/// The directories that may contain the file. `variable` looks up an environment variable. Pure.
fn dirs(is_root: bool, variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let given = variable("ORLOP_DATA_DIR").map(PathBuf::from);
    let own = data_dir::default(is_root, variable);
    // The server's user may be one without a home directory, whose server uses the directory of the system.
    let mut dirs: Vec<PathBuf> = given.into_iter().chain(own).chain([data_dir::SYSTEM.into()]).collect();
    dirs.dedup();
    dirs
}

/// This endpoint with the administrator's certificate from the kubeconfig in one of the directories.
fn candidate(endpoint: &Endpoint, mut dirs: impl Iterator<Item = PathBuf>) -> Option<Endpoint> {
    let Endpoint::Url { url, token: None, ca_file: None, .. } = endpoint else { return None };
    if !url.starts_with("http://") || !is_here(endpoint) {
        return None;
    }
    let wanted = host_of(endpoint)?;
    dirs.find_map(|dir| {
        let admin = Endpoint::Certificate(Box::new(read(&dir.join(FILE))?));
        is_same(&host_of(&admin)?, &wanted).then_some(admin)
    })
}

/// Reads a kubeconfig that a server has written. `None` if it has another form.
fn read(path: &Path) -> Option<ClientCertificate> {
    // Another user may own the directory: no link is followed, and opening a pipe does not block.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    file.take(MAX_FILE).read_to_string(&mut text).ok()?;
    let KubeconfigParts { server, authority, credentials } = KubeconfigParts::read(&text)?;
    let is_tls = server.starts_with("https://");
    is_tls.then_some(ClientCertificate {
        url: server,
        authority,
        certificate: credentials.certificate,
        key: credentials.key,
    })
}

/// Whether two addresses name the same server. `localhost` may name each loopback address. Pure.
fn is_same((host, port): &(String, u16), (wanted, wanted_port): &(String, u16)) -> bool {
    port == wanted_port && (host == wanted || host == "localhost" || wanted == "localhost")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use orlop_pki::authority::SignedKey;
    use orlop_pki::kubeconfig::{Kubeconfig, KubeconfigUser};

    use super::*;

    fn url(url: &str, token: Option<&str>) -> Endpoint {
        let token = token.map(str::to_owned);
        Endpoint::Url { url: url.to_owned(), token, ca_file: None, insecure: false }
    }

    fn text(server: &str) -> String {
        let credentials = SignedKey { certificate: "c".to_owned(), key: "k".to_owned() };
        let user = KubeconfigUser::Inline { name: "system:admin", credentials: &credentials };
        Kubeconfig { server, authority: Some("a"), user }.to_string()
    }

    #[test]
    fn kubeconfig_of_the_same_server_is_found() {
        let (empty, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(dir.path().join(FILE), text("https://127.0.0.1:8080")).unwrap();
        for (case, endpoint, want) in [
            ("1 the same", url("http://127.0.0.1:8080", None), true),
            ("2 by name", url("http://localhost:8080", None), true),
            ("3 another port", url("http://127.0.0.1:8081", None), false),
            ("4 another address", url("http://127.0.0.2:8080", None), false),
            ("5 another machine", url("http://10.0.0.1:8080", None), false),
            ("6 a token", url("http://127.0.0.1:8080", Some("t")), false),
            ("7 TLS", url("https://127.0.0.1:8080", None), false),
            ("8 a kubeconfig", Endpoint::Kubeconfig { path: None, context: None, server: None }, false),
        ] {
            let dirs = [empty.path().to_owned(), dir.path().to_owned()].into_iter();
            let got = candidate(&endpoint, dirs).and_then(|admin| host_of(&admin));
            assert_eq!(got, want.then(|| ("127.0.0.1".to_owned(), 8080)), "{case}");
        }
    }

    #[test]
    fn only_certificates_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        assert!(read(&path).is_none(), "no file");
        let valid = text("https://127.0.0.1:8080");
        for (case, content, want) in [
            ("1 as the server writes it", valid.clone(), true),
            ("2 without TLS", valid.replace("https://", "http://"), false),
            ("3 a command", valid.replace("client-key-data: aw==", "exec: {command: /bin/true}"), false),
            ("4 a file", valid.replace("client-key-data: aw==", "client-key: /etc/shadow"), false),
            ("5 too large", format!("{}{valid}", "#\n".repeat(1 << 16)), false),
        ] {
            std::fs::write(&path, content).unwrap();
            let got = read(&path).map(|admin| (admin.authority, admin.certificate, admin.key));
            let want = want.then(|| ("a".to_owned(), "c".to_owned(), "k".to_owned()));
            assert_eq!(got, want, "{case}");
        }
        let other = dir.path().join("other");
        std::fs::write(&other, valid).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert!(read(&path).is_none(), "a link");
        assert!(read(dir.path()).is_none(), "a directory");
    }

    #[test]
    fn directories_of_the_user_precede_that_of_the_system() {
        type Case<'a> = (bool, &'a [(&'a str, &'a str)], &'a [&'a str]);
        let cases: [Case<'_>; 4] = [
            (true, &[("HOME", "/root")], &["/var/lib/orlop"]),
            (true, &[("ORLOP_DATA_DIR", "/d")], &["/d", "/var/lib/orlop"]),
            (false, &[("HOME", "/home/a")], &["/home/a/.local/share/orlop", "/var/lib/orlop"]),
            (false, &[], &["/var/lib/orlop"]),
        ];
        for (is_root, variables, want) in cases {
            let got = dirs(is_root, |name| {
                variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
            });
            assert_eq!(got, want.iter().map(PathBuf::from).collect::<Vec<_>>(), "{is_root} {variables:?}");
        }
    }
}
