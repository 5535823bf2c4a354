//! Requests as bytes and JSON, and their answers.

use std::collections::VecDeque;

use axum::http::{HeaderMap, Method, Request};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;

use super::wait;

/// A client of one server.
#[derive(Clone)]
pub(crate) struct Http {
    client: kube::Client,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{} is no JSON ({error}): {}", self.code, self.text()))
    }

    /// The body as JSON; the answer must have this code.
    #[track_caller]
    pub(crate) fn expect(&self, code: u16) -> Value {
        assert_eq!(self.code, code, "{}", self.text());
        self.json()
    }

    /// The answer must be this text, with code 200.
    #[track_caller]
    pub(crate) fn expect_text(&self, text: &str) {
        assert_eq!((self.code, self.text().as_str()), (200, text));
    }

    /// A header, or an empty string.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

impl Http {
    /// A client of the server at an URL.
    pub(crate) fn new(url: &str) -> Self {
        Self::with(kube::Config::new(url.parse().unwrap()))
    }

    /// A client with its own trust and credentials.
    pub(crate) fn with(config: kube::Config) -> Self {
        Http { client: kube::Client::try_from(config).unwrap() }
    }

    /// The underlying typed client.
    pub(crate) fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// Any request; an error is a connection error.
    pub(crate) async fn try_send(&self, request: Request<Vec<u8>>) -> Result<Answer, String> {
        let response =
            self.client.send(request.map(Body::from)).await.map_err(|error| format!("{error:?}"))?;
        let (head, body) = response.into_parts();
        let body = body.collect().await.map_err(|error| error.to_string())?.to_bytes().to_vec();
        Ok(Answer { code: head.status.as_u16(), headers: head.headers, body })
    }

    /// Any request that must receive an answer.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Answer {
        let mut request = Request::builder().method(method.clone()).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = wait::in_time(path, self.try_send(request.body(body).unwrap())).await;
        answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// A GET that tolerates an unreachable server.
    pub(crate) async fn try_get(&self, path: &str) -> Result<Answer, String> {
        self.try_send(Request::get(path).body(Vec::new()).unwrap()).await
    }

    /// GET.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], Vec::new()).await
    }

    /// POST of JSON.
    pub(crate) async fn post(&self, path: &str, object: &Value) -> Answer {
        self.send(Method::POST, path, &[("content-type", "application/json")], object.to_string().into())
            .await
    }

    /// PUT of JSON.
    pub(crate) async fn put(&self, path: &str, object: &Value) -> Answer {
        self.send(Method::PUT, path, &[("content-type", "application/json")], object.to_string().into()).await
    }

    /// A merge patch.
    pub(crate) async fn patch(&self, path: &str, patch: &Value) -> Answer {
        let headers = [("content-type", "application/merge-patch+json")];
        self.send(Method::PATCH, path, &headers, patch.to_string().into()).await
    }

    /// DELETE.
    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, &[], Vec::new()).await
    }

    /// A POST that must create an object.
    pub(crate) async fn create(&self, path: &str, object: &Value) -> Value {
        self.post(path, object).await.expect(201)
    }

    /// Waits until the object at a path matches.
    pub(crate) async fn until(&self, path: &str, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        wait::until(&format!("{path}: {what}"), async || {
            let answer = self.try_get(path).await?;
            let object: Value = serde_json::from_slice(&answer.body).map_err(|_| answer.text())?;
            if answer.code == 200 && fits(&object) { Ok(object) } else { Err(format!("{object:#}")) }
        })
        .await
    }

    /// Waits until the object at a path is gone.
    pub(crate) async fn until_gone(&self, path: &str) {
        wait::until(&format!("{path}: gone"), async || {
            let answer = self.try_get(path).await?;
            if answer.code == 404 { Ok(()) } else { Err(answer.text()) }
        })
        .await;
    }

    /// Starts a watch; the path includes the query.
    pub(crate) async fn watch(&self, path: &str) -> Watch {
        self.try_watch(path).await.unwrap_or_else(|error| panic!("GET {path}: {error}"))
    }

    /// Starts a watch that tolerates an unreachable server. Any code other than 200 panics.
    pub(crate) async fn try_watch(&self, path: &str) -> Result<Watch, String> {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = wait::in_time(path, self.client.send(request)).await;
        let response = response.map_err(|error| format!("{error:?}"))?;
        assert_eq!(response.status().as_u16(), 200, "GET {path}");
        let body = response.into_body();
        Ok(Watch { path: path.to_owned(), body, rest: Vec::new(), ready: VecDeque::new() })
    }
}

/// The events of a watch.
pub(crate) struct Watch {
    path: String,
    body: Body,
    rest: Vec<u8>,
    ready: VecDeque<Value>,
}

impl Watch {
    /// The next event; none when the watch has ended cleanly.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let next = self.try_next().await;
        next.unwrap_or_else(|error| panic!("the watch {} broke: {error}", self.path))
    }

    /// The next event; an error when the watch did not end cleanly.
    pub(crate) async fn try_next(&mut self) -> Result<Option<Value>, String> {
        while self.ready.is_empty() {
            let what = format!("an event of {}", self.path);
            let Some(frame) = wait::in_time(&what, self.body.frame()).await else { return Ok(None) };
            let Ok(data) = frame.map_err(|error| error.to_string())?.into_data() else { continue };
            self.rest.extend_from_slice(&data);
            while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                self.ready.push_back(serde_json::from_slice(&line).unwrap());
            }
        }
        Ok(self.ready.pop_front())
    }

    /// Reads events until one matches, and returns all of them; the last one matches.
    pub(crate) async fn until(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut seen = Vec::new();
        loop {
            let Some(event) = self.next().await else {
                panic!("{} ended before: {what}; seen: {seen:#?}", self.path);
            };
            let found = fits(&event);
            seen.push(event);
            if found {
                return seen;
            }
        }
    }
}
