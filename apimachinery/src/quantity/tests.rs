#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;
use crate::thread_time::ThreadTime;

#[test]
fn canonical_forms() {
    for (text, expected) in [
        ("0", "0"),
        ("1.5", "1500m"),
        ("1000", "1k"),
        ("1000m", "1"),
        ("2000M", "2G"),
        ("1024Ki", "1Mi"),
        ("1000Mi", "1000Mi"),
        ("1.5Gi", "1536Mi"),
        ("1.5Ki", "1536"),
        ("0Gi", "0"),
        (".5", "500m"),
        ("0.0001", "100u"),
        ("1024", "1024"),
        ("1e3", "1e3"),
        ("1E3", "1E3"),
        ("12e2", "1200"),
        ("12e5", "1200e3"),
        ("100e-3", "100e-3"),
        ("0.5Ki", "512"),
        ("0.0001Ki", "102400u"),
        ("8Ki", "8Ki"),
        ("5Gi", "5Gi"),
        ("5Ti", "5Ti"),
        ("3Ei", "3Ei"),
        ("8Ei", "9223372036854775807"),
        ("-8Ei", "-9223372036854775807"),
        ("100Ei", "9223372036854775807"),
        ("999999999999999999999999999999999999999Ki", "9223372036854775807"),
        ("-1Gi", "-1Gi"),
        ("-1.5", "-1500m"),
        ("0.9n", "1n"),
        ("-0.9n", "-1n"),
        ("1e-40", "1e-9"),
        ("100n", "100n"),
        ("1000E", "1e21"),
        ("18446744073709551616", "18446744073709551616"),
        // Preserved as written: upstream's fast path treats them as canonical.
        ("+5", "+5"),
        ("1.", "1."),
        ("1.500", "1.500"),
        ("05", "05"),
        ("+3Ki", "+3Ki"),
        // Surrounding whitespace is ignored.
        (" 5Gi\t", "5Gi"),
        // Upstream accepts missing digits.
        ("-", "0"),
        (".", "0"),
        ("Gi", "0"),
        ("00", "0"),
    ] {
        let quantity = Quantity::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(quantity.to_string(), expected, "{text}");
    }
}

#[test]
fn invalid_quantities_are_rejected() {
    use ParseError::{Format, Numeric, Suffix};
    for (text, error) in [
        ("", Format),
        ("   ", Format),
        ("abc", Format),
        ("1.2.3", Format),
        ("1 Gi", Format),
        ("1Gi5x", Format),
        ("--1", Suffix),
        ("1\u{b5}", Format),
        ("1K", Suffix),
        ("1KI", Format),
        ("1e", Suffix),
        ("1e+", Suffix),
        ("1mm", Suffix),
        ("1m5", Suffix),
        ("1+5", Suffix),
        ("1Ein", Suffix),
        ("1e99999999999", Suffix),
        ("Pi", Numeric),
        ("+Ei", Numeric),
        ("1e30", Numeric),
        ("1e2000000000", Numeric),
    ] {
        assert_eq!(Quantity::parse(text), Err(error), "{text}");
    }
}

#[test]
fn compared_by_value() {
    let q = |text: &str| Quantity::parse(text).unwrap();
    assert_eq!(q("1Gi"), q("1024Mi"));
    assert_eq!(q("1"), q("1000m"));
    assert!(q("1Gi") > q("1G"));
    assert!(q("-1") < q("1n"));
    assert_eq!(q("1e-40"), q("1n"));
    assert_eq!(q("0.1").value(), 1);
    assert_eq!(q("-0.1").value(), -1);
    assert_eq!(q("5Gi").value(), 5 << 30);
    assert_eq!(q("100E").value(), i64::MAX);
    assert!(q("1500m") > q("1") && !q("1500m").is_integer() && q("2").is_integer());
    assert!(q("0Gi").is_zero() && !q("0").is_negative() && q("-1m").is_negative());
    assert_eq!(Quantity::from_bytes(5 << 30).to_string(), "5Gi");
    assert_eq!(Quantity::from_integer(5000).to_string(), "5k");
    assert_eq!(q("+5").canonical().to_string(), "5");
}

#[test]
fn long_binary_quantities_are_exact() {
    let nines = "9".repeat(200);
    for (text, nano) in [
        (format!("0.{}1Ei", "0".repeat(100)), 1),
        (format!("1.{}Ki", "0".repeat(100)), 1024 * NANO),
        (format!("1.{}1Ki", "0".repeat(100)), 1024 * NANO + 1),
        (format!("0.{nines}Ei"), (1i128 << 60) * NANO),
        (format!("-0.5{}1Ki", "0".repeat(100)), -(512 * NANO + 1)),
        (format!("{nines}.{nines}Ki"), LIMIT),
        (format!("{}2.0Ki", "0".repeat(100)), 2048 * NANO),
    ] {
        assert_eq!(Quantity::parse(&text).map(|quantity| quantity.nano), Ok(nano), "{text}");
    }
    assert_eq!(Quantity { nano: i128::MIN, family: Family::Binary, written: None }.to_string().len(), 41);
    let most = Quantity { nano: i128::MAX, family: Family::Decimal, written: None };
    assert_eq!(most.rounded_up().nano, i128::MAX);
}

/// Each doubling of a binary quantity would visit all its digits.
#[test]
fn digits_cost_the_same_with_each_suffix() {
    let digits = format!("0.{}", "1".repeat(300_000));
    let cost = |suffix: &str| {
        let text = format!("{digits}{suffix}");
        let started = ThreadTime::start();
        assert!(Quantity::parse(&text).is_ok());
        started.spent()
    };
    let (plain, binary) = (cost("k"), cost("Ei"));
    assert!(binary < plain * 4, "{plain:?}, {binary:?}");
}

/// A number with a suffix, and its exact value in 10^-18.
fn plain() -> impl Strategy<Value = (String, i128)> {
    const UNIT: i128 = 1_000_000_000_000_000_000;
    let suffixes = prop::sample::select(vec![
        ("n", UNIT / 1_000_000_000),
        ("u", UNIT / 1_000_000),
        ("m", UNIT / 1_000),
        ("", UNIT),
        ("k", UNIT * 1_000),
        ("M", UNIT * 1_000_000),
        ("Ki", UNIT << 10),
        ("Mi", UNIT << 20),
        ("Gi", UNIT << 30),
        ("e3", UNIT * 1_000),
        ("e-2", UNIT / 100),
        ("E1", UNIT * 10),
    ]);
    (any::<bool>(), 0..1_000_000i128, 0usize..7, suffixes).prop_map(
        |(negative, digits, places, (suffix, unit))| {
            let scale = 10i128.pow(places as u32);
            let number = if places == 0 {
                format!("{digits}")
            } else {
                format!("{}.{:0places$}", digits / scale, digits % scale)
            };
            let sign = if negative { -1 } else { 1 };
            (format!("{}{number}{suffix}", if negative { "-" } else { "" }), sign * digits * unit / scale)
        },
    )
}

/// Billionths, rounded away from zero, of a value in 10^-18.
fn rounded(exact: i128) -> i128 {
    const STEP: i128 = 1_000_000_000;
    exact / STEP + if exact % STEP == 0 { 0 } else { exact.signum() }
}

proptest! {
    #[test]
    fn canonical_form_preserves_the_value((text, exact) in plain()) {
        let quantity = Quantity::parse(&text).unwrap();
        prop_assert_eq!(quantity.nano, rounded(exact), "{}", text);
        let canonical = quantity.clone().canonical().to_string();
        let again = Quantity::parse(&canonical).unwrap();
        prop_assert_eq!(&again, &quantity, "{} as {}", text, canonical);
        prop_assert_eq!(again.canonical().to_string(), canonical, "{}", text);
        // The formatted original text has the same value as well.
        prop_assert_eq!(&Quantity::parse(&quantity.to_string()).unwrap(), &quantity);
    }

    #[test]
    fn order_is_numeric((a, exact_a) in plain(), (b, exact_b) in plain()) {
        let (p, q) = (Quantity::parse(&a).unwrap(), Quantity::parse(&b).unwrap());
        prop_assert_eq!(p.cmp(&q), rounded(exact_a).cmp(&rounded(exact_b)), "{} and {}", a, b);
    }

    #[test]
    fn parsing_never_panics(text in "(\\PC|[0-9.+eEinumkKMGTP-]){0,24}") {
        if let Ok(quantity) = Quantity::parse(&text) {
            let _ = (quantity.to_string(), quantity.value());
            prop_assert_eq!(Quantity::parse(&quantity.clone().canonical().to_string()).unwrap(), quantity);
        }
    }
}

#[test]
fn thousandths_are_rounded_away_from_zero() {
    for (text, expected) in [
        ("0", 0),
        ("1", 1000),
        ("70m", 70),
        ("0.1005", 101),
        ("1n", 1),
        ("-1n", -1),
        ("-1500m", -1500),
        ("1Ki", 1_024_000),
        ("10E", i64::MAX),
    ] {
        assert_eq!(Quantity::parse(text).unwrap().milli_value(), expected, "{text}");
    }
}
