//! Stands in for the harness in the tests of `cargo xtask sweep`: same command line, same lines, made-up figures.
//! It measures nothing. `FAKE_FAULTS` tells it where to go wrong.
//!
//! A fault is `KIND:DESIGN` or `KIND:DESIGN:PART-OF-A-CELL`, optionally with `@ROUND` behind it; commas separate
//! several. Kinds: `wrong` (a failed line, then on), `die` (the process aborts before the cell), `tear` (it ends in
//! the middle of the cell's line), `hang` (it never gets to the cell), `slow` (a tenth of a second for the cell),
//! `garbage` (prints lines nobody knows), `nan` (a figure that is no number), `costly` (high estimates in the plan).

use std::io::Write as _;
use std::process::exit;
use std::time::Duration;

const DESIGNS: [(&str, &str, &str); 5] = [
    ("noop", "floor", "ABC"),
    ("mutex", "design", "A"),
    ("sharded", "design", "A"),
    ("cow", "design", "BC"),
    ("dashmap", "peer", "A"),
];

/// The value behind a flag.
fn flag(args: &[String], name: &str) -> Option<String> {
    let at = args.iter().position(|arg| arg == name)?;
    args.get(at + 1).cloned()
}

fn usage(message: &str) -> ! {
    eprintln!("error: {message}");
    exit(2)
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("list") => list(&args),
        Some("facts") => {
            println!(
                "os: linux\narch: made-up\ncpu: Example CPU\nrustc: 0.0.0\nallocator: mimalloc"
            );
            println!(
                "commit: {}",
                std::env::var("HARNESS_COMMIT").unwrap_or_default()
            );
        }
        Some("run") => run(&args),
        // As a soak it fails with more than eight writers, and dies with more than sixteen.
        Some(seconds) if seconds.parse::<u64>().is_ok() => soak(&args),
        _ => usage("expected list, facts or run"),
    }
}

fn soak(args: &[String]) -> ! {
    let writers: u64 = args.get(1).and_then(|text| text.parse().ok()).unwrap_or(0);
    println!("soak for {} s, {writers} writers", args[0]);
    exit(match writers {
        0..=8 => 0,
        9..=16 => 1,
        _ => 70,
    })
}

fn list(args: &[String]) {
    let json = flag(args, "--format").as_deref() == Some("json");
    let rows: Vec<String> = DESIGNS
        .iter()
        .map(|(name, kind, phases)| {
            let phases: Vec<String> = phases.chars().map(|phase| format!("\"{phase}\"")).collect();
            format!(
                "{{\"name\":\"{name}\",\"kind\":\"{kind}\",\"phases\":[{}]}}",
                phases.join(",")
            )
        })
        .collect();
    let phases: Vec<String> = ["A", "B", "C", "D", "E"]
        .iter()
        .map(|name| {
            format!(
                "{{\"name\":\"{name}\",\"what\":\"phase {name}\",\"measured\":{}}}",
                *name < "D"
            )
        })
        .collect();
    if json {
        let (rows, phases) = (rows.join(","), phases.join(","));
        let experiments = ["sequential", "latency", "study-locks", "zeroing"]
            .map(|name| format!("{{\"name\":\"{name}\"}}"));
        let experiments = experiments.join(",");
        println!("{{\"designs\":[{rows}],\"phases\":[{phases}],\"experiments\":[{experiments}]}}");
    } else {
        DESIGNS
            .iter()
            .for_each(|(name, kind, phases)| println!("{name} {kind} {phases}"));
    }
}

fn cells(design: &str, phase: Option<&str>, threads: &str) -> Vec<String> {
    let mixes: &[&str] = match phase {
        Some("A") => &["r100", "r90", "r50"],
        Some("B") => &["r100"],
        Some("C") => &["r90", "r50"],
        _ => &["all"],
    };
    let base = if phase.is_some() {
        "Cache"
    } else {
        "Sequential"
    };
    let mut cells = Vec::new();
    for threads in threads.split(',') {
        for dist in ["uniform", "zipf"] {
            for mix in mixes {
                let suffix = if threads == "1" {
                    String::new()
                } else {
                    format!("-{threads}")
                };
                cells.push(format!(
                    "{base}/impl={design}/dist={dist}/mix={mix}{suffix}"
                ));
            }
        }
    }
    cells
}

fn fault(kind: &str, design: &str, cell: &str, round: u32) -> bool {
    let faults = std::env::var("FAKE_FAULTS").unwrap_or_default();
    faults.split(',').any(|fault| {
        let (fault, only) = fault
            .split_once('@')
            .map_or((fault, None), |(fault, round)| (fault, round.parse().ok()));
        let mut parts = fault.split(':');
        parts.next() == Some(kind)
            && parts.next() == Some(design)
            && parts.next().is_none_or(|part| cell.contains(part))
            && only.is_none_or(|only: u32| only == round)
    })
}

fn run(args: &[String]) {
    let required =
        |name: &str| flag(args, name).unwrap_or_else(|| usage(&format!("{name} is missing")));
    let design = required("--design");
    if !DESIGNS.iter().any(|(name, ..)| *name == design) {
        usage(&format!("unknown design {design}"));
    }
    let phase = flag(args, "--phase");
    let round: u32 = required("--round")
        .parse()
        .unwrap_or_else(|_| usage("--round is no number"));
    let seed: u64 = required("--seed")
        .parse()
        .unwrap_or_else(|_| usage("--seed is no number"));
    for name in [
        "--keys",
        "--key-length",
        "--value-size",
        "--benchtime",
        "--pin",
        "--allocator",
    ] {
        required(name);
    }
    let allocator = required("--allocator");
    let mut cells = match flag(args, "--experiment").as_deref() {
        // An experiment that compares something else than designs, under both allocators.
        Some("zeroing") if design == "sharded" => ["extend", "zeroed"]
            .map(|merge| format!("Zeroing/impl={merge}/where=alone/allocator={allocator}"))
            .to_vec(),
        Some("zeroing") => Vec::new(),
        Some("latency") => ["r100", "r10"]
            .map(|mix| format!("Latency/impl={design}/mix={mix}-2"))
            .to_vec(),
        Some("study-locks") => match design.as_str() {
            "mutex" | "sharded" => [100, 50]
                .map(|reads| format!("StudyLocks/impl={design}/reads={reads}-2"))
                .to_vec(),
            _ => Vec::new(),
        },
        _ => cells(&design, phase.as_deref(), &required("--threads")),
    };
    let table = flag(args, "--experiment").as_deref() == Some("study-locks");
    if let Some(path) = flag(args, "--cells-from") {
        let wanted =
            std::fs::read_to_string(path).unwrap_or_else(|error| usage(&error.to_string()));
        let wanted: Vec<&str> = wanted.lines().collect();
        if let Some(unknown) = wanted
            .iter()
            .find(|name| !cells.iter().any(|cell| cell == *name))
        {
            usage(&format!("unknown cell {unknown}"));
        }
        cells.retain(|cell| wanted.contains(&cell.as_str()));
    }
    if args.iter().any(|arg| arg == "--plan") {
        let time = required("--benchtime");
        let ms: f64 = time.trim_end_matches("ms").parse().unwrap_or(1.0);
        let factor = if fault("costly", &design, "", round) {
            40.0
        } else {
            0.2
        };
        cells
            .iter()
            .for_each(|cell| println!("{cell} {:.1}", ms * factor));
        return;
    }
    println!(
        "# begin design={design} phase={} round={round} seed={seed} pid=1",
        phase.as_deref().unwrap_or("-")
    );
    for (at, cell) in cells.iter().enumerate() {
        let go_wrong = |kind| fault(kind, &design, cell, round);
        if go_wrong("slow") {
            std::thread::sleep(Duration::from_millis(100));
        }
        if go_wrong("hang") {
            std::thread::sleep(Duration::from_secs(3600));
        }
        if go_wrong("die") {
            eprintln!("thread 'main' panicked at src/lib.rs:1:1:\nno way to unwind");
            std::process::abort();
        }
        if go_wrong("wrong") {
            println!("# failed {cell} round={round}: wrong answer: 3 hits, 4 expected");
            continue;
        }
        if go_wrong("garbage") {
            println!("hello\nBenchmarkCache/impl={design}/dist=nowhere\t5\t1.0 ns/op");
        }
        let ns = 10.0 * (at + 1) as f64 + f64::from(round) / 10.0 + (design.len() as f64);
        println!("# sample {{\"cell\":\"{cell}\",\"round\":{round}}}");
        if table {
            let shards = if design == "mutex" { 1 } else { 64 };
            let reads = if cell.contains("reads=50") { 50 } else { 100 };
            println!("# csv mutex,{shards},{reads},2,{ns:.1}");
        }
        if go_wrong("tear") {
            print!("Benchmark{cell}\t1000\t{ns:.4}");
            std::io::stdout().flush().expect("the pipe is open");
            exit(3);
        }
        let ns = if go_wrong("nan") { f64::NAN } else { ns };
        let more = match cell.split('/').next() {
            Some("Latency") => {
                "\t50 p50-ns\t90 p90-ns\t1000 p99-ns\t20000 p99.9-ns\t3000000 max-ns\t24 timer-ns"
            }
            Some("Zeroing") => "\t9 copy-ns",
            _ => "",
        };
        println!("Benchmark{cell}\t1000\t{ns:.4} ns/op\t0 B/op\t0 allocs/op{more}");
        std::io::stdout().flush().expect("the pipe is open");
    }
    println!("# end design={design} round={round}");
}
