//! The socket serves as configured.

#![allow(clippy::unwrap_used)]

use axum::Router;
use orlop_apiserver::limits::connection::Connections;

use orlop_cli::config::{self, Config, Role};
use orlop_store::MemoryBudget;

use super::*;

fn listen(flags: &[&str]) -> ListenConfig {
    let args = ["orlop", "apiserver"].iter().chain(flags).map(std::ffi::OsString::from);
    let Ok(Config::Run(run)) = config::load(args, |_| None) else { panic!("{flags:?}") };
    let Role::Apiserver(server) = run.role else { panic!("{flags:?}") };
    server.listen
}

#[test]
fn occupied_port_is_reported() {
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = holder.local_addr().unwrap().to_string();
    let error = bind(&listen(&["--listen", &address]), None).unwrap_err().to_string();
    assert!(error.contains(&address) && error.contains("another process"), "{error}");
}

#[test]
fn named_pipe_is_not_replaced_by_the_address_file() {
    use std::os::unix::fs::FileTypeExt as _;

    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    let config = listen(&["--listen", "127.0.0.1:0", "--address-file", pipe.to_str().unwrap()]);
    let error = announce(&config, "http://127.0.0.1:1").unwrap_err().to_string();
    assert!(error.contains("a named pipe"), "{error}");
    assert!(std::fs::metadata(&pipe).unwrap().file_type().is_fifo());
}

#[test]
fn missing_files_are_reported() {
    let flags =
        ["--listen", "127.0.0.1:0", "--tls-cert-file", "/nowhere/c", "--tls-private-key-file", "/nowhere/k"];
    let error = bind(&listen(&flags), None).unwrap_err().to_string();
    assert!(error.contains("--tls-cert-file") && error.contains("/nowhere/c"), "{error}");
}

#[tokio::test]
async fn listener_serves_and_stops() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("url");
    let config = listen(&["--listen", "127.0.0.1:0", "--address-file", file.to_str().unwrap()]);
    let listener = bind(&config, None).unwrap();
    let (url, handle) = (listener.url(), listener.handle());
    announce(&config, &url).unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{url}\n"));

    let router = Router::new().route("/", axum::routing::get(|| async { "hello" }));
    let serving = tokio::spawn(listener.serve(router, Connections::new(10, MemoryBudget::new(0)), None));
    let mut stream = tokio::net::TcpStream::connect(url.strip_prefix("http://").unwrap()).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello"), "{answer}");

    handle.graceful_shutdown(Some(Duration::from_secs(5)));
    serving.await.unwrap().unwrap();
}

const HEAD: Duration = Duration::from_millis(200);
const IDLE: Duration = Duration::from_millis(500);
const SLOW: Duration = Duration::from_millis(700);

/// Sends the requests one after another on one connection and waits until the server closes it. `false` if the server
/// closed it earlier and the client was too slow to blame it: a busy machine delays the client beyond the timeouts.
async fn closed_after(url: &str, paths: &[&str]) -> bool {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let mut begun = std::time::Instant::now();
    let mut stream = tokio::net::TcpStream::connect(url.strip_prefix("http://").unwrap()).await.unwrap();
    let mut answer = String::new();
    for path in paths {
        let request = format!("GET /{path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let written = stream.write_all(request.as_bytes()).await;
        // No timer of the server can have run longer when the request arrived.
        let waited = begun.elapsed();
        answer.clear();
        while written.is_ok() && !answer.ends_with("hello") {
            let mut buffer = [0; 1024];
            match stream.read(&mut buffer).await {
                Ok(n) if n > 0 => answer.push_str(std::str::from_utf8(&buffer[..n]).unwrap()),
                Ok(_) | Err(_) => break,
            }
        }
        if !answer.ends_with("hello") {
            assert!(waited >= HEAD, "{paths:?}: closed too early, {waited:?} after the last answer");
            return false;
        }
        begun = std::time::Instant::now();
    }
    let end = tokio::time::timeout(Duration::from_secs(60), stream.read(&mut [0; 16])).await;
    assert_eq!(end.expect("the server closes the connection").unwrap(), 0, "{paths:?}");
    true
}

/// The timers belong to the connection, but hyper decides when it is polled again.
#[tokio::test]
async fn idle_connection_is_closed_and_busy_one_stays() {
    let millis = |time: Duration| format!("{}ms", time.as_millis());
    let flags =
        ["--listen", "127.0.0.1:0", "--read-header-timeout", &millis(HEAD), "--idle-timeout", &millis(IDLE)];
    let listener = bind(&listen(&flags), None).unwrap();
    let (url, handle) = (listener.url(), listener.handle());
    let answer_after = |time| {
        axum::routing::get(move || async move {
            tokio::time::sleep(time).await;
            "hello"
        })
    };
    let router = Router::new()
        .route("/immediate", answer_after(Duration::ZERO))
        .route("/quick", answer_after(Duration::from_millis(20)))
        .route("/slow", answer_after(SLOW));
    let serving = tokio::spawn(listener.serve(router, Connections::new(10, MemoryBudget::new(0)), None));
    for paths in
        [&["immediate"][..], &["quick"], &["slow"], &["slow", "quick"], &["quick", "immediate", "slow"]]
    {
        let mut tries = 1;
        while !closed_after(&url, paths).await {
            tries += 1;
            assert!(tries <= 100, "{paths:?}: this machine is too slow for a timeout of {HEAD:?}");
        }
    }
    handle.graceful_shutdown(Some(Duration::from_secs(5)));
    serving.await.unwrap().unwrap();
}
