//! kubectl handles custom kinds like its own.

use serde_json::{Value, json};

use super::{DEFINITIONS, message, server};

/// Like the group snapshots of CSI, whose API group is next to that of the built-in volume snapshots.
const SNAPSHOTS: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: volumegroupsnapshots.groupsnapshot.storage.k8s.io
  annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes-csi/external-snapshotter/pull/1337"}
spec:
  group: groupsnapshot.storage.k8s.io
  names:
    kind: VolumeGroupSnapshot
    listKind: VolumeGroupSnapshotList
    plural: volumegroupsnapshots
    shortNames: [vgs]
    singular: volumegroupsnapshot
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns:
    - {name: ReadyToUse, type: boolean, jsonPath: .status.readyToUse}
    - {name: VolumeGroupSnapshotClass, type: string, jsonPath: .spec.volumeGroupSnapshotClassName}
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        description: A snapshot of a group of volumes.
        properties:
          apiVersion: {type: string}
          kind: {type: string}
          metadata: {type: object}
          spec:
            type: object
            required: [source]
            properties:
              source:
                description: What the snapshots are made of.
                type: object
                properties:
                  selector:
                    type: object
                    x-kubernetes-map-type: atomic
                    properties:
                      matchExpressions:
                        type: array
                        x-kubernetes-list-type: atomic
                        items:
                          type: object
                          required: [key, operator]
                          properties:
                            key: {type: string}
                            operator: {type: string}
                            values: {type: array, items: {type: string}, x-kubernetes-list-type: atomic}
                      matchLabels: {type: object, additionalProperties: {type: string}}
                    x-kubernetes-validations: [{rule: self == oldSelf, message: selector is immutable}]
                  volumeGroupSnapshotContentName: {type: string}
                x-kubernetes-validations:
                - rule: '!has(oldSelf.selector) || has(self.selector)'
                  message: selector is required once set
                - rule: |-
                    (has(self.selector) && !has(self.volumeGroupSnapshotContentName))
                    || (!has(self.selector) && has(self.volumeGroupSnapshotContentName))
                  message: exactly one of selector and volumeGroupSnapshotContentName must be set
              volumeGroupSnapshotClassName: {type: string}
          status:
            type: object
            properties:
              readyToUse: {type: boolean}
              creationTime: {type: string, format: date-time}
"#;

const SNAPSHOT: &str = "
apiVersion: groupsnapshot.storage.k8s.io/v1
kind: VolumeGroupSnapshot
metadata: {name: first, namespace: default}
spec: {volumeGroupSnapshotClassName: class, source: {selector: {matchLabels: {app: one}}}}
";

#[tokio::test]
async fn kubectl_handles_custom_kinds_like_its_own() {
    let (plane, http) = server().await;
    let kubectl = plane.kubectl();
    kubectl.apply(SNAPSHOTS).await;
    let name = "crd/volumegroupsnapshots.groupsnapshot.storage.k8s.io";
    kubectl.run(&["wait", "--for=condition=Established", "--timeout=30s", name]).await.ok();
    kubectl.apply(SNAPSHOT).await;
    assert!(kubectl.apply(SNAPSHOT).await.contains("unchanged"));
    let path = "/apis/groupsnapshot.storage.k8s.io/v1/namespaces/default/volumegroupsnapshots/first";
    let status = json!({"status": {"readyToUse": true}});
    http.patch(&format!("{path}/status"), &status).await.expect(200);
    let table = kubectl.run(&["get", "vgs"]).await.ok();
    let words: Vec<&str> = table.split_whitespace().collect();
    assert_eq!(words, ["NAME", "READYTOUSE", "VOLUMEGROUPSNAPSHOTCLASS", "first", "true", "class"]);
    let explained = kubectl.run(&["explain", "volumegroupsnapshot.spec.source"]).await.ok();
    assert!(explained.contains("What the snapshots are made of."), "{explained}");
    let source = |selector: Value| json!({"spec": {"source": {"selector": selector}}});
    let refused = http.patch(path, &source(json!({"matchLabels": {"app": "two"}}))).await;
    assert!(message(&refused).contains("selector is immutable"), "{}", message(&refused));
    let refused = http.patch(path, &source(Value::Null)).await;
    assert!(message(&refused).contains("selector is required once set"), "{}", message(&refused));
    let again =
        kubectl.run_with(&["apply", "--server-side", "--force-conflicts", "-f", "-"], SNAPSHOT).await.ok();
    assert!(again.contains("serverside-applied"), "{again}");
    kubectl.run(&["delete", "vgs", "first"]).await.ok();
    kubectl.run(&["delete", name]).await.ok();
    http.until_gone(&format!("{DEFINITIONS}/volumegroupsnapshots.groupsnapshot.storage.k8s.io")).await;
}
