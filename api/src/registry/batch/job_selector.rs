//! The selector of a job. Unless it is set manually, it is generated from the job's UID, and the template of the pods
//! gets labels with the UID and the name.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use orlop_apimachinery::labels::Selector;
use serde::Deserialize;
use serde_json::Value;

use crate::object::Object;
use crate::registry::workload::{given, spec};
use crate::validate::{FieldErrors, Path};

const UID: &str = "batch.kubernetes.io/controller-uid";
const NAME: &str = "batch.kubernetes.io/job-name";
/// The label without a prefix, as older releases set it.
const OLD_UID: &str = "controller-uid";
const OLD_NAME: &str = "job-name";

const LABELS: [&str; 4] = ["spec", "template", "metadata", "labels"];

fn is_manual(job: &Object) -> bool {
    given(spec(job), "manualSelector").is_some_and(|flag| *flag == true)
}

fn label<'a>(job: &'a Object, key: &str) -> Option<&'a Value> {
    job.at(&LABELS)?.get(key)
}

/// Whether the template of a stored job has the labels with prefix. Older jobs lack them.
pub(super) fn has_prefixed_labels(job: &Object) -> bool {
    label(job, UID).is_some() && label(job, NAME).is_some()
}

/// Adds the selector, and the labels to the template. Labels that the client has set remain; validation rejects wrong ones.
pub(super) fn generate(job: &mut Object) {
    if is_manual(job) {
        return;
    }
    let (uid, name) = (job.uid().to_owned(), job.name().to_owned());
    for (key, value) in [(OLD_NAME, &name), (NAME, &name), (OLD_UID, &uid), (UID, &uid)] {
        if label(job, key).is_none() {
            job.set(&[LABELS[0], LABELS[1], LABELS[2], LABELS[3], key], value.as_str());
        }
    }
    job.set_default(&["spec", "selector", "matchLabels", UID], uid);
}

/// Validates a generated selector and the labels of the template. `needs_prefix` is not set for older jobs.
pub(super) fn validate(job: &Object, needs_prefix: bool, errors: &mut FieldErrors) {
    let Some(selector) = given(spec(job), "selector").filter(|_| !is_manual(job)) else { return };
    if job.uid().is_empty() {
        errors.required(&Path::new("metadata.uid"), "");
    }
    let mut expected = vec![(OLD_UID, job.uid()), (OLD_NAME, job.name())];
    if needs_prefix {
        expected.extend([(UID, job.uid()), (NAME, job.name())]);
    }
    let path = Path::new("spec.template.metadata.labels");
    for (key, value) in &expected {
        let must = format!("must be '{value}'");
        match label(job, key) {
            None => errors.required(&path.key(key), &must),
            Some(found) if found != value => {
                errors.invalid(&path.key(key), job.at(&LABELS).cloned().unwrap_or_default(), &must);
            }
            Some(_) => {}
        }
    }
    let typed = LabelSelector::deserialize(selector).unwrap_or_default();
    if Selector::from_label_selector(&typed).is_ok_and(|selector| !selector.matches(expected)) {
        errors.invalid(&Path::new("spec.selector"), selector.clone(), "`selector` not auto-generated");
    }
}
