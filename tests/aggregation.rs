//! Another API server behind an APIService: requests, discovery, kubectl, watches and its failures.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use axum_server::Handle;
use axum_server::tls_rustls::RustlsConfig;
use http::{HeaderMap, Method};
use jiff::Timestamp;
use orlop_pki::authority::Authority;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::harness::http::Http;
use crate::harness::plane::{Layout, Plane};
use crate::own_authority;

const GROUP: &str = "wardle.example.com";
const VERSION: &str = "/apis/wardle.example.com/v1alpha1";
const FLUNDERS: &str = "/apis/wardle.example.com/v1alpha1/namespaces/default/flunders";
const OPENAPI: &str = "/openapi/v3/apis/wardle.example.com/v1alpha1";
const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

/// The other server. It accepts only clients with a certificate of its authority.
struct Remote {
    address: SocketAddr,
    authority: Authority,
    behavior: Arc<Behavior>,
}

/// What the other server does, and has done.
struct Behavior {
    /// A permit for each event of its watch.
    events: Semaphore,
    /// Whether its resource list has another status code at each request.
    is_changing: AtomicBool,
    /// Whether its resource list is another document.
    is_unreadable: AtomicBool,
    /// The number of requests for its resource list.
    checks: AtomicU16,
}

impl Remote {
    async fn start() -> Remote {
        let authority = Authority::read(&Authority::create(Timestamp::now()).unwrap()).unwrap();
        let clients = authority.certificate().to_owned();
        Remote::start_with(authority, &clients).await
    }

    /// A server that accepts only clients with a certificate of this authority (PEM).
    async fn start_with(authority: Authority, clients: &str) -> Remote {
        let own = authority.server(&["wardle.default.svc".to_owned()], Timestamp::now()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(clients.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
        let chain = vec![CertificateDer::from_pem_slice(own.certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(clients.unwrap())
            .with_single_cert(chain, key)
            .unwrap();
        let handle = Handle::<SocketAddr>::new();
        let tls = RustlsConfig::from_config(Arc::new(config));
        let server = axum_server::bind_rustls(([127, 0, 0, 1], 0).into(), tls).handle(handle.clone());
        let behavior = Arc::new(Behavior {
            events: Semaphore::new(0),
            is_changing: AtomicBool::new(false),
            is_unreadable: AtomicBool::new(false),
            checks: AtomicU16::new(0),
        });
        let app = Router::new().fallback(respond).with_state(behavior.clone());
        tokio::spawn(server.serve(app.into_make_service()));
        Remote { address: handle.listening().await.unwrap(), authority, behavior }
    }

    /// Writes the certificate of the aggregator, and returns the flags that name it.
    fn flags(&self, dir: &Path) -> [String; 2] {
        let pair = self.authority.client("aggregator", &[], Timestamp::now()).unwrap();
        let (certificate, key) = (dir.join("proxy.crt"), dir.join("proxy.key"));
        std::fs::write(&certificate, pair.certificate).unwrap();
        std::fs::write(&key, pair.key).unwrap();
        [
            format!("--proxy-client-cert-file={}", certificate.display()),
            format!("--proxy-client-key-file={}", key.display()),
        ]
    }

    /// A server that forwards requests to this one, and the directory of its certificate.
    async fn plane(&self) -> (Plane, TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let flags = self.flags(dir.path());
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let plane = Plane::of(Layout::ServerAlone).server_flags(&flags).start().await;
        (plane, dir)
    }

    /// Creates the Service and the APIService of this server.
    async fn register(&self, http: &Http) {
        self.expose(http).await;
        http.create(API_SERVICES, &self.api_service()).await;
    }

    fn api_service(&self) -> Value {
        let mut object = api_service_of(self.address.port());
        let bundle = k8s_openapi::ByteString(self.authority.certificate().as_bytes().to_vec());
        object["spec"]["caBundle"] = json!(bundle);
        object
    }

    async fn expose(&self, http: &Http) {
        let spec = json!({"type": "ExternalName", "externalName": "localhost"});
        let service = json!({"metadata": {"name": "wardle"}, "spec": spec});
        http.create("/api/v1/namespaces/default/services", &service).await;
    }
}

/// An APIService whose Service has this port.
fn api_service_of(port: u16) -> Value {
    json!({"metadata": {"name": format!("v1alpha1.{GROUP}")}, "spec": {
        "group": GROUP, "version": "v1alpha1", "groupPriorityMinimum": 2000, "versionPriority": 15,
        "service": {"namespace": "default", "name": "wardle", "port": port},
    }})
}

fn flunder(name: &str) -> Value {
    json!({"kind": "Flunder", "apiVersion": format!("{GROUP}/v1alpha1"),
        "metadata": {"name": name, "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"}})
}

/// The OpenAPI document of the version.
fn openapi() -> Value {
    let kind = json!([{"group": GROUP, "version": "v1alpha1", "kind": "Flunder"}]);
    let schema = json!({"type": "object", "description": "Flunder is served by another server.",
        "properties": {"spec": {"type": "string", "description": "What it does."}},
        "x-kubernetes-group-version-kind": kind});
    let get = json!({"get": {"x-kubernetes-action": "get", "x-kubernetes-group-version-kind": kind[0],
        "responses": {"200": {"description": "OK"}}}});
    json!({"openapi": "3.0.0", "info": {"title": "wardle", "version": "v1"},
        "paths": {format!("{VERSION}/namespaces/{{namespace}}/flunders"): get},
        "components": {"schemas": {"com.example.wardle.Flunder": schema}}})
}

/// The request as the server has received it.
fn seen(method: &Method, path: &str, headers: &HeaderMap, body: &str) -> Value {
    let all = |name: &str| -> Vec<String> {
        headers.get_all(name).iter().map(|value| value.to_str().unwrap().to_owned()).collect()
    };
    json!({"method": method.as_str(), "path": path, "user": all("x-remote-user"), "groups": all("x-remote-group"),
        "credentials": [all("authorization"), all("cookie"), all("impersonate-user")], "via": all("via"),
        "clients": all("x-forwarded-for"), "audit": all("audit-id"), "body": body})
}

async fn respond(State(behavior): State<Arc<Behavior>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().unwrap().as_str().to_owned();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let body = String::from_utf8(body.to_vec()).unwrap();
    let json = |value: Value| ([("content-type", "application/json")], value.to_string()).into_response();
    let checks = if path == VERSION { behavior.checks.fetch_add(1, Ordering::Relaxed) } else { 0 };
    match path.as_str() {
        VERSION if behavior.is_changing.load(Ordering::Relaxed) => {
            http::StatusCode::from_u16(500 + checks % 100).unwrap().into_response()
        }
        VERSION if behavior.is_unreadable.load(Ordering::Relaxed) => json(json!({"kind": "Status"})),
        "/openapi/v3" => {
            let path = format!("apis/{GROUP}/v1alpha1");
            json(json!({"paths": {path: {"serverRelativeURL": format!("{OPENAPI}?hash=1")}}}))
        }
        path if path.starts_with(OPENAPI) => json(openapi()),
        VERSION => json(
            json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{GROUP}/v1alpha1"),
            "resources": [{"name": "flunders", "singularName": "flunder", "namespaced": true, "kind": "Flunder",
                "verbs": ["create", "get", "list", "watch"], "shortNames": ["fl"]}]}),
        ),
        path if path.contains("watch=") => {
            let lines = futures::stream::unfold((behavior, 0), |(behavior, n)| async move {
                behavior.events.acquire().await.unwrap().forget();
                let event = json!({"type": "ADDED", "object": flunder(&format!("f{n}"))});
                Some((Ok::<_, std::convert::Infallible>(format!("{event}\n")), (behavior, n + 1)))
            });
            ([("content-type", "application/json")], Body::from_stream(lines)).into_response()
        }
        path if path.ends_with("/flunders/switched") => http::StatusCode::SWITCHING_PROTOCOLS.into_response(),
        path if path.ends_with("/flunders/elsewhere") => {
            (http::StatusCode::FOUND, [("location", "https://elsewhere.example/")]).into_response()
        }
        path if path.contains("/flunders/") => {
            let mut response = json(seen(&parts.method, path, &parts.headers, &body));
            response.headers_mut().insert("set-cookie", "a=b".parse().unwrap());
            response
        }
        _ if parts.method == Method::POST => json(seen(&parts.method, &path, &parts.headers, &body)),
        _ => json(json!({"kind": "FlunderList", "apiVersion": format!("{GROUP}/v1alpha1"), "metadata": {},
            "items": [flunder("one"), flunder("two")]})),
    }
}

/// Waits for a status and a reason of the APIService.
async fn until_available(http: &Http, status: &str, reason: &str) {
    let path = format!("{API_SERVICES}/v1alpha1.{GROUP}");
    http.until(&path, &format!("Available is {status} ({reason})"), |object| {
        let condition = &object["status"]["conditions"][0];
        condition["status"] == status && condition["reason"] == reason
    })
    .await;
}

/// Waits until the group does not exist.
async fn until_absent(http: &Http) {
    crate::harness::wait::until("the group is gone", async || {
        let answer = http.get(FLUNDERS).await;
        if answer.code == 404 { Ok(()) } else { Err(answer.text()) }
    })
    .await;
}

/// The version of the group in aggregated discovery.
async fn aggregated(http: &Http) -> Value {
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let request = http::Request::get("/apis").header("accept", accept).body(Vec::new()).unwrap();
    let document = http.try_send(request).await.unwrap().expect(200);
    let items = document["items"].as_array().unwrap();
    items.iter().find(|item| item["metadata"]["name"] == GROUP).expect("the group")["versions"][0].clone()
}

#[tokio::test]
async fn requests_of_a_group_reach_its_server() {
    let remote = Remote::start().await;
    let (plane, _certificates) = remote.plane().await;
    let http = plane.http();
    assert_eq!(http.get(VERSION).await.code, 404);
    remote.register(&http).await;
    until_available(&http, "True", "Passed").await;

    let answer = http.get(&format!("{FLUNDERS}/x?pretty=false")).await;
    let got = answer.expect(200);
    assert_eq!(got["path"], format!("{FLUNDERS}/x?pretty=false"));
    assert_eq!(got["user"], json!(["system:admin"]));
    assert_eq!(got["groups"], json!(["system:masters", "system:authenticated"]));
    assert_eq!(got["clients"], json!(["127.0.0.1"]));
    assert_eq!(got["audit"], json!([answer.header("audit-id")]), "both servers record the same ID");
    assert!(!answer.headers.contains_key("set-cookie"), "a cookie would belong to this server's origin");
    let posted = http.post(FLUNDERS, &json!({"kind": "Flunder"})).await.expect(200);
    assert_eq!((&posted["method"], &posted["body"]), (&json!("POST"), &json!(r#"{"kind":"Flunder"}"#)));
    // An endpoint that leads back to the server would send it its own requests.
    let sent_by_the_server =
        |via: &str| http::Request::get(format!("{FLUNDERS}/x")).header("via", via).body(Vec::new()).unwrap();
    let via = got["via"][0].as_str().expect("a mark");
    let again = http.try_send(sent_by_the_server(via)).await.unwrap();
    assert_eq!(again.code, 508, "{}", again.text());
    let other = http.try_send(sent_by_the_server("1.1 other")).await.unwrap().expect(200);
    assert_eq!(other["via"], json!(["1.1 other", via]));
    for name in ["elsewhere", "switched"] {
        let answer = http.get(&format!("{FLUNDERS}/{name}")).await;
        assert_eq!(answer.code, 502, "{name}: {}", answer.text());
    }

    // Roles of this server decide first, and the other server learns the name of the user.
    let bob =
        |path: &str| http::Request::get(path).header("impersonate-user", "bob").body(Vec::new()).unwrap();
    let path = format!("{FLUNDERS}/x");
    let refused = http.try_send(bob(&path)).await.unwrap();
    assert_eq!(refused.code, 403, "{}", refused.text());
    let rules = json!([{"apiGroups": [GROUP], "resources": ["flunders"], "verbs": ["get"]}]);
    let roles = "/apis/rbac.authorization.k8s.io/v1";
    http.create(&format!("{roles}/clusterroles"), &json!({"metadata": {"name": "f"}, "rules": rules})).await;
    let binding = json!({"metadata": {"name": "f"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "f"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "bob"}]});
    http.create(&format!("{roles}/clusterrolebindings"), &binding).await;
    let got = http.try_send(bob(&path)).await.unwrap().expect(200);
    assert_eq!(got["user"], json!(["bob"]));
    assert_eq!(got["credentials"], json!([[], [], []]));

    let mut watch = http.watch(&format!("{FLUNDERS}?watch=true")).await;
    for name in ["f0", "f1"] {
        remote.behavior.events.add_permits(1);
        assert_eq!(watch.next().await.unwrap()["object"]["metadata"]["name"], name);
    }
}

/// A server with its own certificates needs no flags. The other server reads the authority and the headers from the ConfigMap.
#[tokio::test]
async fn server_creates_the_certificate_for_aggregated_servers() {
    let plane =
        own_authority::start(tempfile::tempdir().unwrap(), &["--listen=127.0.0.1:0", "--tls-san=localhost"])
            .await;
    let http = plane.admin().await;
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    http.until(path, "published", |map| map["data"]["requestheader-client-ca-file"].is_string()).await;
    let data = http.get(path).await.expect(200)["data"].clone();
    for (name, want) in [
        ("requestheader-allowed-names", r#"["front-proxy-client"]"#),
        ("requestheader-username-headers", r#"["X-Remote-User"]"#),
        ("requestheader-uid-headers", r#"["X-Remote-Uid"]"#),
        ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
        ("requestheader-extra-headers-prefix", r#"["X-Remote-Extra-"]"#),
    ] {
        assert_eq!(data[name], want, "{name}");
    }
    let clients = data["requestheader-client-ca-file"].as_str().unwrap();
    assert_ne!(data["client-ca-file"], clients, "users cannot name other users");
    let authority = Authority::read(&Authority::create(Timestamp::now()).unwrap()).unwrap();
    let remote = Remote::start_with(authority, clients).await;
    remote.register(&http).await;
    until_available(&http, "True", "Passed").await;
    let got = http.get(&format!("{FLUNDERS}/x")).await.expect(200);
    assert_eq!(got["user"], json!(["system:admin"]));
}

#[tokio::test]
async fn group_of_another_server_is_discovered() {
    let remote = Remote::start().await;
    let (plane, _certificates) = remote.plane().await;
    let http = plane.http();
    remote.register(&http).await;
    until_available(&http, "True", "Passed").await;

    let groups = http.get("/apis").await.expect(200);
    let names: Vec<&str> =
        groups["groups"].as_array().unwrap().iter().map(|group| group["name"].as_str().unwrap()).collect();
    let place = |name: &str| names.iter().position(|known| *known == name);
    assert!(place("resource.k8s.io") < place(GROUP), "groups of a higher priority are first: {names:?}");
    let group = http.get(&format!("/apis/{GROUP}")).await.expect(200);
    assert_eq!(group["preferredVersion"]["groupVersion"], format!("{GROUP}/v1alpha1"));
    let version = aggregated(&http).await;
    assert_eq!(
        (&version["freshness"], &version["resources"][0]["resource"]),
        (&json!("Current"), &json!("flunders"))
    );

    let kubectl = plane.kubectl();
    let printed = kubectl.run(&["get", "fl", "-o", "name"]).await.ok();
    assert_eq!(printed, "flunder.wardle.example.com/one\nflunder.wardle.example.com/two\n");
    let documents = http.get("/openapi/v3").await.expect(200);
    assert_eq!(documents["paths"][OPENAPI.trim_start_matches("/openapi/v3/")]["serverRelativeURL"], OPENAPI);
    assert_eq!(http.get(OPENAPI).await.expect(200), openapi());
    let explained = kubectl.run(&["explain", "flunders.spec"]).await.ok();
    assert!(explained.contains("What it does."), "{explained}");
    let printed =
        kubectl.run(&["get", "apiservices", &format!("v1alpha1.{GROUP}"), "--no-headers"]).await.ok();
    let columns: Vec<&str> = printed.split_whitespace().take(3).collect();
    assert_eq!(columns, [&format!("v1alpha1.{GROUP}"), "default/wardle", "True"]);

    http.delete("/api/v1/namespaces/default/services/wardle").await.expect(200);
    until_available(&http, "False", "ServiceNotFound").await;
    // The other client repeats requests that are answered with 503.
    let unavailable = kubectl.run(&["get", "--raw", FLUNDERS]).await.refused();
    assert!(unavailable.contains("ServiceUnavailable"), "{unavailable}");
    http.until("/apis", "the group is listed still", |groups| groups["groups"].to_string().contains(GROUP))
        .await;
    let version = aggregated(&http).await;
    assert_eq!(
        (&version["freshness"], &version["resources"][0]["resource"]),
        (&json!("Stale"), &json!("flunders"))
    );
    remote.expose(&http).await;
    until_available(&http, "True", "Passed").await;
    http.get(FLUNDERS).await.expect(200);

    http.delete(&format!("{API_SERVICES}/v1alpha1.{GROUP}")).await.expect(200);
    until_absent(&http).await;
    assert!(!http.get("/apis").await.text().contains(GROUP));
}

#[tokio::test]
async fn version_without_a_list_is_stale() {
    let remote = Remote::start().await;
    remote.behavior.is_unreadable.store(true, Ordering::Relaxed);
    let (plane, _certificates) = remote.plane().await;
    let http = plane.http();
    remote.register(&http).await;
    until_available(&http, "True", "Passed").await;
    let version = aggregated(&http).await;
    assert_eq!((&version["freshness"], &version["resources"]), (&json!("Stale"), &json!([])));
}

#[tokio::test]
async fn unavailable_group_does_not_stop_the_garbage_collector() {
    const MAPS: &str = "/api/v1/namespaces/default/configmaps";
    let mut plane = Plane::start().await;
    let http = plane.http();
    http.create(API_SERVICES, &api_service_of(443)).await;
    until_available(&http, "False", "ServiceNotFound").await;
    plane.stop().await;
    plane.start_again().await;
    // The other client repeats requests that are answered with 503.
    let unavailable = plane.kubectl().run(&["get", "--raw", VERSION]).await.refused();
    assert!(unavailable.contains("ServiceUnavailable"), "{unavailable}");
    let owner = http.create(MAPS, &json!({"metadata": {"name": "owner"}})).await;
    let reference =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]});
    let owned = json!({"metadata": {"name": "owned", "ownerReferences": [reference]}});
    http.create(MAPS, &owned).await;
    http.delete(&format!("{MAPS}/owner")).await.expect(200);
    http.until_gone(&format!("{MAPS}/owned")).await;
}

#[tokio::test]
async fn server_that_changes_its_status_code_is_checked_rarely() {
    let remote = Remote::start().await;
    remote.behavior.is_changing.store(true, Ordering::Relaxed);
    let (plane, _certificates) = remote.plane().await;
    let http = plane.http();
    remote.register(&http).await;
    until_available(&http, "False", "FailedDiscoveryCheck").await;
    // The second check follows the change of the Service. A check after each written condition would add dozens.
    http.delete("/api/v1/namespaces/default/services/wardle").await.expect(200);
    until_available(&http, "False", "ServiceNotFound").await;
    remote.expose(&http).await;
    until_available(&http, "False", "FailedDiscoveryCheck").await;
    let checks = remote.behavior.checks.load(Ordering::Relaxed);
    assert!((2..8).contains(&checks), "{checks} checks");
}

#[tokio::test]
async fn server_that_does_not_respond_delays_no_other() {
    let remote = Remote::start().await;
    let (plane, _certificates) = remote.plane().await;
    let http = plane.http();
    remote.expose(&http).await;
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let object = json!({"metadata": {"name": "v1.silent.example.com"}, "spec": {
        "group": "silent.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
        "insecureSkipTLSVerify": true,
        "service": {"namespace": "default", "name": "wardle", "port": silent.local_addr().unwrap().port()},
    }});
    http.create(API_SERVICES, &object).await;
    let (connection, _) = silent.accept().await.unwrap();
    http.create(API_SERVICES, &remote.api_service()).await;
    until_available(&http, "True", "Passed").await;
    http.delete(&format!("{API_SERVICES}/v1alpha1.{GROUP}")).await.expect(200);
    until_absent(&http).await;
    assert!(is_open(&connection), "the check of the other server is still in progress");
}

/// Whether the other side has not closed a connection.
fn is_open(connection: &TcpStream) -> bool {
    let mut buffer = [0; 1024];
    loop {
        match connection.try_read(&mut buffer) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
        }
    }
}

#[tokio::test]
async fn forwarded_watches_do_not_use_the_permits_of_reads() {
    const WATCHES: usize = 8;
    let remote = Remote::start().await;
    let dir = tempfile::tempdir().unwrap();
    let [certificate, key] = remote.flags(dir.path());
    let flags =
        [certificate.as_str(), key.as_str(), "--max-requests-inflight", "4", "--max-request-wait", "1s"];
    let plane = Plane::of(Layout::ServerAlone).server_flags(&flags).start().await;
    let http = plane.http();
    remote.register(&http).await;
    until_available(&http, "True", "Passed").await;
    let mut watches = Vec::new();
    for _ in 0..WATCHES {
        watches.push(http.watch(&format!("{FLUNDERS}?watch=true")).await);
    }
    http.get(FLUNDERS).await.expect(200);
    drop(watches);
}
