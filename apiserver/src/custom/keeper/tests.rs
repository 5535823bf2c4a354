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

fn conditions(object: &Object) -> Vec<String> {
    let all = object.at(&["status", "conditions"]).and_then(Value::as_array);
    let text = |condition: &Value, name: &str| condition[name].as_str().unwrap_or_default().to_owned();
    let show = |c: &Value| {
        format!("{}={} {} {}", text(c, "type"), text(c, "status"), text(c, "reason"), text(c, "message"))
    };
    all.into_iter().flatten().map(show).collect()
}

#[test]
fn names_are_accepted_once() {
    let now = json!("2026-01-02T03:04:05Z");
    let mut first = definition("as.example.com", json!({"shortNames": ["s"]}));
    accept(&mut first, &[], &now);
    let established = [
        "NamesAccepted=True NoConflicts no conflicts found",
        "Established=True InitialNamesAccepted the initial names have been accepted",
    ];
    assert_eq!(conditions(&first), established);
    let accepted =
        json!({"plural": "as", "singular": "as1", "kind": "AS", "listKind": "asList", "shortNames": ["s"]});
    assert_eq!(first.0["status"]["acceptedNames"], accepted);
    let before = first.clone();
    accept(&mut first, &[], &json!("later"));
    assert_eq!(first, before, "what is settled stays as it is");

    for (case, name, names, want) in [
        ("1 no conflict", "bs.example.com", json!({}), established.to_vec()),
        ("2 another group", "as.example.org", json!({}), established.to_vec()),
        (
            "3 short name",
            "bs.example.com",
            json!({"shortNames": ["s"]}),
            vec![
                "NamesAccepted=False ShortNamesConflict \"s\" is already in use",
                "Established=False NotAccepted not all names are accepted",
            ],
        ),
        (
            "4 kind",
            "bs.example.com",
            json!({"kind": "AS"}),
            vec![
                "NamesAccepted=False KindConflict \"AS\" is already in use",
                "Established=False NotAccepted not all names are accepted",
            ],
        ),
    ] {
        let mut other = definition(name, names);
        accept(&mut other, &[&first], &now);
        assert_eq!(conditions(&other), want, "{case}");
    }
}

#[test]
fn an_established_kind_stays_so() {
    let now = json!("2026-01-02T03:04:05Z");
    let mut first = definition("as.example.com", json!({}));
    accept(&mut first, &[], &now);
    let other = {
        let mut other = definition("bs.example.com", json!({"shortNames": ["x"]}));
        accept(&mut other, &[], &now);
        other
    };
    first.set(&["spec", "names", "shortNames"], json!(["x"]));
    accept(&mut first, &[&other], &now);
    assert_eq!(condition(&first, "Established"), "True");
    assert_eq!(condition(&first, "NamesAccepted"), "False");
    assert_eq!(first.at(&["status", "acceptedNames", "shortNames"]), None);
}

#[tokio::test]
async fn what_has_not_changed_is_not_read_again() {
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
    let mut known = Known::default();
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
