//! kubectl handles custom kinds like its own.

use serde_json::{Value, json};

use super::{DEFINITIONS, message, server};

/// Like the bundled group snapshots of CSI.
const BACKUPS: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: volumegroupbackups.groupbackup.storage.k8s.io
  annotations: {api-approved.kubernetes.io: "https://example.com/1"}
spec:
  group: groupbackup.storage.k8s.io
  names:
    kind: VolumeGroupBackup
    listKind: VolumeGroupBackupList
    plural: volumegroupbackups
    shortNames: [vgb]
    singular: volumegroupbackup
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns:
    - {name: ReadyToUse, type: boolean, jsonPath: .status.readyToUse}
    - {name: VolumeGroupBackupClass, type: string, jsonPath: .spec.volumeGroupBackupClassName}
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        description: A backup of a group of volumes.
        properties:
          apiVersion: {type: string}
          kind: {type: string}
          metadata: {type: object}
          spec:
            type: object
            required: [source]
            properties:
              source:
                description: What the backups are made of.
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
                  volumeGroupBackupContentName: {type: string}
                x-kubernetes-validations:
                - rule: '!has(oldSelf.selector) || has(self.selector)'
                  message: selector is required once set
                - rule: |-
                    (has(self.selector) && !has(self.volumeGroupBackupContentName))
                    || (!has(self.selector) && has(self.volumeGroupBackupContentName))
                  message: exactly one of selector and volumeGroupBackupContentName must be set
              volumeGroupBackupClassName: {type: string}
          status:
            type: object
            properties:
              readyToUse: {type: boolean}
              creationTime: {type: string, format: date-time}
"#;

const BACKUP: &str = "
apiVersion: groupbackup.storage.k8s.io/v1
kind: VolumeGroupBackup
metadata: {name: first, namespace: default}
spec: {volumeGroupBackupClassName: class, source: {selector: {matchLabels: {app: one}}}}
";

#[tokio::test]
async fn kubectl_handles_custom_kinds_like_its_own() {
    let (plane, http) = server().await;
    let kubectl = plane.kubectl();
    kubectl.apply(BACKUPS).await;
    let name = "crd/volumegroupbackups.groupbackup.storage.k8s.io";
    kubectl.run(&["wait", "--for=condition=Established", "--timeout=30s", name]).await.ok();
    kubectl.apply(BACKUP).await;
    assert!(kubectl.apply(BACKUP).await.contains("unchanged"));
    let path = "/apis/groupbackup.storage.k8s.io/v1/namespaces/default/volumegroupbackups/first";
    let status = json!({"status": {"readyToUse": true}});
    http.patch(&format!("{path}/status"), &status).await.expect(200);
    let table = kubectl.run(&["get", "vgb"]).await.ok();
    let words: Vec<&str> = table.split_whitespace().collect();
    assert_eq!(words, ["NAME", "READYTOUSE", "VOLUMEGROUPBACKUPCLASS", "first", "true", "class"]);
    let explained = kubectl.run(&["explain", "volumegroupbackup.spec.source"]).await.ok();
    assert!(explained.contains("What the backups are made of."), "{explained}");
    let source = |selector: Value| json!({"spec": {"source": {"selector": selector}}});
    let refused = http.patch(path, &source(json!({"matchLabels": {"app": "two"}}))).await;
    assert!(message(&refused).contains("selector is immutable"), "{}", message(&refused));
    let refused = http.patch(path, &source(Value::Null)).await;
    assert!(message(&refused).contains("selector is required once set"), "{}", message(&refused));
    let again =
        kubectl.run_with(&["apply", "--server-side", "--force-conflicts", "-f", "-"], BACKUP).await.ok();
    assert!(again.contains("serverside-applied"), "{again}");
    kubectl.run(&["delete", "vgb", "first"]).await.ok();
    kubectl.run(&["delete", name]).await.ok();
    http.until_gone(&format!("{DEFINITIONS}/volumegroupbackups.groupbackup.storage.k8s.io")).await;
}
