//! The JavaScript client: a program that uses most of its features, and its informer.

use super::past::follows;
use super::script::{Script, installed, node};
use crate::harness::plane::{Layout, Plane};

#[tokio::test]
async fn javascript_tour_passes() {
    if !installed().await {
        return;
    }
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let mut tour = node("tour.js", plane.dir());
    tour.arg(plane.url());
    let said = Script::start("tour", tour, plane.dir()).ok().await;
    assert!(said.ends_with("done\n"), "{said}");
}

#[tokio::test]
async fn javascript_informer_follows_all_changes() {
    if installed().await {
        follows(|url, home| {
            let mut follow = node("follow.js", home);
            follow.arg(url);
            follow
        })
        .await;
    }
}
