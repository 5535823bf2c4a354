//! POST of a review: validates and answers it without storing anything.
//!
//! Upstream: pkg/registry/authentication and pkg/registry/authorization.

use std::collections::BTreeMap;

use axum::response::Response;
use serde_json::{Map, Value, json};

use crate::admission::Operation;
use crate::encode::answer::{self, Written};
use crate::encode::negotiate::Endpoint;
use crate::registry::Review;
use crate::verbs::options::WriteOptions;
use crate::verbs::request::Request;
use crate::verbs::review_attributes::attributes;
use crate::verbs::token::{audiences_of, check_audiences};
use crate::verbs::write;
use orlop_api::object::{Object, show_time};
use orlop_api::status::ApiError;
use orlop_api::validate::FieldErrors;
use orlop_auth::UserInfo;
use orlop_auth::authorize::{Action, decide};
use orlop_auth::rbac::{GrantedRules, Rule};
use orlop_codec::decode::decode_named;

/// Maximum number of items in the rules that a review lists.
const MAX_ITEMS: usize = 50_000;

/// Answers a review.
pub(crate) async fn review(request: &Request, review: Review) -> Result<Response, ApiError> {
    let wanted = request.wanted(Endpoint::Single)?;
    let options = WriteOptions::parse("CreateOptions", &request.query)?;
    let decoded = decode_named(request.names(), request.media()?, &request.body, options.validation)?;
    let mut question = decoded.object;
    write::settle_namespace(request, &mut question)?;
    write::track(request, &request.manager(&options), None, &mut question);
    let mut warnings = decoded.warnings;
    write::admit(request, Operation::Create, &mut question, None, &mut warnings).await?;
    let mut errors = FieldErrors::new();
    request.kind().validate(&question, &mut errors);
    if review == Review::Token {
        check_audiences(&question, &mut errors);
    }
    if !errors.is_empty() {
        // Upstream's error contains no kind.
        return Err(ApiError::invalid("", request.names().group, "", &errors));
    }
    write::admit_validated(request, Operation::Create, &mut question, None, &mut warnings).await?;
    let answer = match review {
        Review::Token => user_of_token(request, question).await?,
        Review::SelfSubject => who_asks(request),
        Review::SelfSubjectRules => what_may(request, &question)?,
        Review::SubjectAccess | Review::LocalSubjectAccess => {
            let user = subject(&question);
            decided(request, &user, question).await
        }
        Review::SelfSubjectAccess => decided(request, &request.user, question).await,
    };
    let (kind, now) = (request.kind_ref(), request.now());
    answer::written(kind, 201, &Written::Object(answer), wanted, &warnings, &request.query, now)
}

fn action(question: &Object) -> Action<'_> {
    match question.at(&["spec", "nonResourceAttributes"]) {
        Some(Value::Object(_)) => Action::Path(question.str_at(&["spec", "nonResourceAttributes", "path"])),
        Some(_) | None => Action::Resource,
    }
}

/// The user that a review asks about.
fn subject(question: &Object) -> UserInfo {
    let groups = question.at(&["spec", "groups"]).and_then(Value::as_array).into_iter().flatten();
    UserInfo {
        username: question.str_at(&["spec", "user"]).to_owned(),
        uid: question.str_at(&["spec", "uid"]).to_owned(),
        groups: groups.filter_map(Value::as_str).map(str::to_owned).collect(),
        extra: extra(question),
    }
}

/// The extra fields of the user that a review asks about.
fn extra(question: &Object) -> BTreeMap<String, Vec<String>> {
    let fields = question.at(&["spec", "extra"]).and_then(Value::as_object).into_iter().flatten();
    let texts = |values: &Value| -> Vec<String> {
        let values = values.as_array().into_iter().flatten();
        values.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    fields.map(|(name, values)| (name.clone(), texts(values))).collect()
}

async fn decided(request: &Request, user: &UserInfo, mut question: Object) -> Object {
    let authorizer = &request.server.authorizer;
    let status = if authorizer.uses_rules() {
        let (asked, ignored) = attributes(&question);
        let decision = authorizer.decide(user, &asked).await;
        let mut status = json!({"allowed": decision.allowed});
        if decision.denied {
            status["denied"] = true.into();
        }
        let errors = Some(decision.error).filter(|error| !error.is_empty());
        let errors: Vec<String> = errors.into_iter().chain(ignored.into_iter().map(str::to_owned)).collect();
        for (name, text) in [("reason", decision.reason), ("evaluationError", errors.join("; "))] {
            if !text.is_empty() {
                status[name] = text.into();
            }
        }
        status
    } else {
        let groups = user.groups.iter().map(String::as_str);
        let decision = decide(&user.username, groups, action(&question));
        json!({"allowed": decision.allowed, "reason": decision.reason})
    };
    question.set(&["status"], status);
    question
}

fn what_may(request: &Request, question: &Object) -> Result<Object, ApiError> {
    if question.str_at(&["spec", "namespace"]).is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    if request.server.authorizer.uses_rules() {
        return Ok(granted_rules(request, question.str_at(&["spec", "namespace"])));
    }
    let groups = request.user.groups.iter().map(String::as_str);
    let decision = decide(&request.user.username, groups, Action::Resource);
    let (resources, paths) = if decision.allowed {
        let resources = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
        (resources, json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]))
    } else {
        (json!([]), json!([{"verbs": ["get"], "nonResourceURLs": orlop_auth::PUBLIC_PATHS}]))
    };
    Ok(Object::from_value(json!({
        "metadata": {}, "spec": {},
        "status": {"resourceRules": resources, "nonResourceRules": paths, "incomplete": false},
    })))
}

/// The rules that roles grant to the user in a namespace.
fn granted_rules(request: &Request, namespace: &str) -> Object {
    let authorizer = &request.server.authorizer;
    let granted =
        authorizer.uses_roles().then(|| authorizer.rbac.now().rules(&request.user, namespace, MAX_ITEMS));
    let GrantedRules { rules, missing, is_cut } = granted.unwrap_or_default();
    let is_node = authorizer.is_restricted_node(&request.user);
    let shown = |of: fn(&Rule) -> bool| -> Vec<Value> {
        rules.iter().filter(|rule| of(rule)).map(Rule::shown).collect()
    };
    let mut status = json!({
        "resourceRules": shown(|rule| !rule.resources.is_empty()),
        "nonResourceRules": shown(|rule| !rule.non_resource_urls.is_empty()),
        "incomplete": is_node || is_cut || !missing.is_empty() || authorizer.asks_webhooks(),
    });
    let node = is_node.then(|| "node authorizer does not support user rule resolution".to_owned());
    let cut = is_cut.then(|| "the user has more rules than a review lists".to_owned());
    let webhook = authorizer
        .asks_webhooks()
        .then(|| "webhook authorizer does not support user rule resolution".to_owned());
    let errors: Vec<String> = node.into_iter().chain(missing).chain(webhook).chain(cut).collect();
    if !errors.is_empty() {
        status["evaluationError"] = errors.join(", ").into();
    }
    Object::from_value(json!({"metadata": {}, "spec": {}, "status": status}))
}

fn who_asks(request: &Request) -> Object {
    Object::from_value(json!({
        "metadata": {"creationTimestamp": show_time(request.now())},
        "status": {"userInfo": user_info(&request.user)},
    }))
}

/// A user in the form of reviews, without empty fields.
fn user_info(user: &UserInfo) -> Value {
    let mut shown = Map::new();
    for (name, text) in [("username", &user.username), ("uid", &user.uid)] {
        if !text.is_empty() {
            shown.insert(name.to_owned(), text.as_str().into());
        }
    }
    if !user.groups.is_empty() {
        shown.insert("groups".to_owned(), json!(user.groups));
    }
    if !user.extra.is_empty() {
        shown.insert("extra".to_owned(), json!(user.extra));
    }
    Value::Object(shown)
}

async fn user_of_token(request: &Request, mut question: Object) -> Result<Object, ApiError> {
    let token = question.str_at(&["spec", "token"]);
    if token.is_empty() {
        return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
    }
    let audiences = audiences_of(&question);
    let of_server = request.server.kubelet_tokens.user_of(token, &audiences, request.now());
    let found = match of_server {
        Some(found) => found,
        None => {
            let found = request.server.authenticators.review(token, &audiences).await;
            found.map(|found| (found.user, found.audiences))
        }
    };
    let status = match found {
        Ok((user, audiences)) => {
            json!({"authenticated": true, "user": user_info(&user), "audiences": audiences})
        }
        Err(why) => json!({"user": {}, "error": why}),
    };
    question.set(&["status"], status);
    Ok(question)
}
