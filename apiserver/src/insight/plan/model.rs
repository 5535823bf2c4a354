//! Plans: steps on objects, messages and warnings, and refusals of verbs. No I/O.

use orlop_apimachinery::names::{dns_label, dns_subdomain};
use serde::Deserialize;
use serde_json::Value;

use crate::insight::ObjectTarget;
use crate::insight::key_resolver::resource_name;
use crate::registry::{Kind, KindRef};
use orlop_api::object::Object;
use orlop_api::status::{ApiError, Details};

/// The value of `force` that permits a verb although data may suffer.
pub(crate) const FORCE_WORDS: &str = "data may be corrupted";

/// How to force a verb on the command line and in the API.
pub(crate) fn by_force() -> String {
    format!("--force; in the API force: {FORCE_WORDS:?}")
}

/// The request body of a verb.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct PlanOptions {
    /// `PlanOptions`, if present.
    pub(crate) kind: Option<String>,
    /// `orlop.dev/v1`, if present.
    pub(crate) api_version: Option<String>,
    /// The revision of the plan that the user saw; if it leads to a different plan now, that is a conflict.
    pub(crate) revision: Option<String>,
    /// `reclaim`: keep the data.
    pub(crate) keep_data: bool,
    /// `reclaim`: delete the data.
    pub(crate) scrub: bool,
    /// `reclaim`: reserve for this claim, `NAMESPACE/NAME` or `{namespace, name}`.
    #[serde(rename = "for")]
    pub(crate) claim: Option<Value>,
    /// `transfer`: the new namespace.
    pub(crate) namespace: Option<String>,
    /// `transfer`: the new name; unchanged if absent.
    pub(crate) name: Option<String>,
    /// `undelete`: the revision or time of the state to restore; the last state if absent.
    pub(crate) at: Option<String>,
    /// `release`, `unblock`: [`FORCE_WORDS`] permits the verb although data may suffer.
    pub(crate) force: Option<String>,
}

impl PlanOptions {
    /// Parses a body; an empty body equals `{}`.
    ///
    /// # Errors
    /// A refusal that describes the invalid option.
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
                    "the body is a {given:?}, but must be a {wanted:?}"
                )));
            }
        }
        Ok(options)
    }

    /// The revision of the plan that the user saw.
    pub(crate) fn seen(&self) -> Result<Option<u64>, PlanRefusal> {
        number("revision", self.revision.as_deref())
    }

    /// The revision to restore from.
    pub(crate) fn at(&self) -> Result<Option<u64>, PlanRefusal> {
        number("at", self.at.as_deref())
    }

    /// Namespace and name of the claim that the volume is reserved for.
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
        // A volume reserved for a claim that cannot exist would wait forever.
        let wrong: Vec<String> = dns_label(namespace).into_iter().chain(dns_subdomain(name)).collect();
        if !wrong.is_empty() {
            return Err(PlanRefusal::Options(format!(
                "no claim can be called {namespace}/{name}: {}",
                wrong.join("; ")
            )));
        }
        Ok(Some((namespace.to_owned(), name.to_owned())))
    }

    /// Whether the user accepted the risk.
    pub(crate) fn is_forced(&self) -> Result<bool, PlanRefusal> {
        match self.force.as_deref() {
            None | Some("") => Ok(false),
            Some(FORCE_WORDS) => Ok(true),
            Some(other) => Err(PlanRefusal::Options(format!(
                "force is {other:?}; to accept the risk, set it to {FORCE_WORDS:?} (--force)"
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

/// Why a verb is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PlanRefusal {
    /// The options are invalid.
    #[error("{0}")]
    Options(String),
    /// The verb does not apply to this kind.
    #[error("{0}")]
    Kind(String),
    /// The object does not exist.
    #[error("there is no such object")]
    Missing,
    /// The object does not exist; the message describes an earlier one, if one is known.
    #[error("{0}")]
    Unknown(String),
    /// The state does not allow the verb; the message states the required state.
    #[error("{0}")]
    State(String),
    /// The requested revision is no longer known.
    #[error("{0}")]
    Expired(String),
}

impl PlanRefusal {
    /// Converts the refusal to an API error.
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

/// 409 for an object.
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

/// Refuses a verb because of the state.
pub(crate) fn no<T>(why: impl Into<String>) -> Result<T, PlanRefusal> {
    Err(PlanRefusal::State(why.into()))
}

/// The effects of a verb.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The verb, such as `reclaim`.
    pub(crate) verb: &'static str,
    /// The reason of the Event, such as `Reclaimed`.
    pub(crate) reason: &'static str,
    /// A one-sentence summary.
    pub(crate) summary: String,
    /// Warnings for the user before the confirmation. They name only objects that the plan writes, or that those refer to.
    pub(crate) warnings: Vec<String>,
    /// Warnings that name other objects. They are not part of the Event: the rights of its readers are not known.
    pub(crate) mentions: Vec<String>,
    /// The writes, in order.
    pub(crate) steps: Vec<PlanStep>,
}

impl Plan {
    /// Whether both have the same texts and the same steps on the same versions of objects.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.summary == other.summary
            && self.warnings == other.warnings
            && self.mentions == other.mentions
            && self.steps.len() == other.steps.len()
            && self.steps.iter().zip(&other.steps).all(|(one, other)| one.is(other))
    }
}

/// The type of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepAction {
    /// Updates the object.
    Update,
    /// Creates the object.
    Create,
    /// Marks the object as deleted, and removes it if no finalizer is left.
    Delete,
}

impl StepAction {
    /// The name in the API.
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
    /// The current object; `None` for a create.
    pub(crate) before: Option<Object>,
    /// The object after the write; for a delete, with the remaining finalizers.
    pub(crate) after: Object,
    /// The purpose of the write.
    pub(crate) message: String,
}

impl PlanStep {
    /// An update.
    pub(crate) fn update(
        kind: impl Into<KindRef>,
        before: Object,
        after: Object,
        message: impl Into<String>,
    ) -> Self {
        let (kind, message) = (kind.into(), message.into());
        PlanStep { kind, action: StepAction::Update, before: Some(before), after, message }
    }

    /// A create. Keeps the uid of the object if it has one, so that others in the same commit can refer to it.
    pub(crate) fn create(kind: impl Into<KindRef>, after: Object, message: impl Into<String>) -> Self {
        PlanStep {
            kind: kind.into(),
            action: StepAction::Create,
            before: None,
            after,
            message: message.into(),
        }
    }

    /// A delete; `left` are the remaining finalizers.
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

    /// Whether both are the same write to the same version of the same object.
    fn is(&self, other: &Self) -> bool {
        self.target().reference() == other.target().reference()
            && self.action == other.action
            && self.before == other.before
            && self.after == other.after
            && self.message == other.message
    }

    /// The object of the step.
    pub(crate) fn target(&self) -> ObjectTarget {
        let namespace = self.after.namespace();
        ObjectTarget {
            kind: self.kind.clone(),
            namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
            name: self.after.name().to_owned(),
        }
    }

    /// The kind of the object.
    pub(crate) fn kind(&self) -> &dyn Kind {
        &*self.kind
    }
}

/// The object with exactly these finalizers.
pub(crate) fn with_finalizers(object: &Object, left: &[String]) -> Object {
    let mut object = object.clone();
    if left.is_empty() {
        object.meta().remove("finalizers");
    } else {
        object.set(&["metadata", "finalizers"], left.to_vec());
    }
    object
}

/// The object prepared for a create: without server-assigned fields and traces of its earlier life.
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
