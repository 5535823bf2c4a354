use super::*;
use crate::machine::{FileSystem, Sync};

fn report(two: bool) -> Report {
    let figures = |scale: f64| {
        vec![
            Figure::new("per_s", "done", "/s", 8800.4 * scale),
            Figure::new("p50_us", "p50", "µs", 12.0 * scale),
            Figure::new("lost", "lost", "", 0.0),
        ]
    };
    let case = |name: &str| Case {
        name: name.to_owned(),
        server: figures(1.0),
        against: if two { figures(0.25) } else { Vec::new() },
    };
    Report {
        machine: Machine {
            cores: 2,
            cpu_model: "Model | 7".to_owned(),
            memory_bytes: 8_000_000_000,
            kernel: "Linux 6".to_owned(),
            file_system: FileSystem { kind: "ext4".to_owned(), source: "/dev/vda".to_owned() },
            sync: Sync { p50_us: 801.0, p99_us: 2000.0 },
        },
        scale: Scale::Small,
        server: "its own".to_owned(),
        against: two.then(|| "http://other".to_owned()),
        rows: vec![Row {
            name: RowName::Bind,
            cases: vec![case("one"), case("two")],
            problems: vec!["bind: 3 claims are not bound".to_owned()],
            seconds: 1.5,
        }],
        left_out: vec![(RowName::Start, "it cannot be started".to_owned())],
    }
}

#[test]
fn numbers_have_three_significant_digits() {
    for (value, want) in [
        (0.0, "0"),
        (0.00123, "0.00123"),
        (0.0123, "0.0123"),
        (0.5, "0.500"),
        (1.0, "1"),
        (1.234, "1.23"),
        (9.996, "10.0"),
        (12.34, "12.3"),
        (99.96, "100"),
        (123.4, "123"),
        (999.7, "1,000"),
        (1234.0, "1,234"),
        (1_234_567.0, "1,234,567"),
        (-1234.4, "-1,234"),
        (-0.25, "-0.250"),
        (f64::NAN, "-"),
        (f64::INFINITY, "-"),
    ] {
        assert_eq!(shown(value), want, "{value}");
    }
}

#[test]
fn table_aligns_names_and_numbers() {
    let want = "\
row   case  figure    server
bind  one   done    8,800 /s
            p50        12 µs
            lost           0
      two   done    8,800 /s
            p50        12 µs
            lost           0
skipped: start: it cannot be started
WRONG: bind: 3 claims are not bound
";
    let got = report(false).render(Output::Table);
    let (preamble, table) = got.split_once("\n\n").expect("an empty line");
    assert_eq!(table, want);
    for part in
        ["orlop ", "scale small", "2 cores, Model | 7", "8.0 GB", "ext4 (/dev/vda)", "801 µs", "its own"]
    {
        assert!(preamble.contains(part), "{part} in {preamble}");
    }
}

#[test]
fn two_servers_have_ratios() {
    let got = report(true).render(Output::Markdown);
    assert!(got.contains(
        "| row | case | figure | server | against | ratio |\n| --- | --- | --- | ---: | ---: | ---: |\n"
    ));
    assert!(got.contains("| bind | one | done | 8,800 /s | 2,200 /s | 4 |\n"), "{got}");
    assert!(got.contains("|  |  | lost | 0 | 0 |  |\n"), "{got}");
    assert!(got.contains("Model \\| 7"), "{got}");
}

#[test]
fn json_has_stable_names() {
    let got: Value = serde_json::from_str(&report(true).render(Output::Json)).expect("JSON");
    assert_eq!(got["machine"]["sync_of_2_kib_p50_us"], 801.0);
    let row = &got["rows"][0];
    assert_eq!((&row["row"], &row["seconds"]), (&json!("bind"), &json!(1.5)));
    assert_eq!(row["cases"][1]["case"], "two");
    assert_eq!(row["cases"][0]["server"]["per_s"], 8800.4);
    assert_eq!(row["cases"][0]["against"]["p50_us"], 3.0);
    assert_eq!(row["cases"][0]["ratio"], json!({"per_s": 4.0, "p50_us": 4.0}));
    assert_eq!(got["left_out"], json!([{"row": "start", "why": "it cannot be started"}]));
    assert_eq!(got["problems"], json!(["bind: 3 claims are not bound"]));
    let alone: Value = serde_json::from_str(&report(false).render(Output::Json)).expect("JSON");
    assert!(alone.get("against").is_none() && alone["rows"][0]["cases"][0].get("ratio").is_none());
}
