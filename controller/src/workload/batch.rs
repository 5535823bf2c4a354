//! Sends many requests of one kind in growing groups: one, then two, then four concurrently. If the first ones
//! fail (a quota, a broken template), the rest are not sent. Upstream: slowStartBatch.

use futures::future::join_all;

/// The outcome of a batch.
#[derive(Debug)]
pub struct Outcome<E> {
    /// The number of successful requests.
    pub done: usize,
    /// The first failure, if any. No request after its group was sent.
    pub failure: Option<E>,
}

/// Runs `count` requests in growing groups. `request` receives the index of the request, from 0.
pub async fn slow_start<E, Fut>(count: usize, request: impl Fn(usize) -> Fut) -> Outcome<E>
where
    Fut: Future<Output = Result<(), E>>,
{
    let (mut done, mut begun, mut size) = (0, 0, 1);
    while begun < count {
        let group = size.min(count - begun);
        let results = join_all((begun..begun + group).map(&request)).await;
        begun += group;
        size *= 2;
        done += results.iter().filter(|result| result.is_ok()).count();
        if let Some(failure) = results.into_iter().find_map(Result::err) {
            return Outcome { done, failure: Some(failure) };
        }
    }
    Outcome { done, failure: None }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

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
            let outcome = slow_start(count, |nth| {
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
