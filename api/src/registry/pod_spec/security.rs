//! Validation of security contexts.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1 as api;

use super::items;
use crate::registry::checks;
use crate::registry::field_refs::descending_path;
use crate::registry::go_format::SECURITY_CONTEXT;
use crate::validate::{FieldErrors, Path};

const PROFILES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];

/// The security context of a pod.
pub(super) fn validate_pod(spec: &api::PodSpec, path: &Path, errors: &mut FieldErrors) {
    let Some(context) = &spec.security_context else { return };
    id(context.fs_group, &path.child("fsGroup"), errors);
    id(context.run_as_user, &path.child("runAsUser"), errors);
    id(context.run_as_group, &path.child("runAsGroup"), errors);
    for (i, group) in items(&context.supplemental_groups).iter().enumerate() {
        id(Some(*group), &path.child("supplementalGroups").index(i), errors);
    }
    if spec.share_process_namespace == Some(true) && spec.host_pid == Some(true) {
        let text = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(&path.child("shareProcessNamespace"), true, text);
    }
    sysctls(spec, items(&context.sysctls), &path.child("sysctls"), errors);
    for (field, value, supported) in [
        ("fsGroupChangePolicy", &context.fs_group_change_policy, ["Always", "OnRootMismatch"]),
        ("supplementalGroupsPolicy", &context.supplemental_groups_policy, ["Merge", "Strict"]),
        ("seLinuxChangePolicy", &context.se_linux_change_policy, ["MountOption", "Recursive"]),
    ] {
        // Upstream validates the profiles between the first and the second of these fields.
        if field == "supplementalGroupsPolicy" {
            seccomp(context.seccomp_profile.as_ref(), &path.child("seccompProfile"), errors);
            app_armor(context.app_armor_profile.as_ref(), &path.child("appArmorProfile"), errors);
        }
        checks::one_of(errors, &path.child(field), value.as_deref(), &supported);
    }
}

/// The security context of a container.
pub(super) fn validate_container(
    context: &api::SecurityContext,
    host_users: bool,
    path: &Path,
    errors: &mut FieldErrors,
) {
    id(context.run_as_user, &path.child("runAsUser"), errors);
    id(context.run_as_group, &path.child("runAsGroup"), errors);
    if let Some(mount) = context.proc_mount.as_deref() {
        let path = path.child("procMount");
        checks::one_of(errors, &path, Some(mount), &["Default", "Unmasked"]);
        if host_users && mount == "Unmasked" {
            errors.invalid(&path, mount, "`hostUsers` must be false to use `Unmasked`");
        }
    }
    seccomp(context.seccomp_profile.as_ref(), &path.child("seccompProfile"), errors);
    if context.allow_privilege_escalation == Some(false) {
        let shown = || SECURITY_CONTEXT.show(serde_json::to_value(context).ok().as_ref());
        if context.privileged == Some(true) {
            let text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.invalid_shown(path, &shown(), text);
        }
        let added = context.capabilities.as_ref().map(|capabilities| items(&capabilities.add));
        for _ in added.unwrap_or_default().iter().filter(|capability| *capability == "CAP_SYS_ADMIN") {
            let text = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.invalid_shown(path, &shown(), text);
        }
    }
    app_armor(context.app_armor_profile.as_ref(), &path.child("appArmorProfile"), errors);
}

/// A user ID or group ID.
fn id(number: Option<i64>, path: &Path, errors: &mut FieldErrors) {
    if let Some(number) = number
        && !(0..=i64::from(i32::MAX)).contains(&number)
    {
        errors.invalid(path, number, "must be between 0 and 2147483647, inclusive");
    }
}

fn seccomp(profile: Option<&api::SeccompProfile>, path: &Path, errors: &mut FieldErrors) {
    let Some(profile) = profile else { return };
    if profile.type_.is_empty() {
        errors.required(&path.child("type"), "type is required when seccompProfile is set");
    } else {
        checks::one_of(errors, &path.child("type"), Some(&profile.type_), &PROFILES);
    }
    let at = path.child("localhostProfile");
    match (profile.type_.as_str(), &profile.localhost_profile) {
        ("Localhost", None) => errors.required(&at, "must be set when seccomp type is Localhost"),
        ("Localhost", Some(local)) => descending_path(local, &at, errors),
        (_, None) => {}
        (_, Some(_)) => {
            let shown = serde_json::to_value(profile).unwrap_or_default();
            errors.invalid(&at, shown, "can only be set when seccomp type is Localhost");
        }
    }
}

fn app_armor(profile: Option<&api::AppArmorProfile>, path: &Path, errors: &mut FieldErrors) {
    /// The maximum length of a path on Linux.
    const MAX: usize = 4095;
    let Some(profile) = profile else { return };
    let at = path.child("localhostProfile");
    let local = profile.localhost_profile.as_deref();
    match profile.type_.as_str() {
        "Localhost" => {
            let missing = "must be set when AppArmor type is Localhost";
            match local {
                Some(local) if local.trim() != local => {
                    errors.invalid(&at, local, "must not be padded with whitespace");
                }
                None | Some("") => errors.required(&at, missing),
                Some(_) => {}
            }
            if local.is_some_and(|local| local.len() > MAX) {
                errors.too_long(&at, MAX);
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if let Some(local) = local {
                errors.invalid(&at, local, "can only be set when AppArmor type is Localhost");
            }
        }
        "" => errors.required(&path.child("type"), "type is required when appArmorProfile is set"),
        other => errors.not_supported(&path.child("type"), other, &PROFILES),
    }
}

fn sysctls(spec: &api::PodSpec, sysctls: &[api::Sysctl], path: &Path, errors: &mut FieldErrors) {
    const RULE: &str = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
    let mut known = BTreeSet::new();
    for (i, sysctl) in sysctls.iter().enumerate() {
        let path = path.index(i).child("name");
        let name = sysctl.name.as_str();
        if name.is_empty() {
            errors.required(&path, "");
        } else if !is_sysctl(name) {
            errors.invalid(&path, name, RULE);
        } else if known.contains(name) {
            errors.duplicate(&path, name);
        }
        // Names may also be written with slashes.
        let dotted = name.replace('/', ".");
        let of_ipc = ["kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."];
        if spec.host_network == Some(true) && dotted.starts_with("net.") {
            errors.invalid(&path, name, "may not be specified when 'hostNetwork' is true");
        } else if spec.host_ipc == Some(true) && of_ipc.iter().any(|prefix| dotted.starts_with(prefix)) {
            errors.invalid(&path, name, "may not be specified when 'hostIPC' is true");
        }
        known.insert(name);
    }
}

fn is_sysctl(name: &str) -> bool {
    let is_end = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    name.len() <= 253
        && name.split(['.', '/']).all(|part| {
            let bytes = part.as_bytes();
            let fine = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_');
            is_end(bytes.first()) && is_end(bytes.last()) && bytes.iter().all(fine)
        })
}
