//! Volume capabilities: access modes as CSI defines them (upstream: csi-lib-utils' accessmodes; the table is in docs/csi.md).

use k8s_openapi::api::core::v1::PersistentVolumeSpec;
use orlop_csi::capabilities::{Capabilities, Rpc};
use orlop_csi::v1::VolumeCapability;
use orlop_csi::v1::volume_capability::access_mode::Mode;
use orlop_csi::v1::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};

/// Access modes that cannot be requested from a driver together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModeError {
    /// ReadWriteOncePod cannot be combined with other modes.
    #[error("ReadWriteOncePod cannot be combined with other access modes")]
    OncePodWithOthers,
    /// Many readers and one writer: CSI has no such mode.
    #[error("CSI does not support ReadOnlyMany and ReadWriteOnce on the same PersistentVolume")]
    ReadManyWriteOne,
    /// No mode, or an unknown one.
    #[error("unsupported AccessMode combination: {0}")]
    Unknown(&'static str),
}

/// Maps all access modes of a volume to one CSI mode.
///
/// # Errors
/// Combinations that CSI has no mode for.
pub fn of_modes(modes: &[String], can: &Capabilities) -> Result<Mode, ModeError> {
    let has = |mode: &str| modes.iter().any(|given| given == mode);
    let single_nodes = can.can(Rpc::SingleNodeMultiWriter);
    if has("ReadWriteMany") {
        return Ok(Mode::MultiNodeMultiWriter);
    }
    if has("ReadWriteOncePod") {
        if has("ReadWriteOnce") || has("ReadOnlyMany") {
            return Err(ModeError::OncePodWithOthers);
        }
        return Ok(if single_nodes { Mode::SingleNodeSingleWriter } else { Mode::SingleNodeWriter });
    }
    match (has("ReadOnlyMany"), has("ReadWriteOnce")) {
        (true, true) => Err(ModeError::ReadManyWriteOne),
        (true, false) => Ok(Mode::MultiNodeReaderOnly),
        (false, true) if single_nodes => Ok(Mode::SingleNodeMultiWriter),
        (false, true) => Ok(Mode::SingleNodeWriter),
        (false, false) if modes.is_empty() => Err(ModeError::Unknown("none is given")),
        (false, false) => Err(ModeError::Unknown("a mode that is not known")),
    }
}

/// How a volume is accessed: as a device, or as a file system of a type with mount options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// A block device.
    Block,
    /// A mounted file system.
    Mount {
        /// File system type, empty for the driver's choice.
        fs_type: String,
        /// Mount options.
        options: Vec<String>,
    },
}

impl Access {
    /// The access of a stored volume.
    pub fn of(spec: &PersistentVolumeSpec) -> Self {
        if spec.volume_mode.as_deref() == Some("Block") {
            return Access::Block;
        }
        let fs_type = spec.csi.as_ref().and_then(|csi| csi.fs_type.clone()).unwrap_or_default();
        Access::Mount { fs_type, options: spec.mount_options.clone().unwrap_or_default() }
    }

    /// The capability with this mode.
    pub fn capability(&self, mode: Mode) -> VolumeCapability {
        let access = match self {
            Access::Block => AccessType::Block(BlockVolume {}),
            Access::Mount { fs_type, options } => AccessType::Mount(MountVolume {
                fs_type: fs_type.clone(),
                mount_flags: options.clone(),
                volume_mount_group: String::new(),
            }),
        };
        VolumeCapability { access_mode: Some(AccessMode { mode: mode as i32 }), access_type: Some(access) }
    }
}

/// The capability of a stored volume.
pub fn of_volume(spec: &PersistentVolumeSpec, can: &Capabilities) -> Result<VolumeCapability, ModeError> {
    let mode = of_modes(spec.access_modes.as_deref().unwrap_or_default(), can)?;
    Ok(Access::of(spec).capability(mode))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn access_modes_map_to_one_csi_mode() {
        let (old, new) = (Capabilities::of(&[], &[]), Capabilities::of(&[Rpc::SingleNodeMultiWriter], &[]));
        let (once, many, read, pod) = ("ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany", "ReadWriteOncePod");
        for (given, without, with) in [
            (vec![many, once, read], Ok(Mode::MultiNodeMultiWriter), Ok(Mode::MultiNodeMultiWriter)),
            (vec![pod], Ok(Mode::SingleNodeWriter), Ok(Mode::SingleNodeSingleWriter)),
            (vec![pod, once], Err(ModeError::OncePodWithOthers), Err(ModeError::OncePodWithOthers)),
            (vec![read, once], Err(ModeError::ReadManyWriteOne), Err(ModeError::ReadManyWriteOne)),
            (vec![read], Ok(Mode::MultiNodeReaderOnly), Ok(Mode::MultiNodeReaderOnly)),
            (vec![once], Ok(Mode::SingleNodeWriter), Ok(Mode::SingleNodeMultiWriter)),
            (vec![], Err(ModeError::Unknown("none is given")), Err(ModeError::Unknown("none is given"))),
        ] {
            let given: Vec<String> = given.into_iter().map(str::to_owned).collect();
            assert_eq!((of_modes(&given, &old), of_modes(&given, &new)), (without, with), "{given:?}");
        }
    }

    #[test]
    fn block_volume_has_no_file_system() {
        let mut spec = PersistentVolumeSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            mount_options: Some(vec!["ro".to_owned()]),
            ..Default::default()
        };
        let can = Capabilities::of(&[], &[]);
        let files = of_volume(&spec, &can).unwrap().access_type;
        let files = files.is_some_and(|t| matches!(t, AccessType::Mount(m) if m.mount_flags == ["ro"]));
        assert!(files);
        spec.volume_mode = Some("Block".to_owned());
        assert!(matches!(of_volume(&spec, &can).unwrap().access_type, Some(AccessType::Block(_))));
    }
}
