use serde_json::json;

use super::*;

fn definition(name: &str, names: Value) -> Object {
    let (plural, group) = name.split_once('.').unwrap_or((name, ""));
    let mut all = json!({"plural": plural, "singular": format!("{plural}1"), "kind": plural.to_uppercase(),
        "listKind": format!("{plural}List")});
    json_patch::merge(&mut all, &names);
    Object::from_value(json!({
        "metadata": {"name": name}, "spec": {"group": group, "names": all},
        "status": {"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": ["v1"]},
    }))
}

#[tokio::test]
async fn unchanged_definitions_are_not_read_again() {
    let store = orlop_store::memory::Memory::<Projection>::new();
    let put = async |name: &str, expect: Expect| {
        let mut object = definition(name, json!({}));
        object.set(&["spec", "versions"], json!([{"name": "v1"}]));
        let (value, view) = stored::encode(by_resource("", "v1", "configmaps").expect("known"), &object);
        let key = Key::from(format!("{PREFIX}{name}"));
        let write = Write { key, expect, op: Op::Put { value, view } };
        orlop_store::Kv::commit(&store, vec![write]).await.expect("it is written").revision()
    };
    put("as.example.com", Expect::Absent).await;
    let revision = put("bs.example.com", Expect::Absent).await;
    let mut known = DefinitionCache::default();
    let head = || orlop_store::Kv::head(&store);
    let first = known.read(&head());
    assert!(first[0].head.at(&["spec", "versions"]).is_none(), "small");
    assert!(first[0].whole().at(&["spec", "versions"]).is_some(), "and whole when it is needed");
    put("bs.example.com", Expect::Revision(revision)).await;
    put("cs.example.com", Expect::Absent).await;
    let second = known.read(&head());
    let same: Vec<bool> =
        first.iter().zip(&second).map(|(one, other)| Arc::ptr_eq(&one.head, &other.head)).collect();
    assert_eq!((same, second.len()), (vec![true, false], 3));
}
