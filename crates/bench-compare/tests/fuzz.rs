//! A fuzzer without a coverage map: mutates inputs of the format and queries, and runs every step of the crate on
//! them. A second by default; `BENCH_COMPARE_FUZZ_SECONDS=600 cargo test -p bench-compare --test fuzz -- --nocapture`
//! runs longer, `BENCH_COMPARE_FUZZ_SEED` makes it start elsewhere. A crash prints the bytes that caused it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use bench_compare::format::{self, Corpus};
use bench_compare::query::{Filter, parse_projection};
use bench_compare::report::{Request, analyze};
use bench_compare::stats::resample::Random;
use bench_compare::{gate, noise, rank, render};

fn environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |v| {
        v.parse()
            .unwrap_or_else(|_| panic!("{name}={v} is no number"))
    })
}

/// Pieces that the mutations splice in: everything to which some line of the reader reacts.
const PIECES: [&str; 34] = [
    "Benchmark",
    "Benchmark\n",
    "Unit ",
    "Unit ns/op assume=exact\n",
    "Unit x better=higher\n",
    "# sample ",
    "{\"cell\":\"",
    "\"round\":",
    "# begin round=1\n",
    "# end\n",
    "# failed A round=1: x\n",
    "cpu: a\n",
    "cpu: b\n",
    "commit: c\n",
    "key:\n",
    "/impl=",
    "/impl=a",
    ".again",
    "/mix=r90",
    "-2",
    "-",
    " 1 ",
    " 0 ns/op",
    " 1 ns/op",
    " 2 MB/s",
    " 1e308 B/op",
    " -1 x",
    " nan ns/op",
    " inf ns/op",
    " 0x1p-1074 ns/op",
    "\u{85}",
    "\r\n",
    "µ",
    "\n",
];

const WORDS: [&str; 30] = [
    "*",
    "-",
    "(",
    ")",
    ":",
    "@",
    ",",
    "/",
    "\"",
    "\\",
    " ",
    "OR",
    "AND",
    "/impl",
    "/mix",
    ".unit",
    ".name",
    ".file",
    ".config",
    ".fullname",
    "cpu",
    "ns/op",
    "a",
    "alpha",
    "num",
    "/a[/]b/",
    "/(a|b)/",
    "\\x41",
    "@(a b)",
    "/gomaxprocs",
];

struct Fuzzer {
    random: Random,
    pool: Vec<Vec<u8>>,
}

impl Fuzzer {
    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.random.below(from.len())]
    }

    fn input(&mut self) -> Vec<u8> {
        let at = self.random.below(self.pool.len());
        let mut bytes = self.pool[at].clone();
        for _ in 0..1 + self.random.below(12) {
            self.mutate(&mut bytes);
        }
        bytes.truncate(6000);
        if self.random.below(4) == 0 {
            let slot = self.random.below(64);
            if self.pool.len() <= slot {
                self.pool.push(bytes.clone())
            } else if slot > 2 {
                self.pool[slot] = bytes.clone()
            }
        }
        bytes
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        let at = self.random.below(bytes.len() + 1);
        let to = at + self.random.below((bytes.len() - at).min(80) + 1);
        match self.random.below(6) {
            0 => {
                let piece = self.pick(&PIECES);
                bytes.splice(at..at, piece.bytes());
            }
            1 => {
                let piece = self.pick(&PIECES);
                bytes.splice(at..to, piece.bytes());
            }
            2 => drop(bytes.drain(at..to)),
            3 => {
                let copy = bytes[at..to].to_vec();
                let target = self.random.below(bytes.len() + 1);
                bytes.splice(target..target, copy);
            }
            4 if at < bytes.len() => bytes[at] = self.random.bits() as u8,
            _ => bytes.insert(at, b"0123456789.-/= \t\n"[self.random.below(17)]),
        }
    }

    fn query(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..self.random.below(8) {
            text += self.pick(&WORDS);
            if self.random.below(3) == 0 {
                text.push(' ');
            }
        }
        text
    }
}

fn step(bytes: &[u8], queries: &[String; 3]) {
    let mut corpus = Corpus::default();
    corpus.read("a", "a.txt", bytes);
    corpus.read("b", "b.txt", &bytes[bytes.len() / 3..]);
    let _ = (
        Filter::parse(&queries[0]),
        parse_projection("row", &queries[1]),
    );
    let default = Request::default();
    let odd = Request {
        filter: queries[0].clone(),
        row: queries[1].clone(),
        col: queries[2].clone(),
        ..default.clone()
    };
    let force = Request {
        force: true,
        col: "/impl".into(),
        ..default.clone()
    };
    let compat = Request {
        compat: true,
        alpha: 0.5,
        confidence: 0.5,
        ..default.clone()
    };
    for request in [&default, &odd, &force, &compat] {
        let Ok(report) = analyze(&corpus, request) else {
            continue;
        };
        let texts = (
            render::text(&report),
            render::markdown(&report),
            render::csv(&report),
            render::bars(&report),
        );
        assert!(
            texts
                .0
                .lines()
                .all(|l| !l.ends_with(' ') || l.contains(": ")),
            "{}",
            texts.0
        );
        let _ = (
            render::json(&report, &corpus).to_string(),
            render::failures(&report, &corpus),
        );
        let noise = noise::from_rounds(&report, |_| true);
        let verdict = gate::judge(&report, 0.01, Some(&noise));
        // The reference's p may exceed 1; ours and every adjusted one may not.
        let sound = |f: &gate::Finding| request.compat || f.p <= f.p_holm && f.p_holm <= 1.0;
        assert!(verdict.findings.iter().all(sound), "{verdict:?}");
        let _ = (
            gate::text(&verdict),
            gate::json(&verdict).to_string(),
            noise::text(&noise),
        );
    }
    for request in [default, force] {
        let how = rank::RankRequest {
            draws: 3,
            ..rank::RankRequest::default()
        };
        if let Ok(ranking) = rank::rank(&corpus, &request, &how) {
            let _ = (
                rank::text(&ranking),
                rank::markdown(&ranking),
                rank::csv(&ranking),
                rank::json(&ranking),
            );
        }
        let _ = noise::check(&corpus, &request);
    }
    // What is written reads back to the same text, whatever came in.
    let once = format::write(&corpus, 0);
    let mut again = Corpus::default();
    again.read("a", "a.txt", once.as_bytes());
    assert_eq!(
        again.records.len(),
        corpus.records.iter().filter(|r| r.source == 0).count(),
        "{once}"
    );
}

#[test]
fn mutated_inputs_never_panic() {
    let seconds = environment("BENCH_COMPARE_FUZZ_SECONDS", 1);
    let mut random = Random::new(environment("BENCH_COMPARE_FUZZ_SEED", 1));
    let seeds = [
        include_bytes!("data/old.txt").to_vec(),
        include_bytes!("data/new.txt").to_vec(),
        Vec::new(),
    ];
    let small = seeds
        .iter()
        .map(|s| s[..s.len().min(2500)].to_vec())
        .collect();
    random.bits();
    let mut fuzzer = Fuzzer {
        random,
        pool: small,
    };
    let (start, mut runs) = (Instant::now(), 0u64);
    while start.elapsed() < Duration::from_secs(seconds) {
        let bytes = fuzzer.input();
        let queries = [fuzzer.query(), fuzzer.query(), fuzzer.query()];
        runs += 1;
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| step(&bytes, &queries))) {
            let text = String::from_utf8_lossy(&bytes);
            let message = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            panic!("run {runs} panicked: {message}\nqueries: {queries:?}\ninput: {text:?}");
        }
    }
    eprintln!("{runs} inputs in {seconds} s");
    assert!(runs > 0);
}
