use serde_json::{Value, json};

use super::{ApiService, Managed, local};
use crate::kind::Kind as _;
use crate::registry::volume_testing::{
    SUBDOMAIN, check, create_errors, created, defaulted, row, status_errors, with,
};

fn remote(change: &Value) -> Value {
    let whole = json!({"metadata": {"name": "v1.x.example.com"}, "spec": {
        "group": "x.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
        "service": {"name": "s", "namespace": "default"}, "insecureSkipTLSVerify": true,
    }});
    with(&whole, change)
}

#[test]
fn invalid_objects_are_rejected() {
    const LABEL: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
                         character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
                         validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
    for (case, change, want) in [
        ("1 valid", json!({}), vec![]),
        (
            "2 name",
            json!({"metadata": {"name": "v1.other"}}),
            vec!["metadata.name: Invalid value: \"v1.other\": must be `spec.version+\".\"+spec.group`: \"v1.x.example.com\"".to_owned()],
        ),
        (
            "3 no version",
            json!({"spec": {"version": ""}}),
            vec![
                "metadata.name: Invalid value: \"v1.x.example.com\": must be `spec.version+\".\"+spec.group`: \".x.example.com\""
                    .to_owned(),
                format!("spec.version: Invalid value: \"\": {LABEL}"),
            ],
        ),
        (
            "4 group",
            json!({"metadata": {"name": "v1.A_"}, "spec": {"group": "A_"}}),
            vec![format!("spec.group: Invalid value: \"A_\": {SUBDOMAIN}")],
        ),
        (
            "5 priorities",
            json!({"spec": {"groupPriorityMinimum": 0, "versionPriority": 1001}}),
            vec![
                "spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000".to_owned(),
                "spec.versionPriority: Invalid value: 1001: must be positive and less than 1000".to_owned(),
            ],
        ),
        (
            "6 local with TLS",
            json!({"spec": {"service": null, "caBundle": "Zm9v"}}),
            vec![
                "spec.caBundle: Invalid value: \"3 bytes\": local APIServices may not have a caBundle".to_owned(),
                "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify".to_owned(),
            ],
        ),
        (
            "7 no service",
            json!({"spec": {"service": {"name": "", "namespace": "", "port": 70000}}}),
            vec![
                "spec.service.namespace: Required value".to_owned(),
                "spec.service.name: Required value".to_owned(),
                "spec.service.port: Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive".to_owned(),
            ],
        ),
        (
            "8 insecure with an authority",
            json!({"spec": {"caBundle": "Zm9v"}}),
            vec!["spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present".to_owned()],
        ),
        (
            "9 core group",
            json!({"metadata": {"name": "v9."}, "spec": {"group": null, "version": "v9"}}),
            vec!["spec.group: Required value: only v1 may have an empty group and it better be legacy kube".to_owned()],
        ),
    ] {
        check(case, &create_errors(&ApiService, &remote(&change)), &want);
    }
    check(
        "status",
        &status_errors(
            &ApiService,
            &remote(&json!({})),
            &json!({"conditions": [{"type": "Available", "status": "Maybe"}]}),
        ),
        &[
            "status.conditions[0].status: Unsupported value: \"Maybe\": supported values: \"True\", \"False\", \"Unknown\"",
        ],
    );
}

#[test]
fn port_and_status_are_set() {
    assert_eq!(
        defaulted(&ApiService, &remote(&json!({}))).at(&["spec", "service", "port"]),
        Some(&json!(443))
    );
    assert_eq!(created(&ApiService, &remote(&json!({}))).at(&["status"]), Some(&json!({})));
    let object = local("a.example", "v1", (1000, 100), Managed::Continuously);
    assert_eq!(Managed::of(&object), Some(Managed::Continuously));
    let made = created(&ApiService, &object.into_value());
    assert_eq!(made.str_at(&["metadata", "labels", "kube-aggregator.kubernetes.io/automanaged"]), "true");
    assert_eq!(
        made.at(&["status", "conditions"]),
        Some(&json!([{
            "type": "Available", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z", "reason": "Local",
            "message": "Local APIServices are always available",
        }]))
    );
    let core = local("", "v1", (18_000, 1), Managed::OnStart);
    assert_eq!((core.name(), core.at(&["spec", "group"])), ("v1.", None));
    let mut errors = crate::validate::FieldErrors::new();
    ApiService.validate(&core, &mut errors);
    assert!(errors.is_empty(), "{errors:?}");
}

#[test]
fn table_row_shows_service_and_availability() {
    let with_condition = |status: &str, reason: &str| {
        remote(
            &json!({"status": {"conditions": [{"type": "Available", "status": status, "reason": reason}]}}),
        )
    };
    for (object, service, available) in [
        (remote(&json!({})), "default/s", "Unknown"),
        (remote(&json!({"spec": {"service": null}})), "Local", "Unknown"),
        (with_condition("True", "Local"), "default/s", "True"),
        (with_condition("False", "ServiceNotFound"), "default/s", "False (ServiceNotFound)"),
        (with_condition("False", ""), "default/s", "False"),
    ] {
        assert_eq!(row(&ApiService, &object), json!(["v1.x.example.com", service, available, "10s"]));
    }
}
