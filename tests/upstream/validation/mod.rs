//! Validation of the kinds of storage: which errors an empty, long or malformed name has, in which order and how often
//! (upstream: `pkg/apis/storage/validation`, `pkg/apis/core/validation`). Declarative validation is alpha for these
//! kinds in 1.36, so that only the hand-written rules reject objects.

mod placement;

use serde_json::{Value, json};

use super::{PODS, merged, server};
use crate::harness::http::{Answer, Http};

const STORAGE: &str = "/apis/storage.k8s.io/v1";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start \
                         and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
                    character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and \
                     end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
                     '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const TOO_LONG: &str = "Too long: may not be more than 63 bytes";
const REQUIRED: &str = "Required value";

/// The causes of a rejection, each as `field: message`.
fn causes(answer: &Answer) -> Vec<String> {
    if answer.code == 200 || answer.code == 201 {
        return Vec::new();
    }
    let status = answer.json();
    let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
    assert_eq!(answer.code, 422, "{status}");
    let text = |cause: &Value, name: &str| cause[name].as_str().unwrap_or_default().to_owned();
    causes.iter().map(|cause| format!("{}: {}", text(cause, "field"), text(cause, "message"))).collect()
}

/// One row: a merge patch of the valid object, and the causes of the rejection.
type Row = (&'static str, Value, Vec<String>);

/// Creates the object once per row, as dry runs.
async fn create(http: &Http, path: &str, valid: &Value, rows: Vec<Row>) {
    for (case, patch, want) in rows {
        let answer = http.post(&format!("{path}?dryRun=All"), &merged(valid, &patch)).await;
        assert_eq!(causes(&answer), want, "{path} {case}: {}", answer.text());
    }
}

/// Updates the stored object once per row, as dry runs.
async fn update(http: &Http, path: &str, rows: Vec<Row>) {
    let stored = http.get(path).await.expect(200);
    for (case, patch, want) in rows {
        let answer = http.put(&format!("{path}?dryRun=All"), &merged(&stored, &patch)).await;
        assert_eq!(causes(&answer), want, "{path} {case}: {}", answer.text());
    }
}

fn invalid(field: &str, value: &str, why: &str) -> String {
    format!("{field}: Invalid value: \"{value}\": {why}")
}

/// The rows of a field that names a CSI driver. An empty name has one error, a long or malformed one an error each.
fn driver_rows(field: &str, patch: impl Fn(&str) -> Value) -> Vec<Row> {
    let (long, both, longest) = ("d".repeat(64), "D_".repeat(32), "d".repeat(254));
    vec![
        ("empty", patch(""), vec![format!("{field}: {REQUIRED}")]),
        ("capitals", patch("D.Example"), vec![]),
        ("63 bytes", patch(&long[1..]), vec![]),
        ("64 bytes", patch(&long), vec![format!("{field}: {TOO_LONG}")]),
        ("malformed", patch("a_b"), vec![invalid(field, "a_b", SUBDOMAIN)]),
        ("both", patch(&both), vec![format!("{field}: {TOO_LONG}"), invalid(field, &both, SUBDOMAIN)]),
        (
            "254 bytes",
            patch(&longest),
            vec![
                format!("{field}: {TOO_LONG}"),
                invalid(field, &longest, "must be no more than 253 characters"),
            ],
        ),
    ]
}

#[tokio::test]
async fn attachments_report_each_error_once() {
    let (_plane, http) = server().await;
    let all = format!("{STORAGE}/volumeattachments");
    let valid = json!({"metadata": {"name": "a"}, "spec": {
        "attacher": "d.example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}}});
    let volume = "spec.source.persistentVolumeName";
    let no_volume = format!("{volume}: Required value: must specify non empty persistentVolumeName");
    let one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    create(&http, &all, &valid, driver_rows("spec.attacher", |name| json!({"spec": {"attacher": name}})))
        .await;
    create(
        &http,
        &all,
        &valid,
        vec![
            (
                "volume without a name",
                json!({"spec": {"source": {"persistentVolumeName": ""}}}),
                vec![no_volume.clone(), invalid(volume, "", SUBDOMAIN)],
            ),
            (
                "malformed volume",
                json!({"spec": {"source": {"persistentVolumeName": "V"}}}),
                vec![invalid(volume, "V", SUBDOMAIN)],
            ),
            (
                "no source",
                json!({"spec": {"source": {"persistentVolumeName": null}}}),
                vec![format!("spec.source: Required value: {one}")],
            ),
            (
                "all",
                json!({"spec": {"attacher": "", "nodeName": "N", "source": {"persistentVolumeName": ""}}}),
                vec![
                    format!("spec.attacher: {REQUIRED}"),
                    no_volume,
                    invalid("spec.nodeName", "N", SUBDOMAIN),
                    invalid(volume, "", SUBDOMAIN),
                ],
            ),
        ],
    )
    .await;
    http.create(&all, &valid).await;
    let shown = |attacher: &str| {
        format!(
            "spec: Invalid value: {{\"Attacher\":\"{attacher}\",\"Source\":{{\"PersistentVolumeName\":\"v\",\
             \"InlineVolumeSpec\":null}},\"NodeName\":\"n\"}}: field is immutable"
        )
    };
    update(
        &http,
        &format!("{all}/a"),
        vec![
            ("unchanged", json!({"metadata": {"labels": {"a": "b"}}}), vec![]),
            ("another driver", json!({"spec": {"attacher": "e"}}), vec![shown("e")]),
            (
                "no driver",
                json!({"spec": {"attacher": ""}}),
                vec![format!("spec.attacher: {REQUIRED}"), shown("")],
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn drivers_of_volumes_report_each_error_once() {
    let (_plane, http) = server().await;
    let volume = json!({"metadata": {"name": "v"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
        "csi": {"driver": "d.example.com", "volumeHandle": "h"}}});
    let volumes = "/api/v1/persistentvolumes";
    let driver = |name: &str| json!({"spec": {"csi": {"driver": name}}});
    create(&http, volumes, &volume, driver_rows("spec.csi.driver", driver)).await;
    let secret = |name: &str, namespace: &str| json!({"spec": {"csi": {"nodePublishSecretRef": {"name": name, "namespace": namespace}}}});
    let place = "spec.csi.nodePublishSecretRef";
    create(
        &http,
        volumes,
        &volume,
        vec![
            (
                "no driver and no handle",
                json!({"spec": {"csi": {"driver": "", "volumeHandle": ""}}}),
                vec![format!("spec.csi.driver: {REQUIRED}"), format!("spec.csi.volumeHandle: {REQUIRED}")],
            ),
            (
                "empty secret",
                secret("", ""),
                vec![format!("{place}.name: {REQUIRED}"), format!("{place}.namespace: {REQUIRED}")],
            ),
            ("malformed secret", secret("S", "n"), vec![invalid(&format!("{place}.name"), "S", SUBDOMAIN)]),
            (
                "empty class",
                json!({"spec": {"volumeAttributesClassName": ""}}),
                vec!["spec.volumeAttributesClassName: Required value: an empty string is disallowed".into()],
            ),
        ],
    )
    .await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {
        "containers": [{"name": "c", "image": "i"}], "volumes": [{"name": "v", "csi": {"driver": "d"}}]}});
    let inline = |name: &str| json!({"spec": {"volumes": [{"name": "v", "csi": {"driver": name}}]}});
    create(&http, PODS, &pod, driver_rows("spec.volumes[0].csi.driver", inline)).await;
}

#[tokio::test]
async fn nodes_of_drivers_are_validated() {
    let (_plane, http) = server().await;
    let all = format!("{STORAGE}/csinodes");
    let drivers = |drivers: Value| json!({"spec": {"drivers": drivers}});
    let valid = json!({"metadata": {"name": "n"}, "spec": {"drivers": [{"name": "d", "nodeID": "i"}]}});
    let name = |name: &str| drivers(json!([{"name": name, "nodeID": "i"}]));
    create(&http, &all, &valid, driver_rows("spec.drivers[0].name", name)).await;
    let id = "i".repeat(257);
    create(
        &http,
        &all,
        &valid,
        vec![
            (
                "two without a name",
                drivers(json!([{"name": "", "nodeID": ""}, {"name": "", "nodeID": "i"}])),
                vec![
                    format!("spec.drivers[0].name: {REQUIRED}"),
                    format!("spec.drivers[0].nodeID: {REQUIRED}"),
                    format!("spec.drivers[1].name: {REQUIRED}"),
                    "spec.drivers[1].name: Duplicate value: \"\"".into(),
                ],
            ),
            (
                "long id",
                drivers(json!([{"name": "d", "nodeID": id}])),
                vec![invalid("spec.drivers[0].nodeID", &id, "must be 256 characters or less")],
            ),
            (
                "keys and count",
                drivers(json!([{"name": "d", "nodeID": "i", "topologyKeys": ["a", "a", ""], "allocatable": {"count": -1}}])),
                vec![
                    "spec.drivers[0].allocatable.count: Invalid value: -1: must be greater than or equal to 0".into(),
                    "spec.drivers[0]: Duplicate value: \"a\"".into(),
                    format!("spec.drivers[0]: {REQUIRED}"),
                    invalid("spec.drivers[0]", "", "name part must be non-empty"),
                    invalid("spec.drivers[0]", "", PART),
                ],
            ),
        ],
    )
    .await;
    http.create(&all, &valid).await;
    update(
        &http,
        &format!("{all}/n"),
        vec![
            ("count", drivers(json!([{"name": "d", "nodeID": "i", "allocatable": {"count": 5}}])), vec![]),
            ("removed", drivers(json!([])), vec![]),
            (
                "a second one without a name",
                drivers(json!([{"name": "d", "nodeID": "i"}, {"name": "", "nodeID": "i"}])),
                vec![format!("spec.drivers[1].name: {REQUIRED}")],
            ),
            (
                "another id",
                drivers(json!([{"name": "d", "nodeID": "j"}])),
                vec![
                    "spec.drivers: Invalid value: {\"Name\":\"d\",\"NodeID\":\"j\",\"TopologyKeys\":null,\"Allocatable\":null}: \
                     field is immutable"
                        .into(),
                ],
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn classes_drivers_and_capacities_are_validated() {
    let (_plane, http) = server().await;
    let classes = format!("{STORAGE}/storageclasses");
    let class = json!({"metadata": {"name": "c"}, "provisioner": "d.example.com", "parameters": {"a": "b"}});
    let long = "d".repeat(64);
    let provisioner_rows = |field: &'static str| -> Vec<Row> {
        vec![
            ("empty", json!({field: ""}), vec![format!("{field}: {REQUIRED}")]),
            ("capitals", json!({field: "D.Example/X"}), vec![]),
            (
                "64 bytes",
                json!({field: long}),
                vec![invalid(field, &long, "name part must be no more than 63 bytes")],
            ),
            ("malformed", json!({field: "A b"}), vec![invalid(field, "a b", PART)]),
            (
                "no name part",
                json!({field: "d/"}),
                vec![invalid(field, "d/", "name part must be non-empty"), invalid(field, "d/", PART)],
            ),
        ]
    };
    create(&http, &classes, &class, provisioner_rows("provisioner")).await;
    http.create(&classes, &class).await;
    let immutable = |field: &str, shown: &str| format!("{field}: Invalid value: {shown}: field is immutable");
    update(
        &http,
        &format!("{classes}/c"),
        vec![(
            "no provisioner",
            json!({"provisioner": "", "parameters": null}),
            vec![
                format!("provisioner: {REQUIRED}"),
                immutable("parameters", "null"),
                immutable("provisioner", "\"\""),
            ],
        )],
    )
    .await;

    let classes = format!("{STORAGE}/volumeattributesclasses");
    let class = json!({"metadata": {"name": "c"}, "driverName": "d.example.com", "parameters": {"a": "b"}});
    create(&http, &classes, &class, provisioner_rows("driverName")).await;

    let drivers = format!("{STORAGE}/csidrivers");
    let driver = json!({"metadata": {"name": "d"}, "spec": {}});
    let requests = |requests: Value| json!({"spec": {"tokenRequests": requests}});
    create(
        &http,
        &drivers,
        &driver,
        vec![
            ("long name", json!({"metadata": {"name": "d".repeat(253)}}), vec![]),
            ("malformed name", json!({"metadata": {"name": "D"}}), vec![invalid("metadata.name", "D", SUBDOMAIN)]),
            (
                "empty audiences",
                requests(json!([{"audience": ""}, {"audience": "", "expirationSeconds": 1}])),
                vec!["spec.tokenRequests[1].audience: Duplicate value: \"\"".into()],
            ),
            (
                "short token",
                requests(json!([{"audience": "a", "expirationSeconds": 599}])),
                vec![
                    "spec.tokenRequests[0].expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes"
                        .into(),
                ],
            ),
        ],
    )
    .await;

    let capacities = format!("{STORAGE}/namespaces/default/csistoragecapacities");
    let capacity = json!({"metadata": {"name": "c"}, "storageClassName": "fast"});
    let (key, value) = ("nodeTopology.matchLabels", json!({"nodeTopology": {"matchLabels": {"": "b c"}}}));
    create(
        &http,
        &capacities,
        &capacity,
        vec![
            ("no class", json!({"storageClassName": ""}), vec![invalid("storageClassName", "", SUBDOMAIN)]),
            (
                "topology",
                value,
                vec![
                    invalid(key, "", "name part must be non-empty"),
                    invalid(key, "", PART),
                    invalid(key, "b c", LABEL),
                ],
            ),
        ],
    )
    .await;
}
