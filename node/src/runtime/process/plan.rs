//! Builds the launch order of a container from its pod. Pure, except that it checks the root directory of the
//! image.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container as ApiContainer, Pod, VolumeMount};

use super::expand::{Environment, PathError};
use super::launch_spec::{Container, MountPlan, Program, Propagation};
use crate::paths::Paths;
use crate::runtime::{PodPath, records};

/// Settings that all containers of an agent share.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// The directories of the agent.
    pub(super) paths: Paths,
    /// The command of the hidden mode.
    pub(super) launcher: Vec<String>,
    /// A log is rotated at this size, in bytes.
    pub(super) log_bytes: u64,
    /// The maximum number of files of a log.
    pub(super) log_files: u32,
    /// The parent of the cgroups of containers; `None` where cgroups cannot be created.
    pub(super) cgroup: Option<PathBuf>,
}

/// The directory of a pod's containers.
pub(super) fn pod_dir(paths: &Paths, uid: &str) -> PathBuf {
    paths.pod(uid).join("containers")
}

/// The directory of a container's logs.
pub(super) fn log_dir(paths: &Paths, namespace: &str, pod: &str, uid: &str, container: &str) -> PathBuf {
    paths.logs().join(format!("{namespace}_{pod}_{uid}")).join(container)
}

/// The feature of a pod that this runtime does not support, if any.
pub(super) fn unsupported(pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let is_own = |one: &ApiContainer, is_init: bool| {
        one.restart_policy_rules.is_some() || (one.restart_policy.is_some() && !(is_init && is_sidecar(one)))
    };
    let init = spec.init_containers.iter().flatten();
    let mut own = init.clone().filter(|one| is_own(one, true));
    if let Some(one) = own.next().or_else(|| spec.containers.iter().find(|one| is_own(one, false))) {
        return Some(format!(
            "container {} has its own restart policy, which this runtime supports only for init containers, as Always",
            one.name
        ));
    }
    let all = || spec.containers.iter().chain(init.clone());
    let probes = |one: &ApiContainer| {
        let probes = [&one.liveness_probe, &one.readiness_probe, &one.startup_probe];
        probes.into_iter().flatten().cloned().collect::<Vec<_>>()
    };
    if let Some(one) = all().find(|one| probes(one).iter().any(|probe| probe.grpc.is_some())) {
        return Some(format!("container {} has a gRPC probe, which this runtime does not know", one.name));
    }
    let hooks = |one: &ApiContainer| {
        let hooks = one.lifecycle.iter().flat_map(|hooks| [&hooks.post_start, &hooks.pre_stop]);
        hooks.flatten().filter_map(|hook| hook.http_get.clone()).collect::<Vec<_>>()
    };
    let is_tls = |one: &ApiContainer| {
        let mut gets = probes(one).into_iter().filter_map(|probe| probe.http_get).chain(hooks(one));
        gets.any(|get| get.scheme.as_deref() == Some("HTTPS"))
    };
    if let Some(one) = all().find(|one| is_tls(one)) {
        return Some(format!(
            "container {} has a probe or a hook over HTTPS, which this runtime does not know",
            one.name
        ));
    }
    all()
        .find(|one| !records::is_step(&one.name))
        .map(|one| format!("{:?} cannot be the name of a file", one.name))
}

/// Whether a container of `initContainers` is a sidecar, which runs as long as the pod does.
pub(super) fn is_sidecar(init: &ApiContainer) -> bool {
    init.restart_policy.as_deref() == Some("Always")
}

/// The launch order of a container.
///
/// # Errors
/// Its spec is invalid; the container waits with `CreateContainerConfigError`.
pub(super) fn plan(
    settings: &Settings,
    pod: &Pod,
    container: &ApiContainer,
    restart: u32,
    volumes: &[PodPath],
    env: Vec<(String, String)>,
) -> Result<Container, String> {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let (namespace, name, uid) =
        (text(&pod.metadata.namespace), text(&pod.metadata.name), text(&pod.metadata.uid));
    let env = Environment::of(env).map_err(|error| error.to_string())?;
    // Of several paths of one volume, the first one counts.
    let volumes: PathsByVolume<'_> = volumes.iter().rev().map(|path| (path.volume.as_str(), path)).collect();
    let mut mounts = Vec::new();
    for mount in container.volume_mounts.iter().flatten() {
        mounts.push(volume(mount, &volumes, &env)?);
    }
    for device in container.volume_devices.iter().flatten() {
        let path = of_name(&volumes, &device.name)?;
        mounts.push(MountPlan {
            volume: path.path.canonicalize().map_err(|error| format!("{}: {error}", path.path.display()))?,
            sub_path: None,
            at: absolute(&device.device_path)?,
            read_only: path.read_only,
            read_only_below: false,
            propagation: Propagation::None,
        });
    }
    let program = own_program(pod, container, env)?;
    Ok(Container {
        launcher: settings.launcher.clone(),
        dir: pod_dir(&settings.paths, &uid).join(&container.name),
        restart,
        logs: log_dir(&settings.paths, &namespace, &name, &uid, &container.name),
        log_bytes: settings.log_bytes,
        log_files: settings.log_files,
        agent_root: settings.paths.root().to_owned(),
        image: image(container.image.as_deref().unwrap_or_default())?,
        read_only_root: container.security_context.as_ref().and_then(|c| c.read_only_root_filesystem)
            == Some(true),
        mounts,
        program,
        message_path: container
            .termination_message_path
            .clone()
            .filter(|path| !path.is_empty())
            .unwrap_or_else(|| "/dev/termination-log".to_owned()),
        log_as_message: container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError"),
        cgroup: settings.cgroup.clone(),
    })
}

/// A program without arguments that joins a container, with the identity of the container. It is not bounded: a
/// failure here would make the program run with the identity of the agent.
///
/// # Errors
/// The identity of the container is invalid.
pub(super) fn program(
    pod: &Pod,
    container: &ApiContainer,
    env: Vec<(String, String)>,
) -> Result<Program, String> {
    Ok(Program { env, ..identity(pod, container)? })
}

/// The program of a container, with its identity.
fn own_program(pod: &Pod, container: &ApiContainer, mut env: Environment) -> Result<Program, String> {
    let words = [&container.command, &container.args].into_iter().flatten().flatten();
    let args: Result<Vec<String>, _> = words.map(|text| env.argument(text)).collect();
    let args = args.map_err(|error| error.to_string())?;
    if container.command.as_ref().is_none_or(Vec::is_empty) {
        return Err(
            "no command specified: this runtime reads no images, so the container must set its command"
                .to_owned(),
        );
    }
    Ok(Program { args, env: env.into_variables(), ..identity(pod, container)? })
}

/// The identity of a container, as a program without arguments and environment.
fn identity(pod: &Pod, container: &ApiContainer) -> Result<Program, String> {
    let of_pod = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let own = container.security_context.as_ref();
    let id = |name: &str, value: Option<i64>| match value.map(u32::try_from) {
        None => Ok(None),
        Some(Ok(id)) => Ok(Some(id)),
        Some(Err(_)) => Err(format!("{name} is no user or group of this machine")),
    };
    let mut groups = Vec::new();
    let further =
        of_pod.and_then(|context| context.supplemental_groups.as_ref()).into_iter().flatten().copied();
    for group in further.chain(of_pod.and_then(|context| context.fs_group)) {
        groups.extend(id("a supplemental group", Some(group))?);
    }
    Ok(Program {
        working_dir: container.working_dir.clone().unwrap_or_default(),
        user: id("runAsUser", own.and_then(|c| c.run_as_user).or_else(|| of_pod?.run_as_user))?,
        group: id("runAsGroup", own.and_then(|c| c.run_as_group).or_else(|| of_pod?.run_as_group))?,
        groups,
        strict_groups: of_pod.and_then(|context| context.supplemental_groups_policy.as_deref())
            == Some("Strict"),
        not_root: own.and_then(|c| c.run_as_non_root).or_else(|| of_pod?.run_as_non_root) == Some(true),
        no_new_privileges: own.and_then(|c| c.allow_privilege_escalation) == Some(false),
        ..Program::default()
    })
}

/// The root directory that an image names: `dir:///path`, or an absolute path. Any other image is one of a
/// registry and is ignored.
fn image(image: &str) -> Result<Option<PathBuf>, String> {
    let path = image.strip_prefix("dir://").unwrap_or(image);
    if !path.starts_with('/') {
        return Ok(None);
    }
    let found = Path::new(path).canonicalize().map_err(|error| format!("image {image}: {error}"))?;
    match (found.is_dir(), found == Path::new("/")) {
        (_, true) => Ok(None),
        (true, false) => Ok(Some(found)),
        (false, false) => Err(format!("image {image} is no directory")),
    }
}

/// The mounted volumes of a pod by their name in the pod.
type PathsByVolume<'a> = HashMap<&'a str, &'a PodPath>;

fn of_name<'a>(volumes: &PathsByVolume<'a>, name: &str) -> Result<&'a PodPath, String> {
    volumes.get(name).copied().ok_or_else(|| format!("volume {name:?} is not mounted"))
}

fn absolute(path: &str) -> Result<PathBuf, String> {
    let path = Path::new("/").join(path);
    let is_plain = !path.components().any(|step| step == std::path::Component::ParentDir);
    match is_plain && path != Path::new("/") {
        true => Ok(path),
        false => Err(format!("{} cannot be a mount point", path.display())),
    }
}

fn volume(mount: &VolumeMount, volumes: &PathsByVolume<'_>, env: &Environment) -> Result<MountPlan, String> {
    let found = of_name(volumes, &mount.name)?;
    let sub_path = match (mount.sub_path.as_deref(), mount.sub_path_expr.as_deref()) {
        (Some(path), _) if !path.is_empty() => Some(path.to_owned()),
        (_, Some(text)) if !text.is_empty() => {
            Some(env.path(text).map_err(|error| match error {
                PathError::Unknown(_) => format!("subPathExpr {text:?}: {error}"),
                // Such a template does not fit into a message.
                PathError::TooLong => format!("subPathExpr of {:?}: {error}", mount.mount_path),
            })?)
        }
        _ => None,
    };
    if let Some(path) = sub_path.as_deref().filter(|path| !is_inner(path)) {
        return Err(format!("subPath {path:?} must be a relative path without `..`"));
    }
    let read_only = found.read_only || mount.read_only == Some(true);
    let below = match mount.recursive_read_only.as_deref() {
        Some("Enabled" | "IfPossible") => read_only,
        Some(_) | None => false,
    };
    Ok(MountPlan {
        volume: found.path.clone(),
        sub_path: sub_path.map(PathBuf::from),
        at: absolute(&mount.mount_path)?,
        read_only,
        read_only_below: below,
        propagation: match mount.mount_propagation.as_deref() {
            Some("Bidirectional") => Propagation::Bidirectional,
            Some("HostToContainer") => Propagation::HostToContainer,
            Some(_) | None => Propagation::None,
        },
    })
}

fn is_inner(path: &str) -> bool {
    use std::path::Component;
    Path::new(path).components().all(|step| matches!(step, Component::Normal(_) | Component::CurDir))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::{Duration, Instant};

    use serde_json::{Value, json};

    use super::*;

    fn settings() -> Settings {
        Settings {
            paths: Paths::new("/r"),
            launcher: vec!["x".into()],
            log_bytes: 1,
            log_files: 1,
            cgroup: None,
        }
    }

    fn planned(pod: Value, container: Value) -> Result<Container, String> {
        let volumes = [
            PodPath { volume: "v".into(), path: "/r/v".into(), read_only: false, block: false },
            PodPath { volume: "ro".into(), path: "/r/ro".into(), read_only: true, block: false },
        ];
        let spec = json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": pod});
        let pod = serde_json::from_value(spec).unwrap();
        let env = vec![("A".to_owned(), "1".to_owned())];
        plan(&settings(), &pod, &serde_json::from_value(container).unwrap(), 2, &volumes, env)
    }

    fn mounted(mount: Value) -> Result<MountPlan, String> {
        let container = json!({"name": "c", "command": ["x"], "volumeMounts": [mount]});
        planned(json!({"containers": []}), container).map(|mut plan| plan.mounts.remove(0))
    }

    #[test]
    fn volume_mounts_are_planned_or_rejected() {
        let mount = |more: Value| {
            let mut all = json!({"name": "v", "mountPath": "/m"});
            all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            mounted(all)
        };
        let plain = mount(json!({})).unwrap();
        assert_eq!((plain.at.as_path(), plain.read_only, plain.sub_path), (Path::new("/m"), false, None));
        assert!(mount(json!({"name": "ro"})).unwrap().read_only);
        let below = mount(json!({"readOnly": true, "recursiveReadOnly": "Enabled"})).unwrap();
        assert!(below.read_only && below.read_only_below);
        let sub = mount(json!({"subPathExpr": "x/$(A)"})).unwrap().sub_path;
        assert_eq!(sub.as_deref(), Some(Path::new("x/1")));
        for (more, want) in [
            (json!({"subPath": "../x"}), "must be a relative path"),
            (json!({"subPath": "/x"}), "must be a relative path"),
            (json!({"subPathExpr": "$(NONE)"}), "there is no variable NONE"),
            (json!({"name": "other"}), "volume \"other\" is not mounted"),
            (json!({"mountPath": "/"}), "cannot be a mount point"),
            (json!({"mountPath": "/a/../../b"}), "cannot be a mount point"),
        ] {
            let error = mount(more.clone()).unwrap_err();
            assert!(error.contains(want), "{more}: {error}");
        }
    }

    #[test]
    fn program_has_its_arguments_and_identity() {
        let pod = json!({"containers": [], "securityContext": {"runAsUser": 5, "fsGroup": 7, "supplementalGroups": [8]}});
        let container = json!({"name": "c", "command": ["a", "$(A)"], "args": ["$$(A)"], "securityContext": {"runAsUser": 6}});
        let plan = planned(pod.clone(), container).unwrap();
        assert_eq!(plan.program.args, ["a", "1", "$(A)"]);
        assert_eq!((plan.program.user, plan.program.group, plan.program.groups), (Some(6), None, vec![8, 7]));
        assert_eq!(plan.logs, Path::new("/r/logs/n_p_u/c"));
        assert_eq!((plan.image, plan.dir.as_path()), (None, Path::new("/r/pods/u/containers/c")));
        let error = planned(pod, json!({"name": "c", "args": ["x"]})).unwrap_err();
        assert!(error.starts_with("no command specified"), "{error}");
    }

    #[test]
    fn oversized_arguments_and_paths_are_rejected() {
        let arg = "$(A)".repeat(3 << 20);
        let error = planned(json!({"containers": []}), json!({"name": "c", "command": [arg]})).unwrap_err();
        assert_eq!(error, "the environment and the arguments of the container are larger than 2 MiB");
        let error = mounted(json!({"name": "v", "mountPath": "/m", "subPathExpr": "x/".repeat(2049)}));
        assert_eq!(error.unwrap_err(), "subPathExpr of \"/m\": it is longer than 4096 bytes");
    }

    #[test]
    fn joining_program_has_the_identity_of_its_container_whatever_its_size() {
        let pod: Pod = serde_json::from_value(json!({"spec": {"containers": []}})).unwrap();
        let container = serde_json::from_value(json!({
            "name": "c", "command": ["$(A)$(A)$(A)"], "securityContext": {"runAsUser": 6},
        }));
        let env = vec![("A".to_owned(), "a".repeat(3 << 20))];
        let program = program(&pod, &container.unwrap(), env).unwrap();
        assert_eq!((program.user, program.args, program.env.len()), (Some(6), Vec::new(), 1));
    }

    #[test]
    fn cost_of_many_mounts_is_linear() {
        let path = |at: usize| PodPath {
            volume: format!("v{at}"),
            path: "/r/v".into(),
            read_only: false,
            block: false,
        };
        let volumes: Vec<PodPath> = (0..60_000).map(path).collect();
        let mount = |path: &PodPath| json!({"name": path.volume, "mountPath": format!("/{}", path.volume)});
        let mounts: Vec<Value> = volumes.iter().map(mount).collect();
        let container =
            serde_json::from_value(json!({"name": "c", "command": ["x"], "volumeMounts": mounts})).unwrap();
        let begun = Instant::now();
        let plan = plan(&settings(), &Pod::default(), &container, 0, &volumes, Vec::new()).unwrap();
        assert_eq!(plan.mounts.len(), 60_000);
        // Quadratic work takes half a minute.
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }

    #[test]
    fn directory_images_are_resolved() {
        assert_eq!(image("nginx:1"), Ok(None));
        assert_eq!(image("dir:///"), Ok(None));
        assert_eq!(image("dir:///usr"), Ok(Some("/usr".into())));
        assert_eq!(image("/usr"), Ok(Some("/usr".into())));
        assert!(image("/etc/passwd").unwrap_err().contains("no directory"));
        assert!(image("dir:///no-such").is_err());
    }

    #[test]
    fn unsupported_features_are_named() {
        let said = |spec: Value| {
            unsupported(&serde_json::from_value(json!({"spec": spec})).unwrap()).unwrap_or_default()
        };
        let main = |more: Value| {
            let mut container = json!({"name": "c"});
            container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({"containers": [container], "initContainers": [{"name": "i", "restartPolicy": "Always"}]})
        };
        for (more, want) in [
            (json!({"livenessProbe": {"grpc": {"port": 1}}}), "a gRPC probe"),
            (json!({"livenessProbe": {"httpGet": {"port": 1, "scheme": "HTTPS"}}}), "over HTTPS"),
            (json!({"lifecycle": {"preStop": {"httpGet": {"port": 1, "scheme": "HTTPS"}}}}), "over HTTPS"),
            (json!({"restartPolicy": "Never"}), "its own restart policy"),
            (json!({"restartPolicyRules": [{"action": "Restart"}]}), "its own restart policy"),
        ] {
            let why = said(main(more.clone()));
            assert!(why.starts_with("container c has ") && why.contains(want), "{more}: {why}");
        }
        let hook = main(json!({"lifecycle": {"postStart": {"sleep": {"seconds": 1}}}}));
        assert_eq!(said(hook), "");
    }
}
