//! The documents of a token review.

use std::collections::BTreeMap;

use bytes::Bytes;
use orlop_auth::UserInfo;
use serde_json::{Value, json};

use super::settings::ReviewVersion;

/// Maximum length of a text of the webhook in an error, characters.
const MAX_TEXT: usize = 256;

fn api_version(version: ReviewVersion) -> &'static str {
    match version {
        ReviewVersion::V1 => "authentication.k8s.io/v1",
        ReviewVersion::V1beta1 => "authentication.k8s.io/v1beta1",
    }
}

/// The review of a token.
pub(super) fn request(version: ReviewVersion, token: &str, audiences: &[String]) -> Bytes {
    let document = json!({
        "kind": "TokenReview", "apiVersion": api_version(version), "metadata": {},
        "spec": {"token": token, "audiences": audiences}, "status": {"user": {}},
    });
    document.to_string().into()
}

/// The user and the audiences that both sides name; `None` for an unknown token. A webhook that names no audience does not know
/// them: its tokens are for this server.
pub(super) fn result(
    answer: &[u8],
    version: ReviewVersion,
    wanted: &[String],
    own: &[String],
) -> Result<Option<(UserInfo, Vec<String>)>, String> {
    let answer: Value =
        serde_json::from_slice(answer).map_err(|_| "the answer of the webhook is not JSON".to_owned())?;
    if answer["kind"] != "TokenReview" || answer["apiVersion"] != api_version(version) {
        return Err(format!("the answer of the webhook is not a TokenReview of {}", api_version(version)));
    }
    let status = &answer["status"];
    let given = texts(&status["audiences"])?;
    let given = if given.is_empty() { own } else { &given };
    let audiences: Vec<String> = wanted.iter().filter(|one| given.contains(one)).cloned().collect();
    if audiences.is_empty() {
        return Ok(None);
    }
    if status["authenticated"] != true {
        let error: String = status["error"].as_str().unwrap_or_default().chars().take(MAX_TEXT).collect();
        return if error.is_empty() { Ok(None) } else { Err(error) };
    }
    let user = &status["user"];
    let text = |name: &str| user[name].as_str().unwrap_or_default().to_owned();
    let username = text("username");
    // Upstream accepts an empty name. No rule could name such a user.
    if username.is_empty() {
        return Err("the webhook names no user".to_owned());
    }
    let mut extra = BTreeMap::new();
    for (key, values) in user["extra"].as_object().into_iter().flatten() {
        extra.insert(key.clone(), texts(values)?);
    }
    let user = UserInfo::from_remote(username, text("uid"), texts(&user["groups"])?, extra);
    Ok(Some((user, audiences)))
}

fn texts(value: &Value) -> Result<Vec<String>, String> {
    let wrong = || "the answer of the webhook has a list with items that are not strings".to_owned();
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) => {
            items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn request_has_the_token_and_its_audiences() {
        let document: Value =
            serde_json::from_slice(&request(ReviewVersion::V1, "t", &["a".to_owned()])).unwrap();
        assert_eq!(document["apiVersion"], "authentication.k8s.io/v1");
        assert_eq!(document["spec"], json!({"token": "t", "audiences": ["a"]}));
    }

    #[test]
    fn answer_determines_user_and_audiences() {
        let ann = json!({"username": "ann", "uid": "1", "groups": ["g"], "extra": {"k": ["v"]}});
        let known = |status: Value| {
            let mut status = status;
            status["user"] = ann.clone();
            status["authenticated"] = true.into();
            status
        };
        let wanted = ["a".to_owned(), "b".to_owned()];
        let own = ["a".to_owned()];
        // The audiences; `Ok("")` for an unknown token.
        for (case, status, want) in [
            ("1 for this server", known(json!({})), Ok("a")),
            ("2 audiences", known(json!({"audiences": ["c", "b", "a"]})), Ok("a,b")),
            ("3 other audiences", known(json!({"audiences": ["c"]})), Ok("")),
            ("4 unknown", json!({"authenticated": false}), Ok("")),
            ("5 nothing", json!({}), Ok("")),
            ("6 refused", json!({"error": "no"}), Err("no")),
            ("7 a text", json!({"authenticated": "true", "user": ann}), Ok("")),
            ("8 no name", json!({"authenticated": true, "user": {}}), Err("names no user")),
            ("9 wrong audiences", known(json!({"audiences": "a"})), Err("not strings")),
            (
                "10 wrong groups",
                json!({"authenticated": true, "user": {"username": "a", "groups": [1]}}),
                Err("not strings"),
            ),
        ] {
            let answer =
                json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "status": status});
            let found = result(answer.to_string().as_bytes(), ReviewVersion::V1, &wanted, &own);
            match (found, want) {
                (Ok(found), Ok(want)) => {
                    if let Some((user, _)) = &found {
                        assert_eq!(user.groups, ["g", "system:authenticated"], "{case}");
                        assert_eq!(user.extra["k"], ["v"], "{case}");
                    }
                    assert_eq!(found.map(|(_, all)| all.join(",")).unwrap_or_default(), want, "{case}");
                }
                (Err(error), Err(part)) => assert!(error.contains(part), "{case}: {error}"),
                (found, _) => panic!("{case}: {found:?}"),
            }
        }
        for answer in
            ["", "[]", "{}", r#"{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1beta1"}"#]
        {
            assert!(result(answer.as_bytes(), ReviewVersion::V1, &wanted, &own).is_err(), "{answer}");
        }
    }
}
