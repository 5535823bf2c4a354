//! Validation and defaults of pod specifications.

mod containers;
mod placement;
mod surroundings;

use serde_json::json;

use super::super::testing::causes;
use super::*;

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

const INVALID: &str = "FieldValueInvalid";
const REQUIRED: &str = "FieldValueRequired";
const FORBIDDEN: &str = "FieldValueForbidden";
const UNSUPPORTED: &str = "FieldValueNotSupported";
const DUPLICATE: &str = "FieldValueDuplicate";
const NOT_FOUND: &str = "FieldValueNotFound";

type Row = (&'static str, Value, Vec<(&'static str, &'static str, String)>);

/// The expected cause of a row.
fn cause(reason: &'static str, field: &'static str, text: &str) -> (&'static str, &'static str, String) {
    (reason, field, text.to_owned())
}

/// One `Invalid value` cause.
fn invalid(field: &'static str, value: &str, text: &str) -> Vec<(&'static str, &'static str, String)> {
    vec![cause(INVALID, field, &format!("Invalid value: {value}: {text}"))]
}

fn required(field: &'static str) -> Vec<(&'static str, &'static str, String)> {
    vec![cause(REQUIRED, field, "Required value")]
}

/// A spec with one valid container, and `changes`.
fn spec(changes: Value) -> Value {
    merged(json!({"containers": [{"name": "c", "image": "i"}], "serviceAccountName": "sa"}), changes)
}

/// A spec with one container that is valid except for `changes`.
fn container(changes: Value) -> Value {
    spec(json!({"containers": [merged(json!({"name": "c", "image": "i"}), changes)]}))
}

fn merged(mut base: Value, changes: Value) -> Value {
    for (key, value) in changes.as_object().expect("an object") {
        base[key] = value.clone();
    }
    base
}

/// Validates each row's spec, after defaulting, as that of a pod.
fn check(rows: Vec<Row>) {
    for (case, spec, want) in rows {
        let mut spec = spec.as_object().expect("an object").clone();
        defaults::pod_spec(&mut spec, Owner::Pod("p"));
        let spec = Value::Object(spec);
        let got = causes(|errors| {
            validate(&spec, Owner::Pod("p"), &Path::new("spec"), errors);
            only_in_pods(&typed(&spec).expect("a spec"), &Path::new("spec"), errors);
        });
        let want: Vec<(&str, &str, &str)> =
            want.iter().map(|(reason, field, text)| (*reason, *field, text.as_str())).collect();
        assert_eq!(got, want, "{case}");
    }
}

#[test]
fn fields_of_the_pod_spec_are_validated() {
    let label = |value: &str| format!("Invalid value: {value:?}: {LABEL}");
    check(vec![
        ("sound", spec(json!({})), vec![]),
        ("no containers", json!({}), required("spec.containers")),
        (
            "restartPolicy",
            spec(json!({"restartPolicy": "Perhaps"})),
            vec![cause(
                UNSUPPORTED,
                "spec.restartPolicy",
                "Unsupported value: \"Perhaps\": supported values: \"Always\", \"OnFailure\", \"Never\"",
            )],
        ),
        (
            "dnsPolicy",
            spec(json!({"dnsPolicy": "Perhaps"})),
            vec![cause(
                UNSUPPORTED,
                "spec.dnsPolicy",
                "Unsupported value: \"Perhaps\": supported values: \"ClusterFirstWithHostNet\", \"ClusterFirst\", \"Default\", \"None\"",
            )],
        ),
        (
            "deadline",
            spec(json!({"activeDeadlineSeconds": 0})),
            invalid("spec.activeDeadlineSeconds", "0", "must be between 1 and 2147483647, inclusive"),
        ),
        (
            "nodeSelector",
            spec(json!({"nodeSelector": {"a": "b c"}})),
            invalid("spec.nodeSelector", "\"b c\"", LABEL_VALUE),
        ),
        ("nodeName", spec(json!({"nodeName": "Bad_"})), invalid("spec.nodeName", "\"Bad_\"", SUBDOMAIN)),
        (
            "serviceAccountName",
            spec(json!({"serviceAccountName": "Bad_"})),
            invalid("spec.serviceAccountName", "\"Bad_\"", SUBDOMAIN),
        ),
        (
            "priorityClassName",
            spec(json!({"priorityClassName": "Bad_"})),
            invalid("spec.priorityClassName", "\"Bad_\"", SUBDOMAIN),
        ),
        (
            "runtimeClassName",
            spec(json!({"runtimeClassName": "Bad_"})),
            invalid("spec.runtimeClassName", "\"Bad_\"", SUBDOMAIN),
        ),
        (
            "hostname with capitals and dots",
            spec(json!({"hostname": "Bad.Host"})),
            vec![cause(INVALID, "spec.hostname", &label("Bad.Host"))],
        ),
        (
            "subdomain with dots",
            spec(json!({"subdomain": "a.b"})),
            invalid("spec.subdomain", "\"a.b\"", "must not contain dots"),
        ),
        (
            "DNS None without servers",
            spec(json!({"dnsPolicy": "None"})),
            vec![cause(
                REQUIRED,
                "spec.dnsConfig",
                "Required value: must provide `dnsConfig` when `dnsPolicy` is None",
            )],
        ),
        (
            "DNS servers",
            spec(json!({"dnsConfig": {"nameservers": ["x"], "searches": ["a_b.c.", "."], "options": [{}]}})),
            vec![
                cause(
                    INVALID,
                    "spec.dnsConfig.nameservers[0]",
                    "Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                ),
                cause(REQUIRED, "spec.dnsConfig.options[0]", "Required value: must not be empty"),
            ],
        ),
        (
            "host alias",
            spec(json!({"hostAliases": [{"ip": "1.2.3.4", "hostnames": ["Bad_"]}]})),
            invalid("spec.hostAliases[0].hostnames[0]", "\"Bad_\"", SUBDOMAIN),
        ),
        (
            "readiness gate",
            spec(json!({"readinessGates": [{"conditionType": "a b"}]})),
            invalid("spec.readinessGates[0].conditionType", "\"a b\"", PART),
        ),
        (
            "resource claim",
            spec(
                json!({"resourceClaims": [{"name": "a", "resourceClaimName": "x"}, {"name": "a", "resourceClaimName": "x"}]}),
            ),
            vec![cause(DUPLICATE, "spec.resourceClaims[1].name", "Duplicate value: \"a\"")],
        ),
        (
            "many faults, in upstream's order",
            json!({"restartPolicy": "X", "containers": [{"name": "A", "image": "", "volumeMounts": [
                {"name": "q", "mountPath": ""}]}], "volumes": [{"name": ""}]}),
            vec![
                cause(REQUIRED, "spec.volumes[0].name", "Required value"),
                cause(INVALID, "spec.containers[0].name", &label("A")),
                cause(REQUIRED, "spec.containers[0].image", "Required value"),
                cause(NOT_FOUND, "spec.containers[0].volumeMounts[0].name", "Not found: \"q\""),
                cause(REQUIRED, "spec.containers[0].volumeMounts[0].mountPath", "Required value"),
                cause(
                    UNSUPPORTED,
                    "spec.restartPolicy",
                    "Unsupported value: \"X\": supported values: \"Always\", \"OnFailure\", \"Never\"",
                ),
            ],
        ),
    ]);
}

#[test]
fn templates_skip_the_pod_only_rules() {
    let spec = json!({
        "containers": [{"name": "c", "image": " ", "ports": [{"containerPort": 1}]}], "hostNetwork": true,
        "volumes": [{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}],
    });
    let mut spec = spec.as_object().expect("an object").clone();
    defaults::pod_spec(&mut spec, Owner::Template);
    let spec = Value::Object(spec);
    let path = Path::new("spec.template.spec");
    assert_eq!(
        causes(|errors| validate(&spec, Owner::Template, &path, errors)),
        Vec::<(&str, &str, &str)>::new(),
        "blank images, host ports to come and tokens are taken in templates"
    );
    assert_eq!(
        causes(|errors| only_in_pods(&typed(&spec).expect("a spec"), &path, errors)),
        vec![
            (
                FORBIDDEN,
                "spec.template.spec.volumes[0].projected.sources[0].serviceAccountToken",
                "Forbidden: must not be specified when serviceAccountName is not set",
            ),
            (
                INVALID,
                "spec.template.spec.containers[0].image",
                "Invalid value: \" \": must not have leading or trailing whitespace",
            ),
        ]
    );
}
