//! Reads the file of `--authorization-config`.
//!
//! Upstream: apiserver `pkg/apis/apiserver/validation/validation.go` (ValidateAuthorizationConfiguration).

use std::path::{Path, PathBuf};
use std::time::Duration;

use orlop_apimachinery::input_file::{self, MAX_CONFIG};
use orlop_apimachinery::{duration, names};
use orlop_auth::access_review::ReviewVersion;
use orlop_codec::decode::read_yaml;
use serde::Deserialize;

use super::options::{AuthorizerOptions, WebhookOptions, WebhookSettings};

/// The longest time limit of a call.
const MAX_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of match conditions of a webhook.
const MAX_CONDITIONS: usize = 64;
/// Maximum number of authorizers, because each request may need the decision of each.
const MAX_AUTHORIZERS: usize = 32;

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AuthorizationFileError {
    /// It cannot be read.
    #[error("--authorization-config {}: the file cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        error: std::io::Error,
    },
    /// It is no valid configuration.
    #[error("--authorization-config {}: {problem}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The problem, and the field that has it.
        problem: String,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    api_version: String,
    kind: String,
    #[serde(default)]
    authorizers: Vec<Authorizer>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Authorizer {
    #[serde(rename = "type")]
    type_: String,
    #[serde(default)]
    name: String,
    webhook: Option<Webhook>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Webhook {
    #[serde(rename = "authorizedTTL")]
    authorized_ttl: Option<String>,
    cache_authorized_requests: Option<bool>,
    #[serde(rename = "unauthorizedTTL")]
    unauthorized_ttl: Option<String>,
    cache_unauthorized_requests: Option<bool>,
    #[serde(default)]
    timeout: String,
    #[serde(default)]
    subject_access_review_version: String,
    #[serde(default)]
    match_condition_subject_access_review_version: String,
    #[serde(default)]
    failure_policy: String,
    connection_info: ConnectionInfo,
    #[serde(default)]
    match_conditions: Vec<MatchCondition>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConnectionInfo {
    #[serde(rename = "type")]
    type_: String,
    kube_config_file: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MatchCondition {
    expression: String,
}

/// Reads and validates a file.
///
/// # Errors
/// See [`AuthorizationFileError`].
pub fn load(path: &Path) -> Result<Vec<AuthorizerOptions>, AuthorizationFileError> {
    let text = input_file::read(path, MAX_CONFIG)
        .map_err(|error| AuthorizationFileError::Read { path: path.to_owned(), error })?;
    parse(&text).map_err(|problem| AuthorizationFileError::Invalid { path: path.to_owned(), problem })
}

fn parse(text: &[u8]) -> Result<Vec<AuthorizerOptions>, String> {
    let (document, duplicates) = read_yaml(text)?;
    if !duplicates.is_empty() {
        return Err(duplicates.join("; "));
    }
    // The errors below may quote a value, which would be a secret in a file of another kind.
    if !document.is_object() {
        return Err("it is not a map with apiVersion, kind and authorizers".to_owned());
    }
    let file = File::deserialize(document).map_err(|error| error.to_string())?;
    if file.kind != "AuthorizationConfiguration" {
        return Err(format!("kind must be AuthorizationConfiguration, not {:?}", file.kind));
    }
    let versions = ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1"];
    if !versions.contains(&file.api_version.as_str()) {
        return Err(format!("apiVersion must be apiserver.config.k8s.io/v1, not {:?}", file.api_version));
    }
    match file.authorizers.len() {
        0 => return Err("authorizers: at least one authorization mode must be defined".to_owned()),
        count if count > MAX_AUTHORIZERS => {
            return Err(format!("authorizers: at most {MAX_AUTHORIZERS} are supported"));
        }
        _ => {}
    }
    let (mut options, mut known) = (Vec::new(), Vec::new());
    for (at, one) in file.authorizers.into_iter().enumerate() {
        let Authorizer { type_, name, webhook } = one;
        let is_twice = type_ != "Webhook" && known.iter().any(|(known, _)| *known == type_);
        if is_twice {
            return Err(format!("authorizers[{at}].type: {type_} occurs twice"));
        }
        if name.is_empty() || !names::dns_subdomain(&name).is_empty() {
            return Err(format!("authorizers[{at}].name: {name:?} must be a DNS subdomain"));
        }
        if known.iter().any(|(_, known)| *known == name) {
            return Err(format!("authorizers[{at}].name: {name:?} occurs twice"));
        }
        let option = match (type_.as_str(), webhook) {
            ("Webhook", Some(webhook)) => {
                let options = options_of(webhook);
                AuthorizerOptions::Webhook(options.map_err(|why| format!("authorizers[{at}].webhook.{why}"))?)
            }
            ("Webhook", None) => return Err(format!("authorizers[{at}].webhook: required for this type")),
            (_, Some(_)) => {
                return Err(format!("authorizers[{at}].webhook: only the type Webhook can have this field"));
            }
            ("AlwaysAllow", None) => AuthorizerOptions::AlwaysAllow,
            ("AlwaysDeny", None) => AuthorizerOptions::AlwaysDeny,
            ("Node", None) => AuthorizerOptions::Node,
            ("RBAC", None) => AuthorizerOptions::Rbac,
            _ => {
                return Err(format!(
                    "authorizers[{at}].type: {type_:?} must be AlwaysAllow, AlwaysDeny, Node, RBAC or Webhook"
                ));
            }
        };
        options.push(option);
        known.push((type_, name));
    }
    Ok(options)
}

fn options_of(webhook: Webhook) -> Result<WebhookOptions, String> {
    let defaults = WebhookSettings::default();
    let time = |field: &str, text: &Option<String>, default: Duration| match text {
        None => Ok(default),
        Some(text) => match duration::parse(text) {
            Ok(time) if !time.is_zero() => Ok(time),
            Ok(_) | Err(_) => Err(format!("{field}: {text:?} must be a duration greater than zero")),
        },
    };
    let cached =
        |wanted: Option<bool>, ttl: Duration| if wanted == Some(false) { Duration::ZERO } else { ttl };
    let authorized_ttl = time("authorizedTTL", &webhook.authorized_ttl, defaults.authorized_ttl)?;
    let unauthorized_ttl = time("unauthorizedTTL", &webhook.unauthorized_ttl, defaults.unauthorized_ttl)?;
    let timeout = time("timeout", &Some(webhook.timeout), defaults.timeout)?;
    if timeout > MAX_TIMEOUT {
        return Err("timeout: must be at most 30s".to_owned());
    }
    let version = match webhook.subject_access_review_version.as_str() {
        "v1" => ReviewVersion::V1,
        "v1beta1" => ReviewVersion::V1Beta1,
        other => return Err(format!("subjectAccessReviewVersion: {other:?} must be v1 or v1beta1")),
    };
    let denies_on_failure = match webhook.failure_policy.as_str() {
        "NoOpinion" => false,
        "Deny" => true,
        other => return Err(format!("failurePolicy: {other:?} must be NoOpinion or Deny")),
    };
    let conditions = webhook.match_conditions;
    if !conditions.is_empty() && webhook.match_condition_subject_access_review_version != "v1" {
        return Err(
            "matchConditionSubjectAccessReviewVersion: must be v1 if there are matchConditions".to_owned()
        );
    }
    if conditions.len() > MAX_CONDITIONS {
        return Err(format!("matchConditions: at most {MAX_CONDITIONS} are supported"));
    }
    let match_conditions: Vec<String> = conditions.into_iter().map(|one| one.expression).collect();
    for (at, expression) in match_conditions.iter().enumerate() {
        super::webhook::check_condition(expression)
            .map_err(|why| format!("matchConditions[{at}].expression: {why}"))?;
    }
    let connection = webhook.connection_info;
    let kubeconfig = match (connection.type_.as_str(), connection.kube_config_file) {
        ("KubeConfigFile", Some(path)) if path.is_absolute() => path,
        ("KubeConfigFile", _) => {
            return Err("connectionInfo.kubeConfigFile: must be an absolute path".to_owned());
        }
        (other, _) => return Err(format!("connectionInfo.type: {other:?} must be KubeConfigFile")),
    };
    let settings = WebhookSettings {
        version,
        timeout,
        authorized_ttl: cached(webhook.cache_authorized_requests, authorized_ttl),
        unauthorized_ttl: cached(webhook.cache_unauthorized_requests, unauthorized_ttl),
        denies_on_failure,
        match_conditions,
    };
    Ok(WebhookOptions { kubeconfig, settings })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n";
    const WEBHOOK: &str = "
- type: Webhook
  name: hook
  webhook:
    timeout: 3s
    unauthorizedTTL: 1m
    cacheAuthorizedRequests: false
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: Deny
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: /hook.conf}
    matchConditions:
    - expression: request.user != 'ann'
";

    fn parsed(authorizers: &str) -> Result<Vec<AuthorizerOptions>, String> {
        parse(format!("{HEAD}authorizers: {authorizers}").as_bytes())
    }

    #[test]
    fn authorizers_are_read_in_order() {
        let options =
            parsed(&format!("{WEBHOOK}- {{type: Node, name: node}}\n- {{type: RBAC, name: rbac}}\n"));
        let settings = WebhookSettings {
            version: ReviewVersion::V1,
            timeout: Duration::from_secs(3),
            authorized_ttl: Duration::ZERO,
            unauthorized_ttl: Duration::from_secs(60),
            denies_on_failure: true,
            match_conditions: vec!["request.user != 'ann'".to_owned()],
        };
        let webhook = WebhookOptions { kubeconfig: "/hook.conf".into(), settings };
        let want = [AuthorizerOptions::Webhook(webhook), AuthorizerOptions::Node, AuthorizerOptions::Rbac];
        assert_eq!(options, Ok(want.to_vec()));
    }

    #[test]
    fn problems_name_the_field() {
        let changed = |from: &str, to: &str| WEBHOOK.replace(from, to);
        for (authorizers, want) in [
            ("[]".to_owned(), "at least one authorization mode"),
            ("[{type: RBAC}]".to_owned(), "authorizers[0].name: \"\" must be"),
            ("[{type: Abac, name: a}]".to_owned(), "authorizers[0].type: \"Abac\" must be"),
            (
                "[{type: RBAC, name: a}, {type: RBAC, name: b}]".to_owned(),
                "authorizers[1].type: RBAC occurs twice",
            ),
            (
                "[{type: RBAC, name: a}, {type: Node, name: a}]".to_owned(),
                "authorizers[1].name: \"a\" occurs twice",
            ),
            ("[{type: Webhook, name: a}]".to_owned(), "authorizers[0].webhook: required"),
            ("[{type: Node, name: a, more: b}]".to_owned(), "unknown field `more`"),
            (changed("timeout: 3s", "timeout: 31s"), "authorizers[0].webhook.timeout: must be at most 30s"),
            (changed("timeout: 3s", "timeout: 0s"), "webhook.timeout: \"0s\" must be"),
            (changed("    timeout: 3s\n", ""), "webhook.timeout: \"\" must be"),
            (changed("failurePolicy: Deny", "failurePolicy: Maybe"), "webhook.failurePolicy: \"Maybe\""),
            (
                changed("subjectAccessReviewVersion: v1", "subjectAccessReviewVersion: v2"),
                "webhook.subjectAccessReviewVersion",
            ),
            (
                changed(
                    "matchConditionSubjectAccessReviewVersion: v1",
                    "matchConditionSubjectAccessReviewVersion: ''",
                ),
                "must be v1 if",
            ),
            (
                changed("request.user != 'ann'", "request.nope"),
                "webhook.matchConditions[0].expression: compilation failed",
            ),
            (changed("/hook.conf", "hook.conf"), "must be an absolute path"),
            (changed("type: KubeConfigFile", "type: InClusterConfig"), "must be KubeConfigFile"),
        ] {
            match parsed(&authorizers) {
                Ok(_) => assert_eq!(want, "", "{authorizers}"),
                Err(error) => assert!(!want.is_empty() && error.contains(want), "{authorizers}: {error}"),
            }
        }
        for secret in [
            "hunter2",
            "hunter2,ann,1\n",
            "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n",
        ] {
            let error = parse(secret.as_bytes()).expect_err("no map");
            assert!(!error.contains("hunter2"), "{error}");
        }
        let error = parse(b"apiVersion: v1\nkind: AuthorizationConfiguration\n").expect_err("the version");
        assert!(error.contains("apiserver.config.k8s.io/v1"), "{error}");
        assert!(
            load(Path::new("/nowhere/file")).expect_err("no file").to_string().contains("cannot be read")
        );
    }
}
