//! The on-disk format: the bytes do not change by accident, and older formats can be read.

use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::{events, records, small};
use crate::embedded::frame::{Entry, FORMAT, Frame, FrameWriter, SegmentHeader, StoreId, frame_after};
use crate::embedded::rows::{self, CurrentRow};
use crate::testing::{Sum, delete_one, put_one};
use crate::{Embedded, Kv, Revision};

const STORE: StoreId = StoreId([7; 16]);

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn entries() -> Vec<Entry> {
    let entry = |revision, create, prev, value: Option<&str>| Entry {
        revision: Revision(revision),
        time_ms: 1_700_000_000_000,
        create: Revision(create),
        prev: Revision(prev),
        key: "/r/p/a".into(),
        value: value.map(|value| Bytes::copy_from_slice(value.as_bytes())),
    };
    vec![entry(5, 5, 0, Some("one")), entry(6, 5, 5, Some("")), entry(7, 5, 6, None)]
}

fn frame() -> Vec<u8> {
    let mut writer = FrameWriter::new(STORE);
    writer.start(Revision(5));
    for entry in entries() {
        writer.entry(entry.time_ms, entry.create, entry.prev, &entry.key, entry.value.as_deref());
    }
    writer.finish().unwrap().to_vec()
}

#[test]
fn segment_header_bytes_are_stable() {
    let header = SegmentHeader { format: 1, store: STORE, first: Revision(258) };
    let bytes = header.encode();
    let expected = concat!(
        "4f524c4f504a4e4c",
        "01000000",
        "00000000",
        "07070707070707070707070707070707",
        "0201000000000000",
        "00000000",
        "511a0620"
    );
    assert_eq!(hex(&bytes), expected);
    assert_eq!(SegmentHeader::decode(&bytes), Ok(header));
    for at in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 1;
        assert!(SegmentHeader::decode(&bad).is_err(), "byte {at}");
        assert!(SegmentHeader::decode(&bytes[..at]).is_err(), "cut at {at}");
    }
}

#[test]
fn frame_bytes_are_stable() {
    let bytes = frame();
    let expected = concat!(
        "47525550",
        "78000000",
        "0500000000000000",
        "03000000",
        "00000000",
        "eef06b29",
        "1dc0b49d",
        "01",
        "0068e5cf8b010000",
        "0500000000000000",
        "0000000000000000",
        "06000000",
        "03000000",
        "2f722f702f61",
        "6f6e65",
        "01",
        "0068e5cf8b010000",
        "0500000000000000",
        "0500000000000000",
        "06000000",
        "00000000",
        "2f722f702f61",
        "02",
        "0068e5cf8b010000",
        "0500000000000000",
        "0600000000000000",
        "06000000",
        "00000000",
        "2f722f702f61",
    );
    assert_eq!(hex(&bytes), expected);
    let frame = Frame::decode(STORE, &bytes).unwrap();
    assert_eq!((frame.first, frame.last(), frame.size()), (Revision(5), Revision(7), bytes.len()));
    assert_eq!(frame.entries().unwrap(), entries());
    assert_eq!(Frame::decode(StoreId([8; 16]), &bytes), None, "of another store");
    for at in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 1;
        assert_eq!(Frame::decode(STORE, &bad), None, "byte {at}");
        assert_eq!(Frame::decode(STORE, &bytes[..at]), None, "cut at {at}");
    }
    let behind = [&b"GRUP and noise"[..], &bytes].concat();
    assert_eq!(frame_after(STORE, &behind, Revision(5)), Some(14));
    assert_eq!(frame_after(STORE, &behind, Revision(6)), None, "an older frame is no sign of damage");
}

#[test]
fn served_row_bytes_are_stable() {
    let (revision, create, prior) = (Revision(258), Revision(5), Revision(6));
    let long = vec![b'v'; 150_000];
    for (name, value, rows_wanted) in [
        ("a put", Some(&b"one"[..]), 1),
        ("a delete", None, 1),
        ("empty", Some(b""), 1),
        ("long", Some(&long), 13),
    ] {
        let chunks = rows::encode_log(STORE, revision, 9, create, prior, "/r/p/a", value);
        assert_eq!(chunks.len(), rows_wanted, "{name}");
        assert_eq!(rows::chunk_count(&chunks[0].1), Some(rows_wanted as u16), "{name}");
        let whole: Vec<u8> = chunks.iter().flat_map(|(_, chunk)| chunk.clone()).collect();
        let older = whole.chunks(64 << 10);
        assert_eq!(
            rows::chunk_count(&whole[..whole.len().min(64 << 10)]),
            Some(older.len() as u16),
            "{name}"
        );
        let body: Vec<u8> = chunks.iter().flat_map(|(_, chunk)| chunk.clone()).collect();
        let row = rows::decode_log(STORE, revision, &body).unwrap();
        assert_eq!((row.create, row.prior, row.value.as_deref()), (create, prior, value), "{name}");
        for at in (0..body.len()).step_by(1 + body.len() / 100) {
            let mut bad = body.clone();
            bad[at] ^= 1;
            assert!(rows::decode_log(STORE, revision, &bad).is_err(), "{name}: byte {at}");
        }
        assert!(rows::decode_log(STORE, Revision(259), &body).is_err(), "{name}: under another name");
    }
    let (key, body) = &rows::encode_log(STORE, revision, 9, create, prior, "/r/p/a", Some(b"one"))[0];
    assert_eq!(hex(key), "6c6f672f00000000000001020000");
    let expected = concat!(
        "01",
        "01",
        "0900000000000000",
        "0500000000000000",
        "0600000000000000",
        "06000000",
        "03000000",
        "aa3c64bc",
        "2f722f702f61",
        "6f6e65"
    );
    assert_eq!(hex(body), expected);
    let current = CurrentRow { deleted: false, create, revision, value_crc: 0x0102_0304 };
    let bytes = current.encode(STORE, "/r/p/a");
    assert_eq!(
        hex(&bytes),
        concat!("01", "01", "0500000000000000", "0201000000000000", "04030201", "b55cbfe7")
    );
    assert_eq!(CurrentRow::decode(STORE, "/r/p/a", &bytes), Ok(current));
    assert!(CurrentRow::decode(STORE, "/r/p/b", &bytes).is_err());
    let meta = rows::encode_meta(STORE, rows::META_APPLIED, 258, 9);
    assert_eq!(hex(&meta), concat!("01", "0201000000000000", "0900000000000000", "6603dcd9"));
    assert_eq!(rows::decode_meta(STORE, rows::META_APPLIED, &meta), Ok((258, 9)));
    assert!(rows::decode_meta(STORE, rows::META_COMPACTED, &meta).is_err());
}

fn fixture(format: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/format-{format}"))
}

const FILES: [&str; 4] =
    ["STORE", "journal/00000000000000000001.wal", "snapshot/00000000000000000004.snap", "high-water"];

/// Writes the contents of the fixtures.
async fn tell(store: &dyn Kv<Sum>) {
    put_one(store, "/r/p/a", "one").await;
    put_one(store, "/r/p/b", "two").await;
    put_one(store, "/r/q/a", "three").await;
    delete_one(store, "/r/p/b").await;
}

/// Opens directories written by earlier versions, from the journal and from the snapshot. To write those of
/// a new format: UPDATE_EXPECT=1.
#[tokio::test]
async fn all_formats_are_read() {
    if std::env::var("UPDATE_EXPECT").is_ok() {
        let dir = tempfile::tempdir().unwrap();
        let options = super::Options { snapshot_bytes: 1, ..small() };
        let store = Embedded::<Sum>::open(dir.path(), options).unwrap();
        tell(&store).await;
        store.close().await;
        for file in FILES {
            let to = fixture(FORMAT).join(file);
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::copy(dir.path().join(file), to).unwrap();
        }
    }
    let wanted = ["/r/p/a=one 1..1", "/r/q/a=three 3..3"];
    for (name, format, files, known) in [
        ("1: journal", 1, &FILES[..2], 4),
        ("1: snapshot and journal", 1, &FILES[..3], 0),
        ("2: journal", 2, &FILES[..2], 4),
        ("2: everything", 2, &FILES[..], 0),
        ("3: journal", 3, &FILES[..2], 4),
        ("3: everything", 3, &FILES[..], 0),
    ] {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let to = dir.path().join(file);
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::copy(fixture(format).join(file), to).unwrap();
        }
        let store = Embedded::<Sum>::open(dir.path(), small()).unwrap();
        assert_eq!(records(&store), wanted, "{name}");
        assert_eq!(store.head().revision(), Revision(4), "{name}");
        assert_eq!(events(&store).await.len(), known, "{name}");
        // The store continues in the newest format.
        for n in 0..100 {
            put_one(&store, "/r/p/more", &format!("{n} {}", "x".repeat(100))).await;
        }
        store.close().await;
        let content = std::fs::read_to_string(dir.path().join("STORE")).unwrap();
        assert!(content.contains(&format!("format {FORMAT}\n")), "{name}: {content}");
        let store = Embedded::<Sum>::open(dir.path(), small()).unwrap();
        assert_eq!(store.head().revision(), Revision(104), "{name}");
    }
}
