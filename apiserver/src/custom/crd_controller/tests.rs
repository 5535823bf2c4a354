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
    let whole = first[0].whole().expect("readable");
    assert!(whole.at(&["spec", "versions"]).is_some(), "and whole when it is needed");
    put("bs.example.com", Expect::Revision(revision)).await;
    put("cs.example.com", Expect::Absent).await;
    let second = known.read(&head());
    let same: Vec<bool> =
        first.iter().zip(&second).map(|(one, other)| Arc::ptr_eq(&one.head, &other.head)).collect();
    assert_eq!((same, second.len()), (vec![true, false], 3));
}

/// Definitions that compete for few names.
fn competing(seed: u64, count: usize) -> Vec<Object> {
    let mut state = seed;
    let mut next = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    let definition = |at: usize| {
        let mut name = |prefix: &str| format!("{prefix}{}", next(4));
        let names = json!({"singular": name("s"), "kind": name("k"), "listKind": name("k"), "shortNames": [name("s"), name("p")]});
        let mut object = definition(&format!("p{at}.example{}.com", next(2)), names);
        if next(2) == 0 {
            object.set(&["status", "acceptedNames"], object.0["spec"]["names"].clone());
        }
        object
    };
    (0..count).map(definition).collect()
}

fn listed(object: &Object) -> Listed {
    let (value, view) = stored::encode(by_resource("", "v1", "configmaps").expect("known"), object);
    let revision = orlop_store::Revision(1);
    let key = Key::from(format!("{PREFIX}{}", object.name()));
    let record = Record {
        key,
        value,
        stored: Default::default(),
        view,
        create_revision: revision,
        mod_revision: revision,
        time_ms: 0,
    };
    Listed { record: Arc::new(record), head: Arc::new(object.clone()) }
}

#[test]
fn names_are_accepted_as_if_all_definitions_were_compared() {
    let now = json!("2026-01-02T03:04:05Z");
    for seed in 0..50 {
        let stored: Vec<Listed> = competing(seed, 8).iter().map(listed).collect();
        let mut used = UsedNames::of(&[], &stored);
        let mut wanted: Vec<Listed> = Vec::new();
        for (at, one) in stored.iter().enumerate() {
            let others: Vec<&Object> =
                wanted.iter().chain(&stored[at + 1..]).map(|other| &*other.head).collect();
            let mut compared = (*one.head).clone();
            accept(&mut compared, &others, &now);
            let next = accepted(one, &mut used, &now);
            assert_eq!(*next.head, compared, "seed {seed}, definition {at}");
            wanted.push(next);
        }
    }
}

#[test]
fn accepting_the_names_of_many_definitions_is_linear() {
    let definitions = |count: usize| -> Vec<Listed> {
        (0..count).map(|at| listed(&definition(&format!("p{at}.example.com"), json!({})))).collect()
    };
    let now = json!("2026-01-02T03:04:05Z");
    orlop_apimachinery::thread_time::assert_linear("accepting names", 40, definitions, |stored| {
        let mut used = UsedNames::of(&[], stored);
        stored.iter().map(|one| accepted(one, &mut used, &now)).count()
    });
}

#[test]
fn serving_and_listing_many_definitions_is_linear() {
    let definitions = |count: usize| -> Vec<Listed> {
        let one = |at: usize| {
            let mut object = definition(&format!("p{at}.g{at}.example.com"), json!({}));
            let schema = json!({"openAPIV3Schema": {"type": "object"}});
            object.set(&["metadata", "uid"], format!("u{at}"));
            object.set(&["spec", "scope"], "Namespaced");
            object.set(
                &["spec", "versions"],
                json!([{"name": "v1", "served": true, "storage": true, "schema": schema}]),
            );
            accept(&mut object, &[], &json!("2026-01-02T03:04:05Z"));
            listed(&object)
        };
        (0..count).map(one).collect()
    };
    let closing = CancellationToken::new();
    orlop_apimachinery::thread_time::assert_linear("serving definitions", 40, definitions, |stored| {
        let kinds = Kinds::default();
        kinds.serve(stored, &closing);
        // Without the last, each of the others is looked up among those that are served.
        kinds.serve(&stored[..stored.len() - 1], &closing);
        crate::routes::aggregated_size(&kinds.now())
    });
}
