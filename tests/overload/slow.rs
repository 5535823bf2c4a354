//! Slow and silent clients: incomplete heads, missing bodies, and unread answers.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::raw::Raw;
use super::{CONFIG_MAPS, READS, WRITES, figure, fill, server, until_figure};
use crate::harness::http::Http;
use crate::harness::wait;
use crate::tls::{Secured, file};

const CONNECTIONS: &str = "orlop_open_connections";

#[tokio::test]
async fn incomplete_heads_time_out() {
    let plane = server(&["--read-header-timeout", "1s"]).await;
    for begun in ["", "P", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET / HTTP/1.1\r\nhost: localh"] {
        let start = Instant::now();
        let mut client = Raw::connect(&plane).await;
        assert!(client.send(begun).await);
        client.until_closed().await;
        assert!(start.elapsed() >= Duration::from_secs(1), "{begun:?} is not waited for");
    }
    // A single byte does not extend the timeout.
    let mut client = Raw::connect(&plane).await;
    wait::until("a head that trickles is cut off", async || {
        if client.send("a").await { Err("it still listens".to_owned()) } else { Ok(()) }
    })
    .await;
    assert_eq!(plane.http().get("/healthz").await.code, 200);
}

#[tokio::test]
async fn idle_connections_are_closed() {
    let plane = server(&["--idle-timeout", "1s"]).await;
    let mut client = Raw::connect(&plane).await;
    for path in ["/healthz", "/version", CONFIG_MAPS] {
        client.get(path).await;
        assert_eq!(client.answer().await.code, 200, "{path}");
    }
    let start = Instant::now();
    assert_eq!(client.until_closed().await, b"");
    assert!(start.elapsed() >= Duration::from_millis(900));
    // A watch is a request, even if no events arrive.
    let mut watch =
        plane.http().watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion=1&timeoutSeconds=3")).await;
    let start = Instant::now();
    while watch.next().await.is_some() {}
    assert!(start.elapsed() >= Duration::from_secs(2));
}

#[tokio::test]
async fn missing_body_times_out() {
    let plane = server(&["--request-timeout", "1s"]).await;
    let mut client = Raw::connect(&plane).await;
    client.post_without_body().await;
    let heard = client.answer().await;
    assert_eq!(heard.code, 504, "{}", heard.text);
    assert!(heard.text.contains("\"reason\":\"Timeout\""), "{}", heard.text);
    assert!(heard.text.contains("request did not complete within the allotted timeout"), "{}", heard.text);
    // The server could not distinguish a late body from a new request.
    assert_eq!(client.until_closed().await, b"");
    until_figure(&plane.http(), WRITES, 0).await;
}

#[tokio::test]
async fn client_can_set_a_shorter_timeout() {
    let plane = server(&[]).await;
    let mut client = Raw::connect(&plane).await;
    let head =
        format!("POST {CONFIG_MAPS}?timeout=1s HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n");
    assert!(client.send(head).await);
    let heard = client.answer().await;
    assert_eq!(heard.code, 504, "{}", heard.text);
}

#[tokio::test]
async fn connections_are_limited() {
    const MOST: usize = 5;
    let plane = server(&["--max-connections", "5"]).await;
    let mut open = Vec::new();
    let is_served = async || {
        let mut client = Raw::connect(&plane).await;
        client.get("/healthz").await;
        (client.answer().await.code == 200).then_some(client)
    };
    while let Some(client) = is_served().await {
        open.push(client);
        assert!(open.len() <= MOST, "there is no limit");
    }
    assert!(!open.is_empty());
    open.pop();
    wait::until("there is room again", async || match is_served().await {
        Some(_) => Ok(()),
        None => Err("it was closed".to_owned()),
    })
    .await;
}

/// A list that is requested but not read: the server closes the connection before it has sent all of it.
#[tokio::test]
async fn unread_answer_closes_the_connection() {
    let plane = server(&["--write-timeout", "3s"]).await;
    let http = plane.http();
    fill(&http, 8).await;
    let others = figure(&http, CONNECTIONS).await.unwrap();
    let mut client = Raw::narrow(&plane).await;
    client.get(CONFIG_MAPS).await;
    // It loses its permit before its connection.
    until_figure(&http, READS, 1).await;
    until_figure(&http, READS, 0).await;
    assert_eq!(figure(&http, CONNECTIONS).await, Ok(others + 1));
    until_figure(&http, CONNECTIONS, others).await;
    let heard = client.until_closed().await;
    assert!(heard.len() < 8 << 20, "{} bytes came", heard.len());
    // A client that is only slow receives all of it.
    let mut slow = Raw::connect(&plane).await;
    slow.get(CONFIG_MAPS).await;
    assert!(slow.answer().await.text.len() > 8 << 20);
}

/// Clients that do not read, each with its own User-Agent, occupy no permits for long.
#[tokio::test]
async fn unread_answers_release_their_permits() {
    let plane = server(&["--max-requests-inflight", "4"]).await;
    fill(&plane.http(), 8).await;
    let mut silent = Vec::new();
    for number in 0..40 {
        let mut client = Raw::narrow(&plane).await;
        let head =
            format!("GET {CONFIG_MAPS} HTTP/1.1\r\nhost: localhost\r\nuser-agent: reader-{number}\r\n\r\n");
        assert!(client.send(head).await);
        silent.push(client);
    }
    plane.http().get(CONFIG_MAPS).await.expect(200);
}

/// A list that is requested but not read does not delay the end of the process beyond `--shutdown-grace`.
#[tokio::test]
async fn unread_answer_does_not_delay_shutdown() {
    let mut plane = server(&["--shutdown-grace", "1s"]).await;
    let http = plane.http();
    fill(&http, 8).await;
    let mut client = Raw::narrow(&plane).await;
    client.get(CONFIG_MAPS).await;
    until_figure(&http, READS, 1).await;
    plane.server().signal(Signal::TERM);
    assert_eq!(plane.server().exit_code().await, 0);
    drop(client);
}

#[tokio::test]
async fn unread_answer_over_tls_closes_the_connection() {
    let server = Secured::with(&["--write-timeout", "1s"]).await;
    let http = bob(&server);
    fill(&http, 8).await;
    let address = server.url.strip_prefix("https://").unwrap().to_owned();
    let asked = tokio::task::spawn_blocking(move || {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(file("ca.crt")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let tls = rustls::ClientConnection::new(Arc::new(config), "127.0.0.1".try_into().unwrap()).unwrap();
        let socket = std::net::TcpStream::connect(address).unwrap();
        socket2::SockRef::from(&socket).set_recv_buffer_size(4096).unwrap();
        socket.set_read_timeout(Some(wait::PATIENCE)).unwrap();
        let mut stream = rustls::StreamOwned::new(tls, socket);
        let head =
            format!("GET {CONFIG_MAPS} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer hush\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream
    });
    let mut stream = asked.await.unwrap();
    until_figure(&http, READS, 1).await;
    until_figure(&http, READS, 0).await;
    let heard = tokio::task::spawn_blocking(move || {
        let mut heard = Vec::new();
        // The connection ends without a TLS close, which is the expected error.
        let _ = stream.read_to_end(&mut heard);
        heard.len()
    });
    let heard = heard.await.unwrap();
    assert!(heard < 8 << 20, "{heard} bytes came");
}

fn bob(server: &Secured) -> Http {
    let mut config = kube::Config::new(server.url.parse().unwrap());
    config.root_cert_file = Some(file("ca.crt"));
    config.auth_info.token = Some("hush".to_owned().into());
    Http::with(config)
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// On HTTP/2, a client can block a single stream instead of the connection.
#[tokio::test]
async fn unread_http2_stream_closes_the_connection() {
    let plane = server(&["--write-timeout", "1s"]).await;
    let mut client = Raw::connect(&plane).await;
    let literal = |text: &str| {
        let mut field = vec![u8::try_from(text.len()).unwrap()];
        field.extend_from_slice(text.as_bytes());
        field
    };
    // GET, http, and the names :path and :authority are in HPACK's static table.
    let headers =
        [vec![0x82, 0x86, 0x04], literal("/api/v1/namespaces"), vec![0x01], literal("localhost")].concat();
    // SETTINGS_INITIAL_WINDOW_SIZE 0: the client accepts no bytes of an answer.
    let no_window = [0, 4, 0, 0, 0, 0];
    let sent = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(4, 0, 0, &no_window),
        frame(1, 0x5, 1, &headers),
    ];
    assert!(client.send(sent.concat()).await);
    let start = Instant::now();
    let heard = client.until_closed().await;
    // Later, the server would send a keep-alive ping, which this client does not answer.
    assert!(start.elapsed() < Duration::from_secs(25), "it ended for another reason");
    assert!(!String::from_utf8_lossy(&heard).contains("NamespaceList"), "the answer was not to be taken");
}
