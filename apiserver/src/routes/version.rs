//! Version endpoint `/version`: the Kubernetes release that this server corresponds to.

use axum::response::Response;
use http::{HeaderMap, header};
use orlop_api::status::ApiError;
use serde_json::json;

use crate::encode::answer;
use crate::encode::negotiate::{RequestedEncoding, error_media};

const MAJOR: &str = "1";
const MINOR: &str = "36";
/// The Kubernetes release that the behavior is compared with.
const LIKE: &str = "v1.36.2";
/// Builds are reproducible, so they have no date.
const BUILD_DATE: &str = "1970-01-01T00:00:00Z";
const COMPILER: &str = "rustc";

/// Labels of the build metric: major, minor, gitVersion, gitCommit, gitTreeState, buildDate, goVersion, compiler
/// and platform, in this order.
pub(crate) fn build_labels() -> [String; 9] {
    [
        MAJOR.to_owned(),
        MINOR.to_owned(),
        git_version(),
        String::new(),
        "clean".to_owned(),
        BUILD_DATE.to_owned(),
        String::new(),
        COMPILER.to_owned(),
        platform(),
    ]
}

/// The Kubernetes release and the orlop release.
pub(crate) fn git_version() -> String {
    format!("{LIKE}+orlop-{}", env!("CARGO_PKG_VERSION"))
}

fn platform() -> String {
    format!("{}/{}", std::env::consts::OS, goarch())
}

/// Upstream's router serves this path as JSON only.
fn accepts_json(accept: &str) -> bool {
    let bases = accept.split(',').map(|clause| clause.split(';').next().unwrap_or_default().trim());
    accept.is_empty() || bases.into_iter().any(|base| matches!(base, "*/*" | "application/json"))
}

pub(super) async fn version(headers: HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !accepts_json(accept) {
        let why = "406: Not Acceptable\n\nAvailable representations: application/json";
        let error = ApiError::not_acceptable(why).with_empty_details();
        return answer::error(&error, error_media(Some(accept)), false);
    }
    let wanted = RequestedEncoding { pretty: true, ..RequestedEncoding::JSON };
    let version = json!({
        "major": MAJOR,
        "minor": MINOR,
        "emulationMajor": MAJOR,
        "emulationMinor": MINOR,
        "minCompatibilityMajor": MAJOR,
        "minCompatibilityMinor": "35",
        "gitVersion": git_version(),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": BUILD_DATE,
        "goVersion": "",
        "compiler": COMPILER,
        "platform": platform(),
    });
    answer::json_bytes(200, wanted, version.to_string().into_bytes())
}

/// The architecture by its Go name, as clients expect it.
fn goarch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
