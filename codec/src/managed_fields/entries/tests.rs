#![allow(clippy::unwrap_used)]

use orlop_apimachinery::thread_time::assert_linear;
use serde_json::json;

use super::*;

fn entry(manager: &str, operation: &str, time: &str, field: &str) -> Value {
    let field = format!("f:{field}");
    let mut entry = json!({
        "manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": {field: {}},
    });
    if !time.is_empty() {
        entry["time"] = time.into();
    }
    entry
}

#[test]
fn managed_fields_are_sorted_like_upstream() {
    let mut list = vec![
        entry("z", "Apply", "2026-01-01T00:00:01Z", "a"),
        entry("a", "Update", "2026-01-01T00:00:00Z", "a"),
        entry("b", "Apply", "2026-01-01T00:00:02Z", "a"),
        entry("c", "Apply", "", "a"),
        entry("a", "Apply", "2026-01-01T00:00:01Z", "a"),
    ];
    list.push(json!({"manager": "a", "operation": "Update", "apiVersion": "v1", "subresource": "status",
        "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}}));
    let sorted = Entries::decode(&list).unwrap().encode().unwrap();
    let expected = [3, 4, 0, 2, 1, 5].map(|i: usize| list[i].clone());
    assert_eq!(sorted, Value::from(expected.to_vec()));
}

#[test]
fn one_invalid_entry_invalidates_the_list() {
    let good = entry("m", "Apply", "", "a");
    for (name, member, value) in [
        ("operation", "operation", json!("Frob")),
        ("no operation", "operation", json!(null)),
        ("version", "apiVersion", json!("")),
        ("form", "fieldsType", json!("X")),
        ("no form", "fieldsType", json!("")),
        ("fields", "fieldsV1", json!({"x": {}})),
    ] {
        let mut bad = good.clone();
        bad[member] = value;
        assert_eq!(Entries::decode(&[good.clone(), bad]), None, "{name}");
    }
    assert_eq!(Entries::decode(&[]), Some(Entries::default()));
    assert_eq!(Entries::default().encode(), None);
}

#[test]
fn last_of_two_entries_with_one_owner_wins() {
    let twice = [entry("m", "Update", "", "a"), entry("m", "Update", "", "b")];
    assert_eq!(Entries::decode(&twice).unwrap().encode(), Some(json!([entry("m", "Update", "", "b")])));
}

#[test]
fn oldest_updates_are_merged_into_ancient_changes() {
    let mut list: Vec<Value> = (0..12)
        .map(|i| entry(&format!("w{i:02}"), "Update", &format!("2026-01-01T00:00:{i:02}Z"), &format!("x{i}")))
        .collect();
    list.push(entry("applier", "Apply", "2026-01-01T00:00:00Z", "a"));
    let mut entries = Entries::decode(&list).unwrap();
    entries.cap();
    let capped = entries.encode().unwrap();
    let mut ancient = entry("ancient-changes", "Update", "2026-01-01T00:00:02Z", "x0");
    ancient["fieldsV1"] = json!({"f:x0": {}, "f:x1": {}, "f:x2": {}});
    let mut expected = vec![list[12].clone(), ancient];
    expected.extend_from_slice(&list[3..12]);
    assert_eq!(capped, Value::from(expected));

    // The next one is merged into the same bucket.
    let mut entries = Entries::decode(capped.as_array().unwrap()).unwrap();
    entries.0.push(decode_entry(&entry("w12", "Update", "2026-01-01T00:00:12Z", "x12")).unwrap());
    entries.cap();
    let updaters = entries.0.iter().filter(|entry| entry.owner.operation == Operation::Update);
    assert_eq!(updaters.count(), 10);
    let bucket = entries.0.iter().find(|entry| entry.owner.manager == "ancient-changes").unwrap();
    assert_eq!(fields_v1::print(&bucket.fields), json!({"f:x0": {}, "f:x1": {}, "f:x2": {}, "f:x3": {}}));
}

#[test]
fn conflict_text_names_manager_subresource_and_version() {
    for (operation, subresource, expected) in [
        (Operation::Apply, "", "\"m\\\"n\""),
        (Operation::Update, "", "\"m\\\"n\" using v1"),
        (Operation::Update, "status", "\"m\\\"n\" with subresource \"status\" using v1"),
        (Operation::Apply, "status", "\"m\\\"n\" with subresource \"status\""),
    ] {
        let owner = EntryOwner {
            manager: "m\"n".to_owned(),
            operation,
            api_version: "v1".to_owned(),
            subresource: subresource.to_owned(),
        };
        assert_eq!(owner.shown(), expected);
    }
}

#[test]
fn many_owners_are_read_and_capped_in_linear_time() {
    for operation in ["Apply", "Update"] {
        let list = |n: usize| -> Vec<Value> {
            (0..n)
                .map(|n| entry(&format!("m{n}"), operation, "2026-01-01T00:00:00Z", &format!("x{n}")))
                .collect()
        };
        assert_linear(operation, 500, list, |list| {
            let mut entries = Entries::decode(list).unwrap();
            entries.cap();
            entries.encode()
        });
    }
}
