//! Validation of probes and lifecycle hooks.

use k8s_openapi::api::core::v1 as api;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use orlop_apimachinery::names;

use super::{items, ports, text};
use crate::registry::checks;
use crate::validate::{FieldErrors, Path};

/// The action of a probe or a hook; the variants are in upstream's order.
struct Handler<'a> {
    exec: Option<&'a api::ExecAction>,
    http_get: Option<&'a api::HTTPGetAction>,
    tcp_socket: Option<&'a api::TCPSocketAction>,
    grpc: Option<&'a api::GRPCAction>,
    sleep: Option<&'a api::SleepAction>,
}

/// The probes of a container.
pub(super) fn all(container: &api::Container, path: &Path, errors: &mut FieldErrors) {
    for (field, given, readiness) in [
        ("livenessProbe", &container.liveness_probe, false),
        ("readinessProbe", &container.readiness_probe, true),
        ("startupProbe", &container.startup_probe, false),
    ] {
        let Some(given) = given else { continue };
        let path = path.child(field);
        probe(given, &path, errors);
        let threshold = given.success_threshold.unwrap_or_default();
        if !readiness && threshold != 1 {
            errors.invalid(&path.child("successThreshold"), threshold, "must be 1");
        }
        if readiness && let Some(grace) = given.termination_grace_period_seconds {
            let path = path.child("terminationGracePeriodSeconds");
            errors.invalid(&path, grace, "must not be set for readinessProbes");
        }
    }
}

fn probe(probe: &api::Probe, path: &Path, errors: &mut FieldErrors) {
    let action = Handler {
        exec: probe.exec.as_ref(),
        http_get: probe.http_get.as_ref(),
        tcp_socket: probe.tcp_socket.as_ref(),
        grpc: probe.grpc.as_ref(),
        sleep: None,
    };
    handler(&action, None, path, errors);
    for (field, seconds) in [
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ] {
        checks::non_negative(errors, &path.child(field), seconds.unwrap_or_default());
    }
    if let Some(grace) = probe.termination_grace_period_seconds
        && grace <= 0
    {
        errors.invalid(&path.child("terminationGracePeriodSeconds"), grace, "must be greater than 0");
    }
}

/// The hooks of a container.
pub(super) fn lifecycle(
    lifecycle: Option<&api::Lifecycle>,
    grace: Option<i64>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let Some(lifecycle) = lifecycle else { return };
    for (field, hook) in [("postStart", &lifecycle.post_start), ("preStop", &lifecycle.pre_stop)] {
        let Some(hook) = hook else { continue };
        let action = Handler {
            exec: hook.exec.as_ref(),
            http_get: hook.http_get.as_ref(),
            tcp_socket: hook.tcp_socket.as_ref(),
            grpc: None,
            sleep: hook.sleep.as_ref(),
        };
        handler(&action, grace, &path.child(field), errors);
    }
}

/// There must be one action, and it must be valid; only the first one is validated.
fn handler(action: &Handler<'_>, grace: Option<i64>, path: &Path, errors: &mut FieldErrors) {
    let given: Vec<&str> = [
        ("exec", action.exec.is_some()),
        ("httpGet", action.http_get.is_some()),
        ("tcpSocket", action.tcp_socket.is_some()),
        ("grpc", action.grpc.is_some()),
        ("sleep", action.sleep.is_some()),
    ]
    .into_iter()
    .filter_map(|(field, given)| given.then_some(field))
    .collect();
    let Some((first, others)) = given.split_first() else {
        errors.required(path, "must specify a handler type");
        return;
    };
    let at = path.child(first);
    if let Some(exec) = action.exec {
        if items(&exec.command).is_empty() {
            errors.required(&at.child("command"), "");
        }
    } else if let Some(get) = action.http_get {
        http_get(get, &at, errors);
    } else if let Some(socket) = action.tcp_socket {
        port(&socket.port, &at.child("port"), errors);
    } else if let Some(grpc) = action.grpc {
        ports::number(grpc.port, &at.child("port"), errors);
    } else if let (Some(sleep), Some(grace)) = (action.sleep, grace)
        && !(0..=grace).contains(&sleep.seconds)
    {
        let text = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        errors.invalid(&at, sleep.seconds, &text);
    }
    for other in others {
        errors.forbidden(&path.child(other), "may not specify more than 1 handler type");
    }
}

fn http_get(get: &api::HTTPGetAction, path: &Path, errors: &mut FieldErrors) {
    checks::required(errors, &path.child("path"), text(&get.path));
    port(&get.port, &path.child("port"), errors);
    checks::one_of(errors, &path.child("scheme"), get.scheme.as_deref(), &["HTTP", "HTTPS"]);
    for header in items(&get.http_headers) {
        let problems = names::http_header_name(&header.name);
        checks::each(errors, &path.child("httpHeaders"), &header.name, problems);
    }
}

fn port(port: &IntOrString, path: &Path, errors: &mut FieldErrors) {
    match port {
        IntOrString::Int(number) => ports::number(*number, path, errors),
        IntOrString::String(name) => checks::each(errors, path, name, names::port_name(name)),
    }
}
