//! Choosing controllers, and keeping them running.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::testing::FakeApi;

fn idle(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        context.shutdown.cancelled().await;
        Ok(())
    })
}

const KNOWN: [Known; 3] = [
    Known { name: "a-controller", alias: Some("a"), run: idle },
    Known { name: "b-controller", alias: None, run: idle },
    Known { name: "garbage-collector-controller", alias: Some("garbagecollector"), run: idle },
];

#[test]
fn which_controllers_a_choice_means() {
    let all = vec!["a-controller", "b-controller", "garbage-collector-controller"];
    let table: [(&[&str], Vec<&str>); 8] = [
        (&["*"], all.clone()),
        (&["*", "-a-controller"], vec!["b-controller", "garbage-collector-controller"]),
        (&["-a", "*"], vec!["b-controller", "garbage-collector-controller"]),
        (&["b-controller"], vec!["b-controller"]),
        (&["a", "garbagecollector"], vec!["a-controller", "garbage-collector-controller"]),
        (&["-b-controller"], vec![]),
        (&["a", "-a", "*"], all),
        (&[], vec![]),
    ];
    for (chosen, wanted) in table {
        let options =
            Options { controllers: chosen.iter().map(|c| (*c).to_owned()).collect(), ..Options::default() };
        let names: Vec<&str> = enabled(&KNOWN, &options).unwrap().iter().map(|k| k.name).collect();
        assert_eq!(names, wanted, "{chosen:?}");
    }
    let off = Options { enable_garbage_collector: false, ..Options::default() };
    assert_eq!(enabled(&KNOWN, &off).unwrap().len(), 2);
}

#[test]
fn an_unknown_name_is_an_error_that_names_the_known_ones() {
    let options = Options { controllers: vec!["*".into(), "-deployment".into()], ..Options::default() };
    let text = enabled(&KNOWN, &options).err().unwrap().to_string();
    assert!(text.contains("\"-deployment\"") && text.contains("a-controller, b-controller"), "{text}");
}

static STARTS: AtomicUsize = AtomicUsize::new(0);
static OTHERS: AtomicUsize = AtomicUsize::new(0);

fn dies(_: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async {
        match STARTS.fetch_add(1, Ordering::SeqCst) {
            0 => panic!("on purpose"),
            1 => Err(ControllerError("no more".into())),
            2 => Ok(()),
            _ => std::future::pending().await,
        }
    })
}

fn counts(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    OTHERS.fetch_add(1, Ordering::SeqCst);
    idle(context)
}

#[tokio::test(start_paused = true)]
async fn i12_a_controller_that_dies_is_started_again_and_takes_no_other_down() {
    const BOTH: [Known; 2] =
        [Known { name: "dies", alias: None, run: dies }, Known { name: "counts", alias: None, run: counts }];
    let shutdown = CancellationToken::new();
    let api = FakeApi::new();
    let running = tokio::spawn(run_known(&BOTH, api.client(), Options::default(), shutdown.clone()));
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!((STARTS.load(Ordering::SeqCst), OTHERS.load(Ordering::SeqCst)), (4, 1));
    shutdown.cancel();
    running.await.unwrap().unwrap();
}
