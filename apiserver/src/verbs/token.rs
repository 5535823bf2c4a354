//! `serviceaccounts/NAME/token`: issues a token for a service account (upstream:
//! pkg/registry/core/serviceaccount/storage/token.go).

use axum::response::Response;
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::admission::matching::{AdmissionOperation, GroupVersionKind};
use crate::encode::head::ObjectHead;
use crate::encode::negotiate::Endpoint;
use crate::encode::{answer, stored};
use crate::registry::Names;
use crate::service_account::find;
use crate::verbs::options::WriteOptions;
use crate::verbs::request::Request;
use crate::verbs::write;
use orlop_api::object::{Object, show_time};
use orlop_api::status::{ApiError, Details};
use orlop_api::validate::{FieldErrors, Path};
use orlop_auth::service_account::claims::{ObjectRef, Subject};
use orlop_codec::decode::decode_named;

const NAMES: Names = Names {
    group: "authentication.k8s.io",
    version: "v1",
    kind: "TokenRequest",
    plural: "tokenrequests",
    singular: "tokenrequest",
    short: &[],
    categories: &[],
    schema: "io.k8s.api.authentication.v1.TokenRequest",
};

/// Upstream's annotation of a request that issues a token.
const ISSUED_CREDENTIAL_ID: &str = "authentication.kubernetes.io/issued-credential-id";
/// Default lifetime of a token, in seconds.
const SECONDS: i64 = 3600;
const LEAST_SECONDS: i64 = 600;
const MOST_SECONDS: i64 = 1 << 32;
/// Maximum number of audiences of a token or a review. Upstream has no limit, but each is compared with all others.
const MAX_AUDIENCES: usize = 100;

/// Issues a token.
pub(crate) async fn request_token(request: &Request) -> Result<Response, ApiError> {
    let wanted = request.wanted(Endpoint::Single)?;
    let options = WriteOptions::parse("CreateOptions", &request.query)?;
    let decoded = decode_named(&NAMES, request.media()?, &request.body, options.validation)?;
    let mut asked = decoded.object;
    if matches!(asked.at(&["spec", "expirationSeconds"]), None | Some(Value::Null | Value::Number(_)))
        && seconds_of(&asked) == 0
    {
        asked.set(&["spec", "expirationSeconds"], SECONDS);
    }
    write::admit_body(request, &mut asked)?;
    check(&asked)?;
    let mut warnings = decoded.warnings;
    let (operation, kind) = (AdmissionOperation::Create, GroupVersionKind::of(&NAMES));
    write::admit_subresource(request, operation, kind, &asked, options.dry_run, &mut warnings).await?;
    let head = request.head();
    let account = stored::decode(request.record(&head)?.as_ref())?;
    let place = |what: &str| ["metadata", what].map(str::to_owned);
    for (what, own) in [("name", account.name()), ("namespace", account.namespace())] {
        let [metadata, name] = place(what);
        let given = asked.str_at(&[metadata.as_str(), name.as_str()]);
        if !given.is_empty() && given != own {
            return Err(ApiError::bad_request(format!(
                "the {what} of the provided object does not match the {what} sent on the request"
            )));
        }
    }
    let mut subject = Subject {
        namespace: account.namespace().to_owned(),
        node: None,
        pod: None,
        secret: None,
        serviceaccount: ObjectRef { name: account.name().to_owned(), uid: account.uid().to_owned() },
        warnafter: None,
    };
    bind(&asked, &account, &mut subject, |plural, namespace, name| find(&head, plural, namespace, name))?;
    let accounts = &request.server.accounts;
    let mut audiences = audiences_of(&asked);
    if audiences.is_empty() {
        audiences.extend_from_slice(accounts.audiences());
    }
    let lifetime = accounts.lifetime(seconds_of(&asked), subject.pod.is_some(), &audiences);
    warnings.extend(lifetime.warning());
    let issued = accounts
        .issue(subject, audiences.clone(), &lifetime)
        .ok_or_else(|| ApiError::internal("failed to generate token: the system has no random numbers"))?;
    if let Some(audited) = &request.audited {
        audited.annotate(vec![(ISSUED_CREDENTIAL_ID.to_owned(), format!("JTI={}", issued.id))]);
    }
    let (token, seconds) = (issued.token, lifetime.shown);
    let now = request.now();
    let expires = now.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(jiff::Timestamp::MAX);
    let value = json!({
        "kind": NAMES.kind, "apiVersion": NAMES.api_version(),
        "metadata": {
            "name": account.name(), "namespace": account.namespace(), "uid": account.uid(),
            "creationTimestamp": show_time(now),
        },
        "spec": {
            "audiences": audiences, "expirationSeconds": seconds,
            "boundObjectRef": asked.at(&["spec", "boundObjectRef"]).cloned().unwrap_or_default(),
        },
        "status": {"token": token, "expirationTimestamp": show_time(expires)},
    });
    let mut response = answer::value_answer(201, wanted, &value)?;
    answer::add_warnings(response.headers_mut(), &warnings);
    Ok(response)
}

/// The audiences of a token request or a review.
pub(super) fn audiences_of(asked: &Object) -> Vec<String> {
    let audiences = asked.at(&["spec", "audiences"]).and_then(Value::as_array);
    audiences.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Checks the number of audiences.
pub(super) fn check_audiences(asked: &Object, errors: &mut FieldErrors) {
    let audiences = asked.at(&["spec", "audiences"]).and_then(Value::as_array).map_or(0, Vec::len);
    if audiences > MAX_AUDIENCES {
        errors.too_many(&Path::new("spec.audiences"), audiences, MAX_AUDIENCES);
    }
}

fn seconds_of(asked: &Object) -> i64 {
    asked.at(&["spec", "expirationSeconds"]).and_then(Value::as_i64).unwrap_or_default()
}

fn check(asked: &Object) -> Result<(), ApiError> {
    let seconds = seconds_of(asked);
    let mut errors = FieldErrors::new();
    check_audiences(asked, &mut errors);
    let path = Path::new("spec.expirationSeconds");
    if seconds < LEAST_SECONDS {
        errors.invalid(&path, seconds, "may not specify a duration less than 10 minutes");
    }
    if seconds > MOST_SECONDS {
        errors.invalid(&path, seconds, "may not specify a duration larger than 2^32 seconds");
    }
    if errors.is_empty() { Ok(()) } else { Err(ApiError::invalid(NAMES.kind, NAMES.group, "", &errors)) }
}

/// Binds the token to the object in the request: the token is valid only while the object exists.
fn bind(
    asked: &Object,
    account: &Object,
    subject: &mut Subject,
    find: impl Fn(&str, &str, &str) -> Result<Option<ObjectHead>, ApiError>,
) -> Result<(), ApiError> {
    let Some(Value::Object(_)) = asked.at(&["spec", "boundObjectRef"]) else { return Ok(()) };
    let given = |name: &str| asked.str_at(&["spec", "boundObjectRef", name]);
    let (kind, name) = (given("kind"), given("name"));
    let (group, version) = given("apiVersion").split_once('/').unwrap_or(("", given("apiVersion")));
    let (plural, namespace) = match (group, kind) {
        ("", "Pod") => ("pods", account.namespace()),
        ("", "Secret") => ("secrets", account.namespace()),
        ("", "Node") => ("nodes", ""),
        _ => {
            let text = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(ApiError::bad_request(text));
        }
    };
    let found = find(plural, namespace, name)?;
    let found = found.ok_or_else(|| match crate::registry::by_resource("", "v1", plural) {
        Some(kind) => ApiError::not_found(kind.names(), name),
        None => ApiError::no_such_resource(),
    })?;
    let uid = given("uid");
    if !uid.is_empty() && uid != found.uid() {
        let details = Details { name: name.to_owned(), kind: kind.to_owned(), ..Details::default() };
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record ({}). The object might \
             have been deleted and then recreated",
            found.uid()
        );
        return Err(ApiError::conflict_because(kind, details, &why));
    }
    let reference = || ObjectRef { name: name.to_owned(), uid: found.uid().to_owned() };
    match kind {
        "Pod" => {
            let runs_as = found.field("spec.serviceAccountName");
            if runs_as != account.name() {
                return Err(ApiError::bad_request(format!(
                    "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                    account.name()
                )));
            }
            let node = found.field("spec.nodeName");
            if !node.is_empty() {
                let uid = find("nodes", "", node)?.map(|node| node.uid().to_owned()).unwrap_or_default();
                subject.node = Some(ObjectRef { name: node.to_owned(), uid });
            }
            subject.pod = Some(reference());
        }
        "Secret" => subject.secret = Some(reference()),
        _ => subject.node = Some(reference()),
    }
    Ok(())
}
