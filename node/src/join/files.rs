//! The files of a node that has joined. Only their owner can read them.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use orlop_apimachinery::input_file::{self, MAX_CONFIG};
use orlop_pki::private_file;

use super::error::JoinError;

/// The paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinFiles {
    /// The directory of the agent.
    pub dir: PathBuf,
    /// The node's kubeconfig.
    pub kubeconfig: PathBuf,
    /// The certificate of the node and its key.
    pub identity: PathBuf,
    /// The certificate of the server's authority.
    pub(super) authority: PathBuf,
}

impl JoinFiles {
    /// The files below the directory of an agent.
    pub fn below(dir: &Path) -> Self {
        JoinFiles {
            dir: dir.to_owned(),
            kubeconfig: dir.join("node.kubeconfig"),
            identity: dir.join("pki/node-client.pem"),
            authority: dir.join("pki/ca.crt"),
        }
    }

    /// Creates the directories; that of the agent has the mode that the agent requires.
    pub(super) fn create_dir(&self) -> Result<(), JoinError> {
        for (dir, mode) in [(self.dir.clone(), 0o750), (self.dir.join("pki"), 0o700)] {
            DirBuilder::new()
                .recursive(true)
                .mode(mode)
                .create(&dir)
                .map_err(|source| JoinError::Write { path: dir, source })?;
        }
        Ok(())
    }

    /// The content of a file; `None` if there is none.
    pub(super) fn read(&self, path: &Path) -> Result<Option<String>, JoinError> {
        match input_file::read_text(path, MAX_CONFIG) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(JoinError::Read { path: path.to_owned(), source }),
        }
    }

    /// Replaces a file atomically, and syncs it.
    pub(super) fn write(&self, path: &Path, text: &str) -> Result<(), JoinError> {
        private_file::replace(path, text).map_err(|source| JoinError::Write { path: path.to_owned(), source })
    }
}
