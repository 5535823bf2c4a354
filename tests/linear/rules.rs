//! Each rule with a small history that violates it, and one that satisfies it.

use super::check::check;
use super::history::{
    Ask, Change, Form, From, History, Operation, Outcome, Selector, State, Stream, StreamLine, Wants, What,
};

const A: &str = "secrets/hot/a";
const B: &str = "secrets/hot/b";

fn state(key: &str, revision: u64, uid: &str, value: &str, color: &str) -> State {
    let [key, uid, value, color] = [key, uid, value, color].map(str::to_owned);
    State { key, revision, uid, sum: value.len() as u64, value, color, held: false, deleting: false }
}

/// `a` is created, changed twice, and deleted; `b` is created in between.
fn a1() -> State {
    state(A, 11, "ua", "v1", "red")
}
fn a2() -> State {
    state(A, 12, "ua", "v2", "blue")
}
fn b1() -> State {
    state(B, 13, "ub", "w1", "red")
}
fn a3() -> State {
    state(A, 14, "ua", "v3", "red")
}
fn a4() -> State {
    State { revision: 15, ..a3() }
}

fn operation(start: u64, end: u64, ask: Ask, outcome: Outcome) -> Operation {
    Operation { client: 1, start, end, request: String::new(), ask, outcome }
}

fn write(key: &str, value: &str, color: &str, expect: Option<u64>, test: Option<&str>) -> Ask {
    let [key, value, color] = [key, value, color].map(str::to_owned);
    let form = if test.is_some() { Form::Json } else { Form::Put };
    let hold = (form == Form::Put).then_some(false);
    Ask::Write { key, form, value, color, hold, expect, test: test.map(str::to_owned) }
}

fn create(state: &State) -> Ask {
    let State { key, value, color, held, .. } = state.clone();
    Ask::Create { key, value, color, held }
}

fn get(key: &str) -> Ask {
    Ask::Get { key: key.to_owned(), at_least: 0 }
}

fn list(wants: Wants, limit: usize) -> Ask {
    let (prefix, selector) = ("secrets/hot/".to_owned(), Selector::Everything);
    Ask::List { prefix, selector, wants, after: None, limit }
}

fn listed(revision: u64, items: &[State], more: bool) -> Outcome {
    Outcome::Listed { revision, items: items.to_vec(), more, remaining: None }
}

fn refused(code: u16) -> Outcome {
    Outcome::Refused { code, reason: String::new() }
}

fn lines(from: u64, events: &[(Change, State)]) -> Vec<StreamLine> {
    let line = |(n, (change, state)): (usize, &(Change, State))| StreamLine {
        at: from + n as u64,
        what: What::Event(*change, state.clone()),
    };
    events.iter().enumerate().map(line).collect()
}

fn stream(watcher: u32, from: From, heard: Vec<StreamLine>) -> Stream {
    let (prefix, selector) = ("secrets/".to_owned(), Selector::Everything);
    let (opened, answered, request) = (950, 960, String::new());
    Stream {
        watcher,
        resumed: false,
        opened,
        answered,
        request,
        prefix,
        selector,
        from,
        bookmarks: true,
        heard,
    }
}

fn bookmark(at: u64, revision: u64, initial_end: bool) -> StreamLine {
    StreamLine { at, what: What::Bookmark { revision, initial_end } }
}

use Change::{Added, Deleted, Modified};

/// The valid history: all changes, and one watcher of everything from the beginning.
fn good() -> History {
    let deleted = Outcome::Gone { uid: "ua".to_owned(), last: None };
    let delete = Ask::Delete { key: A.to_owned(), uid: None, expect: Some(14) };
    let events = [(Added, a1()), (Modified, a2()), (Added, b1()), (Modified, a3()), (Deleted, a4())];
    let recorded = Stream { opened: 1, answered: 2, ..stream(1, From::After(10), lines(1000, &events)) };
    let watched = Stream { opened: 1, answered: 2, ..stream(2, From::After(10), lines(1000, &events)) };
    History {
        begin: 10,
        retention: 3,
        recorders: vec![1],
        operations: vec![
            operation(100, 110, create(&a1()), Outcome::Object(a1())),
            operation(200, 210, write(A, "v2", "blue", Some(11), None), Outcome::Object(a2())),
            operation(300, 310, create(&b1()), Outcome::Object(b1())),
            operation(400, 410, write(A, "v3", "red", None, Some("v2")), Outcome::Object(a3())),
            operation(500, 510, delete, deleted),
        ],
        streams: vec![recorded, watched],
        ..History::default()
    }
}

/// A change to the valid history, and the rules that it violates; none if it remains valid.
type Case = (&'static str, &'static [&'static str], fn(&mut History));

fn push(history: &mut History, start: u64, end: u64, ask: Ask, outcome: Outcome) {
    history.operations.push(operation(start, end, ask, outcome));
}

fn heard(history: &mut History) -> &mut Vec<StreamLine> {
    &mut history.streams[1].heard
}

fn judge(cases: &[Case]) {
    for (name, wanted, change) in cases {
        let mut history = good();
        change(&mut history);
        let faults = check(&history).0;
        let rules: Vec<&str> = faults.iter().map(|fault| fault.rule).collect();
        for rule in *wanted {
            assert!(rules.contains(rule), "{name}: {rule} does not complain, only {faults:#?}");
        }
        assert_eq!(rules.is_empty(), wanted.is_empty(), "{name}: {faults:#?}");
    }
}

#[test]
fn invalid_writes_are_detected() {
    judge(&[
        ("1 as it is", &[], |_| {}),
        ("2 lost: acknowledged, and not in the log", &["lost"], |h| {
            h.operations[4].outcome = Outcome::Gone { uid: "other".to_owned(), last: None };
        }),
        ("3 lost: a revision that is another's", &["lost"], |h| {
            h.operations[2].outcome = Outcome::Object(State { revision: 14, ..b1() });
        }),
        ("4 unknown, and it happened", &[], |h| h.operations[1].outcome = Outcome::Unknown(String::new())),
        ("5 unknown, and it did not", &[], |h| {
            push(h, 120, 130, write(A, "other", "red", None, None), Outcome::Unknown(String::new()));
        }),
        ("6 refused, and it happened", &["cause"], |h| h.operations[1].outcome = refused(409)),
        ("7 not requested", &["cause"], |h| drop(h.operations.remove(3))),
        ("8 unknown, and it happened twice", &["once"], |h| {
            h.operations[0].outcome = Outcome::Unknown(String::new());
            h.operations.remove(3);
            let twice = State { value: "v1".to_owned(), ..a3() };
            for stream in &mut h.streams {
                stream.heard[3].what = What::Event(Modified, twice.clone());
                stream.heard[4].what = What::Event(Deleted, State { revision: 15, ..twice.clone() });
            }
        }),
        ("9 two have deleted it", &["once"], |h| {
            let last = h.operations[4].clone();
            h.operations.push(last);
        }),
        ("10 it exists before it was asked for", &["order"], |h| {
            (h.operations[1].start, h.operations[1].end) = (315, 320);
        }),
        ("11 a revision that was known before it was asked for", &["order"], |h| {
            push(h, 150, 160, list(Wants::Newest, 0), listed(12, &[a2()], false));
        }),
        ("12 over another revision than it wanted", &["write"], |h| {
            h.operations[1].ask = write(A, "v2", "blue", Some(10), None);
        }),
        ("13 over another value than it tested", &["write"], |h| {
            h.operations[3].ask = write(A, "v3", "red", None, Some("v1"));
        }),
        ("14 over what was there already", &["write"], |h| {
            h.operations[3].ask =
                Ask::Create { key: A.into(), value: "v3".into(), color: "red".into(), held: false };
        }),
        ("15 it says something else than the log", &["state"], |h| {
            h.operations[1].outcome = Outcome::Object(State { sum: 99, ..a2() });
        }),
        ("16 a revision is missing", &["dense"], |h| drop(h.streams[0].heard.remove(1))),
        ("17 a revision of two keys", &["dense"], |h| {
            let what = What::Event(Added, State { revision: 12, ..b1() });
            h.streams[0].heard.push(StreamLine { at: 2000, what });
        }),
        ("18 deleted by a collection that had listed it", &[], |h| {
            h.operations[4].ask =
                Ask::DeleteAll { prefix: "secrets/hot/".into(), selector: Selector::Name("a".into()) };
            h.operations[4].outcome = listed(14, &[a3()], false);
        }),
        ("19 listed for deletion, and still there", &["deleted"], |h| {
            let (prefix, selector) = ("secrets/hot/".to_owned(), Selector::Name("b".to_owned()));
            push(h, 600, 610, Ask::DeleteAll { prefix, selector }, listed(15, &[b1()], false));
        }),
        ("20 a write of unknown outcome is seen, and is gone again", &["read", "linearizable"], |h| {
            h.operations[1].outcome = Outcome::Unknown(String::new());
            push(h, 220, 230, get(A), Outcome::Object(a2()));
            push(h, 240, 250, get(A), Outcome::Object(a1()));
        }),
        (
            "21 marked by a delete of unknown outcome, and a later delete answers with the same mark",
            &[],
            |h| {
                push(h, 600, 610, delete(B), Outcome::Unknown(String::new()));
                marked(h);
            },
        ),
        ("22 marked before the delete that answers with the mark", &["read", "linearizable"], marked),
    ]);
}

fn delete(key: &str) -> Ask {
    Ask::Delete { key: key.to_owned(), uid: None, expect: None }
}

/// Adds finalizers to `b`, and a mark of its deletion at revision 16, which a read sees before a delete answers with it.
fn marked(history: &mut History) {
    let held = State { held: true, ..b1() };
    let mark = State { revision: 16, deleting: true, ..held.clone() };
    history.operations[2] = operation(300, 310, create(&held), Outcome::Object(held.clone()));
    for stream in &mut history.streams {
        stream.heard[2].what = What::Event(Added, held.clone());
        stream.heard.push(StreamLine { at: 1010, what: What::Event(Modified, mark.clone()) });
    }
    push(history, 620, 630, get(B), Outcome::Object(mark.clone()));
    push(history, 640, 650, delete(B), Outcome::Object(mark));
}

#[test]
fn invalid_reads_are_detected() {
    judge(&[
        ("1 what is there", &[], |h| push(h, 220, 230, get(A), Outcome::Object(a2()))),
        ("2 beside a write: before or after it", &[], |h| {
            push(h, 201, 202, get(A), Outcome::Object(a1()));
            push(h, 203, 204, get(A), Outcome::Object(a2()));
        }),
        ("3 beside a write: after and before it", &["read", "linearizable"], |h| {
            push(h, 201, 202, get(A), Outcome::Object(a2()));
            push(h, 203, 204, get(A), Outcome::Object(a1()));
        }),
        ("4 stale", &["read", "linearizable"], |h| push(h, 220, 230, get(A), Outcome::Object(a1()))),
        ("5 from the future", &["order", "linearizable"], |h| {
            push(h, 120, 130, get(A), Outcome::Object(a2()))
        }),
        ("6 what never was", &["state", "linearizable"], |h| {
            push(h, 220, 230, get(A), Outcome::Object(State { value: "x".into(), ..a2() }));
        }),
        ("7 not there, though it is", &["refused", "linearizable"], |h| {
            push(h, 220, 230, get(A), refused(404))
        }),
        ("8 not there any more", &[], |h| push(h, 520, 530, get(A), refused(404))),
        ("9 not there, and then there again", &["read", "linearizable"], |h| {
            push(h, 501, 502, get(A), refused(404));
            push(h, 503, 504, get(A), Outcome::Object(a3()));
        }),
        ("10 older than it was asked for", &["read"], |h| {
            let ask = Ask::Get { key: A.into(), at_least: 12 };
            push(h, 201, 202, ask, Outcome::Object(a1()));
        }),
        ("11 one revision of both", &[], |h| {
            push(h, 405, 406, list(Wants::Newest, 0), listed(13, &[a2(), b1()], false));
        }),
        ("12 a list of two revisions", &["atomic list"], |h| {
            push(h, 405, 406, list(Wants::Newest, 0), listed(14, &[a2(), b1()], false));
        }),
        ("13 a list without one", &["atomic list", "linearizable"], |h| {
            push(h, 420, 430, list(Wants::Newest, 0), listed(14, &[a3()], false));
        }),
        ("14 a list in disorder", &["atomic list"], |h| {
            push(h, 420, 430, list(Wants::Newest, 0), listed(14, &[b1(), a3()], false));
        }),
        ("15 a stale list", &["read", "linearizable"], |h| {
            push(h, 420, 430, list(Wants::Newest, 0), listed(13, &[a2(), b1()], false));
        }),
        ("16 an old list that was asked for", &[], |h| {
            push(h, 420, 430, list(Wants::Exact(12), 0), listed(12, &[a2()], false));
        }),
        ("17 not exactly that one", &["read"], |h| {
            push(h, 420, 430, list(Wants::Exact(12), 0), listed(14, &[a3(), b1()], false));
        }),
        ("18 too old for what was asked", &["read"], |h| {
            push(h, 405, 406, list(Wants::NotOlder(14), 0), listed(13, &[a2(), b1()], false));
        }),
        ("19 a page", &[], |h| push(h, 420, 430, list(Wants::Newest, 1), listed(14, &[a3()], true))),
        ("20 a page that says it is all", &["atomic list", "linearizable"], |h| {
            push(h, 420, 430, list(Wants::Newest, 1), listed(14, &[a3()], false));
        }),
        ("21 a conflict with what is there", &[], |h| {
            push(h, 220, 230, write(A, "x", "red", Some(11), None), refused(409));
        }),
        ("22 a conflict with nothing", &["refused", "linearizable"], |h| {
            push(h, 220, 230, write(A, "x", "red", Some(12), None), refused(409));
        }),
        ("23 a test that cannot have failed", &["refused", "linearizable"], |h| {
            push(h, 220, 230, write(A, "x", "red", None, Some("v2")), refused(422));
        }),
        ("24 it exists, though it does not", &["refused", "linearizable"], |h| {
            push(h, 520, 530, create(&State { value: "x".into(), ..a1() }), refused(409));
        }),
        ("25 a refusal that is none", &["answer"], |h| push(h, 220, 230, get(A), refused(403))),
        ("26 expired, rightly", &[], |h| push(h, 520, 530, list(Wants::Exact(11), 0), refused(410))),
        ("27 expired, and it must be kept", &["expired"], |h| {
            push(h, 520, 530, list(Wants::Exact(12), 0), refused(410));
        }),
        ("28 an uid that is the object's", &["refused", "linearizable"], |h| {
            let ask = Ask::Delete { key: A.into(), uid: Some("ua".into()), expect: None };
            push(h, 220, 230, ask, refused(409));
        }),
    ]);
}

#[test]
fn invalid_watches_are_detected() {
    judge(&[
        ("1 filter: another namespace", &["filter"], |h| h.streams[1].prefix = "secrets/warm/".into()),
        ("2 filter: not selected", &["filter"], |h| h.streams[1].selector = Selector::Name("b".into())),
        ("3 filter: what is nothing to it", &["filter"], |h| {
            let what = What::Event(Modified, State { revision: 16, ..b1() });
            heard(h).push(StreamLine { at: 1010, what });
        }),
        ("4 ordered", &["ordered"], |h| heard(h).swap(1, 2)),
        ("5 unique: twice", &["unique"], |h| {
            let twice = heard(h)[2].clone();
            heard(h).insert(3, twice);
        }),
        ("6 unique: again behind a resume", &["unique", "filter"], |h| {
            h.streams[1].heard.truncate(2);
            let again = lines(1010, &[(Modified, a2()), (Added, b1())]);
            h.streams.push(Stream { resumed: true, ..stream(2, From::After(12), again) });
        }),
        ("7 atomic: a revision of two objects", &["atomic"], |h| {
            let what = What::Event(Added, State { revision: 12, ..b1() });
            heard(h).insert(2, StreamLine { at: 1001, what });
        }),
        ("8 atomic: initial events of one revision", &[], |h| {
            let mut heard = lines(1010, &[(Added, b1())]);
            heard.push(bookmark(1020, 15, true));
            h.streams.push(Stream { opened: 1005, ..stream(3, From::Initial(0), heard) });
        }),
        ("9 atomic: initial events of two", &["atomic"], |h| {
            let mut heard = lines(1010, &[(Added, a1()), (Added, b1())]);
            heard.push(bookmark(1020, 15, true));
            h.streams.push(stream(3, From::Initial(0), heard));
        }),
        ("10 atomic: one is left out", &["atomic"], |h| {
            h.streams.push(stream(3, From::Initial(0), vec![bookmark(1020, 15, true)]));
        }),
        ("11 atomic: initial events that are stale", &["atomic"], |h| {
            let mut heard = lines(1010, &[(Added, a2()), (Added, b1())]);
            heard.push(bookmark(1020, 13, true));
            h.streams.push(Stream { opened: 1005, ..stream(3, From::Initial(0), heard) });
        }),
        ("12 atomic: no bookmark, and no state begins so", &["atomic"], |h| {
            h.streams.push(Stream {
                bookmarks: false,
                ..stream(3, From::Initial(0), lines(1010, &[(Added, a1())]))
            });
        }),
        ("13 bookmarkable: something older behind it", &["bookmarkable"], |h| {
            heard(h).insert(2, bookmark(1001, 13, false))
        }),
        ("14 bookmarkable: it goes back", &["bookmarkable"], |h| heard(h).push(bookmark(1010, 14, false))),
        ("15 bookmarkable: the end of the initial events is missing", &["bookmarkable"], |h| {
            let heard = lines(1010, &[(Added, a3()), (Added, b1()), (Deleted, a4())]);
            h.streams.push(Stream { opened: 450, ..stream(3, From::Initial(0), heard) });
        }),
        (
            "15b cut off inside of the initial events, which begin as those of an older revision do",
            &[],
            |h| {
                let heard = lines(1010, &[(Added, a2()), (Added, b1())]);
                h.streams.push(Stream { opened: 320, ..stream(3, From::Initial(0), heard) });
            },
        ),
        ("15c the state of 12, although that of 10 has no objects", &[], |h| {
            let (opened, heard) = (1, lines(1010, &[(Added, a2()), (Added, b1())]));
            h.streams.push(Stream { opened, bookmarks: false, ..stream(3, From::Initial(0), heard) });
        }),
        ("15d resumable: no state begins so", &["resumable"], |h| {
            let (opened, heard) = (1, lines(1010, &[(Modified, a2()), (Modified, a3())]));
            h.streams.push(Stream { opened, bookmarks: false, ..stream(3, From::Initial(0), heard) });
        }),
        ("16 reliable: one is left out", &["reliable"], |h| drop(heard(h).remove(2))),
        ("17 reliable: the last before a bookmark", &["reliable"], |h| {
            heard(h).truncate(4);
            heard(h).push(bookmark(1010, 15, false));
        }),
        ("18 the last one may be on its way", &[], |h| heard(h).truncate(3)),
        ("19 resumable: the first is left out", &["resumable"], |h| drop(heard(h).remove(0))),
        ("20 resumable: from elsewhere", &["resumable"], |h| {
            heard(h).truncate(2);
            let next = lines(1010, &[(Modified, a3())]);
            h.streams.push(Stream { resumed: true, ..stream(2, From::After(13), next) });
        }),
        ("21 resumed", &[], |h| {
            heard(h).truncate(2);
            let next = lines(1010, &[(Added, b1()), (Modified, a3())]);
            h.streams.push(Stream { resumed: true, ..stream(2, From::After(12), next) });
        }),
        ("22 previous value: not the last one", &["previous value"], |h| {
            heard(h)[4].what = What::Event(Deleted, State { revision: 15, ..a2() });
        }),
        ("23 previous value: not what was written", &["previous value"], |h| {
            heard(h)[3].what = What::Event(Modified, State { sum: 99, ..a3() });
        }),
        ("24 is-create: it was there", &["is-create"], |h| heard(h)[1].what = What::Event(Added, a2())),
        ("25 is-create: it was not", &["is-create"], |h| heard(h)[2].what = What::Event(Modified, b1())),
        ("26 by a selector: in, out and in again", &[], |h| red(h, Deleted, a1(), Added)),
        ("27 by a selector: out with the new state", &["filter"], |h| red(h, Deleted, a2(), Added)),
        ("28 by a selector: back as a change", &["is-create"], |h| red(h, Deleted, a1(), Modified)),
        ("29 existing: sent before it was requested", &["existing"], |h| heard(h)[0].at = 99),
        ("30 expired, rightly", &[], |h| fail(h, 11, 410)),
        ("31 expired, and it must be kept", &["expired"], |h| fail(h, 12, 410)),
        ("32 another error", &["expired"], |h| fail(h, 11, 500)),
        ("33 from now", &[], |h| {
            let heard = lines(1010, &[(Modified, a3()), (Deleted, a4())]);
            h.streams.push(Stream { opened: 405, answered: 415, ..stream(3, From::Now, heard) });
        }),
        ("34 from now, and one is left out", &["resumable"], |h| {
            let heard = lines(1010, &[(Deleted, a4())]);
            h.streams.push(Stream { opened: 320, answered: 330, ..stream(3, From::Now, heard) });
        }),
    ]);
}

/// A watcher that selects red: `a` leaves the selection at revision 12 and returns at 14.
fn red(history: &mut History, out: Change, shown: State, back: Change) {
    let left = State { revision: 12, ..shown };
    let mut events = vec![(Added, a1()), (out, left), (Added, b1()), (back, a3()), (Deleted, a4())];
    let selector = Selector::Color("red".to_owned());
    let heard = lines(1010, &std::mem::take(&mut events));
    history.streams.push(Stream { selector, ..stream(3, From::After(10), heard) });
}

fn fail(history: &mut History, after: u64, code: u64) {
    let heard = vec![StreamLine { at: 1010, what: What::Failed(code) }];
    history.streams.push(stream(3, From::After(after), heard));
}
