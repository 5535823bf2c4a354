//! Long-running requests.

use super::plan::{Verb, plan};
use crate::custom::Kinds;
use crate::insight::live;
use orlop_api::query::Query;

/// Whether a request is a watch or stays open like one: a followed log, or a stream of all kinds.
pub(crate) fn is_watch(kinds: &Kinds, method: &http::Method, path: &str, query: &Query) -> bool {
    if live::is_live(method, path, query) {
        return true;
    }
    match plan(kinds, method, path, query) {
        Ok(Some((Verb::Watch, _))) => true,
        Ok(Some((Verb::Connect, resource))) => resource.subresource == "log" && query.flag("follow"),
        _ => false,
    }
}
