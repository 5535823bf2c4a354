//! Reviews: kinds that are never stored. A create evaluates the object and returns it with
//! a status.
//!
//! This module contains their names and validation (upstream: pkg/apis/authorization/validation);
//! `verbs/review.rs` evaluates them.

use serde_json::Value;

use super::go_format::Shape;
use super::volume_rules::items;
use crate::kind::{Kind, Names, Policy, Review, Scope};
use crate::object::Object;
use crate::validate::{FieldErrors, Path};

/// A kind of review.
pub(super) struct ReviewKind {
    names: &'static Names,
    review: Review,
}

macro_rules! review {
    ($constant:ident, $review:ident, $kind:literal, $group:literal, $plural:literal, $singular:literal) => {
        #[doc = concat!("`", $kind, "`.")]
        pub(super) const $constant: ReviewKind = ReviewKind {
            names: &Names {
                group: concat!($group, ".k8s.io"),
                version: "v1",
                kind: $kind,
                plural: $plural,
                singular: $singular,
                short: &[],
                categories: &[],
                schema: concat!("io.k8s.api.", $group, ".v1.", $kind),
            },
            review: Review::$review,
        };
    };
}

review!(TOKEN_REVIEW, Token, "TokenReview", "authentication", "tokenreviews", "tokenreview");
review!(
    SELF_SUBJECT_REVIEW,
    SelfSubject,
    "SelfSubjectReview",
    "authentication",
    "selfsubjectreviews",
    "selfsubjectreview"
);
review!(
    SUBJECT_ACCESS_REVIEW,
    SubjectAccess,
    "SubjectAccessReview",
    "authorization",
    "subjectaccessreviews",
    "subjectaccessreview"
);
review!(
    LOCAL_SUBJECT_ACCESS_REVIEW,
    LocalSubjectAccess,
    "LocalSubjectAccessReview",
    "authorization",
    "localsubjectaccessreviews",
    "localsubjectaccessreview"
);
review!(
    SELF_SUBJECT_ACCESS_REVIEW,
    SelfSubjectAccess,
    "SelfSubjectAccessReview",
    "authorization",
    "selfsubjectaccessreviews",
    "selfsubjectaccessreview"
);
review!(
    SELF_SUBJECT_RULES_REVIEW,
    SelfSubjectRules,
    "SelfSubjectRulesReview",
    "authorization",
    "selfsubjectrulesreviews",
    "selfsubjectrulesreview"
);

const NON_RESOURCE: Shape = Shape::Pointer(&[("Path", "path", Shape::Text), ("Verb", "verb", Shape::Text)]);

impl Kind for ReviewKind {
    fn names(&self) -> &'static Names {
        self.names
    }

    fn scope(&self) -> Scope {
        match self.review {
            Review::LocalSubjectAccess => Scope::Namespaced,
            Review::Token
            | Review::SelfSubject
            | Review::SubjectAccess
            | Review::SelfSubjectAccess
            | Review::SelfSubjectRules => Scope::Cluster,
        }
    }

    /// Nothing is stored under this prefix.
    fn storage_prefix(&self) -> &'static str {
        "/registry/reviews/"
    }

    fn policy(&self) -> Policy {
        Policy::DEFAULT
    }

    fn verbs(&self) -> &'static [&'static str] {
        &["create"]
    }

    fn review(&self) -> Option<Review> {
        Some(self.review)
    }

    fn validate(&self, object: &Object, errors: &mut FieldErrors) {
        match self.review {
            Review::SelfSubjectAccess => one_question(object, errors),
            Review::SubjectAccess | Review::LocalSubjectAccess => {
                one_question(object, errors);
                validate_user(object, errors);
            }
            Review::Token | Review::SelfSubject | Review::SelfSubjectRules => return,
        }
        for selector in ["fieldSelector", "labelSelector"] {
            validate_selector(object, selector, errors);
        }
        let local = self.review == Review::LocalSubjectAccess;
        no_metadata(object, local, errors);
        if local {
            within(object, errors);
        }
    }
}

fn given<'a>(object: &'a Object, name: &str) -> Option<&'a Value> {
    object.at(&["spec", name]).filter(|value| !value.is_null())
}

/// Either resource or non-resource attributes must be set, not both.
fn one_question(object: &Object, errors: &mut FieldErrors) {
    let path = Path::new("spec");
    match (given(object, "resourceAttributes"), given(object, "nonResourceAttributes")) {
        (Some(_), None) | (None, Some(_)) => {}
        (Some(_), Some(other)) => {
            let why = "cannot be specified in combination with resourceAttributes";
            errors.invalid_shown(&path.child("nonResourceAttributes"), &NON_RESOURCE.show(Some(other)), why);
        }
        (None, None) => {
            let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            errors.invalid(&path.child("resourceAttributes"), Value::Null, why);
        }
    }
}

fn validate_user(object: &Object, errors: &mut FieldErrors) {
    let has_no_user = object.str_at(&["spec", "user"]).is_empty()
        && object.at(&["spec"]).is_none_or(|spec| items(spec, "groups").is_empty());
    if has_no_user {
        errors.invalid(&Path::new("spec.user"), "", "at least one of user or group must be specified");
    }
}

/// A selector is either raw or has requirements.
fn validate_selector(object: &Object, name: &str, errors: &mut FieldErrors) {
    let selector = object.at(&["spec", "resourceAttributes", name]).filter(|selector| selector.is_object());
    let Some(selector) = selector else { return };
    let path = Path::new("spec.resourceAttributes").child(name);
    let raw = selector["rawSelector"].as_str().unwrap_or_default();
    match (raw.is_empty(), items(selector, "requirements").is_empty()) {
        (false, false) => {
            let why = "may not specified at the same time as requirements";
            errors.invalid(&path.child("rawSelector"), raw, why);
        }
        (true, true) => errors.required(
            &path.child("requirements"),
            &format!("when {path} is specified, requirements or rawSelector is required"),
        ),
        (true, false) | (false, true) => {}
    }
}

fn no_metadata(object: &Object, local: bool, errors: &mut FieldErrors) {
    let mut metadata = object.at(&["metadata"]).and_then(Value::as_object).cloned().unwrap_or_default();
    metadata.remove("managedFields");
    let shown = metadata.clone();
    if local {
        metadata.remove("namespace");
    }
    if !metadata.is_empty() {
        let why = if local { "must be empty except for namespace" } else { "must be empty" };
        errors.invalid(&Path::new("metadata"), shown, why);
    }
}

/// A LocalSubjectAccessReview must be about a resource in its own namespace.
fn within(object: &Object, errors: &mut FieldErrors) {
    let asked = object.str_at(&["spec", "resourceAttributes", "namespace"]);
    if given(object, "resourceAttributes").is_some() && asked != object.namespace() {
        let path = Path::new("spec.resourceAttributes.namespace");
        errors.invalid(&path, asked, "must match metadata.namespace");
    }
    if let Some(other) = given(object, "nonResourceAttributes") {
        let shown = NON_RESOURCE.show(Some(other));
        errors.invalid_shown(
            &Path::new("spec.nonResourceAttributes"),
            &shown,
            "disallowed on this kind of request",
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{causes, object};
    use super::*;

    const INVALID: &str = "FieldValueInvalid";
    const NEITHER: (&str, &str, &str) = (
        INVALID,
        "spec.resourceAttributes",
        "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified",
    );

    #[test]
    fn reviews_are_validated() {
        let pods = json!({"verb": "get", "resource": "pods", "namespace": "n"});
        let url = json!({"path": "/x", "verb": "get"});
        let named = json!({"name": "a"});
        let spec = |spec: Value| json!({"spec": spec});
        type Row<'a> = (&'a str, &'a str, &'a str);
        let cases: [(&str, &ReviewKind, Value, &[Row<'_>]); 15] = [
            ("1 own", &SELF_SUBJECT_ACCESS_REVIEW, spec(json!({"resourceAttributes": pods})), &[]),
            ("2 own, a path", &SELF_SUBJECT_ACCESS_REVIEW, spec(json!({"nonResourceAttributes": url})), &[]),
            ("3 own, nothing", &SELF_SUBJECT_ACCESS_REVIEW, spec(json!({})), &[NEITHER]),
            (
                "4 own, both",
                &SELF_SUBJECT_ACCESS_REVIEW,
                spec(json!({"resourceAttributes": pods, "nonResourceAttributes": url})),
                &[(
                    INVALID,
                    "spec.nonResourceAttributes",
                    "Invalid value: {\"Path\":\"/x\",\"Verb\":\"get\"}: cannot be specified in combination with \
                     resourceAttributes",
                )],
            ),
            (
                "5 own, with a name",
                &SELF_SUBJECT_ACCESS_REVIEW,
                json!({"metadata": named, "spec": {"resourceAttributes": pods}}),
                &[(INVALID, "metadata", "Invalid value: {\"name\":\"a\"}: must be empty")],
            ),
            (
                "6 own, with managed fields",
                &SELF_SUBJECT_ACCESS_REVIEW,
                json!({"metadata": {"managedFields": [{}]}, "spec": {"resourceAttributes": pods}}),
                &[],
            ),
            (
                "7 a user's",
                &SUBJECT_ACCESS_REVIEW,
                spec(json!({"resourceAttributes": pods, "user": "u"})),
                &[],
            ),
            (
                "8 a group's",
                &SUBJECT_ACCESS_REVIEW,
                spec(json!({"resourceAttributes": pods, "groups": ["g"]})),
                &[],
            ),
            (
                "9 without an owner",
                &SUBJECT_ACCESS_REVIEW,
                spec(json!({"resourceAttributes": pods})),
                &[(
                    INVALID,
                    "spec.user",
                    "Invalid value: \"\": at least one of user or group must be specified",
                )],
            ),
            (
                "10 here",
                &LOCAL_SUBJECT_ACCESS_REVIEW,
                json!({"metadata": {"namespace": "n"}, "spec": {"resourceAttributes": pods, "user": "u"}}),
                &[],
            ),
            (
                "11 elsewhere",
                &LOCAL_SUBJECT_ACCESS_REVIEW,
                json!({"metadata": {"namespace": "m"}, "spec": {"resourceAttributes": pods, "user": "u"}}),
                &[(
                    INVALID,
                    "spec.resourceAttributes.namespace",
                    "Invalid value: \"n\": must match metadata.namespace",
                )],
            ),
            (
                "12 a path here",
                &LOCAL_SUBJECT_ACCESS_REVIEW,
                json!({"metadata": {"namespace": "m"}, "spec": {"nonResourceAttributes": url, "user": "u"}}),
                &[(
                    INVALID,
                    "spec.nonResourceAttributes",
                    "Invalid value: {\"Path\":\"/x\",\"Verb\":\"get\"}: disallowed on this kind of request",
                )],
            ),
            (
                "13 here, with a name",
                &LOCAL_SUBJECT_ACCESS_REVIEW,
                json!({
                    "metadata": {"namespace": "n", "name": "a"}, "spec": {"resourceAttributes": pods, "user": "u"},
                }),
                &[(
                    INVALID,
                    "metadata",
                    "Invalid value: {\"name\":\"a\",\"namespace\":\"n\"}: must be empty except for namespace",
                )],
            ),
            (
                "14 a raw selector and requirements",
                &SELF_SUBJECT_ACCESS_REVIEW,
                spec(
                    json!({"resourceAttributes": {"labelSelector": {"rawSelector": "a=b", "requirements": [{}]}}}),
                ),
                &[(
                    INVALID,
                    "spec.resourceAttributes.labelSelector.rawSelector",
                    "Invalid value: \"a=b\": may not specified at the same time as requirements",
                )],
            ),
            (
                "15 an empty selector",
                &SELF_SUBJECT_ACCESS_REVIEW,
                spec(json!({"resourceAttributes": {"fieldSelector": {}}})),
                &[(
                    "FieldValueRequired",
                    "spec.resourceAttributes.fieldSelector.requirements",
                    "Required value: when spec.resourceAttributes.fieldSelector is specified, requirements or \
                     rawSelector is required",
                )],
            ),
        ];
        for (case, kind, question, want) in cases {
            assert_eq!(causes(|errors| kind.validate(&object(question), errors)), want, "{case}");
        }
    }
}
