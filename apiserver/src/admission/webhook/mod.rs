//! Admission webhooks.
//!
//! `configured` are the webhooks of the store, `review` is the document that is sent, `answer` its answer (`bounded` are the lists in it),
//! `client` sends it, and `dispatch` decides which webhooks are called and what follows from their answers.
//!
//! Upstream: apiserver `pkg/admission/plugin/webhook`.

mod answer;
mod bounded;
mod client;
mod configured;
mod dispatch;
mod review;

pub(crate) use client::WebhookClient;
pub(crate) use configured::{StoredWebhooks, WebhookIndex, WebhookService};
pub(crate) use dispatch::{MutatingWebhooks, Resolves, first_matching, validate};
