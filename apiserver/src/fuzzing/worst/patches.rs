//! Patches and applied documents.

use super::{DEPTH, Size, YAML_DEPTH, led, nested, nested_objects};
use crate::fuzzing::choice;
use crate::fuzzing::patches::BETWEEN;

impl Size {
    pub(super) fn json_patches(self) -> Vec<String> {
        let operation = |op: &str, from: &str, path: &str| {
            format!(r#"{{"op":"{op}","from":"{from}","path":"{path}","value":"v"}}"#)
        };
        let path = "/metadata/annotations/a";
        let container = "/spec/containers/0";
        let deep = "/metadata/annotations".to_owned() + &"/a".repeat(self.0 / 2);
        vec![
            self.same(&operation("add", "", "/metadata/finalizers/0")),
            self.same(&operation("copy", container, container)),
            self.same(&operation("copy", "/metadata", path)),
            self.same(&operation("copy", "/spec", "/spec/u")),
            self.same(&operation("move", container, "/spec/containers/-")),
            self.same(&operation("test", "", "/metadata/name")),
            self.same(&operation("replace", "", path)),
            self.many(|n| operation("add", "", &format!("{path}{n}"))),
            self.same("{}"),
            format!("[{{{}}}]", self.fill(|n| format!(r#""u{n}":0"#))),
            format!("[{}]", operation("add", "", &deep)),
            format!("[{}]", operation("add", "", &format!("{path}{}", "~1".repeat(self.0 / 2)))),
            format!(r#"[{{"op":"add","path":"{path}","value":{}}}]"#, nested(DEPTH, "0")),
            // Each operation deepens the document.
            format!(
                r#"[{{"op":"add","path":"/u","value":{{"a":{{}}}}}},{}]"#,
                self.fill(|n| operation("add", "", &format!("/u{}", "/a".repeat(n % 90 + 1))))
            ),
        ]
    }

    pub(super) fn merge_patches(self) -> Vec<String> {
        let long = "k".repeat(self.0 / 2);
        vec![
            format!(r#"{{"metadata":{{"labels":{{{}}}}}}}"#, self.fill(|n| format!(r#""l{n}":null"#))),
            format!(r#"{{"metadata":{{"annotations":{{{}}}}}}}"#, self.fill(|n| format!(r#""a{n}":"v""#))),
            format!(r#"{{"metadata":{{"labels":{{{}}}}}}}"#, self.fill(|_| r#""l":"v""#.to_owned())),
            format!(r#"{{"spec":{{"containers":{}}}}}"#, self.same("{}")),
            format!(r#"{{"spec":{{"nodeSelector":{{"{long}":[{}]}}}}}}"#, self.half(|_| "0".to_owned())),
            nested_objects(DEPTH, "null"),
            self.same("{}"),
            self.digits(),
        ]
    }

    pub(super) fn strategic_patches(self) -> Vec<String> {
        let spec = |members: String| format!(r#"{{"spec":{{{members}}}}}"#);
        let main = r#"{"name":"main","env":[{"name":"A","value":"x"}]}"#;
        let long = "k".repeat(self.0 / 2);
        vec![
            spec(format!(r#""containers":{}"#, self.same(main))),
            spec(format!(r#""containers":{}"#, self.many(|n| format!(r#"{{"name":"c{n}"}}"#)))),
            spec(format!(r#""containers":{}"#, self.same(r#"{"name":"main","$patch":"delete"}"#))),
            spec(format!(r#""containers":{}"#, self.same("{}"))),
            spec(format!(
                r#""containers":[{{"name":"main","env":{}}}]"#,
                self.many(|n| format!(r#"{{"name":"E{n}"}}"#))
            )),
            spec(format!(
                r#""containers":[{}]"#,
                self.fill(|_| r#"{"name":"main","env":[{"name":"x"}]}"#.to_owned())
            )),
            spec(format!(
                r#""containers":[{{"name":"{long}"}}],"$setElementOrder/containers":[{}]"#,
                self.half(|n| format!(r#"{{"name":"c{n}"}}"#))
            )),
            spec(format!(
                r#""containers":[{}],"$setElementOrder/containers":[{}]"#,
                self.half(|n| format!(r#"{{"name":"c{}"}}"#, 99_999 - n)),
                self.half(|n| format!(r#"{{"name":"c{n}"}}"#))
            )),
            format!(
                r#"{{"metadata":{{"finalizers":[{}],"$deleteFromPrimitiveList/finalizers":[{}]}}}}"#,
                self.half(|n| format!(r#""a/f{n}""#)),
                self.half(|n| format!(r#""a/f{n}""#))
            ),
            format!(r#"{{"metadata":{{"finalizers":{}}}}}"#, self.same(r#""a/b""#)),
            spec(format!(r#""$retainKeys":{}"#, self.many(|n| format!(r#""k{n}""#)))),
            spec(format!(r#""volumes":{}"#, self.same(r#"{"name":"v","$retainKeys":["name"]}"#))),
            spec(format!(r#""containers":[[{}]]"#, self.fill(|_| "[]".to_owned()))),
            spec(format!(
                r#""containers":[{}]"#,
                self.fill(|n| if n % 2 == 0 { "0".to_owned() } else { "{}".to_owned() })
            )),
            format!(r#"{{"$patch":"{long}","a":{}}}"#, nested(DEPTH, "0")),
            nested_objects(DEPTH, "null"),
        ]
    }

    pub(super) fn applies(self) -> Vec<Vec<u8>> {
        let between = String::from_utf8_lossy(BETWEEN).into_owned();
        let pod = |metadata: String, spec: String| {
            format!(
                r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"it"{metadata}}},"spec":{{{spec}}}}}"#
            )
        };
        let finalizers = |number: &dyn Fn(usize) -> usize| {
            let list = self.half(|n| format!(r#""a/f{}""#, number(n)));
            pod(format!(r#","finalizers":[{list}]"#), String::new())
        };
        let containers = |item: &dyn Fn(usize) -> String| {
            pod(String::new(), format!(r#""containers":[{}]"#, self.half(item)))
        };
        let twice = |first: String, second: String| first + &between + &second;
        let long = "k".repeat(self.0 / 2);
        let texts = vec![
            twice(finalizers(&|n| n), finalizers(&|n| 99_999 - n)),
            twice(
                containers(&|n| format!(r#"{{"name":"c{n}"}}"#)),
                containers(&|n| format!(r#"{{"name":"c{}"}}"#, 99_999 - n)),
            ),
            containers(&|_| r#"{"name":"a"}"#.to_owned()),
            containers(&|_| "{}".to_owned()),
            containers(&|n| format!(r#"{{"name":"c","ports":[{{"containerPort":{n}}}]}}"#)),
            // A long key above many wrong values.
            pod(
                String::new(),
                format!(r#""containers":[{{"name":"{long}","args":[{}]}}]"#, self.half(|_| "1".to_owned())),
            ),
            pod(format!(r#","labels":{{{}}}"#, self.fill(|n| format!(r#""l{n}":"v""#))), String::new()),
            pod(String::new(), format!(r#""nodeSelector":{}"#, nested_objects(YAML_DEPTH - 2, "0"))),
            pod(String::new(), self.fill(|n| format!(r#""u{n}":0"#))),
            format!(
                "{}x: &a {long}\nspec: [{}]\n",
                "apiVersion: v1\nkind: Pod\n",
                self.half(|_| "*a".to_owned())
            ),
        ];
        led(&[choice("", "pods"), 1], texts)
    }
}
