//! Pod templates in the format of upstream's error messages ([`Shape`]). Pods, containers, ports, variables and mounts have
//! upstream's field names; the parts of volumes, probes and affinities are printed as JSON.

use serde_json::{Map, Value};

use crate::registry::go_format::{RESOURCE_CLAIM, Shape, TOLERATION_LIST};

const RESOURCES: Shape = Shape::Struct(&[
    ("Limits", "limits", Shape::Plain),
    ("Requests", "requests", Shape::Plain),
    ("Claims", "claims", Shape::Plain),
]);

const PORT: Shape = Shape::Struct(&[
    ("Name", "name", Shape::Text),
    ("HostPort", "hostPort", Shape::Count),
    ("ContainerPort", "containerPort", Shape::Count),
    ("Protocol", "protocol", Shape::Text),
    ("HostIP", "hostIP", Shape::Text),
]);

const VARIABLE: Shape = Shape::Struct(&[
    ("Name", "name", Shape::Text),
    ("Value", "value", Shape::Text),
    ("ValueFrom", "valueFrom", Shape::Plain),
]);

const MOUNT: Shape = Shape::Struct(&[
    ("Name", "name", Shape::Text),
    ("ReadOnly", "readOnly", Shape::Flag),
    ("RecursiveReadOnly", "recursiveReadOnly", Shape::Plain),
    ("MountPath", "mountPath", Shape::Text),
    ("SubPath", "subPath", Shape::Text),
    ("MountPropagation", "mountPropagation", Shape::Plain),
    ("SubPathExpr", "subPathExpr", Shape::Text),
]);

const CONTAINER: Shape = Shape::Struct(&[
    ("Name", "name", Shape::Text),
    ("Image", "image", Shape::Text),
    ("Command", "command", Shape::Plain),
    ("Args", "args", Shape::Plain),
    ("WorkingDir", "workingDir", Shape::Text),
    ("Ports", "ports", Shape::List(&PORT)),
    ("EnvFrom", "envFrom", Shape::Plain),
    ("Env", "env", Shape::List(&VARIABLE)),
    ("Resources", "resources", RESOURCES),
    ("ResizePolicy", "resizePolicy", Shape::Plain),
    ("RestartPolicy", "restartPolicy", Shape::Plain),
    ("RestartPolicyRules", "restartPolicyRules", Shape::Plain),
    ("VolumeMounts", "volumeMounts", Shape::List(&MOUNT)),
    ("VolumeDevices", "volumeDevices", Shape::Plain),
    ("LivenessProbe", "livenessProbe", Shape::Plain),
    ("ReadinessProbe", "readinessProbe", Shape::Plain),
    ("StartupProbe", "startupProbe", Shape::Plain),
    ("Lifecycle", "lifecycle", Shape::Plain),
    ("TerminationMessagePath", "terminationMessagePath", Shape::Text),
    ("TerminationMessagePolicy", "terminationMessagePolicy", Shape::Text),
    ("ImagePullPolicy", "imagePullPolicy", Shape::Text),
    ("SecurityContext", "securityContext", Shape::Plain),
    ("Stdin", "stdin", Shape::Flag),
    ("StdinOnce", "stdinOnce", Shape::Flag),
    ("TTY", "tty", Shape::Flag),
]);

const SECURITY_CONTEXT: Shape = Shape::Struct(&[
    ("HostNetwork", "hostNetwork", Shape::Flag),
    ("HostPID", "hostPID", Shape::Flag),
    ("HostIPC", "hostIPC", Shape::Flag),
    ("ShareProcessNamespace", "shareProcessNamespace", Shape::Plain),
    ("HostUsers", "hostUsers", Shape::Plain),
    ("SELinuxOptions", "seLinuxOptions", Shape::Plain),
    ("WindowsOptions", "windowsOptions", Shape::Plain),
    ("RunAsUser", "runAsUser", Shape::Plain),
    ("RunAsGroup", "runAsGroup", Shape::Plain),
    ("RunAsNonRoot", "runAsNonRoot", Shape::Plain),
    ("SupplementalGroups", "supplementalGroups", Shape::Plain),
    ("SupplementalGroupsPolicy", "supplementalGroupsPolicy", Shape::Plain),
    ("FSGroup", "fsGroup", Shape::Plain),
    ("FSGroupChangePolicy", "fsGroupChangePolicy", Shape::Plain),
    ("Sysctls", "sysctls", Shape::Plain),
    ("SeccompProfile", "seccompProfile", Shape::Plain),
    ("AppArmorProfile", "appArmorProfile", Shape::Plain),
    ("SELinuxChangePolicy", "seLinuxChangePolicy", Shape::Plain),
]);

const POD: Shape = Shape::Struct(&[
    ("Volumes", "volumes", Shape::Plain),
    ("InitContainers", "initContainers", Shape::List(&CONTAINER)),
    ("Containers", "containers", Shape::List(&CONTAINER)),
    ("EphemeralContainers", "ephemeralContainers", Shape::Plain),
    ("RestartPolicy", "restartPolicy", Shape::Text),
    ("TerminationGracePeriodSeconds", "terminationGracePeriodSeconds", Shape::Plain),
    ("ActiveDeadlineSeconds", "activeDeadlineSeconds", Shape::Plain),
    ("DNSPolicy", "dnsPolicy", Shape::Text),
    ("NodeSelector", "nodeSelector", Shape::Plain),
    ("ServiceAccountName", "serviceAccountName", Shape::Text),
    ("AutomountServiceAccountToken", "automountServiceAccountToken", Shape::Plain),
    ("NodeName", "nodeName", Shape::Text),
    ("SecurityContext", "securityContext", SECURITY_CONTEXT),
    ("ImagePullSecrets", "imagePullSecrets", Shape::List(&Shape::Struct(&[("Name", "name", Shape::Text)]))),
    ("Hostname", "hostname", Shape::Text),
    ("Subdomain", "subdomain", Shape::Text),
    ("SetHostnameAsFQDN", "setHostnameAsFQDN", Shape::Plain),
    ("Affinity", "affinity", Shape::Plain),
    ("SchedulerName", "schedulerName", Shape::Text),
    ("Tolerations", "tolerations", TOLERATION_LIST),
    ("HostAliases", "hostAliases", Shape::Plain),
    ("PriorityClassName", "priorityClassName", Shape::Text),
    ("Priority", "priority", Shape::Plain),
    ("PreemptionPolicy", "preemptionPolicy", Shape::Plain),
    ("DNSConfig", "dnsConfig", Shape::Plain),
    ("ReadinessGates", "readinessGates", Shape::Plain),
    ("RuntimeClassName", "runtimeClassName", Shape::Plain),
    ("Overhead", "overhead", Shape::Plain),
    ("EnableServiceLinks", "enableServiceLinks", Shape::Plain),
    ("TopologySpreadConstraints", "topologySpreadConstraints", Shape::Plain),
    ("OS", "os", Shape::Plain),
    ("SchedulingGates", "schedulingGates", Shape::List(&Shape::Struct(&[("Name", "name", Shape::Text)]))),
    ("ResourceClaims", "resourceClaims", Shape::List(&RESOURCE_CLAIM)),
    ("Resources", "resources", Shape::Plain),
    ("HostnameOverride", "hostnameOverride", Shape::Plain),
    ("SchedulingGroup", "schedulingGroup", Shape::Plain),
]);

const TEMPLATE: Shape = Shape::WithMetadata(&[("Spec", "spec", POD)]);

/// The fields of a pod that upstream's struct has in its security context.
const HOST_FIELDS: [&str; 5] = ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"];

/// A pod template as upstream prints it.
pub(in crate::registry) fn show_template(template: &Value) -> String {
    let mut template = template.clone();
    if let Some(pod) = template.get_mut("spec").and_then(Value::as_object_mut) {
        move_host_fields(pod);
    }
    TEMPLATE.show(Some(&template))
}

fn move_host_fields(pod: &mut Map<String, Value>) {
    let moved = HOST_FIELDS.map(|field| (field, pod.remove(field)));
    let context = pod.entry("securityContext").or_insert_with(|| Map::new().into());
    let Some(context) = context.as_object_mut() else { return };
    for (field, value) in moved {
        if let Some(value) = value {
            context.insert(field.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn templates_are_printed_with_all_fields() {
        let shown = show_template(&json!({
            "metadata": {"labels": {"a": "b"}},
            "spec": {
                "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}], "resources": {}}],
                "hostNetwork": true, "securityContext": {"runAsUser": 1},
            },
        }));
        assert!(shown.starts_with("{\"labels\":{\"a\":\"b\"},\"Spec\":{\"Volumes\":null,"), "{shown}");
        for part in [
            "\"Ports\":[{\"Name\":\"\",\"HostPort\":0,\"ContainerPort\":80,\"Protocol\":\"\",\"HostIP\":\"\"}]",
            "\"Resources\":{\"Limits\":null,\"Requests\":null,\"Claims\":null}",
            "\"SecurityContext\":{\"HostNetwork\":true,\"HostPID\":false,",
            "\"RunAsUser\":1,\"RunAsGroup\":null",
        ] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
        assert!(shown.ends_with("\"HostnameOverride\":null,\"SchedulingGroup\":null}}"), "{shown}");
    }
}
