//! Tables of requests: a test sends every row and reports all rows whose answers differ.

use axum::http::Method;
use serde_json::{Value, json};

use crate::harness::http::{Answer, Http};

/// A request of a table.
pub(super) struct Row {
    method: Method,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: String,
}

/// GET.
pub(super) fn get(path: &str) -> Row {
    Row { method: Method::GET, path: path.to_owned(), headers: Vec::new(), body: String::new() }
}

/// GET with an `Accept` header.
pub(super) fn get_as(path: &str, accept: &str) -> Row {
    get(path).header("accept", accept)
}

/// POST of text.
pub(super) fn post(path: &str, body: &str) -> Row {
    send(Method::POST, path, "application/json", body)
}

/// PUT of text.
pub(super) fn put(path: &str, body: &str) -> Row {
    send(Method::PUT, path, "application/json", body)
}

/// DELETE with options.
pub(super) fn delete(path: &str, body: &str) -> Row {
    send(Method::DELETE, path, "application/json", body)
}

/// Any method with a body.
pub(super) fn send(method: Method, path: &str, content_type: &str, body: &str) -> Row {
    let row = Row { method, path: path.to_owned(), headers: Vec::new(), body: body.to_owned() };
    row.header("content-type", content_type)
}

impl Row {
    /// Adds a header.
    pub(super) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    fn title(&self) -> String {
        let headers: String = self.headers.iter().map(|(name, value)| format!(" {name}: {value}")).collect();
        let body: String = self.body.chars().take(120).collect();
        format!("{} {}{headers} {body}", self.method, self.path)
    }

    async fn answer(&self, http: &Http) -> Answer {
        let headers: Vec<(&str, &str)> =
            self.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        http.send(self.method.clone(), &self.path, &headers, self.body.clone().into()).await
    }
}

/// Sends the requests, and compares a part of each answer with the expected one.
pub(super) async fn compare<W: Into<Value>>(
    http: &Http,
    part: impl Fn(&Answer) -> Value,
    rows: impl IntoIterator<Item = (Row, W)>,
) {
    let mut different = String::new();
    for (row, want) in rows {
        let answer = row.answer(http).await;
        let (got, want) = (part(&answer), want.into());
        if got != want {
            different.push_str(&format!("{}\n   is {got}\n  not {want}\n", row.title()));
        }
    }
    assert!(different.is_empty(), "these answers differ:\n{different}");
}

/// The status code.
pub(super) fn code(answer: &Answer) -> Value {
    answer.code.into()
}

/// The status code and, for a Status, its message; otherwise the text.
pub(super) fn message(answer: &Answer) -> Value {
    let body: Value =
        serde_json::from_slice(&answer.body).unwrap_or_else(|_| json!({"message": answer.text()}));
    json!([answer.code, body["message"]])
}

/// The status code and the content type.
pub(super) fn content_type(answer: &Answer) -> Value {
    json!([answer.code, answer.header("content-type")])
}
