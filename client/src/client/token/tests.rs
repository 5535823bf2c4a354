//! Clients of service accounts, against a service that records requests.
#![allow(clippy::unwrap_used)]

use std::convert::Infallible;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;
use crate::client::{in_process, status_of};

/// A server with one account at most. Its tokens are `t1`, `t2` and so on; it accepts only the last one.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    has_account: bool,
    tokens: u32,
    lifetime: i64,
    refuses: bool,
    /// `METHOD PATH`, and the header `Authorization`.
    requests: Vec<(String, String)>,
}

impl Server {
    fn answer(&self, request: &Request<Body>) -> Response<Body> {
        let mut state = self.0.lock();
        let path = request.uri().path().to_owned();
        let header =
            request.headers().get(AUTHORIZATION).map_or("", |header| header.to_str().unwrap()).to_owned();
        state.requests.push((format!("{} {path}", request.method()), header.clone()));
        let status = |code: u16, reason: &str| {
            (
                code,
                json!({"kind": "Status", "status": "Failure", "message": reason, "reason": reason, "code": code}),
            )
        };
        let (code, body): (u16, Value) = match path.rsplit('/').next().unwrap() {
            "token" if state.refuses => status(403, "Forbidden"),
            "token" if !state.has_account => status(404, "NotFound"),
            "token" => {
                state.tokens += 1;
                let token = format!("t{}", state.tokens);
                (
                    201,
                    json!({"spec": {"audiences": [], "expirationSeconds": state.lifetime}, "status": {"token": token, "expirationTimestamp": "2030-01-01T00:00:00Z"}}),
                )
            }
            "serviceaccounts" => {
                state.has_account = true;
                (201, json!({"kind": "ServiceAccount", "metadata": {"name": "a"}}))
            }
            _ if header == format!("Bearer t{}", state.tokens) => {
                (200, json!({"kind": "ConfigMap", "metadata": {"name": "m"}}))
            }
            _ => status(401, "Unauthorized"),
        };
        Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap()
    }

    fn client(&self, token: Option<Arc<AccountToken>>) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let answer = server.answer(&request);
            async move { Ok::<_, Infallible>(answer) }
        });
        in_process(TokenLayer(token.map(TokenSource::Account)).layer(service))
    }

    /// The client of an account.
    fn account(&self) -> Client {
        let server = self.clone();
        let clients =
            AccountClients::new(
                self.client(None),
                "kube-system",
                move |token| Ok(server.client(Some(token))),
            );
        clients.client(Component::Account("a"))
    }

    fn token_requests(&self) -> usize {
        self.0.lock().requests.iter().filter(|(line, _)| line.ends_with("/token")).count()
    }
}

async fn read(client: &Client) -> Result<(), kube::Error> {
    let api: Api<k8s_openapi::api::core::v1::ConfigMap> = Api::namespaced(client.clone(), "n");
    api.get("m").await.map(drop)
}

#[tokio::test(start_paused = true)]
async fn account_is_created_and_its_token_is_renewed_before_it_expires() {
    let server = Server::default();
    server.0.lock().lifetime = 3600;
    let client = server.account();
    assert_eq!(server.token_requests(), 0, "requested when it is needed");
    read(&client).await.unwrap();
    let lines: Vec<String> = server.0.lock().requests.iter().map(|(line, _)| line.clone()).collect();
    let accounts = "/api/v1/namespaces/kube-system/serviceaccounts";
    let token = format!("POST {accounts}/a/token");
    assert_eq!(lines, [&token, &format!("POST {accounts}"), &token, "GET /api/v1/namespaces/n/configmaps/m"]);
    tokio::time::advance(Duration::from_secs(2879)).await;
    read(&client).await.unwrap();
    assert_eq!(server.token_requests(), 2);
    tokio::time::advance(Duration::from_secs(2)).await;
    read(&client).await.unwrap();
    assert_eq!(server.token_requests(), 3, "after 80 % of its lifetime");
}

#[tokio::test(start_paused = true)]
async fn short_lifetime_counts_as_ten_minutes() {
    let server = Server::default();
    (server.0.lock().has_account, server.0.lock().lifetime) = (true, 1);
    let client = server.account();
    for seconds in [0, 479, 2] {
        tokio::time::advance(Duration::from_secs(seconds)).await;
        read(&client).await.unwrap();
    }
    assert_eq!(server.token_requests(), 2, "at least 10 minutes are assumed");
}

#[tokio::test(start_paused = true)]
async fn rejected_token_is_requested_again() {
    let server = Server::default();
    (server.0.lock().has_account, server.0.lock().lifetime) = (true, 3600);
    let client = server.account();
    read(&client).await.unwrap();
    // The server accepts only a later token.
    server.0.lock().tokens += 1;
    let error = read(&client).await.unwrap_err();
    assert_eq!(status_of(&error).unwrap().code, 401);
    read(&client).await.unwrap();
    assert_eq!(server.token_requests(), 2);
}

#[tokio::test(start_paused = true)]
async fn missing_right_is_reported_without_a_token() {
    let server = Server::default();
    server.0.lock().refuses = true;
    let error = read(&server.account()).await.unwrap_err();
    let text = crate::client::message_of(&error);
    assert!(text.contains("kube-system/a") && text.contains("system:kube-controller-manager"), "{text}");
    let sent = server.0.lock().requests.iter().any(|(line, _)| line.starts_with("GET"));
    assert!(!sent, "no request without credentials");
}

#[tokio::test]
async fn caches_have_the_credentials_of_the_process() {
    let server = Server::default();
    let own = server.client(None);
    let clients = AccountClients::new(own, "kube-system", |_| unreachable!("no account"));
    assert!(read(&clients.client(Component::ControllerManager)).await.is_err());
    assert_eq!(
        server.0.lock().requests,
        [("GET /api/v1/namespaces/n/configmaps/m".to_owned(), String::new())]
    );
}
