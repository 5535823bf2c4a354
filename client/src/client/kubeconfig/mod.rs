//! Reads kubeconfigs, and checks the selected context before the client library uses it.
//!
//! The errors name the entry to change and the fix. Those of the library do not, and it ignores mistakes that kubectl reports. No error
//! quotes a line, a URL or a credential.
//!
//! Upstream: client-go `tools/clientcmd/validation.go`.

mod credentials;
mod names;
mod no_proxy;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use orlop_apimachinery::input_file;

/// Maximum size of a file, bytes.
const MAX_FILE: u64 = 16 << 20;
/// The permission of every user to read a file.
const READABLE_BY_ALL: u32 = 0o004;

/// Reads a kubeconfig; `None` means the files in `KUBECONFIG`, or `~/.kube/config`.
///
/// # Errors
/// A file cannot be read or is not a kubeconfig.
pub fn read(path: Option<&Path>) -> Result<Kubeconfig, String> {
    let files = files(path);
    let config = match (files.as_slice(), path) {
        // The library would read a pipe without a limit. Its relative paths would begin at no useful directory.
        ([file], _) if input_file::is_inherited_pipe(file) => {
            let text = input_file::read_text(file, MAX_FILE).map_err(|error| unreadable(&error))?;
            Kubeconfig::from_yaml(&text)
        }
        (files, path) => {
            files.iter().try_for_each(|file| check_file(file))?;
            path.map_or_else(Kubeconfig::read, Kubeconfig::read_from)
        }
    };
    let mut config = config.map_err(|error| problem(&error, path.is_some()))?;
    credentials::remove_empty(&mut config);
    Ok(config)
}

/// The configuration of a client for a context; `None` means the current one.
///
/// # Errors
/// The kubeconfig cannot be read, or the context cannot be used.
pub(super) async fn load(path: Option<&Path>, context: Option<String>) -> Result<Config, String> {
    let config = read(path)?;
    let selected = names::select(&config, context.as_deref())?;
    credentials::check(&selected)?;
    for file in files(path).iter().filter(|file| is_exposed(file, &config)) {
        tracing::warn!(
            "every user of this machine can read the credentials in the kubeconfig {}; run: chmod 600 {0}",
            file.display()
        );
    }
    let has_own_proxy = selected.cluster.1.proxy_url.is_some();
    let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
    let loaded = Config::from_custom_kubeconfig(config, &options).await;
    let mut loaded = loaded.map_err(|error| problem(&error, path.is_some()))?;
    if !has_own_proxy {
        loaded.proxy_url.take_if(|_| is_direct(&loaded.cluster_url));
    }
    Ok(loaded)
}

/// Whether the proxy of the environment does not apply to a server.
fn is_direct(server: &http::Uri) -> bool {
    let no_proxy = no_proxy::of_environment(|name| std::env::var_os(name));
    let port = server.port_u16().unwrap_or(if server.scheme_str() == Some("http") { 80 } else { 443 });
    // The proxy is that of HTTPS_PROXY.
    server.scheme_str() == Some("http")
        || no_proxy::is_direct(server.host().unwrap_or_default(), port, &no_proxy)
}

/// The files of a kubeconfig as text.
pub(super) fn shown(path: Option<&Path>) -> String {
    let files = files(path);
    let shown: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    shown.join(":")
}

/// The files that are read.
fn files(path: Option<&Path>) -> Vec<PathBuf> {
    if let Some(path) = path {
        return vec![path.to_owned()];
    }
    let named = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let named: Vec<PathBuf> =
        std::env::split_paths(&named).filter(|path| !path.as_os_str().is_empty()).collect();
    match named.is_empty() {
        true => std::env::home_dir().map(|home| home.join(".kube/config")).into_iter().collect(),
        false => named,
    }
}

/// Rejects files that the library would read without a limit, or that it cannot decode without a panic.
fn check_file(path: &Path) -> Result<(), String> {
    // A pipe can be read only once.
    if input_file::is_inherited_pipe(path) {
        return Ok(());
    }
    let content = match input_file::read(path, MAX_FILE) {
        Ok(content) => content,
        // The library reports the errors of the system, such as a missing file.
        Err(error) if error.raw_os_error().is_some() && error.kind() != io::ErrorKind::WouldBlock => {
            return Ok(());
        }
        Err(error) => return Err(unreadable(&error)),
    };
    let is_utf16 = matches!(content.as_slice(), [0xff, 0xfe, ..] | [0xfe, 0xff, ..]);
    match is_utf16 && content.len() % 2 == 1 {
        true => Err("its text in UTF-16 is incomplete: save the file again, in UTF-8".to_owned()),
        false => Ok(()),
    }
}

fn unreadable(error: &io::Error) -> String {
    format!("it cannot be read: {error}")
}

/// Whether every user of the machine can read credentials in a file.
fn is_exposed(path: &Path, config: &Kubeconfig) -> bool {
    let is_readable =
        |metadata: fs::Metadata| metadata.is_file() && metadata.permissions().mode() & READABLE_BY_ALL != 0;
    fs::metadata(path).is_ok_and(is_readable) && credentials::contains_any(config)
}

/// The problem of a kubeconfig. Errors of the parser quote lines, which may contain a credential.
fn problem(error: &KubeconfigError, is_one_file: bool) -> String {
    match error {
        KubeconfigError::Parse(cause) => {
            let line = cause.location().map_or(1, |location| location.line());
            format!("line {line} is not valid YAML, or a field has the wrong type")
        }
        KubeconfigError::ReadConfig(error, _) if is_one_file => format!("it cannot be read: {error}"),
        KubeconfigError::ReadConfig(error, path) => format!("{} cannot be read: {error}", path.display()),
        KubeconfigError::FindPath => {
            "the home directory is unknown: set KUBECONFIG or --kubeconfig".to_owned()
        }
        KubeconfigError::KindMismatch | KubeconfigError::ApiVersionMismatch => {
            "its documents differ in kind or apiVersion: all must have apiVersion v1 and kind Config"
                .to_owned()
        }
        KubeconfigError::ParseClusterUrl(cause) => {
            format!("the server of its cluster is not a URL such as https://host:6443: {cause}")
        }
        KubeconfigError::ParseProxyUrl(cause) => {
            format!("the proxy-url of its cluster is not a URL: {cause}")
        }
        other => other.to_string(),
    }
}
