//! POST of a review: validates and answers it without storing anything.
//!
//! Upstream: pkg/registry/authentication and pkg/registry/authorization.

use axum::response::Response;
use serde_json::{Map, Value, json};

use crate::encode::answer::{self, Written};
use crate::encode::negotiate::Endpoint;
use crate::registry::Review;
use crate::verbs::options::WriteOptions;
use crate::verbs::request::Request;
use crate::verbs::token::{audiences_of, check_audiences};
use crate::verbs::write;
use orlop_api::object::{Object, show_time};
use orlop_api::status::ApiError;
use orlop_api::validate::FieldErrors;
use orlop_auth::UserInfo;
use orlop_auth::authorize::{Action, Decision, decide};
use orlop_codec::decode::decode_named;

/// Answers a review.
pub(crate) fn review(request: &Request, review: Review) -> Result<Response, ApiError> {
    let wanted = request.wanted(Endpoint::Single)?;
    let options = WriteOptions::parse("CreateOptions", &request.query)?;
    let decoded = decode_named(request.names(), request.media()?, &request.body, options.validation)?;
    let mut question = decoded.object;
    write::settle_namespace(request, &mut question)?;
    write::track(request, &request.manager(&options), None, &mut question);
    let mut errors = FieldErrors::new();
    request.kind().validate(&question, &mut errors);
    if review == Review::Token {
        check_audiences(&question, &mut errors);
    }
    if !errors.is_empty() {
        // Upstream's error contains no kind.
        return Err(ApiError::invalid("", request.names().group, "", &errors));
    }
    let answer = match review {
        Review::Token => user_of_token(request, question)?,
        Review::SelfSubject => who_asks(request),
        Review::SelfSubjectRules => what_may(request, &question)?,
        Review::SubjectAccess | Review::LocalSubjectAccess => {
            let groups =
                question.at(&["spec", "groups"]).and_then(Value::as_array).cloned().unwrap_or_default();
            let groups = groups.iter().filter_map(Value::as_str);
            let decision = decide(question.str_at(&["spec", "user"]), groups, action(&question));
            decided(question, decision)
        }
        Review::SelfSubjectAccess => {
            let groups = request.user.groups.iter().map(String::as_str);
            let decision = decide(&request.user.username, groups, action(&question));
            decided(question, decision)
        }
    };
    let (kind, now) = (request.kind_ref(), request.now());
    answer::written(kind, 201, &Written::Object(answer), wanted, &decoded.warnings, &request.query, now)
}

fn action(question: &Object) -> Action<'_> {
    match question.at(&["spec", "nonResourceAttributes"]) {
        Some(Value::Object(_)) => Action::Path(question.str_at(&["spec", "nonResourceAttributes", "path"])),
        Some(_) | None => Action::Resource,
    }
}

fn decided(mut question: Object, decision: Decision) -> Object {
    question.set(&["status"], json!({"allowed": decision.allowed, "reason": decision.reason}));
    question
}

fn what_may(request: &Request, question: &Object) -> Result<Object, ApiError> {
    if question.str_at(&["spec", "namespace"]).is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
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

fn user_of_token(request: &Request, mut question: Object) -> Result<Object, ApiError> {
    let token = question.str_at(&["spec", "token"]);
    if token.is_empty() {
        return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
    }
    let audiences = audiences_of(&question);
    let of_server = request.server.kubelet_tokens.user_of(token, &audiences, request.now());
    let found = of_server.unwrap_or_else(|| request.server.config.auth.user_of_token(token, &audiences));
    let status = match found {
        Ok((user, audiences)) => {
            json!({"authenticated": true, "user": user_info(&user), "audiences": audiences})
        }
        Err(why) => json!({"user": {}, "error": why}),
    };
    question.set(&["status"], status);
    Ok(question)
}
