//! Validation of settings that depend on the operating system or on user namespaces.

use k8s_openapi::api::core::v1 as api;

use super::items;
use crate::registry::checks;
use crate::validate::{FieldErrors, Path};

/// A pod with its own user namespace may not share the host's other namespaces.
pub(super) fn host_users(spec: &api::PodSpec, path: &Path, errors: &mut FieldErrors) {
    if spec.host_users != Some(false) {
        return;
    }
    // The paths have upstream's capital letters.
    for (field, shared) in
        [("hostNetwork", spec.host_network), ("HostPID", spec.host_pid), ("HostIPC", spec.host_ipc)]
    {
        if shared == Some(true) {
            errors.forbidden(&path.child(field), "when `pod.Spec.HostUsers` is false");
        }
    }
}

/// A pod that names its operating system may not have settings of the other one.
pub(super) fn os(spec: &api::PodSpec, path: &Path, errors: &mut FieldErrors) {
    match spec.os.as_ref().map(|os| os.name.as_str()) {
        None => {}
        Some("") => errors.required(&path.child("os").child("name"), "cannot be empty"),
        Some("linux") => linux(spec, path, errors),
        Some("windows") => windows(spec, path, errors),
        Some(other) => checks::one_of(errors, &path.child("os"), Some(other), &["linux", "windows"]),
    }
}

/// Every container's security context, with its path.
fn contexts<'a>(spec: &'a api::PodSpec, path: &Path) -> Vec<(&'a api::SecurityContext, Path)> {
    let mut found = Vec::new();
    for (i, container) in items(&spec.init_containers).iter().enumerate() {
        found.push((&container.security_context, path.child("initContainers").index(i)));
    }
    for (i, container) in spec.containers.iter().enumerate() {
        found.push((&container.security_context, path.child("containers").index(i)));
    }
    for (i, container) in items(&spec.ephemeral_containers).iter().enumerate() {
        found.push((&container.security_context, path.child("ephemeralContainers").index(i)));
    }
    found
        .into_iter()
        .filter_map(|(context, path)| Some((context.as_ref()?, path.child("securityContext"))))
        .collect()
}

fn linux(spec: &api::PodSpec, path: &Path, errors: &mut FieldErrors) {
    let why = "windows options cannot be set for a linux pod";
    if spec.security_context.as_ref().is_some_and(|context| context.windows_options.is_some()) {
        errors.forbidden(&path.child("securityContext").child("windowsOptions"), why);
    }
    for (context, path) in contexts(spec, path) {
        if context.windows_options.is_some() {
            errors.forbidden(&path.child("windowsOptions"), why);
        }
    }
}

fn windows(spec: &api::PodSpec, path: &Path, errors: &mut FieldErrors) {
    let why = "cannot be set for a windows pod";
    if let Some(context) = &spec.security_context {
        let inner = path.child("securityContext");
        for (at, set) in [
            (inner.child("appArmorProfile"), context.app_armor_profile.is_some()),
            (inner.child("seLinuxOptions"), context.se_linux_options.is_some()),
            (path.child("hostUsers"), spec.host_users.is_some()),
            (path.child("hostPID"), spec.host_pid == Some(true)),
            (path.child("hostIPC"), spec.host_ipc == Some(true)),
            (inner.child("seccompProfile"), context.seccomp_profile.is_some()),
            (inner.child("fsGroup"), context.fs_group.is_some()),
            (inner.child("fsGroupChangePolicy"), context.fs_group_change_policy.is_some()),
            (inner.child("sysctls"), !items(&context.sysctls).is_empty()),
            (path.child("shareProcessNamespace"), spec.share_process_namespace.is_some()),
            (inner.child("runAsUser"), context.run_as_user.is_some()),
            (inner.child("runAsGroup"), context.run_as_group.is_some()),
            (inner.child("supplementalGroups"), context.supplemental_groups.is_some()),
            (inner.child("supplementalGroupsPolicy"), context.supplemental_groups_policy.is_some()),
            (inner.child("seLinuxChangePolicy"), context.se_linux_change_policy.is_some()),
        ] {
            if set {
                errors.forbidden(&at, why);
            }
        }
    }
    for (context, path) in contexts(spec, path) {
        for (field, set) in [
            ("appArmorProfile", context.app_armor_profile.is_some()),
            ("seLinuxOptions", context.se_linux_options.is_some()),
            ("seccompProfile", context.seccomp_profile.is_some()),
            ("capabilities", context.capabilities.is_some()),
            ("readOnlyRootFilesystem", context.read_only_root_filesystem.is_some()),
            ("privileged", context.privileged.is_some()),
            ("allowPrivilegeEscalation", context.allow_privilege_escalation.is_some()),
            ("procMount", context.proc_mount.is_some()),
            ("runAsUser", context.run_as_user.is_some()),
            ("runAsGroup", context.run_as_group.is_some()),
        ] {
            if set {
                errors.forbidden(&path.child(field), why);
            }
        }
    }
}
