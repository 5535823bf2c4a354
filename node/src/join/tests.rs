#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt as _;

use orlop_pki::authority::Authority;

use super::*;

const NOW: &str = "2026-11-26T12:00:00Z";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[test]
fn node_has_joined_while_its_certificate_is_valid() {
    let dir = tempfile::tempdir().unwrap();
    let files = JoinFiles::below(&dir.path().join("root"));
    assert!(!has_joined(&files, "system:node:n1", at(NOW)).unwrap(), "nothing is there");
    files.create_dir().unwrap();
    let authority = Authority::read(&Authority::create(at(NOW)).unwrap()).unwrap();
    let signed = authority.client("system:node:n1", &[], at(NOW)).unwrap();
    files.write(&files.identity, &format!("{}{}", signed.certificate, signed.key)).unwrap();
    assert!(!has_joined(&files, "system:node:n1", at(NOW)).unwrap(), "the kubeconfig is written last");
    files.write(&files.kubeconfig, "x").unwrap();
    assert!(has_joined(&files, "system:node:n1", at(NOW)).unwrap());
    assert!(!has_joined(&files, "system:node:n1", at("2028-01-01T00:00:00Z")).unwrap(), "it has ended");
    let error = has_joined(&files, "system:node:n2", at(NOW)).unwrap_err().to_string();
    assert!(error.contains("--name") && error.contains("system:node:n1"), "{error}");
    for (path, want) in
        [(&files.identity, 0o600), (&files.kubeconfig, 0o600), (&dir.path().join("root/pki"), 0o700)]
    {
        let mode = std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, want, "{}", path.display());
    }
}

#[tokio::test]
async fn server_without_tls_and_missing_tokens_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let options = JoinOptions {
        url: "http://127.0.0.1:1".to_owned(),
        token: Some("abcdef.0123456789abcdef".to_owned()),
        ca_hashes: vec![format!("sha256:{}", "0".repeat(64))],
        name: "n1".to_owned(),
        root_dir: dir.path().to_owned(),
    };
    assert!(matches!(join(&options, at(NOW)).await, Err(JoinError::Url(_))));
    let without = JoinOptions { token: None, ..options.clone() };
    assert!(matches!(join(&without, at(NOW)).await, Err(JoinError::NoToken)));
    let wrong = JoinOptions { ca_hashes: vec!["x".to_owned()], ..options.clone() };
    assert!(matches!(join(&wrong, at(NOW)).await, Err(JoinError::Hash(_))));
    // A free port: it was bound and released.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let away = JoinOptions { url: format!("https://127.0.0.1:{port}"), ..options };
    let error = join(&away, at(NOW)).await.unwrap_err().to_string();
    assert!(error.contains("does not answer") && !error.contains("0123456789abcdef"), "{error}");
}
