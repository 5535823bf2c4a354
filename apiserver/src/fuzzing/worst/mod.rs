//! Inputs that cost as much as their length allows: seeds that code with a quadratic loop, or with copies of a long key,
//! does not process within the bounds of `cost`.

mod credentials;
mod patches;
mod texts;

use super::choice;

/// The usual length of an input, bytes. libFuzzer reads inputs of up to 64 KiB (fuzz/README.md).
pub(super) const LENGTH: usize = 48 << 10;
/// The nesting depth that stored data may have, and that of YAML.
const DEPTH: usize = 100;
const YAML_DEPTH: usize = 60;

/// The worst inputs of a target, of about a length.
pub(super) fn inputs(target: &str, length: usize) -> Vec<Vec<u8>> {
    let size = Size(length);
    match target {
        "json_body" => size.documents(DEPTH),
        "yaml_body" => [size.documents(YAML_DEPTH), size.yaml()].concat(),
        "protobuf_body" => size.protobuf(),
        "json_patch" => led(&[choice("", "pods")], size.json_patches()),
        "merge_patch" => led(&[choice("", "pods")], size.merge_patches()),
        "strategic_patch" => led(&[choice("", "pods")], size.strategic_patches()),
        "apply" => size.applies(),
        "selectors" => bytes(size.selectors()),
        "continue_token" => bytes(size.tokens()),
        "query" => bytes(size.targets()),
        "accept" => bytes(size.accepts()),
        "json_path" => bytes(size.json_paths()),
        "bearer_token" => bytes(size.bearer_tokens()),
        "issuer_document" => bytes(size.issuer_documents()),
        "certificate" => bytes(size.certificates()),
        "requests" => bytes(size.requests()),
        _ => Vec::new(),
    }
}

fn bytes(texts: Vec<String>) -> Vec<Vec<u8>> {
    texts.into_iter().map(String::into_bytes).collect()
}

fn led(lead: &[u8], texts: Vec<String>) -> Vec<Vec<u8>> {
    texts.into_iter().map(|text| [lead, text.as_bytes()].concat()).collect()
}

/// A value within this many lists.
fn nested(depth: usize, value: &str) -> String {
    format!("{}{value}{}", "[".repeat(depth), "]".repeat(depth))
}

/// A value within this many objects.
fn nested_objects(depth: usize, value: &str) -> String {
    format!("{}{value}{}", r#"{"a":"#.repeat(depth), "}".repeat(depth))
}

/// The length of an input.
#[derive(Clone, Copy)]
struct Size(usize);

impl Size {
    /// As many numbered items as fit in `length` bytes, separated by commas.
    fn of(self, length: usize, item: impl Fn(usize) -> String) -> String {
        let mut text = String::new();
        for n in 0.. {
            let next = item(n);
            if text.len() + next.len() + 1 > length {
                break;
            }
            if n > 0 {
                text.push(',');
            }
            text.push_str(&next);
        }
        text
    }

    /// As many items as fit in an input.
    fn fill(self, item: impl Fn(usize) -> String) -> String {
        self.of(self.0, item)
    }

    /// As many items as fit in half an input.
    fn half(self, item: impl Fn(usize) -> String) -> String {
        self.of(self.0 / 2, item)
    }

    /// A list of as many items as fit in an input.
    fn many(self, item: impl Fn(usize) -> String) -> String {
        format!("[{}]", self.fill(item))
    }

    /// A list of as many equal items as fit in an input.
    fn same(self, item: &str) -> String {
        self.many(|_| item.to_owned())
    }

    fn digits(self) -> String {
        "1".repeat(self.0)
    }

    /// Bodies in JSON, which YAML includes.
    fn documents(self, depth: usize) -> Vec<Vec<u8>> {
        let long = "k".repeat(self.0 / 2);
        let (pods, maps, claims) =
            (choice("", "pods"), choice("", "configmaps"), choice("", "persistentvolumeclaims"));
        let spec = |members: &str| format!(r#"{{"metadata":{{"name":"a"}},"spec":{{{members}}}}}"#);
        let metadata = |members: &str| format!(r#"{{"metadata":{{"name":"a",{members}}}}}"#);
        let mut inputs = Vec::new();
        let mut add = |kind: u8, body: String| {
            // Alternates between the field validations `Warn` and `Strict`.
            let validation = 1 + u8::from(inputs.len() % 2 == 1);
            inputs.push([&[kind, validation], body.as_bytes()].concat());
        };
        // Keys: repeated, unknown, long, and long ones above many wrong values.
        add(maps, format!(r#"{{"data":{{{}}}}}"#, self.fill(|_| r#""a":"1""#.to_owned())));
        add(maps, format!("{{{}}}", self.fill(|n| format!(r#""u{n}":0"#))));
        add(maps, format!(r#"{{"data":{{"{long}{long}":"1"}}}}"#));
        add(maps, format!(r#"{{"data":{{"{long}":[{}]}}}}"#, self.half(|_| "0".to_owned())));
        add(
            pods,
            spec(&format!(r#""nodeSelector":{{"{long}":{{{}}}}}"#, self.half(|n| format!(r#""u{n}":0"#)))),
        );
        // Depth: one value, many values, and wrong values.
        let each = nested(depth, "0");
        add(pods, spec(&format!(r#""u":[{}]"#, self.fill(|_| each.clone()))));
        add(maps, format!(r#"{{"data":{}}}"#, nested_objects(depth, "0")));
        add(maps, metadata(&format!(r#""managedFields":[{{"fieldsV1":{}}}]"#, nested_objects(depth, "{}"))));
        // Lists of values that are larger in memory than in the body.
        for item in ["{}", "null", r#"{"env":[{}]}"#, r#"{"name":"a"}"#] {
            add(pods, spec(&format!(r#""containers":{}"#, self.same(item))));
        }
        add(pods, spec(&format!(r#""volumes":{}"#, self.many(|n| format!(r#"{{"name":"v{n}"}}"#)))));
        add(pods, spec(&format!(r#""tolerations":{}"#, self.many(|n| format!(r#"{{"key":"k{n}"}}"#)))));
        add(
            pods,
            format!(r#"{{"status":{{"conditions":{}}}}}"#, self.many(|n| format!(r#"{{"type":"t{n}"}}"#))),
        );
        add(
            pods,
            format!(
                r#"{{"status":{{"containerStatuses":{}}}}}"#,
                self.same(r#"{"name":"a","state":{"terminated":{"exitCode":0}}}"#)
            ),
        );
        let owner = r#"{"apiVersion":"v1","kind":"a","name":"a","uid":"a","controller":true}"#;
        add(maps, metadata(&format!(r#""ownerReferences":{}"#, self.same(owner))));
        add(maps, metadata(&format!(r#""finalizers":{}"#, self.many(|n| format!(r#""a/f{n}""#)))));
        add(maps, metadata(&format!(r#""labels":{{{}}}"#, self.fill(|n| format!(r#""l{n}":"-""#)))));
        let entry = r#"{"manager":"m","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:a":{}}}"#;
        add(maps, metadata(&format!(r#""managedFields":{}"#, self.same(entry))));
        // Texts that are parsed as numbers, quantities and times.
        let text = self.digits();
        for amount in
            [format!("{text}Ei"), format!("0.{text}Ki"), format!("{text}e-99999"), format!("0.{text}n")]
        {
            add(claims, spec(&format!(r#""resources":{{"requests":{{"storage":"{amount}"}}}}"#)));
        }
        add(
            claims,
            spec(&format!(
                r#""resources":{{"requests":{{{}}}}}"#,
                self.fill(|n| format!(r#""r{n}":"1.5Gi""#))
            )),
        );
        add(pods, spec(&format!(r#""activeDeadlineSeconds":{text}"#)));
        add(pods, spec(&format!(r#""activeDeadlineSeconds":0.{text}e99999"#)));
        add(maps, metadata(&format!(r#""creationTimestamp":"{text}""#)));
        // Texts that are longer when they are quoted.
        add(maps, metadata(&format!(r#""labels":{{"{}":"a"}}"#, r"\u0001".repeat(self.0 / 6))));
        inputs
    }

    /// YAML that JSON lacks.
    fn yaml(self) -> Vec<Vec<u8>> {
        let long = "x".repeat(self.0 / 2);
        let texts = vec![
            // Aliases of a long text, of a list, and of lists of aliases.
            format!("data:\n  a: &a {long}\n  b: [{}]\n", self.half(|_| "*a".to_owned())),
            format!(
                "data:\n  a: &a [{}]\n  b: [{}]\n",
                self.half(|_| "x".to_owned()),
                self.half(|_| "*a".to_owned())
            ),
            (1..self.0 / 60).fold("a0: &a0 [x]\n".to_owned(), |text, n| {
                text + &format!("a{n}: &a{n} [{}]\n", self.of(40, |_| format!("*a{}", n - 1)))
            }),
            // A list within many anchors.
            format!(
                "data: {}{}{}\n",
                (0..YAML_DEPTH - 2).map(|n| format!("&a{n} [")).collect::<String>(),
                self.fill(|_| "x".to_owned()),
                "]".repeat(YAML_DEPTH - 2)
            ),
            format!(
                "data:\n{}",
                (0..self.0 / 8).map(|n| format!("  <<: &m{n} {{a: b}}\n")).take(2_000).collect::<String>()
            ),
            // Lines: repeated keys, comments, documents, a text in many lines, and ever deeper ones.
            "a: 1\n".repeat(self.0 / 5),
            "# a\n".repeat(self.0 / 4),
            "---\n".repeat(self.0 / 4),
            format!("data:\n  a: |\n{}", "    x\n".repeat(self.0 / 6)),
            format!("data:\n  a: \"{}\"\n", "x\n\n  ".repeat(self.0 / 6)),
            (0..300).map(|n| format!("{}a:\n", " ".repeat(n))).collect(),
            "- ".repeat(self.0 / 2),
            "? ".repeat(self.0 / 2),
            "!a &b ".repeat(self.0 / 6),
        ];
        led(&[choice("", "configmaps"), 1], texts)
    }

    fn protobuf(self) -> Vec<Vec<u8>> {
        let body = |kind: &str, plural: &str, message: Vec<u8>| {
            let meta = [field(1, b"v1"), field(2, kind.as_bytes())].concat();
            let envelope = [b"k8s\0".to_vec(), field(1, &meta), field(2, &message)].concat();
            [vec![choice("", plural), 1], envelope].concat()
        };
        let empty = |number: u8| field(number, b"").repeat(self.0 / 2);
        let entry = field(2, &[field(1, b"a"), field(2, b"b")].concat());
        // A message within itself: a chain of fields 2.
        let deep = (0..self.0 / 4)
            .fold(Vec::new(), |inner, _| if inner.len() > 1 << 12 { inner } else { field(2, &inner) });
        vec![
            // Volumes, containers, init containers and tolerations of a pod, all empty.
            body("Pod", "pods", field(2, &empty(1))),
            body("Pod", "pods", field(2, &empty(2))),
            body("Pod", "pods", field(2, &empty(20))),
            body("Pod", "pods", field(2, &field(22, b"")[..].repeat(self.0 / 3))),
            // Many repeated specs, and conditions.
            body("Pod", "pods", empty(2)),
            body("Pod", "pods", field(3, &empty(2))),
            // Owners, empty entries of a map, and one repeated entry.
            body("ConfigMap", "configmaps", field(1, &empty(13))),
            body("ConfigMap", "configmaps", empty(2)),
            body("ConfigMap", "configmaps", entry.repeat(self.0 / entry.len())),
            body("Pod", "pods", deep),
            // Fields that do not exist.
            body("ConfigMap", "configmaps", empty(15)),
            body("ConfigMap", "configmaps", field(2, &field(1, &vec![b'k'; self.0]))),
        ]
    }
}

/// A field with bytes in protobuf.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = content.len();
    while length >= 0x80 {
        out.push(u8::try_from(length & 0x7f).unwrap_or_default() | 0x80);
        length >>= 7;
    }
    out.push(u8::try_from(length).unwrap_or_default());
    out.extend(content);
    out
}
