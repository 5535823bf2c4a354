//! Thresholds of node pressure: the syntax of `--eviction-hard`. Pure (upstream:
//! pkg/kubelet/eviction/helpers.go).
//!
//! A crossed threshold causes no evictions. It becomes a condition of the Node, and the matching taint keeps new
//! pods away.

use std::collections::BTreeSet;
use std::str::FromStr;

use orlop_apimachinery::quantity::Quantity;

/// Upstream's defaults of the flag; upstream has no default for threads.
pub const DEFAULT: &str =
    "memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%,pid.available<10%";

/// The amount that must be free.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ThresholdValue {
    /// An absolute number of bytes, inodes or threads.
    Amount(u64),
    /// A share of the whole, in hundredths of a percent.
    Part(u32),
}

impl ThresholdValue {
    /// The amount for a resource of size `whole`.
    pub fn of(self, whole: u64) -> u64 {
        match self {
            Self::Amount(least) => least,
            // The result is less than `whole`, so it fits.
            Self::Part(part) => (u128::from(whole) * u128::from(part) / 10_000).try_into().unwrap_or(whole),
        }
    }

    /// Whether `left` of `whole` is below the threshold. A resource without a bound never runs out.
    pub fn is_missed(self, left: u64, whole: u64) -> bool {
        match self {
            Self::Amount(least) => whole > 0 && left < least,
            Self::Part(part) => u128::from(left) * 10_000 < u128::from(whole) * u128::from(part),
        }
    }
}

/// The resources that must be free for a machine to be without pressure; none for no threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Thresholds {
    /// `memory.available`: bytes available without swapping.
    pub memory: Option<ThresholdValue>,
    /// `nodefs.available`: free bytes on the file system of the agent's directory.
    pub disk: Option<ThresholdValue>,
    /// `nodefs.inodesFree`: free inodes there.
    pub inodes: Option<ThresholdValue>,
    /// `pid.available`: threads that can still be started.
    pub threads: Option<ThresholdValue>,
}

impl Thresholds {
    /// The default thresholds: [`DEFAULT`].
    pub const fn usual() -> Self {
        Self {
            memory: Some(ThresholdValue::Amount(100 << 20)),
            disk: Some(ThresholdValue::Part(1000)),
            inodes: Some(ThresholdValue::Part(500)),
            threads: Some(ThresholdValue::Part(1000)),
        }
    }
}

/// Why a text is not a list of thresholds.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ThresholdError {
    /// It has no `<`.
    #[error("{0:?} is not SIGNAL<QUANTITY, such as nodefs.available<10% or memory.available<100Mi")]
    Form(String),
    /// The signal is unknown.
    #[error(
        "{0:?} is no signal of this agent: use memory.available, nodefs.available, nodefs.inodesFree or pid.available"
    )]
    Signal(String),
    /// A signal occurs twice.
    #[error("{0} occurs twice")]
    Twice(String),
    /// The amount is invalid.
    #[error("{signal}<{amount}: give a quantity above 0 (500Mi) or a part of the whole (10%)")]
    Amount {
        /// The signal.
        signal: String,
        /// The invalid amount.
        amount: String,
    },
}

/// Parses the syntax of upstream's flag: a signal that is not named has no threshold, and an empty text sets
/// none.
impl FromStr for Thresholds {
    type Err = ThresholdError;

    fn from_str(text: &str) -> Result<Self, ThresholdError> {
        let (mut all, mut seen) = (Self::default(), BTreeSet::new());
        for statement in text.split(',').map(str::trim).filter(|statement| !statement.is_empty()) {
            let (signal, amount) =
                statement.split_once('<').ok_or_else(|| ThresholdError::Form(statement.to_owned()))?;
            if !seen.insert(signal) {
                return Err(ThresholdError::Twice(signal.to_owned()));
            }
            let least = least(amount).ok_or_else(|| ThresholdError::Amount {
                signal: signal.to_owned(),
                amount: amount.to_owned(),
            })?;
            match signal {
                "memory.available" => all.memory = least,
                "nodefs.available" => all.disk = least,
                "nodefs.inodesFree" => all.inodes = least,
                "pid.available" => all.threads = least,
                _ => return Err(ThresholdError::Signal(signal.to_owned())),
            }
        }
        Ok(all)
    }
}

/// Parses an amount. `0%` and `100%` mean no threshold, as upstream.
fn least(amount: &str) -> Option<Option<ThresholdValue>> {
    let Some(percent) = amount.strip_suffix('%') else {
        let amount = u64::try_from(Quantity::parse(amount).ok()?.value()).ok()?;
        return (amount > 0).then_some(Some(ThresholdValue::Amount(amount)));
    };
    let percent = percent.parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent))?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between 0 and 10,000")]
    let part = (percent * 100.0).round() as u32;
    Some((part > 0 && part < 10_000).then_some(ThresholdValue::Part(part)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn thresholds_are_parsed() {
        let (none, part) = (Thresholds::default(), |part| Some(ThresholdValue::Part(part)));
        for (text, wanted) in [
            (DEFAULT, Thresholds::usual()),
            ("", none),
            ("nodefs.available<0%", none),
            ("nodefs.available<100%", none),
            ("nodefs.available<2.5%", Thresholds { disk: part(250), ..none }),
            ("nodefs.available<1Gi,", Thresholds { disk: Some(ThresholdValue::Amount(1 << 30)), ..none }),
            (
                " pid.available<1k , memory.available<3%",
                Thresholds { threads: Some(ThresholdValue::Amount(1000)), memory: part(300), ..none },
            ),
        ] {
            assert_eq!(text.parse(), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn invalid_thresholds_are_rejected() {
        for (text, said) in [
            ("nodefs.available", "is not SIGNAL<QUANTITY"),
            ("nodefs.available>10%", "is not SIGNAL<QUANTITY"),
            ("swap.available<10%", "is no signal of this agent"),
            ("pid.available<1,pid.available<2", "pid.available occurs twice"),
            ("pid.available<", "give a quantity above 0"),
            ("pid.available<0", "give a quantity above 0"),
            ("pid.available<-1", "give a quantity above 0"),
            ("pid.available<101%", "give a quantity above 0"),
            ("pid.available<NaN%", "give a quantity above 0"),
        ] {
            let error = text.parse::<Thresholds>().unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn threshold_is_missed_only_below_the_amount() {
        for (least, left, whole, wanted) in [
            (ThresholdValue::Part(1000), 100, 1000, false),
            (ThresholdValue::Part(1000), 99, 1000, true),
            (ThresholdValue::Part(1000), 0, 0, false),
            (ThresholdValue::Part(1000), u64::MAX, u64::MAX, false),
            (ThresholdValue::Amount(5), 5, 10, false),
            (ThresholdValue::Amount(5), 4, 10, true),
            (ThresholdValue::Amount(5), 0, 0, false),
        ] {
            assert_eq!(least.is_missed(left, whole), wanted, "{least:?} {left} {whole}");
        }
    }
}
