//! What a plan is: steps on objects, words about them, and the ways in which a verb can say no. No I/O.

use orlop_apimachinery::names::{dns_label, dns_subdomain};
use serde::Deserialize;
use serde_json::Value;

use crate::insight::ObjectTarget;
use crate::insight::key_resolver::resource_name;
use crate::registry::{Kind, KindRef};
use orlop_api::object::Object;
use orlop_api::status::{ApiError, Details};

/// What must be sent as `force` to have a verb do what it otherwise refuses because data may suffer.
pub(crate) const FORCE_WORDS: &str = "data may be corrupted";

/// How that is said on the command line, and in the API.
pub(crate) fn by_force() -> String {
    format!("--force; in the API force: {FORCE_WORDS:?}")
}

/// The body of a POST of a verb.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct PlanOptions {
    /// `PlanOptions`, if it says so.
    pub(crate) kind: Option<String>,
    /// `orlop.dev/v1`, if it says so.
    pub(crate) api_version: Option<String>,
    /// The revision of the plan that the person has seen; when another plan would be made of it, that is a conflict.
    pub(crate) revision: Option<String>,
    /// `reclaim`: with its data.
    pub(crate) keep_data: bool,
    /// `reclaim`: without its data.
    pub(crate) scrub: bool,
    /// `reclaim`: for this claim only, `NAMESPACE/NAME` or `{namespace, name}`.
    #[serde(rename = "for")]
    pub(crate) claim: Option<Value>,
    /// `transfer`: to this namespace.
    pub(crate) namespace: Option<String>,
    /// `transfer`: under this name; the same one when it is left out.
    pub(crate) name: Option<String>,
    /// `undelete`: as it was at this revision or time; as it was last when it is left out.
    pub(crate) at: Option<String>,
    /// `release`, `unblock`: [`FORCE_WORDS`].
    pub(crate) force: Option<String>,
}

impl PlanOptions {
    /// From a body; nothing at all is as good as `{}`.
    ///
    /// # Errors
    /// What does not fit, in words.
    pub(crate) fn parse(body: Value) -> Result<Self, PlanRefusal> {
        if body.is_null() {
            return Ok(PlanOptions::default());
        }
        if !body.is_object() {
            return Err(PlanRefusal::Options(
                "the options are no JSON object, such as {\"keepData\": true}".to_owned(),
            ));
        }
        let options: Self = serde_json::from_value(body)
            .map_err(|error| PlanRefusal::Options(format!("the options: {error}")))?;
        for (given, wanted) in [(&options.kind, "PlanOptions"), (&options.api_version, "orlop.dev/v1")] {
            if let Some(given) = given
                && given != wanted
            {
                return Err(PlanRefusal::Options(format!(
                    "the body is a {given:?} and has to be {wanted:?}"
                )));
            }
        }
        Ok(options)
    }

    /// The revision of the plan that was seen.
    pub(crate) fn seen(&self) -> Result<Option<u64>, PlanRefusal> {
        number("revision", self.revision.as_deref())
    }

    /// The revision to bring back from.
    pub(crate) fn at(&self) -> Result<Option<u64>, PlanRefusal> {
        number("at", self.at.as_deref())
    }

    /// Namespace and name of the claim that a volume is kept for.
    pub(crate) fn claim(&self) -> Result<Option<(String, String)>, PlanRefusal> {
        let Some(given) = self.claim.as_ref().filter(|given| !given.is_null()) else { return Ok(None) };
        let pair = match given {
            Value::String(text) => text.split_once('/'),
            Value::Object(map) => {
                let part = |name: &str| map.get(name).and_then(Value::as_str);
                part("namespace").zip(part("name"))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
        };
        let pair =
            pair.filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty() && !name.contains('/'));
        let Some((namespace, name)) = pair else {
            return Err(PlanRefusal::Options(format!(
                "for is {given}; it has to name a claim: \"NAMESPACE/NAME\" or {{\"namespace\", \"name\"}}"
            )));
        };
        // A volume that is kept for what cannot be made would wait for ever.
        let wrong: Vec<String> = dns_label(namespace).into_iter().chain(dns_subdomain(name)).collect();
        if !wrong.is_empty() {
            return Err(PlanRefusal::Options(format!(
                "no claim can be called {namespace}/{name}: {}",
                wrong.join("; ")
            )));
        }
        Ok(Some((namespace.to_owned(), name.to_owned())))
    }

    /// Whether the danger was taken on.
    pub(crate) fn is_forced(&self) -> Result<bool, PlanRefusal> {
        match self.force.as_deref() {
            None | Some("") => Ok(false),
            Some(FORCE_WORDS) => Ok(true),
            Some(other) => Err(PlanRefusal::Options(format!(
                "force is {other:?}; whoever takes on the danger says {FORCE_WORDS:?} (--force)"
            ))),
        }
    }
}

fn number(what: &str, text: Option<&str>) -> Result<Option<u64>, PlanRefusal> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
    let parsed =
        text.parse().map_err(|_| PlanRefusal::Options(format!("{what} is {text:?}, and no revision")))?;
    Ok(Some(parsed))
}

/// Why a verb does nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PlanRefusal {
    /// The options make no sense.
    #[error("{0}")]
    Options(String),
    /// The verb does not go with this kind.
    #[error("{0}")]
    Kind(String),
    /// There is no such object.
    #[error("there is no such object")]
    Missing,
    /// There is none, and the sentence says what is known of one that was.
    #[error("{0}")]
    Unknown(String),
    /// The state does not allow it; the sentence says what would be needed.
    #[error("{0}")]
    State(String),
    /// It was too long ago.
    #[error("{0}")]
    Expired(String),
}

impl PlanRefusal {
    /// The answer.
    pub(crate) fn error(self, target: &ObjectTarget) -> ApiError {
        let names = target.kind.names();
        match self {
            PlanRefusal::Options(why) | PlanRefusal::Kind(why) => ApiError::bad_request(why),
            PlanRefusal::Missing => ApiError::not_found(names, &target.name),
            PlanRefusal::Unknown(why) => {
                ApiError { message: why, ..ApiError::not_found(names, &target.name) }
            }
            PlanRefusal::State(why) => conflict(target, &why),
            PlanRefusal::Expired(why) => ApiError::expired(why),
        }
    }
}

/// 409 about an object.
pub(crate) fn conflict(target: &ObjectTarget, why: &str) -> ApiError {
    let names = target.kind.names();
    let details = Details {
        name: target.name.clone(),
        group: names.group.to_owned(),
        kind: names.plural.to_owned(),
        ..Details::default()
    };
    ApiError::conflict_because(&resource_name(&target.kind), details, why)
}

/// A refusal because of the state.
pub(crate) fn no<T>(why: impl Into<String>) -> Result<T, PlanRefusal> {
    Err(PlanRefusal::State(why.into()))
}

/// What a verb does.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Such as `reclaim`.
    pub(crate) verb: &'static str,
    /// The reason of the Event, such as `Reclaimed`.
    pub(crate) reason: &'static str,
    /// One sentence.
    pub(crate) summary: String,
    /// What a person should know before saying yes.
    pub(crate) warnings: Vec<String>,
    /// The writes, in their order.
    pub(crate) steps: Vec<PlanStep>,
}

impl Plan {
    /// Whether both say the same, and do the same to the same versions of objects.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.summary == other.summary
            && self.warnings == other.warnings
            && self.steps.len() == other.steps.len()
            && self.steps.iter().zip(&other.steps).all(|(one, other)| one.is(other))
    }
}

/// What becomes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepAction {
    /// It changes.
    Update,
    /// It comes.
    Create,
    /// Its deletion begins, and ends with it when no finalizer is left.
    Delete,
}

impl StepAction {
    /// The word in the API.
    pub(crate) fn word(self) -> &'static str {
        match self {
            StepAction::Update => "update",
            StepAction::Create => "create",
            StepAction::Delete => "delete",
        }
    }
}

/// One write.
#[derive(Clone, Debug)]
pub(crate) struct PlanStep {
    pub(crate) kind: KindRef,
    pub(crate) action: StepAction,
    /// As it is; `None` for a create.
    pub(crate) before: Option<Object>,
    /// As it will be; for a delete with the finalizers that are to stay.
    pub(crate) after: Object,
    /// What it is for.
    pub(crate) message: String,
}

impl PlanStep {
    /// A change.
    pub(crate) fn update(
        kind: impl Into<KindRef>,
        before: Object,
        after: Object,
        message: impl Into<String>,
    ) -> Self {
        let (kind, message) = (kind.into(), message.into());
        PlanStep { kind, action: StepAction::Update, before: Some(before), after, message }
    }

    /// A new object. A uid that it has is kept, for references to it in the same commit.
    pub(crate) fn create(kind: impl Into<KindRef>, after: Object, message: impl Into<String>) -> Self {
        PlanStep {
            kind: kind.into(),
            action: StepAction::Create,
            before: None,
            after,
            message: message.into(),
        }
    }

    /// A deletion; `left` are the finalizers that stay.
    pub(crate) fn delete(
        kind: impl Into<KindRef>,
        before: Object,
        left: &[String],
        message: impl Into<String>,
    ) -> Self {
        let after = with_finalizers(&before, left);
        let (kind, message) = (kind.into(), message.into());
        PlanStep { kind, action: StepAction::Delete, before: Some(before), after, message }
    }

    /// Whether both do the same to the same version of the same object.
    fn is(&self, other: &Self) -> bool {
        self.target().reference() == other.target().reference()
            && self.action == other.action
            && self.before == other.before
            && self.after == other.after
            && self.message == other.message
    }

    /// What it is about.
    pub(crate) fn target(&self) -> ObjectTarget {
        let namespace = self.after.namespace();
        ObjectTarget {
            kind: self.kind.clone(),
            namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
            name: self.after.name().to_owned(),
        }
    }

    /// The kind.
    pub(crate) fn kind(&self) -> &dyn Kind {
        &*self.kind
    }
}

/// The object with these finalizers and no others.
pub(crate) fn with_finalizers(object: &Object, left: &[String]) -> Object {
    let mut object = object.clone();
    if left.is_empty() {
        object.meta().remove("finalizers");
    } else {
        object.set(&["metadata", "finalizers"], left.to_vec());
    }
    object
}

/// The object as something new: without what the server gives and what an earlier life has left.
pub(crate) fn as_new(object: &Object) -> Object {
    let mut object = object.clone();
    for name in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "selfLink",
        "managedFields",
        "generateName",
    ] {
        object.meta().remove(name);
    }
    object
}
