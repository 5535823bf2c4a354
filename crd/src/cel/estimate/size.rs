//! Sizes of values, and costs that depend on them.

/// The cost of each character of a text that is read.
pub(super) const PER_CHARACTER: f64 = 0.1;
/// The cost of each character of a pattern, for each character of the text.
pub(super) const PER_PATTERN_CHARACTER: f64 = 0.25;

/// Bounds of a size: characters of a text, bytes, or entries of a list or map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Size {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Size {
    pub(super) const UNKNOWN: Size = Size { min: 0, max: u64::MAX };

    pub(super) fn exactly(size: u64) -> Self {
        Size { min: size, max: size }
    }

    pub(super) fn union(self, other: Size) -> Self {
        Size { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    pub(super) fn plus(self, other: Size) -> Self {
        Size { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub(super) fn times(self, other: Size) -> Self {
        Size { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// The largest cost of reading the value, at a cost for each unit.
    pub(super) fn cost(self, per_unit: f64) -> u64 {
        scaled(self.max, per_unit)
    }
}

/// Multiplies, and rounds up.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(super) fn scaled(value: u64, factor: f64) -> u64 {
    // The conversion saturates.
    (value as f64 * factor).ceil() as u64
}

/// The sizes of the keys and values of a list or map that an expression creates. The key of a list's item is its index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct EntrySize {
    pub(super) is_list: bool,
    pub(super) key: Size,
    pub(super) value: Size,
}

impl EntrySize {
    pub(super) fn of_list(items: impl Iterator<Item = Size>) -> Self {
        let value = items.reduce(Size::union).unwrap_or(Size::exactly(0));
        EntrySize { is_list: true, key: Size::exactly(1), value }
    }

    pub(super) fn of_map(entries: impl Iterator<Item = (Size, Size)>) -> Self {
        let union = |a: (Size, Size), b: (Size, Size)| (a.0.union(b.0), a.1.union(b.1));
        let none = (Size::exactly(0), Size::exactly(0));
        let (key, value) = entries.reduce(union).unwrap_or(none);
        EntrySize { is_list: false, key, value }
    }

    pub(super) fn union(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        let (a, b) = (a?, b?);
        Some(EntrySize { is_list: a.is_list, key: a.key.union(b.key), value: a.value.union(b.value) })
    }
}
