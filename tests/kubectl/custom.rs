//! kubectl with custom resources: they behave like built-in ones.

use super::{Row, row, run};
use crate::harness::plane::{Layout, Plane};

const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shelves.shop.example.com}
spec:
  group: shop.example.com
  scope: Namespaced
  names: {plural: shelves, singular: shelf, kind: Shelf, shortNames: [sh], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.boards, statusReplicasPath: .status.boards}
    additionalPrinterColumns:
    - {name: Boards, type: integer, jsonPath: .spec.boards}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [boards]
            properties:
              boards: {type: integer, minimum: 1, description: How many boards it has.}
              wood: {type: string, default: oak}
          status:
            type: object
            properties: {boards: {type: integer}}
";

const SHELF: &str = "
apiVersion: shop.example.com/v1
kind: Shelf
metadata: {name: books, namespace: test}
spec: {boards: 3}
";

pub(super) fn rows() -> Vec<Row> {
    vec![
        row("get", &["get", "shelves", "-n", "test"]).refuses(&["doesn't have a resource type \"shelves\""]),
        row("apply", &["apply", "-f", "-"])
            .reads(DEFINITION)
            .says("customresourcedefinition.apiextensions.k8s.io/shelves.shop.example.com created"),
        row("wait --for=condition", &["wait", "--for=condition=Established", "crd/shelves.shop.example.com", "--timeout=60s"])
            .says("customresourcedefinition.apiextensions.k8s.io/shelves.shop.example.com condition met"),
        row("apply", &["apply", "-f", "-"]).reads(SHELF).says("shelf.shop.example.com/books created"),
        row("apply", &["apply", "-f", "-"]).reads(SHELF).says("shelf.shop.example.com/books unchanged"),
        row("get", &["get", "sh", "-n", "test"]).says("NAME    BOARDS\nbooks   3"),
        row("get all", &["get", "all", "-n", "test", "-o", "name"]).says("shelf.shop.example.com/books"),
        row("explain", &["explain", "shelf.spec.boards"]).since(27).tells(&["How many boards it has."]),
        row("create", &["create", "-f", "-"])
            .reads("{\"apiVersion\": \"shop.example.com/v1\", \"kind\": \"Shelf\", \"metadata\": {\"name\": \"no\", \"namespace\": \"test\"}, \"spec\": {\"boards\": 0}}")
            .refuses(&["The Shelf \"no\" is invalid: spec.boards: Invalid value: 0: spec.boards in body should be greater than or equal to 1"]),
        row("patch --type", &["patch", "shelf", "books", "-n", "test", "--type=merge", "-p", r#"{"spec": {"wood": "ash"}}"#])
            .says("shelf.shop.example.com/books patched"),
        row("scale", &["scale", "-n", "test", "shelf/books", "--replicas=5"]).says("shelf.shop.example.com/books scaled"),
        row("get -o jsonpath", &["get", "shelf", "books", "-n", "test", "-o", "jsonpath={.spec}"])
            .tells(&["\"boards\":5", "\"wood\":\"ash\""]),
        row("apply --server-side", &["apply", "--server-side", "--force-conflicts", "-f", "-"])
            .since(22)
            .reads(SHELF)
            .says("shelf.shop.example.com/books serverside-applied"),
        row("describe", &["describe", "shelf", "books", "-n", "test"]).tells(&["Kind: Shelf\n", "Boards: 3\n"]),
        row("delete", &["delete", "crd", "shelves.shop.example.com"])
            .tells(&["customresourcedefinition.apiextensions.k8s.io \"shelves.shop.example.com\" deleted"]),
        row("get --raw", &["get", "--raw", "/apis/shop.example.com/v1/shelves"]).refuses(&["(NotFound)"]),
    ]
}

#[tokio::test]
async fn definitions_and_their_objects_behave_like_built_in_kinds() {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let kubectl = plane.kubectl();
    kubectl.run(&["create", "ns", "test"]).await.ok();
    run(&kubectl, &rows()).await;
}
