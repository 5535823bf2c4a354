#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::managed_fields::testing::{LATER, NOW, entries, kind, map, object, writer};
use crate::managed_fields::{keep_times, track};

/// An object with a sequence of writes, each based on the result of the previous one.
struct Story {
    kind: &'static dyn Kind,
    live: Option<Object>,
}

impl Story {
    fn of(plural: &str) -> Self {
        Story { kind: kind("", plural), live: None }
    }

    fn apply(&mut self, manager: &str, now: &str, config: Value, force: bool) -> Result<Object, ApiError> {
        let names = self.kind.names();
        let mut config = map(config);
        config.insert("kind".to_owned(), names.kind.into());
        config.insert("apiVersion".to_owned(), names.api_version().into());
        config.entry("metadata").or_insert_with(|| json!({"name": "a"}));
        let mut done = apply(&writer(self.kind, manager, now), self.live.as_ref(), config, force)?;
        if let Some(live) = &self.live {
            keep_times(&mut done, live);
        }
        self.live = Some(stored(done.clone()));
        Ok(done)
    }

    fn update(&mut self, manager: &str, value: Value) {
        let mut new = object(self.kind, value);
        new.set(&["metadata", "name"], "a");
        track(&writer(self.kind, manager, NOW), self.live.as_ref(), &mut new);
        self.live = Some(stored(new));
    }

    fn entries(&self) -> Vec<(String, Value)> {
        self.live.as_ref().map(entries).unwrap_or_default()
    }

    fn at(&self, member: &str) -> Value {
        self.live.as_ref().and_then(|live| live.0.get(member).cloned()).unwrap_or_default()
    }
}

fn stored(mut object: Object) -> Object {
    object.set(&["metadata", "uid"], "u");
    object.set(&["metadata", "creationTimestamp"], NOW);
    object
}

#[test]
fn fields_no_longer_applied_are_removed() {
    let mut story = Story::of("configmaps");
    story.apply("m", NOW, json!({"data": {"a": "1", "b": "2"}}), false).unwrap();
    assert_eq!(story.entries(), [(format!("m Apply@{NOW}"), json!({"f:data": {"f:a": {}, "f:b": {}}}))]);
    story.apply("m", LATER, json!({"data": {"a": "1", "b": "2"}}), false).unwrap();
    assert_eq!(story.entries()[0].0, format!("m Apply@{NOW}"), "the same again leaves the time");
    story.apply("m", LATER, json!({"data": {"a": "9"}}), false).unwrap();
    assert_eq!(story.entries(), [(format!("m Apply@{LATER}"), json!({"f:data": {"f:a": {}}}))]);
    assert_eq!(story.at("data"), json!({"a": "9"}));
    story.apply("m", LATER, json!({}), false).unwrap();
    assert_eq!((story.entries(), story.at("data")), (vec![], Value::Null));
}

#[test]
fn shared_field_stays_until_its_last_owner_drops_it() {
    let mut story = Story::of("configmaps");
    story.apply("m1", NOW, json!({"data": {"x": "1", "y": "1"}}), false).unwrap();
    story.apply("m2", NOW, json!({"data": {"x": "1"}}), false).unwrap();
    assert_eq!(
        story.entries()[0],
        ("m2 Apply".to_owned(), json!({"f:data": {"f:x": {}}})),
        "no change, no time"
    );
    story.apply("m1", NOW, json!({"data": {"y": "1"}}), false).unwrap();
    assert_eq!(story.at("data"), json!({"x": "1", "y": "1"}));
    story.apply("m2", NOW, json!({}), false).unwrap();
    assert_eq!(story.at("data"), json!({"y": "1"}));
}

#[test]
fn fields_owned_by_an_update_survive_pruning() {
    let mut story = Story::of("configmaps");
    story.update("u", json!({"data": {"x": "1"}}));
    story.apply("m", NOW, json!({"data": {"x": "1", "y": "1"}}), false).unwrap();
    story.apply("m", NOW, json!({"data": {"y": "1"}}), false).unwrap();
    assert_eq!(story.at("data"), json!({"x": "1", "y": "1"}));
}

#[test]
fn conflicting_apply_fails_unless_forced() {
    let mut story = Story::of("configmaps");
    story.apply("m1", NOW, json!({"data": {"x": "1", "y": "1"}}), false).unwrap();
    story.update("up", json!({"data": {"x": "1", "y": "1", "z": "1"}}));
    let error = story.apply("m2", NOW, json!({"data": {"x": "2"}}), false).unwrap_err();
    assert_eq!(error.code, 409);
    assert_eq!(error.message, "Apply failed with 1 conflict: conflict with \"m1\": .data.x");
    let error = story.apply("m2", NOW, json!({"data": {"x": "2", "y": "2", "z": "2"}}), false).unwrap_err();
    let text = "Apply failed with 3 conflicts: conflicts with \"m1\":\n- .data.x\n- .data.y\nconflicts with \
                \"up\" using v1:\n- .data.z";
    assert_eq!(error.message, text);
    let cause = |with: &str, field: &str| json!({"reason": "FieldManagerConflict", "message": format!("conflict with {with}"), "field": field});
    let causes =
        [cause("\"m1\"", ".data.x"), cause("\"m1\"", ".data.y"), cause("\"up\" using v1", ".data.z")];
    assert_eq!(error.to_status()["details"], json!({"causes": causes}));

    story.apply("m2", LATER, json!({"data": {"x": "2"}}), true).unwrap();
    assert_eq!(
        story.entries(),
        [
            (format!("m1 Apply@{NOW}"), json!({"f:data": {"f:y": {}}})),
            (format!("m2 Apply@{LATER}"), json!({"f:data": {"f:x": {}}})),
            (format!("up Update@{NOW}"), json!({"f:data": {"f:z": {}}})),
        ]
    );
}

#[test]
fn list_items_have_separate_owners() {
    let mut story = Story::of("pods");
    let container = |more: Value| {
        let mut container = json!({"name": "c"});
        container.as_object_mut().unwrap().extend(map(more));
        json!({"spec": {"containers": [container]}})
    };
    story
        .apply("m1", NOW, container(json!({"image": "1", "env": [{"name": "A", "value": "1"}]})), false)
        .unwrap();
    story.apply("m2", NOW, container(json!({"env": [{"name": "B", "value": "2"}]})), false).unwrap();
    assert_eq!(
        story.at("spec")["containers"][0]["env"],
        json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}])
    );
    let error = story.apply("m2", NOW, container(json!({"image": "2"})), false).unwrap_err();
    let text = "Apply failed with 1 conflict: conflict with \"m1\": .spec.containers[name=\"c\"].image";
    assert_eq!(error.message, text);
    story.apply("m2", NOW, json!({}), false).unwrap();
    assert_eq!(story.at("spec")["containers"][0]["env"], json!([{"name": "A", "value": "1"}]));
    assert_eq!(story.entries().len(), 1);
}

#[test]
fn first_apply_assigns_untracked_fields_to_before_first_apply() {
    let mut story = Story::of("configmaps");
    story.update("u", json!({"data": {"k": "v"}}));
    story.live.as_mut().unwrap().meta().remove("managedFields");
    let error = story.apply("m", NOW, json!({"data": {"k": "w"}}), false).unwrap_err();
    let text = "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.k";
    assert_eq!(error.message, text);
    story.apply("m", LATER, json!({"data": {"n": "1"}}), false).unwrap();
    assert_eq!(
        story.entries(),
        [
            (format!("m Apply@{LATER}"), json!({"f:data": {"f:n": {}}})),
            (format!("before-first-apply Update@{LATER}"), json!({"f:data": {".": {}, "f:k": {}}})),
        ]
    );
}

#[test]
fn invalid_configurations_are_rejected() {
    for (name, config, code, message) in [
        ("no kind", json!({"apiVersion": "v1"}), 400, "invalid object type: /v1, Kind="),
        ("nothing", json!({}), 400, "invalid object type: /, Kind="),
        (
            "another kind",
            json!({"apiVersion": "apps/v1", "kind": "X"}),
            400,
            "invalid object type: apps/v1, Kind=X",
        ),
        ("odd version", json!({"apiVersion": "a/b/c", "kind": "X"}), 400, "invalid object type: /, Kind="),
        (
            "list of managers",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"managedFields": []}}),
            400,
            "metadata.managedFields must be nil",
        ),
        (
            "unknown field",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"}, "zzz": 1}),
            500,
            "failed to create typed patch object (n/a; /v1, Kind=ConfigMap): .zzz: field not declared in schema",
        ),
        (
            "two misfits",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": 1}, "immutable": 1}),
            500,
            "failed to create typed patch object (/; /v1, Kind=ConfigMap): errors:\n  .data.a: expected string, got \
             &value.valueUnstructured{Value:1}\n  .immutable: expected boolean, got &{1}",
        ),
    ] {
        let maps = kind("", "configmaps");
        let error = apply(&writer(maps, "m", NOW), None, map(config), false).unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (code, message), "{name}");
    }
}

#[test]
fn kubectl_apply_takes_ownership_from_its_annotation() {
    const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let last = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v", "x": "old"}});
    let mut story = Story::of("configmaps");
    let annotations = json!({ANNOTATION: last.to_string()});
    story.update(
        "kubectl-client-side-apply",
        json!({"metadata": {"annotations": annotations}, "data": {"k": "v", "x": "1"}}),
    );
    let error = story.apply("other", NOW, json!({"data": {"k": "w"}}), false).unwrap_err();
    assert_eq!(error.code, 409, "only kubectl is taken for the writer");
    let error = story.apply("kubectl", NOW, json!({"data": {"k": "w", "x": "2"}}), false).unwrap_err();
    let text = "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using v1: .data.x";
    assert_eq!(error.message, text, "another manager has changed x");
    story.apply("kubectl", LATER, json!({"data": {"k": "w"}}), false).unwrap();
    let text = story.at("metadata")["annotations"][ANNOTATION].as_str().unwrap_or_default().to_owned();
    assert_eq!(
        text,
        "{\"apiVersion\":\"v1\",\"data\":{\"k\":\"w\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"}}\n"
    );
    assert_eq!(story.at("data"), json!({"k": "w", "x": "1"}));
}

#[test]
fn event_is_pruned_in_the_version_of_its_last_apply() {
    let (core, events) = (kind("", "events"), kind("events.k8s.io", "events"));
    let config = |version: &str, more: Value| {
        let mut config = map(more);
        config.extend(map(json!({"apiVersion": version, "kind": "Event", "metadata": {"name": "e"}})));
        config
    };
    let first = config("events.k8s.io/v1", json!({"note": "n", "reason": "r"}));
    let live = apply(&writer(events, "m", NOW), None, first, false).unwrap();
    let live = stored(core.to_shown(events.to_stored(live)));
    let done =
        apply(&writer(core, "m", LATER), Some(&live), config("v1", json!({"reason": "r"})), false).unwrap();
    assert_eq!(done.0.get("message"), None);
    assert_eq!(entries(&done), [(format!("m Apply@{LATER}"), json!({"f:reason": {}}))]);
}

/// Generates configurations with labels, finalizers, and environment variables of a container.
fn configs() -> impl Strategy<Value = Value> {
    let names = prop::sample::subsequence(vec!["a", "b", "c", "d"], 0..=4).prop_shuffle();
    (names.clone(), names.clone(), names, 0..3i32).prop_map(|(labels, finalizers, env, value)| {
        let labels: Map<String, Value> =
            labels.iter().map(|name| (name.to_string(), value.to_string().into())).collect();
        let finalizers: Vec<String> = finalizers.iter().map(|name| format!("x/{name}")).collect();
        let env: Vec<Value> =
            env.iter().map(|name| json!({"name": name, "value": value.to_string()})).collect();
        let mut config = json!({
            "metadata": {"name": "a", "labels": labels, "finalizers": finalizers},
            "spec": {"containers": [{"name": "c", "image": "i", "env": env}]},
        });
        // An empty map is owned but not stored, so each apply would count as a change.
        if labels.is_empty() {
            config["metadata"].as_object_mut().unwrap().remove("labels");
        }
        config
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn forced_apply_is_idempotent_and_stores_all_applied_fields(steps in prop::collection::vec((0..3usize, configs()), 1..8)) {
        let mut story = Story::of("pods");
        for (manager, config) in steps {
            let manager = ["m1", "m2", "m3"][manager];
            let first = story.apply(manager, NOW, config.clone(), true).unwrap();
            let again = story.apply(manager, LATER, config.clone(), false).unwrap();
            prop_assert_eq!(&first.0["spec"], &again.0["spec"], "the same again changes nothing");
            prop_assert_eq!(entries(&first), entries(&again));
            // All applied fields exist, in the applied order.
            let ty = story.kind.struct_type().unwrap();
            let ty = &*ty;
            let fields = paths(ty, config.as_object().unwrap());
            let there = paths(ty, &first.0);
            let mut missing = fields.clone();
            missing.subtract(&there);
            prop_assert!(missing.is_empty(), "{missing:?}");
            let applied: Vec<&Value> = config["spec"]["containers"][0]["env"].as_array().unwrap().iter().collect();
            let env = first.0["spec"]["containers"][0].get("env").and_then(Value::as_array);
            let mine: Vec<&Value> = env.into_iter().flatten().filter(|item| applied.contains(item)).collect();
            prop_assert_eq!(mine, applied);
            // Every owned field exists.
            for entry in Entries::decode(list(&first)).unwrap().0 {
                let mut gone = entry.fields;
                gone.subtract(&there);
                prop_assert!(gone.is_empty(), "{} owns {gone:?}", entry.owner.manager);
            }
        }
    }
}
