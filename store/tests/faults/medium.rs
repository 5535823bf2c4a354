//! The possible contents of a disk after a power failure in the middle of a record. Pure, except for the random
//! choices.
//!
//! [`Medium`] processes a record and tracks what is certain: bytes as of the last sync of their file, names
//! as of the last sync of their directory (or according to [`Names`]). [`Medium::after_cut`] adds some of the
//! rest.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::StdRng;
use rand::{Rng as _, RngCore as _};

use crate::fuse::tree::{Ino, Op, PAGE, Tree, write};

/// The unit that a disk writes atomically.
const SECTOR: usize = 512;

/// When names are durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// As in ext4, XFS, btrfs: earlier changes of names become durable with any sync that changes metadata.
    Journaled,
    /// Only with a sync of their directory; within a directory, changes become durable in order.
    Ordered,
    /// Only with a sync of their directory; before it, any subset of the changes may be durable.
    Unordered,
}

/// The kind of loss of unsynced data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// All of it is lost.
    Synced,
    /// Random pages are lost.
    Pages,
    /// Later writes survive, earlier ones are lost.
    Reordered,
    /// Some sectors of the last write survive.
    Torn,
    /// Beyond the synced size, the file contains the previous contents of its blocks, or arbitrary bytes.
    Garbage,
    /// One of the above for each file.
    Mixed,
    /// Nothing is lost.
    Nothing,
}

pub(crate) const LOSSES: [Loss; 7] =
    [Loss::Synced, Loss::Pages, Loss::Reordered, Loss::Torn, Loss::Garbage, Loss::Mixed, Loss::Nothing];
/// All of them.
pub(crate) const NAMES: [Names; 3] = [Names::Journaled, Names::Ordered, Names::Unordered];

/// A disk at some point of a record.
pub(crate) struct Medium<'a> {
    names: Names,
    durable: Tree,
    /// The operations that are not yet durable, in order.
    pending: Vec<&'a Op>,
}

impl<'a> Medium<'a> {
    /// An empty disk.
    pub(crate) fn new(names: Names) -> Self {
        Medium { names, durable: Tree::new(), pending: Vec::new() }
    }

    /// Applies the next operation of the record.
    pub(crate) fn step(&mut self, op: &'a Op) {
        match op {
            Op::Create { .. }
            | Op::Remove { .. }
            | Op::Rename { .. }
            | Op::Write { .. }
            | Op::Resize { .. } => {
                self.pending.push(op);
            }
            Op::Sync { ino } => self.sync(*ino),
            Op::SyncFailed { ino } => self.pending.retain(|op| op.changes() != Some(*ino)),
            Op::Mark(_) => {}
        }
    }

    fn sync(&mut self, ino: Ino) {
        let commits = self.names == Names::Journaled && self.changes_metadata(ino);
        let durable = &mut self.durable;
        self.pending.retain(|op| {
            let certain = match op.names() {
                Some((from, to)) => commits || from == ino || to == ino,
                None => op.changes() == Some(ino),
            };
            if certain {
                durable.apply(op);
            }
            !certain
        });
    }

    /// Whether a sync has more to do than to overwrite existing data: it then writes the file system's journal,
    /// and with it every earlier change of names.
    fn changes_metadata(&self, ino: Ino) -> bool {
        let length = self.durable.files.get(&ino).map_or(0, Vec::len);
        self.pending.iter().any(|op| match op {
            Op::Create { dir, ino: created, .. } => *dir == ino || *created == ino,
            Op::Remove { dir, .. } => *dir == ino,
            Op::Rename { from, to, ino: moved, .. } => *from == ino || *to == ino || *moved == ino,
            Op::Write { ino: written, offset, bytes } => {
                *written == ino && *offset as usize + bytes.len() > length
            }
            Op::Resize { ino: resized, .. } => *resized == ino,
            Op::Sync { .. } | Op::SyncFailed { .. } | Op::Mark(_) => false,
        })
    }

    /// The contents of the disk after a power failure.
    pub(crate) fn after_cut(&self, loss: Loss, random: &mut StdRng) -> Tree {
        let mut found = Tree { dirs: self.durable.dirs.clone(), files: BTreeMap::new() };
        for op in self.surviving_names(loss, random) {
            found.apply(op);
        }
        let mut changes: BTreeMap<Ino, Vec<&Op>> = BTreeMap::new();
        for op in &self.pending {
            if let Some(ino) = op.changes() {
                changes.entry(ino).or_default().push(op);
            }
        }
        let last = self.pending.iter().rev().find_map(|op| op.changes());
        let mut files = BTreeMap::new();
        for (_, ino) in found.walk() {
            if found.dirs.contains_key(&ino) {
                continue;
            }
            let certain = self.durable.files.get(&ino).cloned().unwrap_or_default();
            let loss = match loss {
                Loss::Mixed => LOSSES[random.random_range(0..5)],
                // Only the file of the last write can be torn.
                Loss::Torn if last != Some(ino) => Loss::Nothing,
                Loss::Synced | Loss::Pages | Loss::Reordered | Loss::Torn | Loss::Garbage | Loss::Nothing => {
                    loss
                }
            };
            let ops = changes.remove(&ino).unwrap_or_default();
            files.insert(ino, self.surviving_bytes(certain, &ops, loss, random));
        }
        found.files = files;
        found
    }

    fn surviving_names(&self, loss: Loss, random: &mut StdRng) -> Vec<&'a Op> {
        let names = self.pending.iter().copied().filter(|op| op.names().is_some());
        match (loss, self.names) {
            (Loss::Synced, _) => Vec::new(),
            (Loss::Nothing, _) => names.collect(),
            (_, Names::Journaled) => {
                let count = names.clone().count();
                names.take(random.random_range(0..=count)).collect()
            }
            (_, Names::Ordered) => {
                // The directories in which an earlier change was lost.
                let mut stopped = BTreeSet::new();
                let each = 1.0 / f64::from(random.random_range(2..20));
                let lasts = |op: &&Op| {
                    let Some((from, to)) = op.names() else { return false };
                    if stopped.contains(&from) || stopped.contains(&to) || random.random_bool(each) {
                        stopped.extend([from, to]);
                        return false;
                    }
                    true
                };
                names.filter(lasts).collect()
            }
            (_, Names::Unordered) => {
                let kept = random.random_range(0.2..0.9);
                names.filter(|_| random.random_bool(kept)).collect()
            }
        }
    }

    fn surviving_bytes(&self, certain: Vec<u8>, ops: &[&Op], loss: Loss, random: &mut StdRng) -> Vec<u8> {
        let synced = certain.len();
        match loss {
            Loss::Synced => certain,
            Loss::Nothing => applied(certain, ops.iter().copied()),
            Loss::Pages => {
                let kept = [0.1, 0.5, 0.9][random.random_range(0..3)];
                let all = applied(certain.clone(), ops.iter().copied());
                let mut found = certain;
                found.resize([all.len(), found.len().max(all.len())][random.random_range(0..2)], 0);
                for (at, page) in all.chunks(PAGE).enumerate() {
                    if random.random_bool(kept) {
                        write(&mut found, at * PAGE, page);
                    }
                }
                if random.random_bool(0.2) {
                    found.truncate(random.random_range(synced.min(found.len())..=found.len()));
                }
                found
            }
            Loss::Reordered => applied(certain, reordered(ops, random)),
            Loss::Torn => {
                let Some((last, before)) = ops.split_last() else { return certain };
                let found = applied(certain, before.iter().copied());
                torn(found, last, random)
            }
            Loss::Garbage | Loss::Mixed => {
                let mut found = applied(certain, reordered(ops, random));
                let end = found.len();
                for start in (synced..end).step_by(PAGE) {
                    // Up to the end of the page that the file system allocated.
                    let until = end.min(start - start % PAGE + PAGE);
                    if random.random_bool(0.5) {
                        self.garbage(&mut found[start..until], random);
                    }
                }
                found
            }
        }
    }

    /// Arbitrary bytes, or the contents of another file's current or former blocks.
    fn garbage(&self, into: &mut [u8], random: &mut StdRng) {
        random.fill_bytes(into);
        let files = &self.durable.files;
        if random.random_bool(0.3) || files.is_empty() {
            return;
        }
        let Some(old) = files.values().nth(random.random_range(0..files.len())) else { return };
        if old.len() > into.len() {
            let at = random.random_range(0..=old.len() - into.len());
            // Blocks start at page boundaries; sometimes not, so that frames start here too.
            let at = if random.random_bool(0.7) { at - at % PAGE } else { at };
            into.copy_from_slice(&old[at..at + into.len()]);
        }
    }
}

fn applied<'a>(mut bytes: Vec<u8>, ops: impl IntoIterator<Item = &'a Op>) -> Vec<u8> {
    for op in ops {
        match op {
            Op::Write { offset, bytes: new, .. } => write(&mut bytes, *offset as usize, new),
            Op::Resize { length, .. } => bytes.resize(*length as usize, 0),
            Op::Create { .. }
            | Op::Remove { .. }
            | Op::Rename { .. }
            | Op::Sync { .. }
            | Op::SyncFailed { .. }
            | Op::Mark(_) => {}
        }
    }
    bytes
}

/// A subset of the operations; if there are at least two, the last one without the first.
fn reordered<'a>(ops: &[&'a Op], random: &mut StdRng) -> Vec<&'a Op> {
    let kept = random.random_range(0.1..0.9);
    let last = ops.len().saturating_sub(1);
    let lasts = |(at, op): (usize, &&'a Op)| {
        let chosen = if last > 0 && (at == 0 || at == last) { at == last } else { random.random_bool(kept) };
        chosen.then_some(*op)
    };
    ops.iter().enumerate().filter_map(lasts).collect()
}

/// The file with some sectors of its last write.
fn torn(mut file: Vec<u8>, last: &Op, random: &mut StdRng) -> Vec<u8> {
    let Op::Write { offset, bytes, .. } = last else { return file };
    let start = *offset as usize;
    let long = random.random_bool(0.5);
    if long && file.len() < start + bytes.len() {
        file.resize(start + bytes.len(), 0);
    }
    let in_order = random.random_bool(0.5);
    let sectors = (start / SECTOR)..(start + bytes.len()).div_ceil(SECTOR);
    let stop = random.random_range(sectors.clone());
    for sector in sectors {
        if if in_order { sector >= stop } else { random.random_bool(0.5) } {
            continue;
        }
        let from = (sector * SECTOR).max(start);
        let to = ((sector + 1) * SECTOR).min(start + bytes.len());
        write(&mut file, from, &bytes[from - start..to - start]);
    }
    file
}

#[test]
fn synced_data_survives_every_loss() {
    let create = |name: &str, ino| Op::Create { dir: 1, name: name.into(), ino, is_dir: false };
    let write = |ino, offset, text: &str| Op::Write { ino, offset, bytes: text.into() };
    let record = [
        create("a", 3),
        write(3, 0, "one"),
        Op::Sync { ino: 3 },
        write(3, 3, "two"),
        create("b", 4),
        Op::Rename { from: 1, name: "a".into(), to: 1, new_name: "c".into(), ino: 3 },
        write(3, 6, "three"),
        Op::SyncFailed { ino: 3 },
        write(3, 11, "four"),
        Op::Sync { ino: 3 },
    ];
    let found = |upto: usize, names, loss| {
        let mut medium = Medium::new(names);
        record[..upto].iter().for_each(|op| medium.step(op));
        let found = medium.after_cut(loss, &mut rand::SeedableRng::seed_from_u64(1));
        let text = |ino| String::from_utf8_lossy(&found.files[&ino]).replace('\0', ".");
        found.walk().into_iter().map(|(name, ino)| format!("{name}={}", text(ino))).collect::<Vec<_>>()
    };
    let none: [&str; 0] = [];
    assert_eq!(found(2, Names::Journaled, Loss::Synced), none);
    assert_eq!(found(3, Names::Journaled, Loss::Synced), ["a=one"]);
    assert_eq!(found(3, Names::Ordered, Loss::Synced), none);
    assert_eq!(found(7, Names::Journaled, Loss::Synced), ["a=one"]);
    assert_eq!(found(7, Names::Ordered, Loss::Nothing), ["b=", "c=onetwothree"]);
    let reordered = found(7, Names::Journaled, Loss::Reordered);
    assert!(reordered.iter().any(|file| file.ends_with("=one...three")), "{reordered:?}");
    assert_eq!(found(10, Names::Journaled, Loss::Synced), ["b=", "c=one........four"]);
}
