//! That the socket serves as configured.

#![allow(clippy::unwrap_used)]

use orlop_apiserver::limits::connection::Connections;

use orlop_cli::config::{self, Config, Role};

use super::*;

fn listen(flags: &[&str]) -> ListenConfig {
    let args = ["orlop", "apiserver"].iter().chain(flags).map(std::ffi::OsString::from);
    let Ok(Config::Run(run)) = config::load(args, |_| None) else { panic!("{flags:?}") };
    let Role::Apiserver(server) = run.role else { panic!("{flags:?}") };
    server.listen
}

#[test]
fn a_taken_port_is_told() {
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = holder.local_addr().unwrap().to_string();
    let error = bind(&listen(&["--listen", &address])).unwrap_err().to_string();
    assert!(error.contains(&address) && error.contains("another process"), "{error}");
}

#[test]
fn missing_files_are_told() {
    let flags =
        ["--listen", "127.0.0.1:0", "--tls-cert-file", "/nowhere/c", "--tls-private-key-file", "/nowhere/k"];
    let error = bind(&listen(&flags)).unwrap_err().to_string();
    assert!(error.contains("--tls-cert-file") && error.contains("/nowhere/c"), "{error}");
    let error = auth(&listen(&["--token-auth-file", "/nowhere/t"])).unwrap_err().to_string();
    assert!(error.contains("/nowhere/t"), "{error}");
}

#[tokio::test]
async fn it_serves_and_stops() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("url");
    let config = listen(&["--listen", "127.0.0.1:0", "--address-file", file.to_str().unwrap()]);
    let listener = bind(&config).unwrap();
    let (url, handle) = (listener.url(), listener.handle());
    announce(&config, &url).unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{url}\n"));

    let router = Router::new().route("/", axum::routing::get(|| async { "hello" }));
    let serving = tokio::spawn(listener.serve(router, Connections::new(10)));
    let mut stream = tokio::net::TcpStream::connect(url.strip_prefix("http://").unwrap()).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello"), "{answer}");

    handle.graceful_shutdown(Some(Duration::from_secs(5)));
    serving.await.unwrap().unwrap();
}

/// A client that keeps its connection and says nothing more. The clocks are those of the connection,
/// and who wakes whom is decided in hyper.
#[tokio::test]
async fn a_silent_connection_is_closed() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let flags = ["--listen", "127.0.0.1:0", "--read-header-timeout", "200ms", "--idle-timeout", "500ms"];
    let listener = bind(&listen(&flags)).unwrap();
    let (url, handle) = (listener.url(), listener.handle());
    let slow = axum::routing::get(|| async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        "hello"
    });
    let quick = axum::routing::get(|| async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        "hello"
    });
    let router = Router::new().route("/at-once", axum::routing::get(|| async { "hello" }));
    let router = router.route("/quick", quick).route("/slow", slow);
    let serving = tokio::spawn(listener.serve(router, Connections::new(10)));
    for paths in [&["at-once"][..], &["quick"], &["slow"], &["slow", "quick"], &["quick", "at-once", "slow"]]
    {
        let mut stream = tokio::net::TcpStream::connect(url.strip_prefix("http://").unwrap()).await.unwrap();
        let mut answer = String::new();
        for path in paths {
            let request = format!("GET /{path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            answer.clear();
            while !answer.ends_with("hello") {
                let mut buffer = [0; 1024];
                let n = stream.read(&mut buffer).await.unwrap();
                assert!(n > 0, "{paths:?}: closed too early");
                answer.push_str(std::str::from_utf8(&buffer[..n]).unwrap());
            }
        }
        let end = tokio::time::timeout(Duration::from_secs(20), stream.read(&mut [0; 16])).await;
        assert_eq!(end.expect("it is closed").unwrap(), 0, "{paths:?}");
    }
    handle.graceful_shutdown(Some(Duration::from_secs(5)));
    serving.await.unwrap().unwrap();
}
