//! Reads the NFS export of a volume source. Pure.

use std::net::Ipv6Addr;

use k8s_openapi::api::core::v1::NFSVolumeSource;

use crate::plugin::PluginError;
use crate::plugin::volume_queue::shown;
use crate::volume::{Source, VolumeSpec};

/// An export of an NFS server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Export<'a> {
    /// The server's name or address.
    pub(super) server: &'a str,
    /// The exported directory.
    pub(super) path: &'a str,
    /// Whether the source is read-only.
    pub(super) read_only: bool,
}

fn source(source: &Source) -> Option<&NFSVolumeSource> {
    match source {
        Source::Inline(volume) => volume.nfs.as_ref(),
        Source::Persistent(volume) => volume.spec.as_ref()?.nfs.as_ref(),
    }
}

impl<'a> Export<'a> {
    /// Whether a source is an NFS export.
    pub(super) fn is_in(from: &Source) -> bool {
        source(from).is_some()
    }

    /// Reads the export of a volume.
    pub(super) fn of(spec: &'a VolumeSpec) -> Result<Self, PluginError> {
        let wrong = |why: String| PluginError::plain(format!("{}: {why}", shown(spec)));
        let Some(nfs) = source(&spec.source) else {
            return Err(wrong("it has no NFS source".to_owned()));
        };
        for (field, text) in [("nfs.server", &nfs.server), ("nfs.path", &nfs.path)] {
            if text.is_empty() {
                return Err(wrong(format!("{field} is empty")));
            }
            if text.chars().any(char::is_control) {
                return Err(wrong(format!("{field} {text:?} has a control character in it")));
            }
        }
        if nfs.server.contains(char::is_whitespace) || nfs.server.contains('/') {
            return Err(wrong(format!("nfs.server {:?} is no name and no address", nfs.server)));
        }
        Ok(Self { server: &nfs.server, path: &nfs.path, read_only: nfs.read_only.unwrap_or(false) })
    }

    /// The source for mount(8): `server:path`, with an IPv6 address in brackets.
    pub(super) fn source(&self) -> String {
        // Link-local addresses end with the interface.
        let address = self.server.split_once('%').map_or(self.server, |(address, _)| address);
        match address.parse::<Ipv6Addr>() {
            Ok(_) => format!("[{}]:{}", self.server, self.path),
            Err(_) => format!("{}:{}", self.server, self.path),
        }
    }
}
