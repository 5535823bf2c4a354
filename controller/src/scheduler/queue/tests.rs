//! The order and timing of the queue.
#![allow(clippy::unwrap_used)]

use super::super::filter::Rule;
use super::*;

fn key(name: &str) -> Key {
    name.into()
}

/// The next pod and the seconds until it was ready.
async fn next(queue: &PodQueue) -> (Ticket, u64) {
    let began = Instant::now();
    let ticket = queue.next().await.unwrap();
    (ticket, began.elapsed().as_secs())
}

const RULES: [Rule; 1] = [Rule::Resources];

fn waits(claims: &[String]) -> Waits {
    Waits { rules: Rules::of(&RULES), claims: claims.to_vec(), ..Waits::default() }
}

#[tokio::test(start_paused = true)]
async fn order_is_priority_then_arrival() {
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
async fn delay_doubles_up_to_ten_seconds() {
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
async fn parked_pod_is_woken_by_a_related_change() {
    let queue = PodQueue::default();
    queue.add(&key("a"), 0);
    let claims = ["ns/c".to_owned()];
    let park = |ticket: &Ticket| queue.park(ticket, waits(&claims), queue.look(ticket, &claims));
    let (ticket, _) = next(&queue).await;
    park(&ticket);
    queue.wake(Rules::of(&[Rule::Taints]));
    queue.wake_for_node(Rules::of(&RULES), |_| false);
    queue.wake_class(Rules::of(&RULES), "fast");
    queue.wake_claim("ns/d");
    let (ticket, waited) = next(&queue).await;
    assert_eq!(waited, PARKED.as_secs(), "nothing helped; the safety net did");
    park(&ticket);
    tokio::time::sleep(Duration::from_secs(60)).await;
    queue.wake(Rules::of(&RULES));
    let (ticket, waited) = next(&queue).await;
    assert_eq!(waited, 0, "its delay had passed");
    park(&ticket);
    queue.wake_claim("ns/c");
    let (ticket, waited) = next(&queue).await;
    assert_eq!(waited, 4, "its delay, the third");
    let before = queue.look(&ticket, &[]);
    queue.wake(Rules::of(&RULES));
    queue.park(&ticket, waits(&[]), before);
    assert_eq!(next(&queue).await.1, 8, "something changed while it was looked at");
}

/// Parks pods of two needs and two classes.
async fn two_kinds(queue: &PodQueue, count: usize) {
    for number in 0..count {
        queue.add(&key(&format!("p{number}")), 0);
    }
    for number in 0..count {
        let (ticket, _) = next(queue).await;
        let zone = format!("z{}", number % 2);
        let pod =
            serde_json::json!({"metadata": {}, "spec": {"containers": [], "nodeSelector": {"zone": zone}}});
        let needs = Arc::new(NodeNeeds::of(&serde_json::from_value(pod).unwrap()));
        let classes = [format!("c{}", number % 2)].into();
        queue.park(&ticket, Waits { classes, needs, ..waits(&[]) }, queue.look(&ticket, &[]));
    }
}

#[tokio::test(start_paused = true)]
async fn changed_node_is_compared_once_with_equal_pods() {
    let queue = PodQueue::default();
    two_kinds(&queue, 1000).await;
    let asked = std::cell::Cell::new(0);
    let zone = serde_json::json!({"metadata": {"name": "n", "labels": {"zone": "z1"}}});
    let node = super::super::cluster::NodeFacts::of(&serde_json::from_value(zone).unwrap());
    queue.wake_for_node(Rules::of(&RULES), |needs| {
        asked.set(asked.get() + 1);
        assert!(!queue.shared.state.is_locked(), "the queue is free meanwhile");
        needs.may_suit(&node)
    });
    assert_eq!(asked.get(), 2);
    let parked = |queue: &PodQueue| queue.state().parked.rejected(Rules::of(&RULES)).len();
    assert_eq!(parked(&queue), 500);
    queue.wake_for_node(Rules::of(&[Rule::Taints]), |_| true);
    queue.wake_class(Rules::of(&[Rule::Taints]), "c0");
    queue.wake_class(Rules::of(&RULES), "c1");
    assert_eq!(parked(&queue), 500, "another rule, or another class");
    queue.wake_class(Rules::of(&RULES), "c0");
    assert_eq!(parked(&queue), 0);
    assert!(queue.state().parked.needs().is_empty());
}

#[tokio::test(start_paused = true)]
async fn only_a_related_change_prevents_parking() {
    type Change = fn(&PodQueue);
    let table: [(&str, Change, bool); 7] = [
        ("nothing", |_| {}, false),
        ("another rule", |queue| queue.wake(Rules::of(&[Rule::Taints])), false),
        ("another claim", |queue| queue.wake_claim("ns/d"), false),
        ("its rule", |queue| queue.wake(Rules::of(&RULES)), true),
        ("its rule among others", |queue| queue.wake(Rules::of(&[Rule::Taints, Rule::Resources])), true),
        ("its claim", |queue| queue.wake_claim("ns/c"), true),
        ("the pod itself", |queue| queue.add(&key("a"), 0), true),
    ];
    let claims = ["ns/c".to_owned()];
    for (name, change, moved) in table {
        let queue = PodQueue::default();
        queue.add(&key("a"), 0);
        let (ticket, _) = next(&queue).await;
        let seen = queue.look(&ticket, &claims);
        change(&queue);
        queue.park(&ticket, waits(&claims), seen);
        let wanted = if moved { FIRST } else { PARKED };
        let (ticket, waited) = next(&queue).await;
        assert_eq!(waited, wanted.as_secs(), "{name}");
        // The next decision starts with new counts.
        let seen = queue.look(&ticket, &claims);
        queue.park(&ticket, waits(&claims), seen);
        assert_eq!(next(&queue).await.1, PARKED.as_secs(), "{name}, the next time");
    }
}

#[tokio::test(start_paused = true)]
async fn finished_pods_leave_the_claim_index() {
    let claims = ["ns/c".to_owned(), "ns/d".to_owned()];
    type End = fn(&PodQueue, &Ticket);
    let table: [(&str, End); 3] = [
        ("done", |queue, ticket| queue.done(ticket)),
        ("removed", |queue, ticket| queue.remove(&ticket.key)),
        ("tried again later", |queue, ticket| queue.retry(ticket)),
    ];
    for (name, end) in table {
        let queue = PodQueue::default();
        queue.add(&key("a"), 0);
        let (ticket, _) = next(&queue).await;
        queue.look(&ticket, &claims);
        queue.look(&ticket, &claims[..1]);
        assert_eq!(queue.state().by_claim.len(), 1, "{name}");
        end(&queue, &ticket);
        assert!(queue.state().by_claim.is_empty(), "{name}");
        queue.wake_claim("ns/c");
    }
}

#[tokio::test(start_paused = true)]
async fn recreated_pod_has_another_ticket() {
    let queue = PodQueue::default();
    queue.add(&key("a"), 0);
    let (old, _) = next(&queue).await;
    queue.remove("a");
    queue.add(&key("a"), 0);
    let (new, waited) = next(&queue).await;
    assert_eq!(waited, 0);
    queue.retry(&old);
    queue.done(&old);
    queue.park(&old, waits(&[]), queue.look(&old, &[]));
    queue.retry(&new);
    assert_eq!(next(&queue).await, (new.clone(), 1));
    // Changed while it was taken: it is retried.
    let seen = queue.look(&new, &[]);
    queue.add(&key("a"), 0);
    queue.park(&new, waits(&[]), seen);
    assert_eq!(next(&queue).await.1, 2);
    queue.shutdown();
    assert_eq!(queue.next().await, None);
}
