//! The proxy of pods, services and nodes, with a web server that shows what it receives.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::http::{Answer, Http};
use crate::harness::plane::{Layout, Plane};
use crate::kubelets::{Kubelet, head};

const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const PAGE: &str = "<title>it</title><a href=\"/page?a=b\">here</a> <a href=\"other\">there</a>";

/// An address of this machine that pods may have; `None` if it has only loopback and link-local addresses.
fn machine_address() -> Option<IpAddr> {
    let all = if_addrs::get_if_addrs().unwrap_or_default();
    let found = all.iter().map(if_addrs::Interface::ip).find(|ip| match ip {
        IpAddr::V4(ip) => !ip.is_loopback() && !ip.is_link_local(),
        IpAddr::V6(_) => false,
    });
    if found.is_none() {
        use std::io::Write as _;
        // The test harness hides the output of a test that passes.
        let _ = writeln!(
            std::io::stderr(),
            "\nSKIPPED: proxies of pods: this machine has only loopback addresses"
        );
    }
    found
}

/// A web server, and the requests that it has received.
struct Web {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Web {
    /// A server on another port than the API server, to which no proxy leads.
    async fn start(ip: IpAddr, plane: &Plane) -> Web {
        let own = format!(":{}", plane.url().rsplit(':').next().unwrap());
        let mut listener = TcpListener::bind((ip, 0)).await.unwrap();
        while listener.local_addr().unwrap().to_string().ends_with(&own) {
            listener = TcpListener::bind((ip, 0)).await.unwrap();
        }
        let (address, seen) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let heads = seen.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, heads.clone()));
            }
        });
        Web { address, seen }
    }

    fn last(&self) -> String {
        self.seen.lock().unwrap().last().cloned().unwrap_or_default()
    }

    /// A pod with the address of the server, and a service of it.
    async fn register(&self, http: &Http) {
        let (ip, port) = (self.address.ip().to_string(), self.address.port());
        let spec =
            json!({"containers": [{"name": "c", "image": "none", "ports": [{"containerPort": port}]}]});
        http.create(PODS, &json!({"metadata": {"name": "p"}, "spec": spec})).await;
        let status = json!({"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}]}});
        http.patch(&format!("{PODS}/p/status"), &status).await.expect(200);
        let ports = json!([{"name": "web", "port": 80}]);
        http.create(SERVICES, &json!({"metadata": {"name": "s"}, "spec": {"ports": ports}})).await;
        let subsets = json!([{"addresses": [{"ip": ip}], "ports": [{"name": "web", "port": port}]}]);
        let endpoints = json!({"metadata": {"name": "s"}, "subsets": subsets});
        http.create("/api/v1/namespaces/default/endpoints", &endpoints).await;
    }
}

async fn serve(mut stream: TcpStream, heads: Arc<Mutex<Vec<String>>>) {
    let request = head(&mut stream).await;
    heads.lock().unwrap().push(request.clone());
    let path = request.split(' ').nth(1).unwrap_or_default();
    let answer = match path.split('?').next().unwrap_or_default() {
        "/page" => format!(
            "200 OK\r\ncontent-type: text/html; charset=utf-8\r\nset-cookie: a=b\r\ncontent-length: {}\r\n\r\n{PAGE}",
            PAGE.len()
        ),
        "/redirect" => "302 Found\r\nlocation: /page\r\ncontent-length: 0\r\n\r\n".to_owned(),
        "/upgrade" => {
            "101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n".to_owned()
        }
        _ => {
            let length = request
                .lines()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            stream.read_exact(&mut body).await.unwrap();
            let shown =
                format!("{} {}", request.lines().next().unwrap_or_default(), String::from_utf8_lossy(&body));
            format!("200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n{shown}", shown.len())
        }
    };
    let _ = stream.write_all(format!("HTTP/1.1 {answer}").as_bytes()).await;
    if path == "/upgrade" {
        let mut buffer = [0; 1024];
        while let Ok(length @ 1..) = stream.read(&mut buffer).await {
            let _ = stream.write_all(&buffer[..length]).await;
        }
    }
}

/// The message of a 503, as kubectl prints it. The other client repeats requests that are answered with 503.
async fn unreachable(plane: &Plane, path: &str) -> String {
    let error = plane.kubectl().run(&["get", "--raw", path]).await.refused();
    error.trim().strip_prefix("Error from server (ServiceUnavailable): ").unwrap_or(&error).to_owned()
}

/// What a browser needs in order not to run a page of a pod in the origin of the API.
fn is_contained(answer: &Answer) {
    assert_eq!(
        answer.header("content-security-policy"),
        "sandbox allow-downloads allow-forms allow-popups allow-scripts"
    );
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    assert_eq!(answer.header("set-cookie"), "");
}

#[tokio::test]
async fn pods_and_services_are_reached() {
    let Some(ip) = machine_address() else { return };
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let web = Web::start(ip, &plane).await;
    let http = plane.http();
    web.register(&http).await;
    let port = web.address.port();
    for proxy in [
        format!("{PODS}/p/proxy"),
        format!("{PODS}/http:p:{port}/proxy"),
        format!("{SERVICES}/s:web/proxy"),
        format!("{SERVICES}/http:s:80/proxy"),
    ] {
        let answer = http.get(&format!("{proxy}/page?c=d")).await;
        answer.expect_text(&PAGE.replace("/page?a", &format!("{proxy}/page?a")));
        is_contained(&answer);
        let seen = web.last();
        assert!(seen.starts_with("GET /page?c=d HTTP/1.1\r\n"), "{seen}");
        assert!(seen.contains(&format!("x-forwarded-uri: {proxy}/page\r\n")), "{seen}");
        assert!(seen.contains(&format!("host: {}\r\n", web.address)), "{seen}");
        let answer = http.get(&format!("{proxy}/redirect")).await;
        assert_eq!((answer.code, answer.header("location")), (302, format!("{proxy}/page").as_str()));
        let answer = http.get(&format!("{proxy}?a=b")).await;
        assert_eq!((answer.code, answer.header("location")), (301, format!("{proxy}/?a=b").as_str()));
        for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
            let request = http::Request::builder().method(method).uri(format!("{proxy}/a%2Fb/"));
            let request = request.header("authorization", "Bearer secret").header("cookie", "secret");
            let answer = http.try_send(request.body(b"body".to_vec()).unwrap()).await.unwrap();
            answer.expect_text(&format!("{method} /a%2Fb/ HTTP/1.1 body"));
            assert!(!web.last().contains("secret"), "{}", web.last());
        }
    }
    let raw = plane.kubectl().run(&["get", "--raw", &format!("{PODS}/p/proxy/x")]).await;
    assert_eq!(raw.ok(), "GET /x HTTP/1.1 ");
    // A port where nothing listens.
    let closed = TcpListener::bind((ip, 0)).await.unwrap().local_addr().unwrap();
    let message = unreachable(&plane, &format!("{PODS}/p:{}/proxy/", closed.port())).await;
    assert_eq!(
        message,
        format!("error trying to reach service: dial tcp {closed}: connect: connection refused")
    );
}

#[tokio::test]
async fn upgraded_connections_pass_through() {
    let Some(ip) = machine_address() else { return };
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let web = Web::start(ip, &plane).await;
    web.register(&plane.http()).await;
    let mut client = TcpStream::connect(plane.url().trim_start_matches("http://")).await.unwrap();
    let request = format!(
        "GET {PODS}/p/proxy/upgrade HTTP/1.1\r\nhost: localhost\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-version: 13\r\n\r\n"
    );
    client.write_all(request.as_bytes()).await.unwrap();
    let answer = head(&mut client).await;
    assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
    assert!(web.last().to_ascii_lowercase().contains("upgrade: websocket"), "{}", web.last());
    let unasked = unreachable(&plane, &format!("{PODS}/p/proxy/upgrade")).await;
    assert!(unasked.ends_with("it switched the protocol without a request for it"), "{unasked}");
    client.write_all(b"over and back").await.unwrap();
    let mut got = [0; 13];
    client.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"over and back");
}

#[tokio::test]
async fn nodes_are_reached_by_their_kubelet_and_by_other_ports() {
    let kubelet = Kubelet::start().await;
    let (plane, _certificates) = kubelet.plane().await;
    let http = plane.http();
    for node in ["n".to_owned(), format!("https:n:{}", kubelet.address.port())] {
        let answer = http.get(&format!("/api/v1/nodes/{node}/proxy/containerLogs/a/b/c?tail=1")).await;
        answer.expect_text("<b>a line</b>\n");
        is_contained(&answer);
        let seen = kubelet.last();
        assert!(seen.starts_with("GET /containerLogs/a/b/c?tail=1 "), "{seen}");
    }
    let web = Web::start(IpAddr::from([127, 0, 0, 1]), &plane).await;
    let answer = http.get(&format!("/api/v1/nodes/n:{}/proxy/x", web.address.port())).await;
    answer.expect_text("GET /x HTTP/1.1 ");
    for port in ["x", "0", "70000"] {
        let message = unreachable(&plane, &format!("/api/v1/nodes/n:{port}/proxy/x")).await;
        assert_eq!(message, format!("error trying to reach service: dial tcp: address {port}: invalid port"));
    }
}

/// A client with write access to a pod's status or a Node chooses its addresses.
#[tokio::test]
async fn proxies_do_not_lead_to_this_server() {
    let kubelet = Kubelet::start().await;
    let (plane, _certificates) = kubelet.plane().await;
    let http = plane.http();
    let port = plane.url().rsplit(':').next().unwrap().to_owned();
    let spec = json!({"containers": [{"name": "c", "image": "none"}]});
    http.create(PODS, &json!({"metadata": {"name": "p"}, "spec": spec})).await;
    for ip in ["127.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "fe80::1"] {
        let status = json!({"status": {"podIP": ip, "podIPs": [{"ip": ip}]}});
        // The API rejects some of these addresses itself.
        if http.patch(&format!("{PODS}/p/status"), &status).await.code == 200 {
            let answer = http.get(&format!("{PODS}/p:{port}/proxy/api/v1/secrets")).await.expect(400);
            assert_eq!(answer["message"], "address not allowed", "{ip}");
        }
    }
    let message = unreachable(&plane, &format!("/api/v1/nodes/n:{port}/proxy/api/v1/secrets")).await;
    assert!(message.ends_with("the address is that of this server"), "{message}");
}
