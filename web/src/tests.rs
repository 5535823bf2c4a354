//! Tests of content negotiation and headers, and of the rules for the page's files.

#![allow(clippy::unwrap_used)]

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

fn header(response: &Response, name: axum::http::HeaderName) -> &str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

#[test]
fn only_browsers_receive_the_page() {
    let cases = [
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true),
        ("text/html", true),
        ("TEXT/HTML;q=0.5", true),
        ("*/*", false),
        ("", false),
        ("application/json", false),
        ("application/json, */*", false),
        ("application/json, text/html;q=0.3", false),
        ("text/html;q=0", false),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", false),
    ];
    for (accept, want) in cases {
        assert_eq!(index(accept).is_some(), want, "{accept}");
    }
    let response = index("text/html").unwrap();
    assert_eq!(header(&response, VARY), "Accept");
    assert_eq!(header(&response, CONTENT_TYPE), "text/html; charset=utf-8");
    assert!(header(&response, CONTENT_SECURITY_POLICY).starts_with("default-src 'none'"));
}

#[test]
fn files_have_content_types_and_etags() {
    for (path, kind) in [
        ("index.html", "text/html; charset=utf-8"),
        ("app.js", "text/javascript; charset=utf-8"),
        ("style/base.css", "text/css; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
    ] {
        let response = file(path, &HeaderMap::new());
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        assert_eq!(header(&response, CONTENT_TYPE), kind, "{path}");
        let mut again = HeaderMap::new();
        again.insert(IF_NONE_MATCH, response.headers()[ETAG].clone());
        assert_eq!(file(path, &again).status(), StatusCode::NOT_MODIFIED, "{path}");
        again.insert(IF_NONE_MATCH, HeaderValue::from_static("\"other\""));
        assert_eq!(file(path, &again).status(), StatusCode::OK, "{path}");
    }
}

#[test]
fn unknown_paths_are_not_found() {
    for path in ["", "x.js", "../Cargo.toml", "/etc/passwd", "static/app.js"] {
        assert_eq!(file(path, &HeaderMap::new()).status(), StatusCode::NOT_FOUND, "{path}");
    }
}

/// The number of bytes after gzip compression.
fn gzipped(bytes: &[u8]) -> usize {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap().len()
}

#[test]
fn page_is_small_and_loads_nothing_from_other_servers() {
    let mut packed = 0;
    for path in Files::iter() {
        let found = Files::get(&path).unwrap();
        packed += gzipped(&found.data);
        // Licences contain URLs.
        if path.ends_with(".LICENSE") {
            continue;
        }
        let text = String::from_utf8(found.data.into_owned()).unwrap();
        for (number, line) in text.lines().enumerate() {
            // An XML namespace in an SVG is a name, not a URL that is loaded.
            let foreign = line.replace("http://www.w3.org/", "").contains("://");
            assert!(!foreign, "{path}:{} names another server: {line}", number + 1);
        }
    }
    // The total of all files, including licences and the API documentation: an upper bound of a page load.
    assert!(packed < 200_000, "the page takes {packed} bytes, gzipped");
}

#[test]
fn pages_have_no_inline_scripts_or_styles() {
    for page in ["index.html", "docs.html"] {
        let found = Files::get(page).unwrap();
        let text = String::from_utf8(found.data.into_owned()).unwrap();
        assert!(
            !text.contains(" style=") && !text.contains("<style"),
            "{page}: the policy forbids inline styles"
        );
        assert!(!text.contains("onclick"), "{page}: the policy forbids inline handlers");
        for script in text.split("<script").skip(1) {
            let script = script.split('>').next().unwrap();
            assert!(script.contains("src="), "{page}: the policy forbids inline scripts");
        }
    }
}

/// User input must never be inserted as HTML.
#[test]
fn scripts_never_insert_html() {
    // Preact contains code that sets `innerHTML`; the page's own scripts must not use it.
    for path in Files::iter().filter(|path| path.ends_with(".js") && !path.starts_with("vendor/")) {
        let found = Files::get(&path).unwrap();
        let text = String::from_utf8(found.data.into_owned()).unwrap();
        for word in ["innerHTML", "InnerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            assert!(!text.contains(word), "{path} has {word}");
        }
    }
}
