//! Scenarios of levels that share permits.

use std::collections::HashMap;

use super::*;

const A: LevelId = LevelId::FALLBACK;
const B: LevelId = LevelId(1);
const EXEMPT: LevelId = LevelId(2);

fn level(guaranteed: usize, nominal: usize, most: usize) -> LevelBounds {
    let queue = Bounds { permits: most, per_client: 9, waiting: 9 };
    LevelBounds { queue, guaranteed, nominal, is_exempt: false }
}

fn configs(levels: &[(LevelId, LevelBounds)]) -> Vec<LevelConfig> {
    let config = |(id, bounds): &(LevelId, LevelBounds)| LevelConfig {
        id: *id,
        name: Arc::from("a level"),
        bounds: *bounds,
    };
    levels.iter().map(config).collect()
}

fn pool(permits: usize, levels: &[(LevelId, LevelBounds)]) -> LevelPool<String> {
    let mut pool = LevelPool::sole(Bounds { permits, per_client: 9, waiting: 9 });
    assert!(pool.configure(&configs(levels)).is_empty());
    pool
}

fn id(name: u8) -> LevelId {
    match name {
        b'a' => A,
        b'b' => B,
        _ => EXEMPT,
    }
}

/// Runs a scenario. `a1` is the arrival of client 1 in level `a`, `-a1` releases its permit, `!a1` gives up.
fn play(pool: &mut LevelPool<String>, story: &str) -> String {
    let mut numbers: HashMap<String, Number> = HashMap::new();
    let client = |name: &str| Client(u64::from(name.as_bytes()[1]));
    let mut out = Vec::new();
    for step in story.split_whitespace() {
        out.push(match step.split_at(1) {
            ("-", name) => {
                let next = pool.leave(id(name.as_bytes()[0]), Some(client(name)));
                next.unwrap_or_else(|| "free".to_owned())
            }
            ("!", name) => {
                let level = id(name.as_bytes()[0]);
                let number = numbers.get(name).copied().unwrap_or(Number(u64::MAX));
                pool.give_up(level, client(name), number, GiveUp::Cancelled).to_string()
            }
            _ => match pool.arrive(id(step.as_bytes()[0]), client(step), || step.to_owned()).1 {
                Arrival::Admitted => "in".to_owned(),
                Arrival::Waits(number) | Arrival::WaitsInsteadOf(number, _) => {
                    numbers.insert(step.to_owned(), number);
                    "waits".to_owned()
                }
                Arrival::Refused => "full".to_owned(),
                Arrival::NoQueue => "none".to_owned(),
            },
        });
        let committed: usize = pool.levels.iter().map(Level::committed).sum();
        assert_eq!(pool.committed, committed, "{story}");
        assert!(committed <= pool.permits, "{story}");
        let waiting: usize = pool.levels.iter().map(|level| level.queue.waiting()).sum();
        assert_eq!(pool.waiting, waiting, "{story}");
    }
    out.join(" ")
}

#[test]
fn levels_share_the_permits() {
    for (case, permits, a, b, story, want) in [
        ("1 borrows free permits", 4, level(1, 2, 4), level(1, 2, 4), "a1 a2 a3", "in in in"),
        (
            "2 but not those guaranteed to others",
            4,
            level(1, 2, 4),
            level(1, 2, 4),
            "a1 a2 a3 a4 b1",
            "in in in waits in",
        ),
        (
            "3 a guaranteed permit returns to its level",
            4,
            level(1, 2, 4),
            level(1, 2, 4),
            "a1 a2 a3 a4 b1 -b1 b2 -a1",
            "in in in waits in free in a4",
        ),
        ("4 all are guaranteed", 4, level(2, 2, 4), level(2, 2, 4), "a1 a2 a3 b1", "in in waits in"),
        ("5 the most that it may borrow", 4, level(1, 1, 2), level(0, 1, 4), "a1 a2 a3 b1", "in in waits in"),
        (
            "6 a freed permit goes to the level that uses less of its share",
            4,
            level(0, 2, 4),
            level(0, 2, 4),
            "a1 a2 a3 b1 a4 b2 -a1 -a2",
            "in in in in waits waits b2 a4",
        ),
        (
            "7 in proportion to the share",
            4,
            level(0, 3, 4),
            level(0, 1, 4),
            "a1 a2 b1 b2 a3 b3 -b1 -b2",
            "in in in in waits waits a3 b3",
        ),
        (
            "8 a level without a share waits for the others",
            2,
            level(0, 0, 2),
            level(0, 2, 2),
            "b1 b2 a1 b3 -b1 -b2",
            "in in waits waits b3 a1",
        ),
        (
            "9 gives up",
            2,
            level(0, 1, 2),
            level(0, 1, 2),
            "a1 a2 a3 !a3 !a3 -a1",
            "in in waits true false free",
        ),
        (
            "10 exempt requests take no permits",
            1,
            level(0, 1, 1),
            level(0, 1, 1),
            "e1 e1 a1 e2 b1",
            "in in in in waits",
        ),
    ] {
        let everything = Bounds { permits: usize::MAX, per_client: 0, waiting: 0 };
        let exempt = LevelBounds { queue: everything, guaranteed: 0, nominal: 0, is_exempt: true };
        let mut pool = pool(permits, &[(A, a), (B, b), (EXEMPT, exempt)]);
        assert_eq!(play(&mut pool, story), want, "{case}");
    }
}

#[test]
fn changed_levels_admit_waiting_requests() {
    let mut pool = pool(4, &[(A, level(0, 4, 1)), (B, level(3, 3, 3))]);
    assert_eq!(play(&mut pool, "a1 a2 a3 b1"), "in waits waits in");
    let admitted = pool.configure(&configs(&[(A, level(3, 4, 4))]));
    assert_eq!(admitted, ["a2", "a3"]);
    assert_eq!(pool.levels.len(), 2, "a removed level serves the rest of its requests");
    assert!(pool.levels[1].is_quiescing);
    assert_eq!(pool.levels[0].totals, LevelTotals { dispatched: 3, ..LevelTotals::default() });
    assert_eq!(pool.leave(B, Some(Client(u64::from(b'1')))), None);
    assert_eq!(pool.levels.len(), 1);
    let (level, arrival) = pool.arrive(B, Client(7), String::new);
    assert_eq!((level, arrival), (A, Arrival::Admitted), "requests of a removed level");
}

/// In any sequence of events, a level gets each of its guaranteed permits immediately.
#[test]
fn guaranteed_permits_are_never_taken() {
    use rand::{Rng as _, SeedableRng as _};
    let seed: u64 = rand::rng().random();
    let mut rng = rand::rngs::StdRng::seed_from_u64(seed);
    for round in 0..200 {
        let (own, other) = (rng.random_range(1..4), rng.random_range(0..4));
        let permits = own + other + rng.random_range(0..3);
        let mut pool = pool(permits, &[(A, level(other, permits, permits)), (B, level(own, own, permits))]);
        let mut held: Vec<(LevelId, Client)> = Vec::new();
        let mut clients = HashMap::new();
        for number in 0..200_u64 {
            let level = if rng.random_bool(0.7) { A } else { B };
            let used = held.iter().filter(|(held, _)| *held == level).count();
            if rng.random_bool(0.6) {
                let client = Client(number);
                let name = number.to_string();
                clients.insert(name.clone(), (level, client));
                let (_, arrival) = pool.arrive(level, client, || name);
                let guaranteed = if level == A { other } else { own };
                let is_in = arrival == Arrival::Admitted;
                assert!(is_in || used >= guaranteed, "seed {seed}, round {round}");
                if is_in {
                    held.push((level, client));
                }
            } else if !held.is_empty() {
                let (level, client) = held.swap_remove(rng.random_range(0..held.len()));
                held.extend(pool.leave(level, Some(client)).map(|name| clients[&name]));
            }
            assert!(held.len() <= permits, "seed {seed}, round {round}");
            assert_eq!(pool.taken(), held.len(), "seed {seed}, round {round}");
        }
    }
}
