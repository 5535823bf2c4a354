//! Drivers that register: a driver puts a socket into the plugin directory, is asked there for its name and its CSI socket, and
//! is told that it was taken (upstream: kubelet's pluginmanager, registration v1). A socket that goes takes the driver with it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use orlop_csi::registration::registration_client::RegistrationClient;
use orlop_csi::registration::{InfoRequest, PluginInfo, RegistrationStatus};
use orlop_csi::socket;
use tokio_util::sync::CancellationToken;

use super::{Drivers, Endpoint};

/// The type of plugin that a CSI driver says that it is.
const CSI_PLUGIN: &str = "CSIPlugin";
/// How often the directory is read. A change of its time stamp is all that is looked at when nothing happens.
const PERIOD: Duration = Duration::from_secs(1);
/// The longest that a driver may take to say who it is.
const PATIENCE: Duration = Duration::from_secs(5);

/// A socket that was seen, and the driver behind it.
struct Seen {
    driver: Option<String>,
    stop: CancellationToken,
    inode: u64,
}

/// Follows a directory until `shutdown`.
pub(super) async fn follow(drivers: &Drivers, dir: &Path, shutdown: &CancellationToken) {
    let mut seen: BTreeMap<OsString, Seen> = BTreeMap::new();
    let mut tasks = tokio::task::JoinSet::new();
    let mut said = None;
    loop {
        match sockets(dir) {
            Ok(now) => {
                said = None;
                seen.retain(|name, known| {
                    let stays = now.get(name) == Some(&known.inode);
                    if !stays {
                        known.stop.cancel();
                        if let Some(driver) = &known.driver {
                            drivers.remove(driver);
                        }
                    }
                    stays
                });
                for (name, inode) in now {
                    if seen.get(&name).is_some_and(|known| known.driver.is_some()) {
                        continue;
                    }
                    let Some(info) = register(&dir.join(&name)).await else { continue };
                    let stop = shutdown.child_token();
                    let at = Endpoint { name: info.name.clone(), endpoint: info.endpoint };
                    let (drivers, ended) = (drivers.clone(), stop.clone());
                    tasks.spawn(async move { drivers.keep(at, ended).await });
                    seen.insert(name, Seen { driver: Some(info.name), stop, inode });
                }
            }
            Err(error) => {
                let why = error.to_string();
                if said.as_ref() != Some(&why) {
                    tracing::warn!(dir = %dir.display(), why, "the directory of --csi-plugin-dir cannot be read");
                    said = Some(why);
                }
            }
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
    }
}

/// The sockets of a directory, by name, with what tells a new one of the same name apart.
fn sockets(dir: &Path) -> std::io::Result<BTreeMap<OsString, u64>> {
    use std::os::unix::fs::MetadataExt;
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let Ok(meta) = entry.metadata() else { continue };
        if meta.file_type().is_socket() {
            found.insert(entry.file_name(), meta.ino());
        }
    }
    Ok(found)
}

/// Asks a registration socket who is there, and says that it was taken.
async fn register(path: &Path) -> Option<PluginInfo> {
    let channel = socket::connect(&path.display().to_string()).ok()?;
    let mut client = RegistrationClient::new(channel);
    let info = match tokio::time::timeout(PATIENCE, client.get_info(InfoRequest {})).await {
        Ok(Ok(info)) => info.into_inner(),
        Ok(Err(error)) => {
            tracing::debug!(socket = %path.display(), %error, "nobody registers there");
            return None;
        }
        Err(_) => return None,
    };
    if info.r#type != CSI_PLUGIN || info.name.is_empty() {
        return None;
    }
    let info = PluginInfo {
        // A driver without a CSI socket of its own serves it where it registers (kubelet does the same).
        endpoint: if info.endpoint.is_empty() { path.display().to_string() } else { info.endpoint },
        ..info
    };
    let status = RegistrationStatus { plugin_registered: true, error: String::new() };
    match tokio::time::timeout(PATIENCE, client.notify_registration_status(status)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => {
            tracing::debug!(driver = info.name, %error, "the driver does not hear that it was taken");
        }
        Err(_) => {
            tracing::debug!(driver = info.name, "the driver does not say that it heard that it was taken")
        }
    }
    Some(info)
}
