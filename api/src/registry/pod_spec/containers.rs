//! Validation of the three container lists.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1 as api;

use super::{Surroundings, env, items, mounts, ports, probes, resources, security, text};
use crate::registry::checks;
use crate::validate::{FieldErrors, Path};

/// All containers of a pod spec.
pub(super) fn validate(
    spec: &api::PodSpec,
    around: &Surroundings<'_>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    regular(&spec.containers, around, &path.child("containers"), errors);
    init(spec, around, &path.child("initContainers"), errors);
    ephemeral(spec, around, &path.child("ephemeralContainers"), errors);
}

/// Upstream's extra rule for containers of bare pods, checked last: image names
/// have no surrounding whitespace. Templates may contain whitespace as a placeholder.
pub(in crate::registry) fn images_without_blanks(spec: &api::PodSpec, path: &Path, errors: &mut FieldErrors) {
    let lists =
        [("containers", spec.containers.as_slice()), ("initContainers", items(&spec.init_containers))];
    for (list, containers) in lists {
        for (i, container) in containers.iter().enumerate() {
            image_without_blanks(container, &path.child(list).index(i), errors);
        }
    }
}

fn image_without_blanks(container: &api::Container, path: &Path, errors: &mut FieldErrors) {
    let image = text(&container.image);
    if image.trim() != image {
        errors.invalid(&path.child("image"), image, "must not have leading or trailing whitespace");
    }
}

fn regular(list: &[api::Container], around: &Surroundings<'_>, path: &Path, errors: &mut FieldErrors) {
    if list.is_empty() {
        errors.required(path, "");
        return;
    }
    let mut names = BTreeSet::new();
    for (i, container) in list.iter().enumerate() {
        let path = path.index(i);
        common(container, around, &path, errors);
        if !names.insert(&container.name) {
            errors.duplicate(&path.child("name"), container.name.as_str());
        }
        probes::lifecycle(container.lifecycle.as_ref(), around.grace, &path.child("lifecycle"), errors);
        probes::all(container, &path, errors);
        restart_policy(container, &path, errors);
    }
    ports::unique_host_ports(list.iter().enumerate(), path, errors);
}

fn init(spec: &api::PodSpec, around: &Surroundings<'_>, path: &Path, errors: &mut FieldErrors) {
    let mut names: BTreeSet<&str> = spec.containers.iter().map(|container| container.name.as_str()).collect();
    for (i, container) in items(&spec.init_containers).iter().enumerate() {
        let at = path.index(i);
        common(container, around, &at, errors);
        restart_policy(container, &at, errors);
        if names.contains(container.name.as_str()) {
            errors.duplicate(&at.child("name"), container.name.as_str());
        } else if !container.name.is_empty() {
            names.insert(&container.name);
        }
        // They run one after the other, so they may use the same ports.
        ports::unique_host_ports(std::iter::once((0, container)), path, errors);
        if text(&container.restart_policy) == "Always" {
            probes::lifecycle(container.lifecycle.as_ref(), around.grace, &at.child("lifecycle"), errors);
            probes::all(container, &at, errors);
            continue;
        }
        for (field, given) in [
            ("lifecycle", container.lifecycle.is_some()),
            ("livenessProbe", container.liveness_probe.is_some()),
            ("readinessProbe", container.readiness_probe.is_some()),
            ("startupProbe", container.startup_probe.is_some()),
        ] {
            if given {
                let text = "may not be set for init containers without restartPolicy=Always";
                errors.forbidden(&at.child(field), text);
            }
        }
    }
}

fn ephemeral(spec: &api::PodSpec, around: &Surroundings<'_>, path: &Path, errors: &mut FieldErrors) {
    let others: BTreeSet<&str> = spec
        .containers
        .iter()
        .chain(items(&spec.init_containers))
        .map(|container| container.name.as_str())
        .collect();
    let mut names = others.clone();
    for (i, given) in items(&spec.ephemeral_containers).iter().enumerate() {
        let path = path.index(i);
        let container = as_container(given);
        common(&container, around, &path, errors);
        image_without_blanks(&container, &path, errors);
        if !names.insert(&given.name) {
            errors.duplicate(&path.child("name"), given.name.as_str());
        }
        let target = text(&given.target_container_name);
        if !target.is_empty() && !others.contains(target) {
            errors.not_found(&path.child("targetContainerName"), target);
        }
        let why = "cannot be set for an Ephemeral Container";
        let resources = given.resources.as_ref().is_some_and(|resources| *resources != Default::default());
        for (field, set) in [
            ("ports", !items(&given.ports).is_empty()),
            ("resources", resources),
            ("resizePolicy", !items(&given.resize_policy).is_empty()),
            ("restartPolicy", given.restart_policy.is_some()),
            ("restartPolicyRules", !items(&given.restart_policy_rules).is_empty()),
            ("livenessProbe", given.liveness_probe.is_some()),
            ("readinessProbe", given.readiness_probe.is_some()),
            ("startupProbe", given.startup_probe.is_some()),
            ("lifecycle", given.lifecycle.is_some()),
        ] {
            if set {
                errors.forbidden(&path.child(field), why);
            }
        }
        for (i, mount) in items(&given.volume_mounts).iter().enumerate() {
            let path = path.child("volumeMounts").index(i);
            for (field, value) in [("subPath", &mount.sub_path), ("subPathExpr", &mount.sub_path_expr)] {
                if !text(value).is_empty() {
                    errors.forbidden(&path.child(field), why);
                }
            }
        }
    }
}

/// Validates the parts that all containers have in common.
fn common(container: &api::Container, around: &Surroundings<'_>, path: &Path, errors: &mut FieldErrors) {
    if checks::required(errors, &path.child("name"), &container.name) {
        checks::label(errors, &path.child("name"), &container.name);
    }
    checks::required(errors, &path.child("image"), text(&container.image));
    checks::one_of(
        errors,
        &path.child("terminationMessagePolicy"),
        container.termination_message_policy.as_deref(),
        &["File", "FallbackToLogsOnError"],
    );
    ports::validate(items(&container.ports), &path.child("ports"), errors);
    env::variables(items(&container.env), &path.child("env"), errors);
    env::sources(items(&container.env_from), &path.child("envFrom"), errors);
    mounts::mounts(container, &around.volumes, &path.child("volumeMounts"), errors);
    mounts::devices(container, &around.volumes, &path.child("volumeDevices"), errors);
    checks::one_of(
        errors,
        &path.child("imagePullPolicy"),
        container.image_pull_policy.as_deref(),
        &["Always", "IfNotPresent", "Never"],
    );
    if let Some(requirements) = &container.resources {
        resources::validate(requirements, &around.claims, &path.child("resources"), errors);
    }
    resources::resize_policy(container, around.restart_policy, &path.child("resizePolicy"), errors);
    if let Some(context) = &container.security_context {
        security::validate_container(context, around.host_users, &path.child("securityContext"), errors);
    }
}

/// A container may have its own restart policy and rules.
fn restart_policy(container: &api::Container, path: &Path, errors: &mut FieldErrors) {
    let rules = items(&container.restart_policy_rules);
    let at = path.child("restartPolicy");
    match container.restart_policy.as_deref() {
        None if !rules.is_empty() => {
            errors.required(&at, "must specify restartPolicy when restart rules are used");
        }
        policy => checks::one_of(errors, &at, policy, &["Always", "Never", "OnFailure"]),
    }
    if rules.len() > 20 {
        errors.too_many(&path.child("restartPolicyRules"), rules.len(), 20);
    }
    for (i, rule) in rules.iter().enumerate() {
        let path = path.child("restartPolicyRules").index(i);
        checks::one_of(
            errors,
            &path.child("action"),
            Some(&rule.action),
            &["Restart", "RestartAllContainers"],
        );
        let codes = path.child("exitCodes");
        match &rule.exit_codes {
            None => errors.required(&codes, "must be specified"),
            Some(exit) => {
                checks::one_of(errors, &codes.child("operator"), Some(&exit.operator), &["In", "NotIn"]);
                if items(&exit.values).len() > 255 {
                    errors.too_many(&codes.child("values"), items(&exit.values).len(), 255);
                }
            }
        }
    }
}

/// Converts an ephemeral container, which has all fields of a container, and a target.
fn as_container(given: &api::EphemeralContainer) -> api::Container {
    let given = given.clone();
    api::Container {
        args: given.args,
        command: given.command,
        env: given.env,
        env_from: given.env_from,
        image: given.image,
        image_pull_policy: given.image_pull_policy,
        lifecycle: given.lifecycle,
        liveness_probe: given.liveness_probe,
        name: given.name,
        ports: given.ports,
        readiness_probe: given.readiness_probe,
        resize_policy: given.resize_policy,
        resources: given.resources,
        restart_policy: given.restart_policy,
        restart_policy_rules: given.restart_policy_rules,
        security_context: given.security_context,
        startup_probe: given.startup_probe,
        stdin: given.stdin,
        stdin_once: given.stdin_once,
        termination_message_path: given.termination_message_path,
        termination_message_policy: given.termination_message_policy,
        tty: given.tty,
        volume_devices: given.volume_devices,
        volume_mounts: given.volume_mounts,
        working_dir: given.working_dir,
    }
}
