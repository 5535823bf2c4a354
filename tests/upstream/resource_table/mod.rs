//! Compares orlop's discovery with that of kube-apiserver 1.36, and docs/api.md with both.
//!
//! `kube-apiserver-1.36.txt` contains the facts of upstream's discovery. `states` contains the texts of the table.

mod states;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use self::states::{STATES, State};
use super::plane;
use crate::harness::http::Http;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/api.md");

/// With this variable, the test writes the document.
const WRITE: &str = "ORLOP_WRITE_API_TABLE";

/// The line of the document after which the test generates all text.
const MARK: &str = "<!-- The test `resource_table` generates the rest of this file. -->\n";

/// The verbs that the document calls "all".
const ALL: &str = "create,delete,deletecollection,get,list,patch,update,watch";

/// A resource or subresource of one version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    /// Before the version, so that the core group is the first one.
    has_group: bool,
    group_version: String,
    /// `pods` or `pods/status`.
    name: String,
}

impl Key {
    fn new(group_version: &str, name: &str) -> Self {
        let has_group = group_version.contains('/');
        Key { has_group, group_version: group_version.to_owned(), name: name.to_owned() }
    }

    fn group(&self) -> &str {
        self.group_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// `GROUP/NAME`, as in `states`.
    fn in_group(&self, name: &str) -> String {
        if self.has_group { format!("{}/{name}", self.group()) } else { name.to_owned() }
    }

    /// The line in [`STATES`], or that of the resource to which this subresource belongs.
    fn state(&self) -> Option<(State, &'static str)> {
        let find = |name: &str| STATES.iter().find(|(key, ..)| *key == self.in_group(name));
        let own = find(&self.name).map(|(_, state, note)| (*state, *note));
        let resource = self.name.split('/').next().unwrap_or_default();
        own.or_else(|| find(resource).map(|(_, state, _)| (*state, "")))
    }
}

/// What discovery says about a resource. Lists are separated by commas; an empty one is `-`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Facts {
    kind: String,
    /// `Namespaced` or `Cluster`.
    scope: String,
    short_names: String,
    verbs: String,
}

type Resources = BTreeMap<Key, Facts>;

/// The resources in the form of `kube-apiserver-1.36.txt`.
fn parsed(text: &str) -> Resources {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let resource = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [group_version, name, kind, scope, short_names, verbs] = words[..] else {
            panic!("six words: {line}");
        };
        let [kind, scope, short_names, verbs] = [kind, scope, short_names, verbs].map(str::to_owned);
        (Key::new(group_version, name), Facts { kind, scope, short_names, verbs })
    };
    lines.map(resource).collect()
}

fn upstream() -> Resources {
    parsed(include_str!("kube-apiserver-1.36.txt"))
}

/// The sorted texts of a list of discovery.
fn listed(list: &Value, sorted: bool) -> String {
    let mut texts: Vec<&str> = list.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if sorted {
        texts.sort_unstable();
    }
    if texts.is_empty() { "-".to_owned() } else { texts.join(",") }
}

/// The resources that a server serves.
async fn discovered(http: &Http) -> Resources {
    let groups = http.get("/apis").await.expect(200);
    let mut versions = vec![("v1".to_owned(), "/api/v1".to_owned())];
    for group in groups["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            let version = version["groupVersion"].as_str().unwrap();
            versions.push((version.to_owned(), format!("/apis/{version}")));
        }
    }
    let mut resources = Resources::new();
    for (version, path) in versions {
        let list = http.get(&path).await.expect(200);
        for resource in list["resources"].as_array().unwrap() {
            let scope = if resource["namespaced"] == true { "Namespaced" } else { "Cluster" };
            let facts = Facts {
                kind: resource["kind"].as_str().unwrap().to_owned(),
                scope: scope.to_owned(),
                // Their order is significant: kubectl prints it.
                short_names: listed(&resource["shortNames"], false),
                verbs: listed(&resource["verbs"], true),
            };
            resources.insert(Key::new(&version, resource["name"].as_str().unwrap()), facts);
        }
    }
    resources
}

/// The differences of the two servers, and the resources that `states` lacks.
fn faults(upstream: &Resources, orlop: &Resources) -> Vec<String> {
    let mut faults = Vec::new();
    for (key, facts) in upstream {
        let what = format!("{} {}", key.group_version, key.name);
        match orlop.get(key) {
            None => faults.push(format!("{what}: orlop does not serve it")),
            Some(own) if own != facts => {
                faults.push(format!("{what}: upstream has {facts:?}, orlop has {own:?}"));
            }
            Some(_) => {}
        }
    }
    for key in orlop.keys() {
        let what = format!("{} {}", key.group_version, key.name);
        let is_upstreams = upstream.keys().any(|other| other.group_version == key.group_version);
        if is_upstreams && !upstream.contains_key(key) {
            faults.push(format!("{what}: upstream does not serve it"));
        }
        if key.state().is_none() {
            faults.push(format!("{what}: add it to STATES"));
        }
    }
    faults
}

/// The lines of `states` that the server does not need.
fn unused(orlop: &Resources) -> Vec<&'static str> {
    let is_served = |name: &str| orlop.keys().any(|key| key.in_group(&key.name) == name);
    STATES.iter().map(|(name, ..)| *name).filter(|name| !is_served(name)).collect()
}

/// The part of the document after [`MARK`].
fn tables(orlop: &Resources) -> String {
    let mut text = String::new();
    let mut section = "";
    for (key, facts) in orlop {
        if key.group_version != section {
            section = &key.group_version;
            let head = "| resource | kind | scope | verbs | orlop | notes |\n|---|---|---|---|---|---|\n";
            // A String accepts every write.
            let _ = write!(text, "\n## {section}\n\n{head}");
        }
        let short_names = match facts.short_names.as_str() {
            "-" => String::new(),
            names => format!(" (`{}`)", names.replace(',', "`, `")),
        };
        let verbs = if facts.verbs == ALL { "all".to_owned() } else { facts.verbs.replace(',', ", ") };
        let (state, note) = key.state().map_or(("", ""), |(state, note)| (state.text(), note));
        let Key { name, .. } = key;
        let Facts { kind, scope, .. } = facts;
        let row = format!("| `{name}`{short_names} | {kind} | {scope} | {verbs} | {state} | {note} |");
        let _ = writeln!(text, "{}", row.replace("|  |", "| |"));
    }
    text
}

/// To repeat it after a change: `ORLOP_WRITE_API_TABLE=1 cargo test --test e2e resource_table`.
#[tokio::test]
async fn every_resource_of_upstream_is_documented() {
    let (_plane, http) = plane().await;
    let (upstream, orlop) = (upstream(), discovered(&http).await);
    let faults = faults(&upstream, &orlop);
    assert!(faults.is_empty(), "tests/upstream/resource_table/states.rs:\n{}", faults.join("\n"));
    let unused = unused(&orlop);
    assert!(
        unused.is_empty(),
        "tests/upstream/resource_table/states.rs: the server does not have {unused:?}; remove them"
    );

    let document = std::fs::read_to_string(DOCUMENT).unwrap();
    let head = document.split(MARK).next().expect("a split has a first part");
    let wanted = format!("{head}{MARK}{}", tables(&orlop));
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(DOCUMENT, wanted).unwrap();
        return;
    }
    let differs = document.lines().zip(wanted.lines()).find(|(is, wanted)| is != wanted);
    assert!(
        document == wanted,
        "docs/api.md is out of date (first difference: {differs:?}); to write it:\n{WRITE}=1 cargo test --test e2e \
         resource_table"
    );
}

#[test]
fn differences_between_servers_are_found() {
    let pods = "v1 pods Pod Namespaced po create,get";
    let same = parsed(pods);
    assert_eq!(faults(&same, &same), Vec::<String>::new());
    for (upstream, orlop, wanted) in [
        (pods, "v1 pods Pod Namespaced po create", "upstream has"),
        (pods, "v1 pods Pod Namespaced - create,get", "upstream has"),
        (pods, "v1 pods Pod Cluster po create,get", "upstream has"),
        (pods, "", "v1 pods: orlop does not serve it"),
        (
            pods,
            "v1 pods Pod Namespaced po create,get\nv1 secrets S Namespaced - get",
            "upstream does not serve it",
        ),
        ("", "example.com/v1 widgets W Namespaced - get", "example.com/v1 widgets: add it to STATES"),
        (
            "",
            "example.com/v1 widgets/status W Namespaced - get",
            "example.com/v1 widgets/status: add it to STATES",
        ),
        // A group of orlop.
        (pods, "v1 pods Pod Namespaced po create,get\norlop.dev/v1 stream S Cluster - get", ""),
    ] {
        let found = faults(&parsed(upstream), &parsed(orlop)).join("\n");
        let fits = if wanted.is_empty() { found.is_empty() } else { found.contains(wanted) };
        assert!(fits, "{upstream} and {orlop}: wanted {wanted:?}, found {found:?}");
    }
}

#[test]
fn tables_are_rendered() {
    let orlop = parsed(&format!(
        "v1 configmaps ConfigMap Namespaced cm,maps {ALL}\n\
        apps/v1 deployments/scale Scale Namespaced - get,patch"
    ));
    let text = tables(&orlop);
    let head = "| resource | kind | scope | verbs | orlop | notes |\n|---|---|---|---|---|---|";
    assert_eq!(
        text,
        format!(
            "
## v1

{head}
| `configmaps` (`cm`, `maps`) | ConfigMap | Namespaced | all | served | |

## apps/v1

{head}
| `deployments/scale` | Scale | Namespaced | get, patch | served | |
"
        )
    );
}
