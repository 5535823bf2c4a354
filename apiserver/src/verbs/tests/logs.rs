//! Logs from an agent on this machine.

use axum::body::Body;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::rig::Rig;
use crate::verbs::raw_public_key::tests::agent;

const LOG: &str = "/api/v1/namespaces/default/pods/p/log";

/// A pod with one container on a node that publishes this address and this digest of a key of its agent.
async fn rig(address: &str, port: u16, key: Option<&str>) -> Rig {
    let rig = Rig::new().await;
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let info = [
        "architecture",
        "containerRuntimeVersion",
        "kernelVersion",
        "kubeProxyVersion",
        "kubeletVersion",
        "machineID",
        "operatingSystem",
        "osImage",
        "systemUUID",
    ];
    let mut info: Value = info.iter().map(|name| ((*name).to_owned(), json!(""))).collect();
    info["bootID"] = boot_id.trim().into();
    let mut node = json!({
        "metadata": {"name": "n", "annotations": {"orlop.dev/log-address": address}},
        "status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": port}}, "nodeInfo": info,
            "addresses": [{"type": "InternalIP", "address": address}]},
    });
    if let Some(key) = key {
        node["metadata"]["annotations"]["orlop.dev/log-key"] = key.into();
    }
    rig.post("/api/v1/nodes", node).await.expect(201);
    let spec = json!({"nodeName": "n", "containers": [{"name": "c", "image": "i"}]});
    let pod = json!({"metadata": {"name": "p"}, "spec": spec});
    rig.post("/api/v1/namespaces/default/pods", pod).await.expect(201);
    rig
}

/// Accepts one request; returns the connection, the request line and the token.
async fn taken(listener: &TcpListener, tls: &TlsAcceptor) -> (TlsStream<TcpStream>, String, String) {
    let (stream, _) = listener.accept().await.unwrap();
    let mut stream = tls.accept(stream).await.unwrap();
    let mut text = String::new();
    while !text.ends_with("\r\n\r\n") {
        let mut buffer = [0; 1024];
        let n = stream.read(&mut buffer).await.unwrap();
        assert_ne!(n, 0, "the request has an end");
        text.push_str(std::str::from_utf8(&buffer[..n]).unwrap());
    }
    let token = text.split("\r\n").find_map(|line| line.strip_prefix("authorization: Bearer "));
    let token = token.unwrap().to_owned();
    (stream, text.split("\r\n").next().unwrap().to_owned(), token)
}

async fn review(rig: &Rig, token: &str, audiences: Value) -> Value {
    let spec = json!({"token": token, "audiences": audiences});
    let answer = rig.post("/apis/authentication.k8s.io/v1/tokenreviews", json!({ "spec": spec })).await;
    answer.expect(201).json()["status"].clone()
}

#[tokio::test]
async fn log_is_streamed_while_the_agent_sends() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (tls, key) = agent();
    let rig = rig("127.0.0.1", listener.local_addr().unwrap().port(), Some(&key)).await;
    let target = format!("{LOG}?follow=true&tailLines=2");
    let ask = rig.raw("GET", &target, &[], Body::empty());
    let agent = async {
        let (mut stream, line, token) = taken(&listener, &tls).await;
        let head =
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        (stream, line, token)
    };
    let (response, (mut stream, line, token)) = tokio::join!(ask, agent);
    assert_eq!(line, "GET /containerLogs/default/p/c?follow=true&tailLines=2 HTTP/1.1");
    assert_eq!(
        (response.status().as_u16(), response.headers()["content-type"].as_bytes()),
        (200, &b"text/plain"[..])
    );
    let mut body = response.into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(first, "one\n", "while the agent has not ended");
    stream.write_all(b"4\r\ntwo\n\r\n0\r\n\r\n").await.unwrap();
    assert_eq!(body.collect().await.unwrap().to_bytes(), "two\n");

    let own = json!(["orlop.dev/node/n"]);
    let status = review(&rig, &token, own.clone()).await;
    assert_eq!((&status["authenticated"], &status["audiences"]), (&json!(true), &own));
    assert_eq!(status["user"]["username"], "system:kube-apiserver");
    for audiences in [json!([]), json!(["orlop.dev/node/m"])] {
        assert_eq!(
            review(&rig, &token, audiences).await["authenticated"],
            Value::Null,
            "it is for that node alone"
        );
    }
    let protected = rig.server.protect(rig.server.service());
    let request =
        http::Request::get("/apis/authentication.k8s.io/v1/selfsubjectreviews").header("host", "localhost");
    let request = request.header("authorization", format!("Bearer {token}")).body(Body::empty()).unwrap();
    let answer = tower::ServiceExt::oneshot(protected, request).await.unwrap();
    let text = answer.into_body().collect().await.unwrap().to_bytes();
    assert!(!String::from_utf8_lossy(&text).contains("kube-apiserver"), "this server does not believe it");
}

#[tokio::test]
async fn agent_errors_are_passed_on() {
    for (said, code, message) in [
        ("400 Bad Request", 400, "container \"c\" in pod \"p\" is waiting to start: ContainerCreating"),
        ("404 Not Found", 404, "the server could not find the requested resource"),
        (
            "500 Internal Server Error",
            500,
            "container \"c\" in pod \"p\" is waiting to start: ContainerCreating",
        ),
        ("401 Unauthorized", 500, "the node's agent answered 401"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (tls, key) = agent();
        let rig = rig("127.0.0.1", listener.local_addr().unwrap().port(), Some(&key)).await;
        let agent = async {
            let (mut stream, line, _) = taken(&listener, &tls).await;
            assert_eq!(line, "GET /containerLogs/default/p/c HTTP/1.1");
            let text = "container \"c\" in pod \"p\" is waiting to start: ContainerCreating";
            let answer = format!("HTTP/1.1 {said}\r\nContent-Length: {}\r\n\r\n{text}", text.len());
            stream.write_all(answer.as_bytes()).await.unwrap();
        };
        let (answer, ()) = tokio::join!(rig.get(LOG), agent);
        let answer = answer.expect(code).json();
        assert!(answer["message"].as_str().unwrap().contains(message), "{said}: {answer}");
    }
}

#[tokio::test]
async fn unreachable_or_unprotected_agents_are_errors() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let (_, key) = agent();
    let key = Some(key.as_str());
    for (address, key, message) in [
        (
            "127.0.0.1",
            key,
            format!("Get \"https://127.0.0.1:{port}/containerLogs/default/p/c\": dial tcp 127.0.0.1:{port}:"),
        ),
        ("127.0.0.1", None, "the Node publishes no key".to_owned()),
        ("10.0.0.1", None, "the Node publishes no key".to_owned()),
        ("node.example", key, "is no IP address".to_owned()),
    ] {
        let rig = rig(address, port, key).await;
        let answer = rig.get(LOG).await.expect(500).json();
        assert!(answer["message"].as_str().unwrap().contains(&message), "{answer}");
    }
}

/// A Node can state the boot ID of this machine and the port of any local service.
#[tokio::test]
async fn local_service_without_the_key_of_the_agent_receives_no_request() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (_, stated) = agent();
    let rig = rig("127.0.0.1", listener.local_addr().unwrap().port(), Some(&stated)).await;
    let service = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret").await.unwrap();
        let mut received = Vec::new();
        // The API server ends the connection, possibly with a reset.
        let _ = stream.read_to_end(&mut received).await;
        received
    };
    let (answer, received) = tokio::join!(rig.get(LOG), service);
    assert!(!answer.expect(500).text().contains("secret"));
    let received = String::from_utf8_lossy(&received).into_owned();
    assert!(!received.contains("containerLogs") && !received.contains("Bearer"), "{received}");
}
