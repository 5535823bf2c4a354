//! The debug pages: tables of levels, queues and waiting requests.
//!
//! Upstream: apiserver `pkg/util/flowcontrol/apf_controller_debug.go`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use orlop_api::query::Query;
use orlop_auth::request_info::{RequestInfo, RequestTarget, ResourceTarget};
use percent_encoding::percent_decode_str;

use super::classifier::namespace;
use super::flow::RequestDetails;
use super::matching::Distinguisher;
use crate::limits::inflight::{Inflight, Ticket};
use crate::limits::level_pool::{Level, LevelTotals};

/// The state of a priority level in both classes of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct LevelState {
    active_queues: usize,
    waiting: usize,
    executing: usize,
    is_quiescing: bool,
    totals: LevelTotals,
}

impl LevelState {
    fn add(&mut self, level: &Level<Ticket>) {
        self.active_queues += level.queue.queues().count();
        self.waiting += level.queue.waiting();
        self.executing += level.queue.taken();
        self.is_quiescing |= level.is_quiescing;
        self.totals.dispatched += level.totals.dispatched;
        self.totals.rejected += level.totals.rejected;
        self.totals.timed_out += level.totals.timed_out;
        self.totals.cancelled += level.totals.cancelled;
    }

    fn row(&self, name: &str) -> Vec<String> {
        let is_idle = self.waiting + self.executing == 0;
        let totals = self.totals;
        vec![
            name.to_owned(),
            self.active_queues.to_string(),
            is_idle.to_string(),
            self.is_quiescing.to_string(),
            self.waiting.to_string(),
            self.executing.to_string(),
            totals.dispatched.to_string(),
            totals.rejected.to_string(),
            totals.timed_out.to_string(),
            totals.cancelled.to_string(),
        ]
    }
}

/// The priority levels.
pub(in crate::limits) fn priority_levels(classes: &[&Inflight]) -> String {
    let mut states: BTreeMap<String, LevelState> = BTreeMap::new();
    for class in classes {
        class.inspect(|pool| {
            for level in pool.levels() {
                states.entry(level.name.to_string()).or_default().add(level);
            }
        });
    }
    let header = [
        "PriorityLevelName",
        "ActiveQueues",
        "IsIdle",
        "IsQuiescing",
        "WaitingRequests",
        "ExecutingRequests",
        "DispatchedRequests",
        "RejectedRequests",
        "TimedoutRequests",
        "CancelledRequests",
    ];
    table(&header, states.iter().map(|(name, state)| state.row(name)).collect())
}

/// A queue: the waiting requests of a client.
struct QueueState {
    level: Arc<str>,
    executing: usize,
    requests: Vec<Arc<RequestDetails>>,
}

/// The queues of both classes in which requests wait, by level.
fn queues(classes: &[&Inflight]) -> Vec<QueueState> {
    let mut found = Vec::new();
    for class in classes {
        // The lock delays all requests, so texts are computed later.
        class.inspect(|pool| {
            for level in pool.levels() {
                found.extend(level.queue.queues().map(|(client, tickets)| QueueState {
                    level: level.name.clone(),
                    executing: level.queue.used_by(client),
                    requests: tickets.filter_map(|ticket| Some(ticket.request.as_ref()?.0.clone())).collect(),
                }));
            }
        });
    }
    found.sort_by(|a, b| a.level.cmp(&b.level));
    found
}

/// The index of each queue in its level.
fn indexes(queues: &[QueueState]) -> Vec<usize> {
    let mut indexes: Vec<usize> = Vec::with_capacity(queues.len());
    for (at, queue) in queues.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|before| queues.get(before).zip(indexes.get(before)));
        let index = before.filter(|(other, _)| other.level == queue.level).map_or(0, |(_, index)| index + 1);
        indexes.push(index);
    }
    indexes
}

/// The queues in which requests wait. A request takes one permit, and there are no virtual times.
pub(in crate::limits) fn dump_queues(classes: &[&Inflight]) -> String {
    let queues = queues(classes);
    let header = [
        "PriorityLevelName",
        "Index",
        "PendingRequests",
        "ExecutingRequests",
        "SeatsInUse",
        "NextDispatchR",
        "InitialSeatsSum",
        "MaxSeatsSum",
        "TotalWorkSum",
    ];
    let row = |(queue, index): (&QueueState, usize)| {
        let (pending, executing) = (queue.requests.len().to_string(), queue.executing.to_string());
        vec![
            queue.level.to_string(),
            index.to_string(),
            pending.clone(),
            executing.clone(),
            executing,
            NO_TIME.to_owned(),
            pending.clone(),
            pending,
            NO_TIME.to_owned(),
        ]
    };
    table(&header, queues.iter().zip(indexes(&queues)).map(row).collect())
}

/// Upstream's form of no seconds of work.
const NO_TIME: &str = "0.00000000ss";

/// The waiting requests; with their attributes if `has_details`.
pub(in crate::limits) fn dump_requests(classes: &[&Inflight], has_details: bool) -> String {
    let mut header = vec![
        "PriorityLevelName",
        "FlowSchemaName",
        "QueueIndex",
        "RequestIndexInQueue",
        "FlowDistingsher",
        "ArriveTime",
        "InitialSeats",
        "FinalSeats",
        "AdditionalLatency",
        "StartTime",
    ];
    if has_details {
        let details =
            ["UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource", "SubResource"];
        header.extend(details);
    }
    let queues = queues(classes);
    let mut rows = Vec::new();
    for (queue, index) in queues.iter().zip(indexes(&queues)) {
        for (at, request) in queue.requests.iter().enumerate().take(ROWS_MAX - rows.len()) {
            let place =
                [queue.level.to_string(), request.flow.schema.clone(), index.to_string(), at.to_string()];
            rows.push(place.into_iter().chain(request_columns(request, has_details)).collect());
        }
    }
    table(&header, rows)
}

/// Maximum number of listed requests: clients choose their number and the length of their texts.
const ROWS_MAX: usize = 1_000;

/// The columns after the index of a request.
fn request_columns(request: &RequestDetails, has_details: bool) -> Vec<String> {
    let path = percent_decode_str(request.uri.path()).decode_utf8_lossy();
    let info = RequestInfo::of(&request.method, &path, &Query::parse(request.uri.query()));
    let distinguisher = match request.flow.method {
        Some(Distinguisher::User) => one_line(&request.user),
        Some(Distinguisher::Namespace) => one_line(namespace(&info)),
        None => String::new(),
    };
    let mut columns = vec![
        distinguisher,
        request.arrived.to_string(),
        "1".to_owned(),
        "0".to_owned(),
        "0s".to_owned(),
        "0001-01-01T00:00:00Z".to_owned(),
    ];
    if has_details {
        let none = ResourceTarget::default();
        let at = match &info.target {
            RequestTarget::Resource(at) => at,
            RequestTarget::Path(_) => &none,
        };
        let version = match at.group.as_str() {
            "" => at.version.clone(),
            group => format!("{group}/{}", at.version),
        };
        let details = [
            &request.user,
            info.verb.as_ref(),
            &path,
            &at.namespace,
            &at.name,
            &version,
            &at.resource,
            &at.subresource,
        ];
        columns.extend(details.map(one_line));
    }
    columns
}

/// Clients choose paths and names: without line breaks, they cannot add rows.
fn one_line(text: &str) -> String {
    text.chars().take(CELL_MAX).map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Maximum length of a text of a client, characters.
const CELL_MAX: usize = 256;

/// A table in the form of Go's tabwriter, as upstream configures it: columns of at least 8 characters.
fn table(header: &[&str], rows: Vec<Vec<String>>) -> String {
    let header = header.iter().map(|name| (*name).to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(header).chain(rows).collect();
    let mut widths: Vec<usize> = Vec::new();
    for row in &rows {
        widths.resize(row.len().max(widths.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            // The comma, and a blank.
            *width = (cell.chars().count() + 2).max(8).max(*width);
        }
    }
    let mut text = String::new();
    for row in &rows {
        let Some((last, cells)) = row.split_last() else { continue };
        for (cell, width) in cells.iter().zip(&widths) {
            let cell = format!("{cell},");
            let _ = write!(text, "{cell:<width$}");
        }
        text.push_str(last);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_aligned_as_in_go() {
        let row = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>();
        let text = table(
            &["Name", "IsQuiescing", "Last"],
            vec![row(&["a", "true", "x"]), row(&["long-name", "", "y"])],
        );
        let want = "Name,      IsQuiescing, Last\na,         true,        x\nlong-name, ,            y\n";
        assert_eq!(text, want);
    }

    #[test]
    fn texts_of_clients_stay_in_their_line() {
        assert_eq!(one_line("a\nb\tc"), "a?b?c");
        assert_eq!(one_line(&"x".repeat(2 * CELL_MAX)).len(), CELL_MAX);
    }
}
