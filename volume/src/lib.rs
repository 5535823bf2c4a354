//! Rules of volumes, claims and their CSI fields that the controllers and the node agent share, and the deletion of files for
//! both. Pure, except [`rooted_fs`], [`crash_points`], [`csi::secrets::read`] and
//! [`storage_identity::StorageIdentity::resolved`], [`host_path_roots`] and [`file_location`].
//!
//! * [`object`], [`class`], [`modes`]: the fields of claims and volumes, and their defaults.
//! * [`fit`]: whether a volume satisfies a claim. [`affinity`]: whether a node satisfies a node selector.
//! * [`csi`]: names, secrets and capabilities in calls to a driver. [`attachment`]: names of VolumeAttachments.
//! * [`resize`]: the stages and conditions of an expansion.
//! * [`translate`]: in-tree volumes as CSI volumes. [`recycle`]: the pod that scrubs a volume.
//! * [`storage_identity`]: whether two volumes share storage. [`file_location`]: whether two paths lead to the same files.
//! * [`host_path_roots`]: where files of this machine may be erased.
//! * [`rooted_fs`]: file system operations that never leave a directory. [`crash_points`]: fault injection.

pub mod affinity;
pub mod attachment;
pub mod class;
pub mod crash_points;
pub mod csi;
pub mod file_location;
pub mod fit;
pub mod host_path_roots;
pub mod modes;
pub mod object;
pub mod recycle;
pub mod resize;
pub mod rooted_fs;
pub mod storage_identity;
pub mod translate;
