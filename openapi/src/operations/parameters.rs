//! Parameters of operations.
//!
//! The v2 document contains each parameter once, below `parameters`, and refers to it by a key that ends with a digest of
//! upstream's text: the tables contain the ends of these keys.

use std::borrow::Cow;

/// A parameter.
#[derive(Clone)]
pub(crate) struct Parameter {
    pub(super) name: &'static str,
    /// `query` or `path`.
    pub(super) place: &'static str,
    /// `string`, `integer` or `boolean`.
    pub(super) kind: &'static str,
    pub(super) description: Cow<'static, str>,
    /// The end of the key in the v2 document; `None` if that document does not share the parameter.
    pub(super) shared: Option<&'static str>,
}

impl Parameter {
    /// The key below `parameters` in the v2 document.
    pub(super) fn shared_key(&self) -> Option<String> {
        self.shared.map(|end| format!("{}-{end}", self.name))
    }

    /// The name of the object; `kind` is the kind of the resource or subresource.
    pub(super) fn object_name(kind: &str) -> Self {
        let description = Cow::Owned(format!("name of the {kind}"));
        Parameter { name: "name", place: "path", kind: "string", description, shared: None }
    }
}

const fn parameter(
    name: &'static str,
    place: &'static str,
    kind: &'static str,
    shared: Option<&'static str>,
    description: &'static str,
) -> Parameter {
    Parameter { name, place, kind, description: Cow::Borrowed(description), shared }
}

const fn query(
    name: &'static str,
    kind: &'static str,
    shared: &'static str,
    description: &'static str,
) -> Parameter {
    parameter(name, "query", kind, Some(shared), description)
}

/// A parameter that the v2 document repeats: kubectl before 1.27 looks for it in the operations.
const fn repeated(name: &'static str, description: &'static str) -> Parameter {
    parameter(name, "query", "string", None, description)
}

const fn path(name: &'static str, shared: &'static str, description: &'static str) -> Parameter {
    parameter(name, "path", "string", Some(shared), description)
}

pub(super) static NAMESPACE: Parameter =
    path("namespace", "vgWSWtn3", "object name and auth scope, such as for teams and projects");
/// The rest of the path of a proxied request.
pub(super) static PROXIED_PATH: Parameter = path("path", "z6Ciiujn", "path to the resource");
pub(super) static PRETTY: Parameter =
    query("pretty", "string", "tJGM1-ng", "If 'true', then the output is pretty printed.");

const DRY_RUN: Parameter = repeated(
    "dryRun",
    "With All, the server processes the request but does not store the result. No other value is valid.",
);
const FIELD_VALIDATION: Parameter = repeated(
    "fieldValidation",
    "How the server handles unknown and duplicate fields: Ignore drops them, Warn drops them and returns a warning, \
     Strict rejects the request.",
);
const MANAGER: &str = "The name of the manager that will own the changed fields.";
const RESOURCE_VERSION: Parameter =
    query("resourceVersion", "string", "5WAnf1kx", "The revision to read at, or to watch from.");
const CONTAINER: &str = "The name of the container. A pod with one container needs no name.";

pub(super) static GETTING: &[Parameter] = &[RESOURCE_VERSION];

pub(super) static WRITING: &[Parameter] =
    &[DRY_RUN, query("fieldManager", "string", "Qy4HdaTW", MANAGER), FIELD_VALIDATION];

pub(super) static PATCHING: &[Parameter] = &[
    DRY_RUN,
    query("fieldManager", "string", "7c6nTn1T", MANAGER),
    FIELD_VALIDATION,
    query("force", "boolean", "tOGGb0Yi", "For apply patches: take ownership of fields of other managers."),
];

pub(super) static DELETING: &[Parameter] = &[
    DRY_RUN,
    query(
        "gracePeriodSeconds",
        "integer",
        "-K5HaBOS",
        "Seconds before the object is deleted; 0 deletes it immediately.",
    ),
    query(
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "boolean",
        "QbNkfIqj",
        "Delete an object that the server cannot decode, without finalizers and preconditions.",
    ),
    query(
        "orphanDependents",
        "boolean",
        "uRB25kX5",
        "Deprecated: whether to orphan the dependents. Use propagationPolicy.",
    ),
    query(
        "propagationPolicy",
        "string",
        "6jk3prlO",
        "How to delete the dependents: Orphan, Background or Foreground.",
    ),
];

/// The parameters of lists. Those that only watches use come first.
pub(super) static LISTING: &[Parameter] = &[
    query("allowWatchBookmarks", "boolean", "HC2hJt-J", "For watches: send bookmarks."),
    query("watch", "boolean", "XNNPZGbK", "Stream the changes."),
    query("continue", "string", "QfD61s0i", "The continue token of the previous part of the list."),
    query("fieldSelector", "string", "xIcQKXFG", "Only objects whose fields match."),
    query("labelSelector", "string", "5Zw57w4C", "Only objects whose labels match."),
    query("limit", "integer", "1NfNmdNH", "The maximum number of objects in one response."),
    RESOURCE_VERSION,
    query(
        "resourceVersionMatch",
        "string",
        "t8XhRHeC",
        "How to interpret resourceVersion: Exact or NotOlderThan.",
    ),
    query(
        "sendInitialEvents",
        "boolean",
        "rLXlEK_k",
        "For watches: start with events for the current objects.",
    ),
    query("shardSelector", "string", "Kgyki_3_", "Alpha: only objects of a shard. The server ignores it."),
    query("timeoutSeconds", "integer", "yvYezaOC", "For watches: end after so many seconds."),
];

/// The parameters of lists that are not only for watches.
pub(super) fn selecting() -> &'static [Parameter] {
    LISTING.get(2..).unwrap_or_default()
}

static LOG: &[Parameter] = &[
    query("container", "string", "1GeXxFDC", CONTAINER),
    query("follow", "boolean", "9OIXh_2R", "Stream the lines that the container writes."),
    query(
        "insecureSkipTLSVerifyBackend",
        "boolean",
        "gM00jVbe",
        "Do not verify the certificate of the kubelet.",
    ),
    query("limitBytes", "integer", "zwd1RXuc", "The maximum number of bytes."),
    query("previous", "boolean", "1jxDPu3y", "The log of the previous container."),
    query("sinceSeconds", "integer", "vE2NLdnP", "Only lines of so many last seconds."),
    query("stream", "string", "l-48cgXv", "The stream of the container: All, Stdout or Stderr."),
    query("tailLines", "integer", "9xQLWHMV", "Only so many last lines."),
    query("timestamps", "boolean", "c17fW1w_", "Start each line with its time."),
];

const STDERR: &str = "Redirect the standard error stream.";
const STDIN: &str = "Redirect the standard input stream.";
const STDOUT: &str = "Redirect the standard output stream.";
const TTY: &str = "Allocate a terminal.";

static ATTACH: &[Parameter] = &[
    query("container", "string", "_Q-EJ3nR", CONTAINER),
    query("stderr", "boolean", "26jJhFUR", STDERR),
    query("stdin", "boolean", "sEFnN3IS", STDIN),
    query("stdout", "boolean", "005YMKE6", STDOUT),
    query("tty", "boolean", "g7MlET_l", TTY),
];

static EXEC: &[Parameter] = &[
    query("command", "string", "Py3eQybp", "The command and its arguments. No shell interprets them."),
    query("container", "string", "i5dOmRiM", CONTAINER),
    query("stderr", "boolean", "W_1TNlWc", STDERR),
    query("stdin", "boolean", "PSzNhyUC", STDIN),
    query("stdout", "boolean", "-EZLRwV1", STDOUT),
    query("tty", "boolean", "s0flW37O", TTY),
];

static PORT_FORWARD: &[Parameter] =
    &[query("ports", "integer", "91KROJmm", "The ports to forward, for WebSocket connections.")];
static POD_PROXY: &[Parameter] = &[query("path", "string", "oPbzgLUj", "The path at the pod.")];
static NODE_PROXY: &[Parameter] = &[query("path", "string", "rFDtV0x9", "The path at the node.")];
static SERVICE_PROXY: &[Parameter] = &[query("path", "string", "QCf0eosM", "The path at the service.")];

/// The parameters of a connection, by the kind of its options; those of a log are of the kind `Pod`.
pub(super) fn of_connection(kind: &str) -> &'static [Parameter] {
    match kind {
        "Pod" => LOG,
        "PodAttachOptions" => ATTACH,
        "PodExecOptions" => EXEC,
        "PodPortForwardOptions" => PORT_FORWARD,
        "PodProxyOptions" => POD_PROXY,
        "NodeProxyOptions" => NODE_PROXY,
        "ServiceProxyOptions" => SERVICE_PROXY,
        _ => &[],
    }
}

/// The parameters that the v2 document shares.
pub(super) fn all_shared() -> impl Iterator<Item = &'static Parameter> {
    let single = [&NAMESPACE, &PROXIED_PATH, &PRETTY].into_iter();
    let tables = [
        WRITING,
        PATCHING,
        DELETING,
        LISTING,
        LOG,
        ATTACH,
        EXEC,
        PORT_FORWARD,
        POD_PROXY,
        NODE_PROXY,
        SERVICE_PROXY,
    ];
    single.chain(tables.into_iter().flatten()).filter(|parameter| parameter.shared.is_some())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn shared_parameters_have_unique_keys() {
        let mut keys = BTreeSet::new();
        for parameter in all_shared() {
            let key = parameter.shared_key().expect("it is shared");
            assert_eq!(key.len(), parameter.name.len() + 9, "{key}");
            assert!(keys.insert(key), "{}", parameter.name);
        }
    }

    #[test]
    fn parameters_for_watches_only_come_first() {
        let names: Vec<&str> = LISTING.iter().take(2).map(|parameter| parameter.name).collect();
        assert_eq!(names, ["allowWatchBookmarks", "watch"]);
        assert_eq!(selecting().len() + 2, LISTING.len());
    }
}
