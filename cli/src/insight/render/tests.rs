//! Formats the example answers of docs/insight.md.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::*;

fn look() -> Style {
    Style { colour: false, now: "2026-01-31T12:00:00Z".parse().unwrap() }
}

fn reference_to(kind: &str, namespace: &str, name: &str) -> Value {
    json!({"kind": kind, "resource": "x", "namespace": namespace, "name": name})
}

fn pending() -> Value {
    let target = json!({"kind": "PersistentVolumeClaim", "resource": "persistentvolumeclaims", "namespace": "default",
        "name": "data"});
    let body = json!({"spec": {"note": "it's"}});
    json!({"kind": "Why", "object": reference_to("PersistentVolumeClaim", "default", "data"), "state": "Pending",
        "summary": "No volume fits and no class makes one: a volume of 2Gi or more with ReadWriteOnce would end it.",
        "severity": "attention",
        "causes": [{"code": "NoVolumeFits", "message": "the largest of 3 volumes holds 1Gi",
            "objects": [reference_to("PersistentVolume", "", "big")], "until": "2026-01-31T12:04:10Z",
            "fix": {"message": "ask for 1Gi", "patch": {"target": target, "type": "merge", "body": body}}}],
        "candidates": {"total": 3, "fit": 0, "by_rule": [{"rule": "AccessModes", "count": 12}, {"rule": "Size", "count": 1}],
            "nearest": [{"volume": "a", "first": "Size", "fix": {"message": "make it larger", "command": "kubectl edit pv a"},
                "verdicts": [{"rule": "Size", "ok": false, "message": "its capacity is 1Gi, and the claim requests 2Gi"},
                    {"rule": "Class", "ok": true, "message": ""}]}]},
        "blocked_by": [{"finalizer": "kubernetes.io/pvc-protection", "owner": "pvc-protection", "message": "a pod uses it",
            "objects": [reference_to("Pod", "default", "web")]}]})
}

#[test]
fn causes_are_formatted_as_a_tree() {
    let wanted = r#"PersistentVolumeClaim default/data is Pending: it needs attention
  No volume fits and no class makes one: a volume of 2Gi or more with
  ReadWriteOnce would end it.

  the largest of 3 volumes holds 1Gi [NoVolumeFits]
    see PersistentVolume big
    continues automatically at 2026-01-31T12:04:10Z (in 4 min 10 s)
    fix: ask for 1Gi
         $ kubectl patch persistentvolumeclaims data -n default --type=merge -p '{"spec":{"note":"it'\''s"}}'

  0 of 3 volumes fit; ruled out: 12 by AccessModes, 1 by Size
    a
      Size: its capacity is 1Gi, and the claim requests 2Gi

  its deletion is blocked by
    kubernetes.io/pvc-protection
      to be removed by pvc-protection
      a pod uses it
      see Pod default/web
"#;
    assert_eq!(why(&pending(), look()), wanted);
    // The summary is not repeated, and the fix of the nearest volume is shown if no cause has one.
    let mut document = pending();
    document["summary"] = document["causes"][0]["message"].clone();
    document["causes"][0]["fix"] = json!(null);
    let text = why(&document, look());
    assert!(
        text.contains("attention\n  the largest of 3 volumes holds 1Gi [NoVolumeFits]\n    see"),
        "{text}"
    );
    assert!(text.contains("$ kubectl edit pv a"), "{text}");
    let nearest = document["candidates"]["nearest"][0].clone();
    document["candidates"]["nearest"] = json!([nearest, nearest, nearest, nearest, nearest]);
    assert!(why(&document, look()).contains("    2 more, and all rules: -o json\n"));
    document["severity"] = json!("waiting");
    document["blocked_by"][0]["owner"] = json!("unknown");
    let text = why(&document, look());
    assert!(text.contains("is Pending: waiting, which can be normal\n"), "{text}");
    assert!(text.contains("      its owner is unknown\n"), "{text}");
    document["causes"][0]["code"] = json!("WaitsForPod");
    assert!(!why(&document, look()).contains("volumes fit"));
}

/// Answers with missing or unexpected fields are formatted as far as possible.
#[test]
fn incomplete_answers_are_formatted() {
    let odd = json!({"items": ["x", null, 1], "steps": ["x", null, 1], "causes": ["x"], "candidates": "x", "changes": "x"});
    let little = json!({"causes": [{}], "candidates": {}, "blocked_by": [{}]});
    for document in [json!({}), json!(null), little, odd] {
        for text in [
            why(&document, look()),
            history(&document, "pv a", false, look()),
            diff(&document, "pv a", look()),
            plan(&document, look()),
            done(&document, look()),
            table(&document, true, look()),
        ] {
            assert!(text.is_empty() || text.ends_with('\n'), "{document}: {text:?}");
        }
    }
}

#[test]
fn colours_are_used_only_on_request() {
    let coloured = why(&pending(), Style { colour: true, ..look() });
    assert!(coloured.contains("\x1b[31mit needs attention\x1b[0m"), "{coloured:?}");
    let mut plain = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once('\x1b') {
        plain.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    plain.push_str(rest);
    assert_eq!(plain, why(&pending(), look()), "colours change nothing else");
}

#[test]
fn terminal_controls_are_escaped() {
    let evil = "a\x1b[2Jb\u{202e}c\u{200b}\nd\r\u{85}\u{e0041}";
    let shown = r"a\u{1b}[2Jb\u{202e}c\u{200b}\nd\r\u{85}\u{e0041}";
    assert_eq!(visible(evil), shown);
    let object = reference_to(evil, evil, evil);
    let change = json!({"path": ["metadata", evil, {"name": evil}], "op": "replace", "from": evil, "to": [evil, {evil: evil}]});
    let document = json!({"object": object, "state": evil, "summary": evil, "severity": evil, "verb": evil, "revision": evil,
        "causes": [{"code": evil, "message": evil, "objects": [object], "until": evil,
            "fix": {"message": evil, "command": evil}}],
        "candidates": {"total": evil, "fit": evil, "by_rule": [{"rule": evil, "count": evil}],
            "nearest": [{"volume": evil, "verdicts": [{"rule": evil, "ok": true, "message": evil}]}]},
        "blocked_by": [{"finalizer": evil, "owner": evil, "message": evil, "objects": [object]}],
        "items": [{"revision": evil, "time": evil, "type": evil, "manager": evil, "operation": evil, "subresource": evil,
            "changes": [change]}],
        "continue": evil, "from": evil, "to": {"revision": evil, "time": evil}, "changes": [change],
        "warnings": [evil], "steps": [{"object": object, "action": evil, "message": evil, "changes": [change]}],
        "columnDefinitions": [{"name": evil}], "rows": [{"cells": [evil], "object": {"metadata": {"namespace": evil}}}]});
    for text in [
        why(&document, look()),
        history(&document, evil, false, look()),
        diff(&document, evil, look()),
        plan(&document, look()),
        done(&document, look()),
        table(&document, true, look()),
        json(&document),
        yaml(&document).unwrap(),
    ] {
        let obeyed: Vec<char> = text.chars().filter(|c| *c != '\n' && characters::is_obeyed(*c)).collect();
        assert_eq!(obeyed, [], "{text:?}");
    }
    assert_eq!(
        serde_json::from_str::<Value>(&json(&document)).unwrap(),
        document,
        "machines read what it was"
    );
}

#[test]
fn diff_shows_changed_fields() {
    let claim = json!({"name": "data", "namespace": "default", "list": [1, {"a": "b"}], "none": {}});
    let document = json!({"from": "5", "to": {"revision": "9", "time": "2026-01-31T12:00:00.5Z"}, "changes": [
        {"path": ["status", "phase"], "op": "replace", "from": "Pending", "to": "Bound"},
        {"path": ["metadata", "annotations", "a.b/c"], "op": "remove", "from": "x  y"},
        {"path": ["status", "conditions", "[type=Ready]", "status"], "op": "replace", "from": "x".repeat(40), "to": "y".repeat(40)},
        {"path": ["spec", "claimRef"], "op": "add", "to": claim},
        {"path": ["spec", "volumes", {"name": "web"}, 3], "op": "add", "to": null},
    ]});
    let wanted = r#"pvc default/data from 5 to 9 (2026-01-31T12:00:00Z)
  ~ status.phase: "Pending" -> "Bound"
  - metadata.annotations["a.b/c"]: "x  y"
  ~ status.conditions[type=Ready].status
    - "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
    + "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"
  + spec.claimRef:
      list:
        - 1
        -
          a: "b"
      name: "data"
      namespace: "default"
      none: {}
  + spec.volumes[name=web][3]: null
"#;
    assert_eq!(diff(&document, "pvc default/data", look()), wanted);
    let same = diff(&json!({"from": {"revision": "5", "exists": false}, "changes": []}), "pv a", look());
    assert_eq!(same, "pv a from 5 (the object did not exist) to now\n  no differences\n");
}

#[test]
fn history_names_the_writers() {
    let beat = json!({"path": ["status", "conditions", "[type=Ready]", "lastHeartbeatTime"], "op": "add", "to": "x"});
    let document = json!({"kind": "History", "metadata": {"continue": "next"}, "items": [
        {"revision": "9", "time": "2026-01-31T12:00:00.123Z", "type": "MODIFIED", "manager": "orlop-controller",
            "operation": "Update", "subresource": "status",
            "changes": [{"path": ["status", "phase"], "op": "add", "to": "Bound"}]},
        {"revision": 6, "time": "2026-01-31T11:00:00Z", "type": "MODIFIED", "manager": "kubectl", "operation": "Apply",
            "changes": [{"path": ["metadata", "deletionTimestamp"], "op": "add", "to": "x"}]},
        {"revision": 5, "time": "2026-01-31T11:00:00Z", "type": "ADDED", "changes": []},
        {"revision": 4, "time": "2026-01-31T11:00:00Z", "type": "MODIFIED", "changes": [beat]},
        {"revision": 3, "time": "2026-01-31T11:00:00Z", "type": "MODIFIED", "changes": [beat,
            {"path": ["status", "phase"], "op": "add", "to": "x"}]},
    ]});
    let wanted = r#"9 2026-01-31T12:00:00Z changed by orlop-controller (status)
    + status.phase: "Bound"
6 2026-01-31T11:00:00Z deletion requested by kubectl (Apply)
    + metadata.deletionTimestamp: "x"
5 2026-01-31T11:00:00Z created
4 2026-01-31T11:00:00Z changed: heartbeat
3 2026-01-31T11:00:00Z changed
    + status.phase: "x"

older writes exist; continue with
  --continue next
"#;
    assert_eq!(history(&document, "pvc default/data", false, look()), wanted);
    let empty = json!({"items": []});
    assert_eq!(history(&empty, "pv a", false, look()), "no state of pv a is available\n");
    assert_eq!(history(&empty, "pv a", true, look()), "no older state of pv a is available\n");
    let write = json!({"type": "MODIFIED", "revision": "70", "time": "2026-01-31T12:00:00Z"});
    let cut = history(&json!({"items": [write], "oldest": "64"}), "pv a", false, look());
    assert!(cut.ends_with("writes before revision 64 are no longer available\n"), "{cut}");
}

#[test]
fn plans_and_results_are_formatted() {
    let document = json!({"kind": "Plan", "verb": "reclaim", "revision": "123", "summary": "the volume a is Available again",
        "warnings": ["the next claim can read the data that the claim default/data left on the volume"],
        "steps": [{"object": reference_to("PersistentVolume", "", "a"), "action": "update", "message": "its claim is gone",
            "changes": [{"path": ["status", "phase"], "op": "replace", "from": "Released", "to": "Available"}]}]});
    let wanted = r#"the volume a is Available again
warning: the next claim can read the data that the claim default/data left on
         the volume
  update PersistentVolume a
    its claim is gone
    ~ status.phase: "Released" -> "Available"
as of revision 123
"#;
    assert_eq!(plan(&document, look()), wanted);
    assert_eq!(done(&document, look()), "done: updated PersistentVolume a\n");
    let whole = |name: &str| json!({"path": [name], "op": "add", "to": {"a": "b"}});
    let step = json!({"object": reference_to("PersistentVolumeClaim", "ns", "c"), "action": "create",
        "changes": [whole("metadata"), whole("spec"), whole("status")]});
    let document = json!({"summary": "s", "warnings": ["w"], "steps": [document["steps"][0], step]});
    assert!(
        plan(&document, look())
            .ends_with("create PersistentVolumeClaim ns/c\n    + spec:\n        a: \"b\"\n")
    );
    assert_eq!(
        done(&document, look()),
        "done: updated PersistentVolume a\n      created PersistentVolumeClaim ns/c\n"
    );
    assert_eq!(brief(&document, look()), "s\nwarning: w\n");
}

#[test]
fn tables_look_like_those_of_kubectl() {
    let document = json!({"kind": "Table",
    "columnDefinitions": [{"name": "Name", "priority": 0}, {"name": "Age", "priority": 0}, {"name": "Wide", "priority": 1}],
    "rows": [
        {"cells": ["data", 5, "w"], "object": {"metadata": {"namespace": "default"}}},
        {"cells": ["数据", null, "w"], "object": {"metadata": {"namespace": "n"}}},
    ]});
    assert_eq!(table(&document, false, look()), "NAME   AGE\ndata   5\n数据   <none>\n");
    let all = "NAMESPACE   NAME   AGE\ndefault     data   5\nn           数据   <none>\n";
    assert_eq!(table(&document, true, look()), all);
    assert_eq!(table(&json!({"rows": []}), false, look()), "No objects found\n");
}

/// Only names and commands may be longer than a line, so that they can be copied.
#[test]
fn lines_have_at_most_80_columns() {
    let prose = "数据 a word of prose ".repeat(20);
    let document = json!({"object": reference_to("Pod", "default", "web"), "state": "Pending", "summary": prose, "severity": "ok",
        "causes": [{"code": "Code", "message": prose, "fix": {"message": prose}}],
        "blocked_by": [{"finalizer": "f", "owner": prose, "message": prose}]});
    let text = why(&document, look());
    let widest = text.lines().map(characters::width_of).max().unwrap();
    assert!(widest <= 80 && widest > 70, "{widest}: {text}");
    // A command in a sentence is one word together with the punctuation around it; other text in backticks wraps.
    let command = format!("`kubectl taint node a {}=b:NoExecute`", "n".repeat(60));
    for command in [command.as_str(), "`orlop why pvc/data -n shop`"] {
        let summary = format!(
            "After a node has been unreachable for this time, verify it with `x`, and then {command}. Yes."
        );
        let text = why(&json!({"summary": summary}), look());
        assert!(text.contains(&format!("\n  {command}.")), "{text}");
    }
    let text = why(&json!({"summary": format!("`{prose}`")}), look());
    assert!(text.lines().all(|line| characters::width_of(line) <= 80), "{text}");
    let long = "n".repeat(100);
    let text = why(&json!({"object": reference_to("Pod", "", &long), "summary": long}), look());
    assert!(text.contains(&long), "{text}");
}
