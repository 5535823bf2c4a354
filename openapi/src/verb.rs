//! The verbs of the documents, and the query parameters of each.

use utoipa::openapi::path::HttpMethod;

/// Name, type and description.
pub(crate) type QueryParameter = (&'static str, &'static str, &'static str);

const DRY_RUN: QueryParameter =
    ("dryRun", "string", "With All, everything is done but the storing. No other value is valid.");
const FORCE: QueryParameter =
    ("force", "boolean", "For apply patches: take over fields that other managers own.");
const WRITING: &[QueryParameter] = &[
    DRY_RUN,
    ("fieldManager", "string", "The name of the manager that will own the changed fields."),
    (
        "fieldValidation",
        "string",
        "How unknown and duplicate fields are handled: Ignore drops them, Warn drops them and returns a warning, \
         Strict refuses the request.",
    ),
];
const DELETING: &[QueryParameter] = &[
    DRY_RUN,
    ("gracePeriodSeconds", "integer", "Seconds before the object is deleted; 0 deletes it immediately."),
    ("orphanDependents", "boolean", "Deprecated: whether dependents stay. Use propagationPolicy."),
    ("propagationPolicy", "string", "How dependents are deleted: Orphan, Background or Foreground."),
];
const LISTING: &[QueryParameter] = &[
    ("allowWatchBookmarks", "boolean", "For watches: send bookmarks."),
    ("continue", "string", "The continue token of the list's previous part."),
    ("fieldSelector", "string", "Only objects whose fields match."),
    ("labelSelector", "string", "Only objects whose labels match."),
    ("limit", "integer", "The maximum number of objects in one response."),
    ("resourceVersion", "string", "The revision to read at, or to watch from."),
    ("resourceVersionMatch", "string", "How resourceVersion is meant: Exact or NotOlderThan."),
    ("sendInitialEvents", "boolean", "For watches: start with events for the current objects."),
    ("timeoutSeconds", "integer", "For watches: end after so many seconds."),
    ("watch", "boolean", "Stream the changes."),
];

/// The action of an operation.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Verb {
    List,
    Create,
    DeleteCollection,
    Get,
    Update,
    Patch,
    Delete,
}

impl Verb {
    pub(crate) const ON_COLLECTIONS: &[Verb] = &[Verb::List, Verb::Create, Verb::DeleteCollection];
    pub(crate) const ON_OBJECTS: &[Verb] = &[Verb::Get, Verb::Update, Verb::Patch, Verb::Delete];
    pub(crate) const ON_SUBRESOURCES: &[Verb] =
        &[Verb::Get, Verb::Create, Verb::Update, Verb::Patch, Verb::Delete];

    /// Its name in discovery.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Verb::List => "list",
            Verb::Create => "create",
            Verb::DeleteCollection => "deletecollection",
            Verb::Get => "get",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
        }
    }

    /// Its name in `x-kubernetes-action`.
    pub(crate) fn action(self) -> &'static str {
        match self {
            Verb::Create => "post",
            Verb::Update => "put",
            Verb::List | Verb::DeleteCollection | Verb::Get | Verb::Patch | Verb::Delete => self.name(),
        }
    }

    /// The prefix of operation ids.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Verb::Get => "read",
            Verb::Update => "replace",
            Verb::DeleteCollection => "deleteCollection",
            Verb::List | Verb::Create | Verb::Patch | Verb::Delete => self.name(),
        }
    }

    pub(crate) fn method(self) -> HttpMethod {
        match self {
            Verb::List | Verb::Get => HttpMethod::Get,
            Verb::Create => HttpMethod::Post,
            Verb::Update => HttpMethod::Put,
            Verb::Patch => HttpMethod::Patch,
            Verb::DeleteCollection | Verb::Delete => HttpMethod::Delete,
        }
    }

    /// The query parameters: name, type, description.
    pub(crate) fn parameters(self) -> Vec<QueryParameter> {
        match self {
            Verb::Get => Vec::new(),
            Verb::List => LISTING.to_vec(),
            Verb::Create | Verb::Update => WRITING.to_vec(),
            Verb::Patch => [WRITING, &[FORCE]].concat(),
            Verb::Delete => DELETING.to_vec(),
            Verb::DeleteCollection => [LISTING, DELETING].concat(),
        }
    }
}
