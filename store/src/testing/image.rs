//! A file in the view of processes, and its state on the disk: what a sync copies to the disk, and what a power failure
//! leaves.

use std::collections::BTreeSet;

/// The unit that a disk writes atomically.
const SECTOR: usize = 512;
/// The unit of write-back, in any order.
const PAGE: usize = 4096;

/// A deterministic random generator.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Creates a generator from a seed.
    pub fn new(seed: u64) -> Self {
        Dice(seed)
    }

    /// The next number.
    pub fn roll(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below a limit (0 for the limit 0).
    pub fn below(&mut self, limit: usize) -> usize {
        (self.roll() % (limit.max(1) as u64)) as usize
    }
}

/// A file in the view of processes, and its state on the disk.
#[derive(Default)]
pub(super) struct Image {
    pub(super) current: Vec<u8>,
    durable: Vec<u8>,
    /// Pages that the next sync writes.
    dirty: BTreeSet<usize>,
    /// Pages that a failed sync did not write.
    dropped: BTreeSet<usize>,
}

impl Image {
    /// A file whose contents are on disk.
    pub(super) fn durable(bytes: Vec<u8>) -> Self {
        Image { current: bytes.clone(), durable: bytes, ..Image::default() }
    }

    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        let from = offset.min(self.current.len());
        if self.current.len() < end {
            self.current.resize(end, 0);
        }
        self.current[offset..end].copy_from_slice(bytes);
        self.touch(from, end);
    }

    pub(super) fn cut(&mut self, length: usize) {
        let end = self.current.len();
        self.current.truncate(length);
        self.touch(length, end);
    }

    fn touch(&mut self, from: usize, to: usize) {
        for page in from / PAGE..to.div_ceil(PAGE) {
            self.dirty.insert(page);
            self.dropped.remove(&page);
        }
    }

    pub(super) fn sync(&mut self) {
        self.durable.resize(self.current.len(), 0);
        for page in std::mem::take(&mut self.dirty) {
            let (from, to) = (page * PAGE, ((page + 1) * PAGE).min(self.current.len()));
            if from < to {
                self.durable[from..to].copy_from_slice(&self.current[from..to]);
            }
        }
    }

    pub(super) fn fail_to_sync(&mut self) {
        self.dropped.append(&mut self.dirty);
    }

    /// The contents after a power failure.
    pub(super) fn after_a_cut(&self, rng: Option<&mut Dice>) -> Vec<u8> {
        let Some(rng) = rng else { return self.durable.clone() };
        let mut left = self.durable.clone();
        for page in self.dirty.union(&self.dropped) {
            let (from, end) = (page * PAGE, ((page + 1) * PAGE).min(self.current.len()));
            let to = match rng.below(3) {
                0 => from,
                1 => end,
                _ => (from + SECTOR * rng.below(PAGE / SECTOR + 1)).min(end),
            };
            if from < to {
                left.resize(left.len().max(to), 0);
                left[from..to].copy_from_slice(&self.current[from..to]);
            }
        }
        // An unsynced length may have any value.
        let (short, long) = (self.durable.len().min(self.current.len()), left.len());
        if short < long && self.durable.len() != self.current.len() {
            left.truncate(short + rng.below(long - short + 1));
        }
        left
    }
}
