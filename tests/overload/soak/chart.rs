//! Prints the samples of a run, and writes them as a table and as a picture.

use std::fmt::Write as _;
use std::path::PathBuf;

/// The measurements of one second.
pub(super) struct Second {
    /// Seconds since the start.
    pub(super) at: u64,
    /// The server's resident memory.
    pub(super) resident_bytes: u64,
    /// The latency of `/livez`.
    pub(super) p50_us: u64,
    /// The same.
    pub(super) p99_us: u64,
    /// Memory that the server uses for its clients.
    pub(super) client_bytes: u64,
    /// Size of all objects.
    pub(super) data_bytes: u64,
    /// Claims that were bound.
    pub(super) claims: u64,
}

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 160.0;

/// Prints a summary. With `ORLOP_SOAK_DIR`, writes `soak.csv` and `soak.svg` there.
pub(super) fn write(samples: &[Second]) {
    let mut p99: Vec<u64> = samples.iter().map(|second| second.p99_us).collect();
    p99.sort_unstable();
    let of =
        |part: usize| p99.get(p99.len().saturating_sub(1) * part / 100).copied().unwrap_or(0) as f64 / 1000.0;
    let most = samples.iter().map(|second| second.resident_bytes).max().unwrap_or(0);
    let claims: u64 = samples.iter().map(|second| second.claims).sum();
    println!(
        "{} seconds; /livez p99 of a second: median {:.1} ms, 99 % {:.1} ms, maximum {:.1} ms; memory at most {} MiB; {claims} claims bound",
        samples.len(),
        of(50),
        of(99),
        of(100),
        most >> 20
    );
    let Some(dir) = std::env::var_os("ORLOP_SOAK_DIR").map(PathBuf::from) else { return };
    std::fs::create_dir_all(&dir).unwrap();
    let mut table =
        "second,resident_bytes,client_bytes,data_bytes,livez_p50_us,livez_p99_us,claims\n".to_owned();
    for Second { at, resident_bytes, client_bytes, data_bytes, p50_us, p99_us, claims } in samples {
        writeln!(table, "{at},{resident_bytes},{client_bytes},{data_bytes},{p50_us},{p99_us},{claims}")
            .unwrap();
    }
    std::fs::write(dir.join("soak.csv"), table).unwrap();
    std::fs::write(dir.join("soak.svg"), picture(samples)).unwrap();
    println!("{} and soak.csv", dir.join("soak.svg").display());
}

/// Five lines over time, one below the other.
fn picture(samples: &[Second]) -> String {
    let mib =
        |bytes: fn(&Second) -> u64| samples.iter().map(|second| bytes(second) as f64 / 1_048_576.0).collect();
    let rows: [(&str, Vec<f64>); 5] = [
        ("resident memory, MiB", mib(|second| second.resident_bytes)),
        ("memory used for clients, MiB", mib(|second| second.client_bytes)),
        ("size of all objects, MiB", mib(|second| second.data_bytes)),
        ("/livez p99, ms", samples.iter().map(|second| second.p99_us as f64 / 1000.0).collect()),
        ("claims bound per second", samples.iter().map(|second| second.claims as f64).collect()),
    ];
    let mut picture = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-10 -10 {} {}\" font-family=\"sans-serif\" font-size=\"14\">\n",
        WIDTH + 20.0,
        rows.len() as f64 * (HEIGHT + 50.0)
    );
    for (row, (name, values)) in (0_i32..).zip(rows) {
        let top = f64::from(row) * (HEIGHT + 50.0) + 20.0;
        let most = values.iter().copied().fold(1.0, f64::max);
        let step = WIDTH / values.len().max(1) as f64;
        let points: Vec<String> = (0_u32..)
            .zip(&values)
            .map(|(at, value)| {
                format!("{:.1},{:.1}", f64::from(at) * step, top + HEIGHT * (1.0 - value / most))
            })
            .collect();
        writeln!(
            picture,
            "<text x=\"0\" y=\"{:.0}\">{name}, 0 to {most:.1}</text>\n<path d=\"M0,{top:.0} V{bottom:.0} H{WIDTH}\" fill=\"none\" stroke=\"#999\"/>\n\
             <polyline points=\"{}\" fill=\"none\" stroke=\"#06c\"/>",
            top - 5.0,
            points.join(" "),
            bottom = top + HEIGHT
        )
        .unwrap();
    }
    picture + "</svg>\n"
}
