//! Sends many requests of one kind. The number of concurrent ones is limited, because each of them holds objects in memory and, at
//! the server, one of the permits of the controller's user.

use futures::StreamExt as _;
use futures::future::join_all;
use futures::stream;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use orlop_client::api::Json as _;

/// The limit of concurrent requests.
const AT_ONCE: usize = 32;
/// The limit of the bytes of templates in concurrent requests.
const BYTES_AT_ONCE: usize = 16 << 20;

/// How many pods may be created from a template concurrently: each request holds several copies of it.
pub fn at_once(template: &PodTemplateSpec) -> usize {
    let bytes = template.encode().map_or(BYTES_AT_ONCE, |json| json.len());
    (BYTES_AT_ONCE / bytes.max(1)).clamp(1, AT_ONCE)
}

/// The outcome of a batch.
#[derive(Debug)]
pub struct Outcome<E> {
    /// The number of successful requests.
    pub done: usize,
    /// The first failure, if any. No request after its group was sent.
    pub failure: Option<E>,
}

/// Runs `count` requests, of which at most [`AT_ONCE`] are concurrent, and returns their results in order. A failure does not stop
/// the others. `request` receives the index of the request, from 0.
pub async fn limited<T, Fut>(count: usize, request: impl Fn(usize) -> Fut) -> Vec<T>
where
    Fut: Future<Output = T>,
{
    stream::iter(0..count).map(request).buffered(AT_ONCE).collect().await
}

/// Runs `count` requests in growing groups of at most `at_once`: one, then two, then four concurrently. If the first ones fail (a
/// quota, a broken template), the rest are not sent. `request` receives the index of the request, from 0. Upstream: slowStartBatch.
pub async fn slow_start<E, Fut>(count: usize, at_once: usize, request: impl Fn(usize) -> Fut) -> Outcome<E>
where
    Fut: Future<Output = Result<(), E>>,
{
    let (mut done, mut begun, mut size) = (0, 0, 1);
    while begun < count {
        let group = size.min(count - begun);
        let results = join_all((begun..begun + group).map(&request)).await;
        begun += group;
        size = size.saturating_mul(2).min(at_once.max(1));
        done += results.iter().filter(|result| result.is_ok()).count();
        if let Some(failure) = results.into_iter().find_map(Result::err) {
            return Outcome { done, failure: Some(failure) };
        }
    }
    Outcome { done, failure: None }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    #[tokio::test]
    async fn groups_have_a_limit() {
        let (running, most) = (Cell::new(0_usize), Cell::new(0_usize));
        let outcome: Outcome<()> = slow_start(500, 8, |_| async {
            running.set(running.get() + 1);
            most.set(most.get().max(running.get()));
            tokio::task::yield_now().await;
            running.set(running.get() - 1);
            Ok(())
        })
        .await;
        assert_eq!((outcome.done, most.get()), (500, 8));
    }

    #[tokio::test]
    async fn limited_requests_are_all_sent_in_order() {
        let (running, most) = (Cell::new(0_usize), Cell::new(0_usize));
        let results = limited(500, |nth| {
            let (running, most) = (&running, &most);
            async move {
                running.set(running.get() + 1);
                most.set(most.get().max(running.get()));
                tokio::task::yield_now().await;
                running.set(running.get() - 1);
                if nth % 2 == 0 { Ok(nth) } else { Err(nth) }
            }
        })
        .await;
        assert_eq!((results.len(), most.get()), (500, AT_ONCE));
        assert_eq!(results[..3], [Ok(0), Err(1), Ok(2)]);
        assert!(limited(0, |nth| async move { nth }).await.is_empty());
    }

    #[test]
    fn large_templates_are_sent_in_small_groups() {
        let mut template = PodTemplateSpec::default();
        assert_eq!(at_once(&template), AT_ONCE);
        let text = "x".repeat(BYTES_AT_ONCE / 4);
        template.metadata.get_or_insert_default().name = Some(text);
        assert_eq!(at_once(&template), 3);
        template.metadata.get_or_insert_default().namespace = Some("x".repeat(BYTES_AT_ONCE));
        assert_eq!(at_once(&template), 1);
    }

    #[tokio::test]
    async fn groups_double_and_stop_after_the_first_failure() {
        // Number of requests, index of the failing one, number sent, number that succeeded.
        let table: [(usize, Option<usize>, usize, usize); 6] = [
            (0, None, 0, 0),
            (1, None, 1, 1),
            (10, None, 10, 10),
            (10, Some(0), 1, 0),
            (10, Some(4), 7, 6),
            (10, Some(9), 10, 9),
        ];
        for (count, fails, begun, done) in table {
            let seen = RefCell::new(Vec::new());
            let outcome = slow_start(count, 8, |nth| {
                seen.borrow_mut().push(nth);
                async move { if Some(nth) == fails { Err("no") } else { Ok(()) } }
            })
            .await;
            let wanted: Vec<usize> = (0..begun).collect();
            assert_eq!(seen.into_inner(), wanted, "{count} {fails:?}");
            assert_eq!(
                (outcome.done, outcome.failure.is_some()),
                (done, fails.is_some()),
                "{count} {fails:?}"
            );
        }
    }
}
