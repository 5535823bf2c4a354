//! Access modes as a set of four bits, in the canonical order ReadWriteOnce, ReadOnlyMany, ReadWriteMany,
//! ReadWriteOncePod. Volumes are grouped by their set, and the search visits small sets first.

use std::fmt;

const NAMES: [&str; 4] = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"];
const SHORT: [&str; 4] = ["RWO", "ROX", "RWX", "RWOP"];

/// The short name of an access mode, for example `RWO`, or `None` if the mode is unknown.
pub fn short(mode: &str) -> Option<&'static str> {
    NAMES.iter().position(|known| *known == mode).map(|bit| SHORT[bit])
}

/// The access mode that a short name stands for, or `None` if the short name is unknown.
pub fn long(short: &str) -> Option<&'static str> {
    SHORT.iter().position(|known| *known == short).map(|bit| NAMES[bit])
}

/// A set of access modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModeSet(u8);

impl ModeSet {
    /// The modes that a volume offers. Unknown modes are ignored: no claim can request them.
    pub fn offered(modes: &[String]) -> Self {
        let bits = modes.iter().filter_map(|mode| NAMES.iter().position(|known| known == mode));
        Self(bits.fold(0, |set, bit| set | 1 << bit))
    }

    /// The modes that a claim requests, or `None` if one of them is unknown: no volume can offer it.
    pub fn requested(modes: &[String]) -> Option<Self> {
        modes.iter().all(|mode| NAMES.contains(&mode.as_str())).then(|| Self::offered(modes))
    }

    /// Whether every mode of `wanted` is in this set.
    pub fn contains(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    /// The number of modes in the set.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    // Tests: IDX-LIST-2, IDX-POSSIBLE-2
    /// All sets of exactly `len` modes that contain `wanted`, in a fixed order.
    pub fn supersets(wanted: Self, len: usize) -> impl Iterator<Item = Self> {
        (0..16).map(Self).filter(move |set| set.len() == len && set.contains(wanted))
    }
}

impl fmt::Display for ModeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = (0..4).filter(|bit| self.0 & (1 << bit) != 0).map(|bit| SHORT[bit]);
        if let Some(first) = names.next() {
            f.write_str(first)?;
        }
        names.try_for_each(|name| write!(f, ",{name}"))
    }
}
