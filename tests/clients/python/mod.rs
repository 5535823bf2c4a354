//! The Python client: a program that does a bit of everything, and its informer.

use super::past::follows;
use super::script::{Script, installed, python};
use crate::harness::plane::{Layout, Plane};

#[tokio::test]
async fn a_program() {
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
async fn an_informer() {
    if installed().await {
        follows(|url, home| {
            let mut follow = python("follow.py", home);
            follow.arg(url);
            follow
        })
        .await;
    }
}
