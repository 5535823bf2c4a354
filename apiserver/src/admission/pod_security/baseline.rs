//! The checks of the level `baseline`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::pod::{Pod, Violation, containers, name, plural, quoted, setters, sorted, violation};

const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
const APP_ARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
/// Sysctls that are safe, and the minor version since which they are permitted.
const SYSCTLS: [(&str, u32); 12] = [
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
];

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

/// `appArmorProfile`.
pub(super) fn app_armor(pod: &Pod<'_>, _minor: u32) -> Option<Violation> {
    let mut values = BTreeSet::new();
    let mut is_bad = |context: &Value| {
        let profile = &context["appArmorProfile"];
        let kind = text(profile, "type");
        let bad = profile.is_object() && !matches!(kind, "RuntimeDefault" | "Localhost");
        if bad {
            values.insert(kind.to_owned());
        }
        bad
    };
    let of_pod = is_bad(pod.context());
    let names = pod.bad_containers(|container| is_bad(&container["securityContext"]));
    let mut violators: Vec<String> = setters(of_pod, &names).into_iter().collect();
    let allowed =
        |value: &str| value.is_empty() || value == "runtime/default" || value.starts_with("localhost/");
    let mut annotations: Vec<String> = pod
        .annotations()
        .filter(|(key, value)| key.starts_with(APP_ARMOR_ANNOTATION) && !allowed(value))
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    let mut values: Vec<String> = values.into_iter().collect();
    if !annotations.is_empty() {
        annotations.sort();
        violators.push(plural(annotations.len(), "annotation", "annotations").to_owned());
        values.extend(annotations);
    }
    if violators.is_empty() {
        return None;
    }
    let reason = plural(values.len(), "forbidden AppArmor profile", "forbidden AppArmor profiles");
    let shown = quoted(values.iter().map(String::as_str));
    violation(reason, format!("{} must not set AppArmor profile type to {shown}", violators.join(" and ")))
}

/// `capabilities_baseline`.
pub(super) fn capabilities(pod: &Pod<'_>, _minor: u32) -> Option<Violation> {
    let mut added = BTreeSet::new();
    let names = pod.bad_containers(|container| {
        let list = container["securityContext"]["capabilities"]["add"].as_array().into_iter().flatten();
        let bad = list.filter_map(Value::as_str).filter(|one| !CAPABILITIES.contains(one));
        let before = added.len();
        let mut is_bad = false;
        for one in bad {
            is_bad = true;
            added.insert(one.to_owned());
        }
        is_bad || added.len() > before
    });
    if names.is_empty() {
        return None;
    }
    let (violators, what) = (containers(&names), sorted(&added));
    violation(
        "non-default capabilities",
        format!("{violators} must not include {what} in securityContext.capabilities.add"),
    )
}

/// `hostNamespaces`.
pub(super) fn host_namespaces(pod: &Pod<'_>, _minor: u32) -> Option<Violation> {
    let fields = ["hostNetwork", "hostPID", "hostIPC"];
    let set: Vec<String> = fields
        .into_iter()
        .filter(|field| pod.spec()[*field] == true)
        .map(|field| format!("{field}=true"))
        .collect();
    if set.is_empty() { None } else { violation("host namespaces", set.join(", ")) }
}

/// `hostPathVolumes`.
pub(super) fn host_paths(pod: &Pod<'_>, _minor: u32) -> Option<Violation> {
    let volumes = pod.spec()["volumes"].as_array().into_iter().flatten();
    let names: Vec<&str> = volumes.filter(|volume| volume["hostPath"].is_object()).map(name).collect();
    if names.is_empty() {
        return None;
    }
    let volumes = plural(names.len(), "volume", "volumes");
    violation("hostPath volumes", format!("{volumes} {}", quoted(names)))
}

/// `hostPorts`.
pub(super) fn host_ports(pod: &Pod<'_>, _minor: u32) -> Option<Violation> {
    let mut ports = BTreeSet::new();
    let names = pod.bad_containers(|container| {
        let list = container["ports"].as_array().into_iter().flatten();
        let used = list.filter_map(|port| port["hostPort"].as_i64()).filter(|port| *port != 0);
        let used: Vec<String> = used.map(|port| port.to_string()).collect();
        let is_bad = !used.is_empty();
        ports.extend(used);
        is_bad
    });
    if names.is_empty() {
        return None;
    }
    let shown: Vec<&str> = ports.iter().map(String::as_str).collect();
    let use_ = plural(names.len(), "uses", "use");
    let what = plural(ports.len(), "hostPort", "hostPorts");
    violation("hostPort", format!("{} {use_} {what} {}", containers(&names), shown.join(", ")))
}

/// `hostProbesAndHostLifecycle`.
pub(super) fn host_probes(pod: &Pod<'_>, minor: u32) -> Option<Violation> {
    if minor < 34 {
        return None;
    }
    let mut hosts = BTreeSet::new();
    let names = pod.bad_containers(|container| {
        let lifecycle = &container["lifecycle"];
        let handlers = [
            &container["livenessProbe"],
            &container["readinessProbe"],
            &container["startupProbe"],
            &lifecycle["postStart"],
            &lifecycle["preStop"],
        ];
        let named = handlers.iter().flat_map(|handler| [&handler["httpGet"], &handler["tcpSocket"]]);
        let found: Vec<&str> =
            named.map(|action| text(action, "host")).filter(|host| !host.is_empty()).collect();
        hosts.extend(found.iter().map(|host| (*host).to_owned()));
        !found.is_empty()
    });
    if names.is_empty() {
        return None;
    }
    let names: BTreeSet<&str> = names.into_iter().collect();
    let names: Vec<&str> = names.into_iter().collect();
    let use_ = plural(names.len(), "uses", "use");
    let what = plural(hosts.len(), "probe or lifecycle host", "probe or lifecycle hosts");
    violation("probe or lifecycle host", format!("{} {use_} {what} {}", containers(&names), sorted(&hosts)))
}

/// `privileged`.
pub(super) fn privileged(pod: &Pod<'_>, _minor: u32) -> Option<Violation> {
    let names = pod.bad_containers(|container| container["securityContext"]["privileged"] == true);
    if names.is_empty() {
        return None;
    }
    violation("privileged", format!("{} must not set securityContext.privileged=true", containers(&names)))
}

/// `procMount`. Pods in a user namespace may use any type since 1.35.
pub(super) fn proc_mount(pod: &Pod<'_>, minor: u32) -> Option<Violation> {
    if minor >= 35 && pod.has_user_namespace() { None } else { proc_mount_always(pod, minor) }
}

/// `procMount_restricted`, and `procMount` before 1.35.
pub(super) fn proc_mount_always(pod: &Pod<'_>, _minor: u32) -> Option<Violation> {
    let mut types = BTreeSet::new();
    let names = pod.bad_containers(|container| {
        let given = container["securityContext"]["procMount"].as_str().filter(|given| *given != "Default");
        types.extend(given.map(str::to_owned));
        given.is_some()
    });
    if names.is_empty() {
        return None;
    }
    let (violators, what) = (containers(&names), sorted(&types));
    violation("procMount", format!("{violators} must not set securityContext.procMount to {what}"))
}

/// `seLinuxOptions`.
pub(super) fn se_linux(pod: &Pod<'_>, minor: u32) -> Option<Violation> {
    let (mut types, mut user, mut role) = (BTreeSet::new(), false, false);
    let mut is_bad = |context: &Value| {
        let options = &context["seLinuxOptions"];
        if !options.is_object() {
            return false;
        }
        let kind = text(options, "type");
        let is_known = matches!(kind, "" | "container_t" | "container_init_t" | "container_kvm_t")
            || (minor >= 31 && kind == "container_engine_t");
        if !is_known {
            types.insert(kind.to_owned());
        }
        let (sets_user, sets_role) = (!text(options, "user").is_empty(), !text(options, "role").is_empty());
        user |= sets_user;
        role |= sets_role;
        !is_known || sets_user || sets_role
    };
    let of_pod = is_bad(pod.context());
    let names = pod.bad_containers(|container| is_bad(&container["securityContext"]));
    let violators = setters(of_pod, &names)?;
    let mut what = Vec::new();
    if !types.is_empty() {
        what.push(format!("{} {}", plural(types.len(), "type", "types"), sorted(&types)));
    }
    what.extend(user.then(|| "user may not be set".to_owned()));
    what.extend(role.then(|| "role may not be set".to_owned()));
    violation(
        "seLinuxOptions",
        format!("{violators} set forbidden securityContext.seLinuxOptions: {}", what.join("; ")),
    )
}

/// `seccompProfile_baseline`: annotations before 1.19.
pub(super) fn seccomp(pod: &Pod<'_>, minor: u32) -> Option<Violation> {
    if minor < 19 {
        return seccomp_annotations(pod);
    }
    let mut values = BTreeSet::new();
    let mut is_bad = |context: &Value| {
        let bad = bad_seccomp(context);
        values.extend(bad.map(str::to_owned));
        bad.is_some()
    };
    let of_pod = is_bad(pod.context());
    let names = pod.bad_containers(|container| is_bad(&container["securityContext"]));
    let violators = setters(of_pod, &names)?;
    let what = sorted(&values);
    violation(
        "seccompProfile",
        format!("{violators} must not set securityContext.seccompProfile.type to {what}"),
    )
}

/// The type of a forbidden profile.
pub(super) fn bad_seccomp(context: &Value) -> Option<&str> {
    let profile = context["seccompProfile"].as_object()?;
    let kind = profile.get("type").and_then(Value::as_str).unwrap_or_default();
    (!matches!(kind, "RuntimeDefault" | "Localhost")).then_some(kind)
}

fn seccomp_annotations(pod: &Pod<'_>) -> Option<Violation> {
    let allowed = |value: &str| {
        matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/")
    };
    let keys: BTreeSet<String> =
        pod.containers().map(|one| format!("{SECCOMP_CONTAINER}{}", name(one))).collect();
    let bad: BTreeSet<String> = pod
        .annotations()
        .filter(|(key, value)| (*key == SECCOMP_POD || keys.contains(*key)) && !allowed(value))
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    if bad.is_empty() {
        return None;
    }
    let shown: Vec<&str> = bad.iter().map(String::as_str).collect();
    let annotations = plural(bad.len(), "annotation", "annotations");
    violation("seccompProfile", format!("forbidden {annotations} {}", shown.join(", ")))
}

/// `sysctls`.
pub(super) fn sysctls(pod: &Pod<'_>, minor: u32) -> Option<Violation> {
    let list = pod.context()["sysctls"].as_array().into_iter().flatten();
    let is_safe = |given: &str| SYSCTLS.iter().any(|(safe, since)| *safe == given && *since <= minor);
    let bad: Vec<&str> = list.map(name).filter(|given| !is_safe(given)).collect();
    if bad.is_empty() { None } else { violation("forbidden sysctls", bad.join(", ")) }
}

/// `windowsHostProcess`.
pub(super) fn host_process(pod: &Pod<'_>, _minor: u32) -> Option<Violation> {
    let is_bad = |context: &Value| context["windowsOptions"]["hostProcess"] == true;
    let names = pod.bad_containers(|container| is_bad(&container["securityContext"]));
    let violators = setters(is_bad(pod.context()), &names)?;
    violation(
        "hostProcess",
        format!("{violators} must not set securityContext.windowsOptions.hostProcess=true"),
    )
}
