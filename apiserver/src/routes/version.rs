//! `/version`: which Kubernetes this server is like.

use axum::response::Response;
use http::HeaderMap;
use serde_json::json;

use crate::encode::answer;
use crate::encode::negotiate::Wanted;

const MAJOR: &str = "1";
const MINOR: &str = "36";
/// The Kubernetes release that the behaviour is held against.
const LIKE: &str = "v1.36.2";

pub(super) async fn version(_headers: HeaderMap) -> Response {
    let wanted = Wanted { pretty: true, ..Wanted::JSON };
    let version = json!({
        "major": MAJOR,
        "minor": MINOR,
        "emulationMajor": MAJOR,
        "emulationMinor": MINOR,
        "minCompatibilityMajor": MAJOR,
        "minCompatibilityMinor": "35",
        "gitVersion": format!("{LIKE}+orlop-{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, goarch()),
    });
    answer::json_bytes(200, wanted, version.to_string().into_bytes())
}

/// The architecture by the name that clients know.
fn goarch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
