//! The Python client: a program that uses most of its features, and its informer.

use super::past::follows;
use super::script::{Script, installed, python};
use crate::harness::plane::{Layout, Plane};

#[tokio::test]
async fn python_tour_passes() {
    if !installed().await {
        return;
    }
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let mut tour = python("tour.py", plane.dir());
    tour.arg(plane.url());
    let said = Script::start("tour", tour, plane.dir()).ok().await;
    assert!(said.ends_with("done\n"), "{said}");
}

#[tokio::test]
async fn python_informer_follows_all_changes() {
    if installed().await {
        follows(|url, home| {
            let mut follow = python("follow.py", home);
            follow.arg(url);
            follow
        })
        .await;
    }
}
