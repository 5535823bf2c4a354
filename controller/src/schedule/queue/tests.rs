//! Who is next, and when.
#![allow(clippy::unwrap_used)]

use super::super::filter::Rule;
use super::*;

fn key(name: &str) -> Key {
    name.into()
}

/// The next pod and the seconds until it came.
async fn next(queue: &PodQueue) -> (Ticket, u64) {
    let began = Instant::now();
    let ticket = queue.next().await.unwrap();
    (ticket, began.elapsed().as_secs())
}

const RULES: [Rule; 1] = [Rule::Resources];

#[tokio::test(start_paused = true)]
async fn priority_then_arrival() {
    let queue = PodQueue::default();
    for (name, priority) in [("a", 0), ("b", 5), ("c", 0), ("d", 9)] {
        queue.add(&key(name), priority);
    }
    queue.add(&key("a"), 0);
    queue.remove("c");
    let mut order = Vec::new();
    for _ in 0..3 {
        order.push(next(&queue).await.0.key.to_string());
    }
    assert_eq!(order, ["d", "b", "a"]);
}

#[tokio::test(start_paused = true)]
async fn delays_double_up_to_ten_seconds() {
    let queue = PodQueue::default();
    queue.add(&key("a"), 0);
    let mut delays = Vec::new();
    for _ in 0..6 {
        let (ticket, delay) = next(&queue).await;
        delays.push(delay);
        queue.retry(&ticket);
    }
    assert_eq!(delays, [0, 1, 2, 4, 8, 10]);
}

#[tokio::test(start_paused = true)]
async fn a_parked_pod_is_woken_by_what_may_help_it() {
    let queue = PodQueue::default();
    queue.add(&key("a"), 0);
    let park = |ticket: &Ticket| queue.park(ticket, Rules::of(&RULES), &["ns/c".to_owned()], queue.moves());
    let (ticket, _) = next(&queue).await;
    park(&ticket);
    queue.wake(Rules::of(&[Rule::Taints]), |_| true);
    queue.wake(Rules::of(&RULES), |_| false);
    queue.wake_claim("ns/d");
    let (ticket, waited) = next(&queue).await;
    assert_eq!(waited, PARKED.as_secs(), "nothing helped; the safety net did");
    park(&ticket);
    tokio::time::sleep(Duration::from_secs(60)).await;
    queue.wake(Rules::of(&RULES), |_| true);
    let (ticket, waited) = next(&queue).await;
    assert_eq!(waited, 0, "its delay had passed");
    park(&ticket);
    queue.wake_claim("ns/c");
    let (ticket, waited) = next(&queue).await;
    assert_eq!(waited, 4, "its delay, the third");
    let before = queue.moves();
    queue.wake(Rules::of(&[Rule::Taints]), |_| true);
    queue.park(&ticket, Rules::of(&RULES), &[], before);
    assert_eq!(next(&queue).await.1, 8, "something changed while it was looked at");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_was_made_anew_has_another_ticket() {
    let queue = PodQueue::default();
    queue.add(&key("a"), 0);
    let (old, _) = next(&queue).await;
    queue.remove("a");
    queue.add(&key("a"), 0);
    let (new, waited) = next(&queue).await;
    assert_eq!(waited, 0);
    queue.retry(&old);
    queue.done(&old);
    queue.park(&old, Rules::of(&RULES), &[], 0);
    queue.retry(&new);
    assert_eq!(next(&queue).await, (new.clone(), 1));
    // Changed while it was taken: it is looked at again.
    queue.add(&key("a"), 0);
    queue.park(&new, Rules::of(&RULES), &[], queue.moves());
    assert_eq!(next(&queue).await.1, 2);
    queue.shutdown();
    assert_eq!(queue.next().await, None);
}
