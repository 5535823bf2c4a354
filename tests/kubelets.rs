//! Kubelets behind the API server: logs and streams, with a kubelet that records its requests and echoes what it receives.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use orlop_pki::authority::Authority;
use rustix::process::Signal;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::harness::http::Http;
use crate::harness::plane::{Layout, Plane};
use crate::harness::wait;

const PODS: &str = "/api/v1/namespaces/default/pods";

/// A kubelet of this machine. It accepts only clients with a certificate of its authority.
pub(crate) struct Kubelet {
    pub(crate) address: SocketAddr,
    authority: Authority,
    /// The heads of the requests.
    seen: Arc<Mutex<Vec<String>>>,
}

impl Kubelet {
    pub(crate) async fn start() -> Kubelet {
        let now = Timestamp::now();
        let authority = Authority::read(&Authority::create(now).unwrap()).unwrap();
        let own = authority.server(&["127.0.0.1".to_owned()], now).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.certificate().as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(clients.unwrap())
            .with_single_cert(
                vec![CertificateDer::from_pem_slice(own.certificate.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap(),
            )
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, seen) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let (tls, heads) = (TlsAcceptor::from(Arc::new(config)), seen.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (tls, heads) = (tls.clone(), heads.clone());
                tokio::spawn(async move {
                    if let Ok(stream) = tls.accept(stream).await {
                        serve(stream, &heads).await;
                    }
                });
            }
        });
        Kubelet { address, authority, seen }
    }

    /// Writes the certificates of the server, and returns the flags that name them.
    fn flags(&self, dir: &Path) -> Vec<String> {
        let pair = self.authority.client("apiserver", &[], Timestamp::now()).unwrap();
        let files = [
            ("--kubelet-client-certificate", "client.crt", pair.certificate.as_str()),
            ("--kubelet-client-key", "client.key", pair.key.as_str()),
            ("--kubelet-certificate-authority", "ca.crt", self.authority.certificate()),
        ];
        let flag = |(flag, name, text): (&str, &str, &str)| {
            std::fs::write(dir.join(name), text).unwrap();
            format!("{flag}={}", dir.join(name).display())
        };
        files.into_iter().map(flag).collect()
    }

    /// A server, and a Node and a pod of this kubelet.
    pub(crate) async fn plane(&self) -> (Plane, TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let flags = self.flags(dir.path());
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let plane = Plane::of(Layout::ServerAlone).server_flags(&flags).start().await;
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        self.register(&plane.http(), "n", boot_id.trim()).await;
        (plane, dir)
    }

    async fn register(&self, http: &Http, node: &str, boot_id: &str) {
        let status = json!({"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "nodeInfo": {"bootID": boot_id}, "daemonEndpoints": {"kubeletEndpoint": {"Port": self.address.port()}}});
        http.create("/api/v1/nodes", &json!({"metadata": {"name": node}, "status": status})).await;
        let spec = json!({"nodeName": node, "containers": [{"name": "c", "image": "none"}]});
        http.create(PODS, &json!({"metadata": {"name": format!("on-{node}")}, "spec": spec})).await;
    }

    pub(crate) fn last(&self) -> String {
        self.seen.lock().unwrap().last().cloned().unwrap_or_default()
    }
}

pub(crate) async fn head(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&head).into_owned()
}

async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, heads: &Mutex<Vec<String>>) {
    let request = head(&mut stream).await;
    heads.lock().unwrap().push(request.clone());
    let path = request.split(' ').nth(1).unwrap_or_default();
    if path.starts_with("/containerLogs/") {
        let answer = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n<b>a line</b>\n";
        let _ = stream.write_all(answer.as_bytes()).await;
        let _ = stream.shutdown().await;
        return;
    }
    if path.starts_with("/attach/") {
        let answer = "HTTP/1.1 400 Bad Request\r\ncontent-length: 12\r\n\r\nno container";
        let _ = stream.write_all(answer.as_bytes()).await;
        return;
    }
    let answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
        X-Stream-Protocol-Version: v4.channel.k8s.io\r\nSet-Cookie: a=b\r\n\r\n";
    let _ = stream.write_all(answer.as_bytes()).await;
    let mut buffer = vec![0; 64 << 10];
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => {
                // What follows the end of the input.
                let _ = stream.write_all(b"exit 0").await;
                let _ = stream.shutdown().await;
                return;
            }
            Ok(length) => {
                let _ = stream.write_all(&buffer[..length]).await;
            }
        }
    }
}

/// Asks for a stream, and returns the connection and the head of the response.
async fn open(plane: &Plane, method: &str, path: &str) -> (TcpStream, String) {
    let address = plane.url().trim_start_matches("http://").to_owned();
    let mut client = TcpStream::connect(&address).await.unwrap();
    let request = format!(
        "{method} {PODS}/{path} HTTP/1.1\r\nhost: localhost\r\nconnection: Upgrade\r\nupgrade: SPDY/3.1\r\n\
         x-stream-protocol-version: v4.channel.k8s.io\r\ncookie: secret\r\ncontent-length: 0\r\n\r\n"
    );
    client.write_all(request.as_bytes()).await.unwrap();
    let answer = head(&mut client).await;
    (client, answer)
}

#[tokio::test]
async fn logs_come_from_the_kubelet_as_text() {
    let kubelet = Kubelet::start().await;
    let (plane, _certificates) = kubelet.plane().await;
    let http = plane.http();
    let answer = http.get(&format!("{PODS}/on-n/log?tailLines=5&follow=true")).await;
    answer.expect_text("<b>a line</b>\n");
    assert_eq!(answer.header("content-type"), "text/plain");
    let seen = kubelet.last();
    assert!(seen.starts_with("GET /containerLogs/default/on-n/c?follow=true&tailLines=5 "), "{seen}");
    assert_eq!(plane.kubectl().run(&["logs", "on-n"]).await.ok(), "<b>a line</b>\n");
}

#[tokio::test]
async fn streams_reach_the_kubelet_and_end_with_either_side() {
    let kubelet = Kubelet::start().await;
    let (plane, _certificates) = kubelet.plane().await;
    let path = "on-n/exec?command=sh&command=-c%20x&stdin=true&stdout=true&tty=false";
    let (mut client, answer) = open(&plane, "POST", path).await;
    assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
    let lower = answer.to_ascii_lowercase();
    for part in ["upgrade: spdy/3.1", "connection: upgrade", "x-stream-protocol-version: v4.channel.k8s.io"] {
        assert!(lower.contains(part), "{part}: {answer}");
    }
    assert!(!lower.contains("set-cookie"), "{answer}");
    let seen = kubelet.last();
    let want = "POST /exec/default/on-n/c?input=1&output=1&command=sh&command=-c+x ";
    assert!(seen.starts_with(want), "{seen}");
    assert!(!seen.to_ascii_lowercase().contains("cookie"), "{seen}");
    // More than the buffers of all connections, in both directions.
    let sent: Vec<u8> = (0..4 << 20).map(|at: usize| at as u8).collect();
    let (mut reader, mut writer) = client.split();
    let mut got = vec![0; sent.len()];
    let (read, written) = tokio::join!(reader.read_exact(&mut got), writer.write_all(&sent));
    read.unwrap();
    written.unwrap();
    assert!(got == sent, "the bytes arrive in order");
    // The end of the input reaches the kubelet, and its output still arrives.
    writer.shutdown().await.unwrap();
    let mut rest = String::new();
    reader.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "exit 0");

    let (client, answer) = open(&plane, "GET", "on-n/portforward?ports=80&ports=443").await;
    assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
    let seen = kubelet.last();
    assert!(seen.starts_with("GET /portForward/default/on-n?port=80&port=443 "), "{seen}");
    drop(client);
    let (_, answer) = open(&plane, "POST", "on-n/attach?stdout=true").await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "the error of the kubelet: {answer}");
}

#[tokio::test]
async fn streams_end_with_the_server() {
    let kubelet = Kubelet::start().await;
    let (mut plane, _certificates) = kubelet.plane().await;
    let (mut client, answer) = open(&plane, "POST", "on-n/exec?command=sh&stdin=true").await;
    assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
    plane.server().signal(Signal::TERM);
    wait::until("the stream ends", async || match client.read_u8().await {
        Ok(_) => Err("a byte".to_owned()),
        Err(_) => Ok(()),
    })
    .await;
}

/// A client with write access to a Node chooses its addresses. Without the boot ID of this machine, none of them leads to it.
#[tokio::test]
async fn other_nodes_have_no_address_of_this_machine() {
    let kubelet = Kubelet::start().await;
    let (plane, _certificates) = kubelet.plane().await;
    let http = plane.http();
    kubelet.register(&http, "far", "another-boot").await;
    let answer = http.get(&format!("{PODS}/on-far/log")).await;
    assert_eq!(answer.code, 500);
    assert!(answer.text().contains("the address is not that of another machine"), "{}", answer.text());
    let (_, answer) = open(&plane, "POST", "on-far/exec?command=sh").await;
    assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
    assert_eq!(kubelet.last(), "", "the kubelet was not asked");
}
