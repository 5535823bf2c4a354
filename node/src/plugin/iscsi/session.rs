//! Logs in to the portals of a target and out of them, in upstream's order of commands (pkg/volume/iscsi,
//! iscsi_util.go). The caller must hold the target's lock.

use super::admin::{AdminError, NOTHING_FOUND, SESSION_EXISTS};
use super::record::DiskRecord;
use super::source::{Disk, SecretData};
use super::{Admin, IscsiPlugin};
use crate::host::Host;
use crate::plugin::PluginError;
use crate::plugin::volume_queue::VolumeQueue;

const DISCOVERY: &str = "discovery.sendtargets.auth.";
const SESSION: &str = "node.session.auth.";
/// Keys of the secret, each after one of the two prefixes.
const KEYS: [&str; 4] = ["username", "password", "username_in", "password_in"];

/// A portal of a target.
pub(super) struct Portal<'a> {
    admin: &'a dyn Admin,
    portal: &'a str,
    iqn: &'a str,
    iface: &'a str,
}

impl Portal<'_> {
    async fn discovery(&self, rest: &[&str]) -> Result<String, AdminError> {
        let begin = ["-m", "discoverydb", "-t", "sendtargets", "-p", self.portal, "-I", self.iface];
        self.admin.run(&[&begin, rest].concat()).await
    }

    async fn node(&self, rest: &[&str]) -> Result<String, AdminError> {
        let begin = ["-m", "node", "-p", self.portal, "-T", self.iqn, "-I", self.iface];
        self.admin.run(&[&begin, rest].concat()).await
    }

    /// Whether there is a session with it in the output of `iscsiadm -m session`: `tcp: [1] 192.0.2.1:3260,1 iqn.x
    /// (non-flash)`.
    async fn has_session(&self) -> Result<bool, AdminError> {
        let said = match self.admin.run(&["-m", "session"]).await {
            Err(error) if error.is(NOTHING_FOUND) => return Ok(false),
            other => other?,
        };
        Ok(said.lines().any(|line| {
            let mut words = line.split_whitespace().skip(2);
            let portal = words.next().and_then(|word| word.split(',').next());
            portal == Some(self.portal) && words.next() == Some(self.iqn)
        }))
    }

    /// Logs in, or rescans an existing session for new disks.
    async fn log_in(&self, disk: &Disk, secret: &SecretData) -> Result<(), AdminError> {
        if self.has_session().await? {
            return self.admin.run(&["-m", "node", "-p", self.portal, "-T", self.iqn, "-R"]).await.map(drop);
        }
        self.discovery(&["-o", "new"]).await?;
        let found = async {
            if disk.chap_discovery {
                for [name, value] in chap(DISCOVERY, secret) {
                    self.discovery(&["-o", "update", "-n", &name, "-v", &value]).await?;
                }
            }
            self.discovery(&["--discover"]).await
        };
        if let Err(error) = found.await {
            // The next attempt starts from the beginning, because the record may be wrong.
            if let Err(left) = self.discovery(&["-o", "delete"]).await {
                tracing::debug!(%left, "a record of a discovery stays");
            }
            return Err(error);
        }
        let logged_in = async {
            if disk.chap_session {
                for [name, value] in chap(SESSION, secret) {
                    self.node(&["-o", "update", "-n", &name, "-v", &value]).await?;
                }
            }
            match self.node(&["--login"]).await {
                Err(error) if error.is(SESSION_EXISTS) => Ok(()),
                other => other.map(drop),
            }
        };
        if let Err(error) = logged_in.await {
            if let Err(left) = self.node(&["-o", "delete"]).await {
                tracing::debug!(%left, "a record of a target stays");
            }
            return Err(error);
        }
        // Only the agent logs in; the machine does not at boot.
        if let Err(error) = self.node(&["-o", "update", "-n", "node.startup", "-v", "manual"]).await {
            tracing::warn!(%error, "the target may be logged in to when the machine starts");
        }
        Ok(())
    }

    /// Logs out. A portal without a session is no error.
    async fn log_out(&self) -> Result<(), AdminError> {
        for rest in [&["--logout"][..], &["-o", "delete"]] {
            match self.node(rest).await {
                Err(error) if error.is(NOTHING_FOUND) => {}
                other => drop(other?),
            }
        }
        Ok(())
    }
}

/// The settings of names and passwords, CHAP first.
fn chap(prefix: &str, secret: &SecretData) -> Vec<[String; 2]> {
    let mut all = vec![[format!("{prefix}authmethod"), "CHAP".to_owned()]];
    all.extend(KEYS.iter().filter_map(|key| {
        let name = format!("{prefix}{key}");
        let value = secret.get(&name).filter(|value| !value.is_empty())?.clone();
        Some([name, value])
    }));
    all
}

fn plugin_error(error: AdminError) -> PluginError {
    PluginError::uncertain(error.to_string()).caused(error)
}

impl IscsiPlugin {
    fn portal<'a>(&'a self, portal: &'a str, iqn: &'a str, iface: &'a str) -> Portal<'a> {
        Portal { admin: &*self.admin, portal, iqn, iface }
    }

    /// Logs in to all portals, and waits for the disk. One portal is enough.
    pub(super) async fn log_in(
        &self,
        queue: &VolumeQueue<'_>,
        disk: &Disk,
        record: &DiskRecord,
        secret: &SecretData,
    ) -> Result<std::path::PathBuf, PluginError> {
        if let (Some(name), Some(from)) = (&disk.initiator, &record.copied_from) {
            self.copy_iface(from, &record.iface, name).await.map_err(plugin_error)?;
        }
        let mut last = None;
        let mut reached = Vec::new();
        for portal in &disk.portals {
            match self.portal(portal, &record.iqn, &record.iface).log_in(disk, secret).await {
                Ok(()) => reached.push(portal.clone()),
                // Without the program the other portals fail too.
                Err(error @ AdminError::Missing) => return Err(plugin_error(error)),
                Err(error) => last = Some(error.to_string()),
            }
        }
        if !reached.is_empty() {
            match self.wait(queue, disk).await? {
                Some(device) => return Ok(device),
                None => {
                    last = Some(format!(
                        "logged in to {}, but no disk with LUN {} came up; see to it that the target shows it to this node",
                        reached.join(", "),
                        disk.lun
                    ));
                }
            }
        }
        let last = last.unwrap_or_default();
        Err(PluginError::uncertain(format!("failed to get any path for iscsi disk, last err seen:\n{last}")))
    }

    /// Copies an interface, with another initiator name.
    async fn copy_iface(&self, from: &str, to: &str, initiator: &str) -> Result<(), AdminError> {
        let shown = self.admin.run(&["-m", "iface", "-I", from, "-o", "show"]).await?;
        match self.admin.run(&["-m", "iface", "-I", to, "-o", "new"]).await {
            Err(error) if error.is(SESSION_EXISTS) => return Ok(()),
            other => drop(other?),
        }
        let settings = shown.lines().filter_map(|line| line.split_once(" = "));
        let settings = settings.map(|(name, value)| (name.trim(), value.trim())).filter(|(name, value)| {
            let is_own = matches!(*name, "iface.iscsi_ifacename" | "iface.initiatorname");
            name.starts_with("iface.") && !is_own && !value.is_empty() && *value != "<empty>"
        });
        for (name, value) in settings.chain([("iface.initiatorname", initiator)]) {
            self.admin.run(&["-m", "iface", "-I", to, "-o", "update", "-n", name, "-v", value]).await?;
        }
        Ok(())
    }

    /// Logs out of the portals that no other disk of the node uses. A disk can also use a session of another
    /// interface, so remaining sessions are passed on to the disks that use them.
    pub(super) async fn log_out(
        &self,
        host: &Host,
        queue: &VolumeQueue<'_>,
        record: &DiskRecord,
    ) -> Result<(), PluginError> {
        let mut others = DiskRecord::all(host, queue).await?;
        others.retain(|other| other.volume_name != record.volume_name && other.iqn == record.iqn);
        let ifaces = record.ifaces();
        for portal in &record.portals {
            if others.iter().any(|other| other.portals.contains(portal)) {
                continue;
            }
            for iface in ifaces.keys() {
                self.portal(portal, &record.iqn, iface).log_out().await.map_err(plugin_error)?;
            }
        }
        let shares = |other: &DiskRecord| other.portals.iter().any(|portal| record.portals.contains(portal));
        for heir in others.iter_mut().filter(|other| shares(other)) {
            let known = heir.ifaces();
            let new = ifaces.iter().filter(|(name, _)| !known.contains_key(*name));
            let new: Vec<_> = new.map(|(name, iface)| (name.clone(), *iface)).collect();
            if !new.is_empty() {
                heir.inherited.extend(new);
                heir.write(host, queue).await?;
            }
        }
        for (name, iface) in &ifaces {
            if !iface.is_copy || others.iter().any(|other| other.ifaces().contains_key(name)) {
                continue;
            }
            match self.admin.run(&["-m", "iface", "-I", name, "-o", "delete"]).await {
                Err(error) if error.is(NOTHING_FOUND) => {}
                other => drop(other.map_err(plugin_error)?),
            }
        }
        Ok(())
    }
}
