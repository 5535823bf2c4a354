//! Writes an Event on each object whose syncs keep failing, and one when they succeed again.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::core::PartialObjectMeta;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::{Failing, Report, Target};
use crate::api::is_possible_name;
use crate::client::is_not_found;
use crate::names::reason;
use crate::recorder::{EventSink, EventType};

/// How often the register is read.
const PERIOD: Duration = Duration::from_secs(5);

/// Writes the events until `shutdown` is cancelled.
pub async fn run(failing: Failing, client: Client, events: EventSink, shutdown: CancellationToken) {
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = ticks.tick() => {}
        }
        for report in failing.due(Instant::now()) {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = write(&failing, &client, &events, &report) => {}
            }
        }
    }
}

async fn write(failing: &Failing, client: &Client, events: &EventSink, report: &Report) {
    let Report { failing: fails, controller, target, message } = report;
    tracing::warn!(controller, object = target.path, "{message}");
    let mut involved = target.reference.clone();
    match uid(client, target).await {
        Ok(uid) => involved.uid = uid,
        Err(error) if is_not_found(&error) => return failing.gone(report),
        // The event without the UID is still found by the object's name.
        Err(error) => tracing::debug!(controller, object = target.path, %error, "the UID cannot be read"),
    }
    let recorder = events.recorder(Arc::<str>::from(*controller));
    let (type_, reason) = match fails {
        true => (EventType::Warning, reason::SYNC_FAILING),
        false => (EventType::Normal, reason::SYNCED),
    };
    recorder.event_for(involved, type_, reason, message.as_str());
}

async fn uid(client: &Client, target: &Target) -> kube::Result<Option<String>> {
    let Target { reference, path } = target;
    // A key may be text from another object, and the path would then address another resource.
    if ![&reference.namespace, &reference.name].into_iter().flatten().all(|name| is_possible_name(name)) {
        return Ok(None);
    }
    let request = http::Request::get(path)
        .header(http::header::ACCEPT, "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
        .body(Vec::new())
        .map_err(kube::Error::HttpError)?;
    let object: PartialObjectMeta = client.request(request).await?;
    Ok(object.metadata.uid)
}
