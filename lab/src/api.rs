//! Sends the requests of a scenario, given by path and JSON body.

use http::{Method, Request, header};
use kube::Client;
use orlop_client::client::{is_not_found, message_of, status_of};
use serde_json::{Value, json};

/// The ConfigMap that controls a lab; the Events of scenarios refer to it.
pub(crate) const LAB: &str = "/api/v1/namespaces/default/configmaps/lab";

/// A request that was refused, or did not reach a server.
#[derive(Debug, thiserror::Error)]
#[error("{method} {path}: {}", message_of(cause))]
pub(crate) struct ApiError {
    method: Method,
    path: String,
    cause: kube::Error,
}

impl ApiError {
    /// The server's message.
    pub(crate) fn said(&self) -> String {
        message_of(&self.cause)
    }

    /// The status code, if there was a response.
    pub(crate) fn code(&self) -> Option<u16> {
        status_of(&self.cause).map(|status| status.code)
    }
}

/// The field manager in histories.
const MANAGER: &str = "fieldManager=orlop-lab";

/// A client for the API of a lab.
#[derive(Clone)]
pub(crate) struct Api {
    client: Client,
}

impl Api {
    pub(crate) fn new(client: Client) -> Self {
        Api { client }
    }

    /// The underlying client.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    async fn ask(&self, method: Method, path: &str, kind: &str, body: String) -> Result<Value, ApiError> {
        let failed = |cause| ApiError { method: method.clone(), path: path.to_owned(), cause };
        let request = Request::builder().method(method.clone()).uri(path).header(header::CONTENT_TYPE, kind);
        let request = request.body(body.into_bytes());
        let request = request.map_err(|error| failed(kube::Error::HttpError(error)))?;
        self.client.request::<Value>(request).await.map_err(failed)
    }

    /// Reads an object or a list; `None` if it does not exist.
    pub(crate) async fn get(&self, path: &str) -> Result<Option<Value>, ApiError> {
        match self.ask(Method::GET, path, "application/json", String::new()).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if is_not_found(&error.cause) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The items of a list; empty if the list does not exist.
    pub(crate) async fn list(&self, path: &str) -> Result<Vec<Value>, ApiError> {
        let list = self.get(path).await?.unwrap_or_default();
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// Creates an object in the collection at the path.
    pub(crate) async fn create(&self, path: &str, object: &Value) -> Result<Value, ApiError> {
        self.ask(Method::POST, &format!("{path}?{MANAGER}"), "application/json", object.to_string()).await
    }

    /// Applies a merge patch.
    pub(crate) async fn patch(&self, path: &str, body: &Value) -> Result<Value, ApiError> {
        let path = format!("{path}?{MANAGER}");
        self.ask(Method::PATCH, &path, "application/merge-patch+json", body.to_string()).await
    }

    /// Deletes an object; a missing object is not an error. `now`: delete a pod without a grace period.
    pub(crate) async fn delete(&self, path: &str, now: bool) -> Result<(), ApiError> {
        let options = if now { json!({"gracePeriodSeconds": 0}) } else { json!({}) };
        match self.ask(Method::DELETE, path, "application/json", options.to_string()).await {
            Err(error) if !is_not_found(&error.cause) => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}
