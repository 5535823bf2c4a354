//! Texts in paths, queries and headers, and requests that contain them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::{DEPTH, Size, nested_objects};

impl Size {
    pub(super) fn selectors(self) -> Vec<String> {
        let values = self.fill(|n| format!("v{n}"));
        vec![
            self.fill(|_| "a=b".to_owned()),
            self.fill(|n| format!("k{n}!=v{n}")),
            self.fill(|_| "a".to_owned()),
            self.fill(|n| format!("!k{n}")),
            format!("a in ({values})"),
            format!("a notin ({values})"),
            format!("a in ({})", "a,".repeat(self.0 / 2)),
            self.fill(|n| format!("a in (v{n},w)")),
            self.fill(|_| "metadata.name=it".to_owned()),
            self.fill(|n| format!("metadata.name!=n{n}")),
            format!("metadata.name={}", "\\\\".repeat(self.0 / 2)),
            "k".repeat(self.0),
            ",".repeat(self.0),
            "(".repeat(self.0),
            "!".repeat(self.0),
            " ".repeat(self.0),
            "a>".to_owned() + &self.digits(),
        ]
    }

    pub(super) fn tokens(self) -> Vec<String> {
        let token = |start: String| {
            URL_SAFE_NO_PAD.encode(format!(r#"{{"v":"meta.k8s.io/v1","rv":7,"start":"/default/{start}"}}"#))
        };
        let length = self.0 / 2;
        vec![
            token("a".repeat(length)),
            token("../".repeat(length / 3)),
            token("/".repeat(length)),
            token(r"\u0000".repeat(length / 6)),
            URL_SAFE_NO_PAD.encode("[".repeat(length)),
            URL_SAFE_NO_PAD.encode(format!("{{{}}}", self.half(|_| r#""v":0"#.to_owned()))),
            "A".repeat(self.0),
            "=".repeat(self.0),
        ]
    }

    pub(super) fn targets(self) -> Vec<String> {
        let long = "a".repeat(self.0);
        vec![
            format!("/api/v1/pods?{}", "labelSelector=a&".repeat(self.0 / 16)),
            format!("/api/v1/pods?{}", "a=b&".repeat(self.0 / 4)),
            format!("/api/v1/pods?{}", "&".repeat(self.0)),
            format!("/api/v1/pods?fieldManager={long}"),
            format!("/api/v1/pods?fieldManager={}", "%01".repeat(self.0 / 3)),
            format!(
                "/api/v1/pods?limit={0}&timeoutSeconds={0}&resourceVersion={0}&timeout={0}",
                "1".repeat(self.0 / 4)
            ),
            format!("/api/v1/pods?timeout={}", "1h".repeat(self.0 / 2)),
            format!("/api/v1/pods?timeout=0.{}h", self.digits()),
            format!("/api/v1/pods?dryRun={}", "All,".repeat(self.0 / 4)),
            format!("/api/v1/pods?{}", "dryRun=All&".repeat(self.0 / 11)),
            format!("/api/v1/pods/{long}"),
            format!("/api/v1{}", "/a".repeat(self.0 / 2)),
            "/".repeat(self.0),
            "/%2f".repeat(self.0 / 4),
            "/..".repeat(self.0 / 3),
        ]
    }

    pub(super) fn accepts(self) -> Vec<String> {
        vec![
            self.fill(|_| "a/b".to_owned()),
            self.fill(|_| "application/json;as=Table;v=v1;g=meta.k8s.io;q=0.1".to_owned()),
            format!("application/json{}", ";a=b".repeat(self.0 / 4)),
            format!("application/json;as={}", "T".repeat(self.0)),
            format!("application/json;q={}", self.digits()),
            format!("application/json;q=0.{}", self.digits()),
            self.fill(|n| format!("a/b{n};q=0.{n}")),
            ",".repeat(self.0),
            ";".repeat(self.0),
            "\"".repeat(self.0),
            "/".repeat(self.0),
        ]
    }

    /// A path, and after a line break the object that it searches.
    pub(super) fn json_paths(self) -> Vec<String> {
        let list = format!(r#"{{"spec":{{"l":[{}]}}}}"#, self.half(|_| r#"{"a":1}"#.to_owned()));
        let deep = format!(r#"{{"spec":{}}}"#, nested_objects(DEPTH - 10, "1"));
        let wide = format!(r#"{{"spec":[{}]}}"#, self.half(|_| nested_objects(20, "1")));
        let long = format!(r#"{{"spec":{{"t":"{}"}}}}"#, "x".repeat(self.0 / 2));
        let mut paths = Vec::new();
        for object in [&list, &deep, &wide, &long] {
            for path in [
                "..a",
                "..a..a..a..a..b",
                "..[*]..[*]..[*]..b",
                ".spec.l[*].b",
                r"..[?(@.a==2)]..[?(@.a==2)].b",
                ".spec.l[0:][0:][0:].a",
                ".spec",
                ".spec.t",
            ] {
                paths.push(format!("{path}\n{object}"));
            }
        }
        for part in ["..a", ".a", "[*]", "[0]", "[0:]", r"[?(@.a==1)]", "\\.", "[", "['a']"] {
            paths.push(format!("{}\n{deep}", part.repeat(self.0 / 2 / part.len())));
        }
        paths.push(format!("[?(@.t==\"{}\")]\n{long}", "x".repeat(self.0 / 2 / 2)));
        paths
    }

    /// Requests with the worst bodies and texts.
    pub(super) fn requests(self) -> Vec<String> {
        let escaped = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let list = |name: &str, text: &str| {
            format!(
                "GET /api/v1/namespaces/default/pods?{name}={}\naccept: application/json\n\n",
                escaped(text)
            )
        };
        let patch = |media: &str, body: &str| {
            format!(
                "PATCH /api/v1/namespaces/default/pods/it?fieldManager=a&force=1\ncontent-type: application/{media}\n\n{body}"
            )
        };
        let create = |plural: &str, body: &str| {
            format!(
                "POST /api/v1/namespaces/default/{plural}?fieldValidation=Strict\ncontent-type: application/json\n\n{body}"
            )
        };
        let body = |members: &str| format!(r#"{{"metadata":{{"name":"b"}},{members}}}"#);
        let pod = |members: &str| {
            body(&format!(r#""spec":{{"containers":[{{"name":"c","image":"i"}}],{members}}}"#))
        };
        let half = |item: &dyn Fn(usize) -> String| format!("[{}]", self.half(item));
        let term = r#"{"topologyKey":"a","labelSelector":{}}"#;
        let table = "\n%%\nGET /api/v1/namespaces/default/pods\naccept: application/json;as=Table;v=v1;g=meta.k8s.io\n\n";
        let lines = |item: &dyn Fn(usize) -> String| self.fill(item).replace(',', "\n");
        let with_headers = |headers: &str| format!("GET /api/v1/namespaces/default/pods\n{headers}\n\n");
        // A target of a request may have 64 KiB.
        let short = |item: &dyn Fn(usize) -> String| self.of(self.0 / 4, item);
        vec![
            list("labelSelector", &short(&|n| format!("k{n}!=v{n}"))),
            list("labelSelector", &format!("a in ({})", short(&|n| format!("v{n}")))),
            list("fieldSelector", &short(&|n| format!("metadata.name!=n{n}"))),
            create(
                "pods",
                &pod(&format!(
                    r#""tolerations":{}"#,
                    half(&|n| format!(r#"{{"key":"k{n}","operator":"Exists"}}"#))
                )),
            ) + table,
            create(
                "pods",
                &pod(&format!(
                    r#""initContainers":{}"#,
                    half(&|n| format!(r#"{{"name":"c{n}","image":"i","restartPolicy":"Always"}}"#))
                )),
            ) + table,
            create(
                "pods",
                &pod(&format!(r#""volumes":{}"#, half(&|n| format!(r#"{{"name":"v{n}","emptyDir":{{}}}}"#)))),
            ) + table,
            create(
                "pods",
                &pod(&format!(
                    r#""affinity":{{"podAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":{}}}}}"#,
                    half(&|_| term.to_owned())
                )),
            ),
            create("pods", &body(&format!(r#""spec":{{"containers":{}}}"#, half(&|_| "{}".to_owned())))),
            create(
                "configmaps",
                &body(&format!(r#""data":{{{}}}"#, self.fill(|n| format!(r#""k{n}":"v""#)))),
            ),
            create("configmaps", &body(&format!(r#""data":{{{}}}"#, self.fill(|n| format!(r#""k{n}":0"#))))),
            create(
                "services",
                &body(&format!(
                    r#""spec":{{"ports":{}}}"#,
                    half(&|n| format!(r#"{{"name":"p{n}","port":1}}"#))
                )),
            ),
            create(
                "endpoints",
                &body(&format!(
                    r#""subsets":[{{"addresses":{},"ports":{}}}]"#,
                    half(&|_| r#"{"ip":"1.1.1.1"}"#.to_owned()),
                    half(&|n| format!(r#"{{"name":"p{n}","port":1}}"#))
                )),
            ) + &table.replace("pods", "endpoints"),
            patch(
                "strategic-merge-patch+json",
                &format!(r#"{{"spec":{{"containers":{}}}}}"#, self.same(r#"{"name":"c"}"#)),
            ),
            patch(
                "merge-patch+json",
                &format!(
                    r#"{{"metadata":{{"annotations":{{{}}}}}}}"#,
                    self.fill(|n| format!(r#""a{n}":"v""#))
                ),
            ),
            patch(
                "json-patch+json",
                &self.same(r#"{"op":"add","path":"/metadata/finalizers/0","value":"a/b"}"#),
            ),
            patch(
                "apply-patch+yaml",
                &format!(
                    r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"it","labels":{{{}}}}}}}"#,
                    self.fill(|n| format!(r#""l{n}":"v""#))
                ),
            ),
            with_headers(&format!("authorization: Bearer {}", "a".repeat(self.0))),
            with_headers(&format!("impersonate-user: a\n{}", lines(&|n| format!("impersonate-group: g{n}")))),
            with_headers(&format!(
                "impersonate-user: a\n{}",
                lines(&|n| format!("impersonate-extra-e{n}: v"))
            )),
            with_headers(&lines(&|n| format!("x-remote-extra-e{n}: v"))),
        ]
    }
}
