//! The sizes of futures. A request copies the future of its verb several times, so what is rare and large in one is boxed.

use super::{Verb, serve};
use crate::verbs::part::Part;
use crate::verbs::request::Request;
use crate::verbs::{create, delete, get, list, patch, update};

/// The maximum size of the future of a verb, bytes.
const MAX: usize = 2_500;

/// The size of the future that a function returns.
fn size<F: Future>(_: impl FnOnce(&'static Request) -> F) -> usize {
    size_of::<F>()
}

#[test]
fn futures_of_verbs_are_small() {
    for (verb, size, max) in [
        ("any", size(|request| serve(Verb::Get, request)), 1_000),
        ("get", size(get::get), 1_000),
        ("list", size(list::list), MAX),
        ("create", size(create::create), MAX),
        ("update", size(|request| update::update(request, Part::Main)), MAX),
        ("patch", size(|request| patch::patch(request, Part::Main)), MAX),
        ("delete", size(delete::delete), MAX),
    ] {
        assert!(size <= max, "{verb}: {size} bytes");
    }
}
