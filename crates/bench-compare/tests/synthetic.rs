//! Noise that we make ourselves, seeded: what an A/A check, the gate, the ranking and the drift check say of it, and
//! what is refused. The same commands judge real sweeps:
//!
//! - A/A: `cargo xtask compare --aa run1/bench.txt run2/bench.txt`, or one sweep made with `--aa`;
//! - a planted slowdown: `cargo xtask compare --fail-above 1% good/bench.txt slowed/bench.txt`.

use std::fmt::Write as _;

use bench_compare::error::Error;
use bench_compare::format::Corpus;
use bench_compare::gate::{self, Status};
use bench_compare::noise::{self, Sides};
use bench_compare::rank::{self, RankRequest};
use bench_compare::render;
use bench_compare::report::{Report, Request, analyze};
use bench_compare::stats::resample::Random;

/// A machine like ours: each round has its own speed (shared by all cells), each sample its own noise, and one
/// sample in twelve is disturbed by something else that ran.
struct Machine {
    random: Random,
    round_noise: f64,
    sample_noise: f64,
}

impl Machine {
    fn new(seed: u64) -> Machine {
        Machine {
            random: Random::new(seed),
            round_noise: 0.01,
            sample_noise: 0.012,
        }
    }

    fn uniform(&mut self) -> f64 {
        (self.random.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Roughly normal: the sum of twelve uniforms.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    /// One run: `designs` as (name, factor) in 16 workloads, `count` rounds, with a trend of `drift` from first to
    /// last.
    fn run(&mut self, designs: &[(&str, f64)], count: u32, drift: f64) -> String {
        let mut out = "os: linux\ncpu: synthetic\ncores: 2\n\n".to_owned();
        for round in 1..=count {
            let position = f64::from(round - 1) / f64::from(count.max(2) - 1);
            let speed = (1.0 + self.round_noise * self.normal()) * (1.0 + drift * position);
            for (design, factor) in designs {
                for dist in ["uniform", "zipf"] {
                    for (mix, cost) in [
                        ("r100", 40.0),
                        ("r90", 60.0),
                        ("r50", 110.0),
                        ("r10", 150.0),
                    ] {
                        for threads in ["", "-2"] {
                            let mut ns =
                                cost * factor * speed * (1.0 + self.sample_noise * self.normal());
                            if self.uniform() < 1.0 / 12.0 {
                                ns *= 1.0 + 0.15 * self.uniform();
                            }
                            let cell =
                                format!("Cache/impl={design}/dist={dist}/mix={mix}{threads}");
                            let _ =
                                writeln!(out, "# sample {{\"cell\":\"{cell}\",\"round\":{round}}}");
                            let _ = writeln!(out, "Benchmark{cell}\t1000\t{ns:.4} ns/op");
                        }
                    }
                }
            }
        }
        out
    }
}

const SIX: [(&str, f64); 6] = [
    ("mutex", 1.0),
    ("rwlock", 1.1),
    ("sharded", 0.4),
    ("cow", 0.3),
    ("hamt", 0.5),
    ("ctrie", 0.6),
];

fn corpus(runs: &[(&str, &str)]) -> Corpus {
    let mut corpus = Corpus::default();
    for (label, text) in runs {
        corpus.read(label, label, text.as_bytes());
    }
    corpus
}

fn report(runs: &[(&str, &str)]) -> Report {
    analyze(&corpus(runs), &Request::default()).unwrap()
}

fn refusal(runs: &[(&str, &str)], request: &Request) -> Error {
    let error = analyze(&corpus(runs), request).expect_err("this must be refused");
    assert_eq!(error.to_string().lines().count(), 1, "{error}");
    error
}

#[test]
fn two_runs_of_the_same_show_no_difference_in_95_percent_of_the_cells() {
    let (mut cells, mut alarms, mut regressions) = (0, 0, 0);
    for seed in 0..10 {
        let mut machine = Machine::new(seed);
        // Between two runs the rounds are not shared: only the noise within samples may be left.
        machine.round_noise = 0.002;
        let (a, b) = (machine.run(&SIX, 10, 0.0), machine.run(&SIX, 10, 0.0));
        let corpus = corpus(&[("a", &a), ("b", &b)]);
        let noise = noise::check(&corpus, &Request::default()).unwrap();
        assert_eq!(noise.sides, Sides::Columns);
        let unit = &noise.units["sec/op"];
        cells += unit.cells;
        alarms += unit.alarms;
        let report = analyze(&corpus, &Request::default()).unwrap();
        regressions += gate::judge(&report, 0.0, Some(&noise))
            .of(Status::Regression)
            .count();
    }
    assert_eq!(cells, 10 * 6 * 16);
    assert!(alarms * 20 <= cells, "{alarms} of {cells}");
    assert_eq!(
        regressions, 0,
        "the gate must not raise an alarm over nothing"
    );
}

#[test]
fn twins_and_rounds_are_found_by_themselves() {
    let twins: Vec<(&str, f64)> = vec![
        ("mutex", 1.0),
        ("mutex.again", 1.0),
        ("cow", 0.3),
        ("cow.again", 0.3),
    ];
    let text = Machine::new(3).run(&twins, 10, 0.0);
    let noise = noise::check(&corpus(&[("a", &text)]), &Request::default()).unwrap();
    assert_eq!(
        (noise.sides, noise.units["sec/op"].cells),
        (Sides::Twins, 32)
    );
    assert!(noise.passes(), "{}", noise::text(&noise));
    let text = Machine::new(4).run(&SIX, 10, 0.0);
    let noise = noise::check(&corpus(&[("a", &text)]), &Request::default()).unwrap();
    assert_eq!(
        (noise.sides, noise.units["sec/op"].cells),
        (Sides::Rounds, 96)
    );
    let floor = noise.floor("sec/op");
    assert!(floor > 0.003 && floor < 0.03, "{floor}");
    // A design that is slower is no twin, and the check says so.
    let text = Machine::new(5).run(&[("mutex", 1.0), ("mutex.again", 1.1)], 10, 0.0);
    assert!(
        !noise::check(&corpus(&[("a", &text)]), &Request::default())
            .unwrap()
            .passes()
    );
}

/// One design of six made 5 % slower, count 10, in 20 tries: the comparison must show it in most of its cells and
/// the gate must fail for it, and for it alone.
#[test]
fn a_planted_slowdown_of_five_percent_is_found() {
    let mut slow = SIX;
    slow[2].1 *= 1.05;
    let (mut found, mut wrong) = (0, 0);
    for seed in 100..120 {
        let mut machine = Machine::new(seed);
        machine.round_noise = 0.004;
        let (old, new) = (machine.run(&SIX, 10, 0.0), machine.run(&slow, 10, 0.0));
        let report = report(&[("old", &old), ("new", &new)]);
        let noise = noise::from_rounds(&report, |col| col == 0);
        let verdict = gate::judge(&report, 0.01, Some(&noise));
        let (hit, miss): (Vec<_>, Vec<_>) = verdict
            .of(Status::Regression)
            .partition(|f| f.row.contains("impl=sharded/"));
        found += usize::from(!hit.is_empty());
        wrong += miss.len();
    }
    assert!(found >= 18, "found in {found} of 20 tries");
    assert!(wrong <= 1, "{wrong} false alarms");
}

#[test]
fn pairing_by_round_cancels_what_a_round_shares() {
    let mut machine = Machine::new(11);
    machine.round_noise = 0.08;
    let text = machine.run(&[("mutex", 1.0), ("twin", 1.04)], 10, 0.0);
    let request = Request {
        col: "/impl".into(),
        ..Request::default()
    };
    let report = analyze(&corpus(&[("a", &text)]), &request).unwrap();
    let table = &report.tables[0];
    let widths: Vec<(f64, f64)> = table
        .comparisons()
        .map(|(row, _, cell, _)| {
            let base = &table.cell(row, 0).unwrap().sample;
            let paired = bench_compare::sample::shift_between(base, &cell.sample, 0.95).unwrap();
            let loose =
                bench_compare::stats::shift::two_sample(base.sorted(), cell.sample.sorted(), 0.95)
                    .unwrap();
            assert!(paired.paired && !loose.paired);
            (paired.hi / paired.lo, loose.hi / loose.lo)
        })
        .collect();
    assert_eq!(widths.len(), 16);
    let mean = |f: fn(&(f64, f64)) -> f64| widths.iter().map(f).sum::<f64>() / 16.0;
    assert!(
        mean(|w| w.0 - 1.0) * 1.5 < mean(|w| w.1 - 1.0),
        "{widths:?}"
    );
}

#[test]
fn drift_over_the_rounds_is_noted() {
    let mut machine = Machine::new(21);
    machine.round_noise = 0.003;
    let text = machine.run(&SIX, 10, 0.05);
    let notes = report(&[("a", &text)]).notes;
    assert!(
        notes
            .iter()
            .any(|n| n.starts_with("rounds drift: sec/op changes by +")),
        "{notes:?}"
    );
    let mut machine = Machine::new(22);
    machine.round_noise = 0.003;
    let steady = machine.run(&SIX, 10, 0.0);
    let notes = report(&[("a", &steady)]).notes;
    assert!(!notes.iter().any(|n| n.contains("changes by")), "{notes:?}");
}

#[test]
fn few_samples_are_noted_and_inconclusive() {
    let mut machine = Machine::new(31);
    let (a, b) = (machine.run(&SIX, 3, 0.0), machine.run(&SIX, 3, 0.0));
    let report = report(&[("a", &a), ("b", &b)]);
    assert!(
        report
            .notes
            .iter()
            .any(|n| n.contains("fewer than 6 samples")),
        "{:?}",
        report.notes
    );
    let verdict = gate::judge(&report, 0.05, None);
    assert_eq!(verdict.of(Status::Inconclusive).count(), 96);
    assert!(
        verdict.notes.iter().any(|n| n.contains("too few samples")),
        "{:?}",
        verdict.notes
    );
    assert!(
        render::text(&report)
            .contains("need >= 4 samples to detect a difference at alpha level 0.05")
    );
}

#[test]
fn the_ranking_marks_ties_and_keeps_groups_apart() {
    let designs = [
        ("slow", 2.0),
        ("best", 1.0),
        ("near", 1.001),
        ("noop", 0.1),
        ("clearly", 1.3),
        ("noop2", 0.1),
    ];
    let mut text = Machine::new(41).run(&designs, 10, 0.0);
    // One design lacks a workload: it must not shrink the average of the others.
    text = text
        .lines()
        .filter(|l| !l.contains("impl=slow/dist=zipf/mix=r90") || l.contains("mix=r90-2"))
        .collect::<Vec<_>>()
        .join("\n");
    let how = RankRequest {
        floors: vec!["noop".into(), "noop2".into()],
        ..RankRequest::default()
    };
    let ranking = rank::rank(&corpus(&[("a", &text)]), &Request::default(), &how).unwrap();
    assert_eq!(
        ranking.groups.len(),
        8,
        "four mixes by two numbers of threads"
    );
    for group in &ranking.groups {
        let names: Vec<&str> = group.places.iter().map(|p| p.name.as_str()).collect();
        assert!(
            names[..2].contains(&"best") && names[..2].contains(&"near"),
            "{names:?}"
        );
        assert!(
            group.places[0].tied_for_best && group.places[1].tied_for_best,
            "{group:?}"
        );
        assert!(
            !group.places[2].tied_for_best && names[2] == "clearly",
            "{group:?}"
        );
        assert_eq!(group.workloads, ["dist=uniform", "dist=zipf"]);
        assert_eq!((group.floors.len(), group.rounds), (2, 10));
        assert!((group.floors[0].1 - 0.1).abs() < 0.01);
        let lacking = group.title == "Cache, mix=r90, 1 thread";
        assert_eq!(names.contains(&"slow"), !lacking, "{}", group.title);
        assert_eq!(group.unranked.len(), usize::from(lacking));
    }
    let again = rank::rank(&corpus(&[("a", &text)]), &Request::default(), &how).unwrap();
    assert_eq!(
        ranking.groups, again.groups,
        "the same input must give the same intervals"
    );
    // One group is possible, but only when asked for, and it says what it averages over.
    let one = RankRequest {
        group: Some(".name".into()),
        ..how
    };
    let ranking = rank::rank(&corpus(&[("a", &text)]), &Request::default(), &one).unwrap();
    assert_eq!(
        (ranking.groups.len(), ranking.groups[0].workloads.len()),
        (1, 16)
    );
}

#[test]
fn failures_are_listed_and_never_numbers() {
    let mut text = Machine::new(51).run(&SIX[..2], 6, 0.0);
    text += "# failed Cache/impl=cow/dist=zipf/mix=r90-2 round=3: lost 3 keys: 7, 8, 9\n";
    text += "# failed Cache/impl=cow/dist=zipf/mix=r90-2 round=4: lost 3 keys: 7, 8, 9\n";
    text += "# failed to be a line of this kind\n";
    let summary = bench_compare::render_summary(text.as_bytes(), "a").unwrap();
    assert!(summary.ends_with(
        "failed samples (2), which are in no figure above:\n  \
         Cache/impl=cow/dist=zipf/mix=r90-2 (a, rounds 3 4): lost 3 keys: 7, 8, 9\n"
    ));
    assert!(
        !summary
            .lines()
            .any(|l| l.starts_with("Cache/impl=cow") && l.contains('±'))
    );
    let filtered = Request {
        filter: "/impl:mutex".into(),
        ..Request::default()
    };
    assert!(
        analyze(&corpus(&[("a", &text)]), &filtered)
            .unwrap()
            .failures
            .is_empty()
    );
}

#[test]
fn a_row_that_vanished_is_inconclusive() {
    let mut machine = Machine::new(61);
    let (old, new) = (
        machine.run(&SIX[..2], 10, 0.0),
        machine.run(&SIX[..1], 10, 0.0),
    );
    let verdict = gate::judge(&report(&[("old", &old), ("new", &new)]), 0.5, None);
    let missing: Vec<_> = verdict.of(Status::Inconclusive).collect();
    assert_eq!(missing.len(), 16);
    assert!(
        missing
            .iter()
            .all(|f| f.reason == "no samples in this column" && f.row.contains("rwlock"))
    );
}

#[test]
fn directions_and_zeros_in_the_gate() {
    let lines = |base: f64, unit: &str| -> String {
        (0..10)
            .map(|i| {
                format!(
                    "BenchmarkGet 1 {} {unit}\n",
                    base * (1.0 + f64::from(i) / 1000.0)
                )
            })
            .collect()
    };
    let judge = |old: &str, new: &str| {
        let verdict = gate::judge(&report(&[("old", old), ("new", new)]), 0.05, None);
        verdict
            .findings
            .into_iter()
            .next()
            .map(|f| (f.status, f.worse))
    };
    // Throughput is better high.
    let (status, worse) = judge(&lines(100.0, "MB/s"), &lines(50.0, "MB/s")).unwrap();
    assert!(status == Status::Regression && (worse - 1.0).abs() < 0.01);
    assert_eq!(
        judge(&lines(100.0, "MB/s"), &lines(200.0, "MB/s"))
            .unwrap()
            .0,
        Status::Improvement
    );
    // From nothing to something is infinitely worse; from something to nothing is better.
    let (status, worse) = judge(&lines(0.0, "allocs/op"), &lines(3.0, "allocs/op")).unwrap();
    assert!(status == Status::Regression && worse == f64::INFINITY);
    assert_eq!(
        judge(&lines(3.0, "allocs/op"), &lines(0.0, "allocs/op"))
            .unwrap()
            .0,
        Status::Improvement
    );
    assert_eq!(
        judge(&lines(0.0, "allocs/op"), &lines(0.0, "allocs/op"))
            .unwrap()
            .0,
        Status::Unchanged
    );
    // A unit of unknown direction is not judged, and a unit without noise needs no samples.
    assert_eq!(judge(&lines(1.0, "widgets"), &lines(2.0, "widgets")), None);
    let exact = |v: u32| format!("Unit size assume=exact better=lower\nBenchmarkGet 1 {v} size\n");
    assert_eq!(
        judge(&exact(100), &exact(120)).unwrap().0,
        Status::Regression
    );
    assert_eq!(
        judge(&exact(100), &exact(100)).unwrap().0,
        Status::Unchanged
    );
}

#[test]
fn machines_and_revisions_do_not_mix() {
    let run = |cpu: &str, commit: &str| {
        format!(
            "cpu: {cpu}\ncommit: {commit}\n{}",
            "BenchmarkGet/impl=a 1 2 ns/op\n".repeat(6)
        )
    };
    let (here, there, later) = (run("x", "1"), run("y", "1"), run("x", "2"));
    let default = Request::default();
    let error = refusal(&[("a", &here), ("b", &there)], &default).to_string();
    assert!(
        error.starts_with("refusing to mix cpu 'x' and 'y'"),
        "{error}"
    );
    // Ignoring the key is not enough; naming it, or insisting, is.
    let ignore = Request {
        ignore: "cpu".into(),
        ..Request::default()
    };
    assert!(matches!(
        refusal(&[("a", &here), ("b", &there)], &ignore),
        Error::Mixed { .. }
    ));
    for request in [
        Request {
            force: true,
            ..Request::default()
        },
        Request {
            col: "cpu".into(),
            ..Request::default()
        },
    ] {
        let report = analyze(&corpus(&[("a", &here), ("b", &there)]), &request).unwrap();
        assert_eq!(report.tables[0].comparisons().count(), 1);
    }
    // Two revisions side by side are what the tool is for; two in one column are not.
    let report = analyze(&corpus(&[("a", &here), ("b", &later)]), &default).unwrap();
    assert_eq!(report.tables[0].comparisons().count(), 1);
    assert!(
        report.notes[0].contains("commit differs"),
        "{:?}",
        report.notes
    );
    let by_impl = Request {
        col: "/impl".into(),
        ..Request::default()
    };
    let error = refusal(&[("a", &here), ("b", &later)], &by_impl).to_string();
    assert!(
        error.starts_with("refusing to mix commit '1' and '2' in column a"),
        "{error}"
    );
}

#[test]
fn mistakes_of_the_request_or_input_are_one_line() {
    let good = "BenchmarkGet/impl=a 1 2 ns/op\n";
    let with = |edit: fn(&mut Request)| {
        let mut request = Request::default();
        edit(&mut request);
        request
    };
    let default = with(|_| {});
    for (request, runs, want) in [
        (
            &default,
            vec![("a", good), ("b", "")],
            "b: no benchmark lines",
        ),
        (&default, vec![("a", "PASS\nok\n")], "a: no benchmark lines"),
        (
            &with(|r| r.filter = "/impl:zzz".into()),
            vec![("a", good)],
            "--filter: no benchmark matches",
        ),
        (
            &with(|r| r.filter = "/impl".into()),
            vec![("a", good)],
            "--filter: expected key:value at column 1",
        ),
        (
            &with(|r| r.col = "/size".into()),
            vec![("a", good)],
            "--col: no benchmark has the key '/size'",
        ),
        (
            &with(|r| r.ignore = "goos".into()),
            vec![("a", good)],
            "--ignore: no benchmark has the key 'goos'",
        ),
        (
            &with(|r| r.row = "a,,b".into()),
            vec![("a", good)],
            "--row: expected a key at column 3",
        ),
        (
            &with(|r| r.alpha = f64::NAN),
            vec![("a", good)],
            "--alpha: NaN is not between 0 and 1",
        ),
        (
            &default,
            vec![("a", good), ("b", "BenchmarkPut 1 2 ns/op\n")],
            "no common benchmarks: columns 'a' and 'b' share",
        ),
        (
            &default,
            vec![("a", good), ("b", "BenchmarkGet/impl=a 1 2 B/op\n")],
            "no common benchmarks: columns 'a' and 'b' have",
        ),
        (
            &default,
            vec![("a", good), ("b", "BenchmarkGet/impl=a 1 2 ms/op\n")],
            "mixed units: Get/impl=a is given in sec/op (a:1) and in ms/op (b:1)",
        ),
        (
            &default,
            vec![
                ("a", good),
                ("b", "mode: fast\nBenchmarkGet/impl=a 1 2 ns/op\n"),
            ],
            "no common benchmarks: the columns differ in mode ('', 'fast'); compare across it with --ignore mode",
        ),
    ] {
        let error = refusal(&runs, request).to_string();
        assert!(error.starts_with(want), "want {want}\ngot  {error}");
        // The reference takes all of these without a word (or with one, and success).
        let compat = Request {
            compat: true,
            ..request.clone()
        };
        if !want.starts_with("--") {
            assert!(analyze(&corpus(&runs), &compat).is_ok(), "{want}");
        }
    }
}

#[test]
fn lines_that_cannot_be_read_are_named() {
    let text = "BenchmarkA\nBenchmarkA \nBenchmarkA x 1 ns/op\nBenchmarkA 99999999999999999999 1 ns/op\n\
                BenchmarkA 1\nBenchmarkA 1 x ns/op\nBenchmarkA 1 1e999 ns/op\nBenchmarkA 1 2\nUnit\nUnit x y\n\
                Unit ns/op better=lower\nUnit sec/op better=higher\n# sample {\nBenchmarkA 1 2 ns/op\n\
                # sample {\"cell\":\"B\"}\nBenchmarkA 1 2 ns/op\r\n";
    let corpus = corpus(&[("a", text)]);
    let problems: Vec<String> = corpus.problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [
            "a:2: missing iteration count",
            "a:3: parsing iteration count: invalid syntax",
            "a:4: parsing iteration count: value out of range",
            "a:5: missing measurements",
            "a:6: parsing measurement: invalid syntax",
            "a:7: parsing measurement: value out of range",
            "a:8: missing units",
            "a:9: missing unit",
            "a:10: expected key=value",
            "a:12: metadata better of unit sec/op already set to lower",
            "a:13: malformed sample comment",
            "a:16: the sample comment above speaks of B, this line of A",
        ]
    );
    assert_eq!(corpus.records.len(), 2);
}

#[test]
fn the_round_comes_from_the_sample_or_the_block_around_it() {
    let text = "BenchmarkA 1 1 ns/op\n# begin design=x round=2\nBenchmarkA 1 2 ns/op\n\
                # sample {\"cell\":\"A\",\"round\":7}\nBenchmarkA 1 3 ns/op\n# end design=x round=2\n\
                BenchmarkA 1 4 ns/op\n";
    let rounds: Vec<Option<u64>> = corpus(&[("a", text)])
        .records
        .iter()
        .map(|r| r.round)
        .collect();
    assert_eq!(rounds, [None, Some(2), Some(7), None]);
}

#[test]
fn quirks_of_the_reference_are_there_on_request() {
    // A zero keeps its unit as written, and so stands in a table of its own.
    let zeros = "BenchmarkA 1 0 ns/op\nBenchmarkB 1 5 ns/op\n";
    let tables = |compat| {
        let request = Request {
            compat,
            ..Request::default()
        };
        analyze(&corpus(&[("a", zeros)]), &request)
            .unwrap()
            .tables
            .iter()
            .map(|t| t.unit.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(tables(false), ["sec/op"]);
    assert_eq!(tables(true), ["ns/op", "sec/op"]);
    // Tables stand in the order of the input, not of the alphabet.
    let modes = "mode: z\nBenchmarkA 1 1 ns/op\nmode: a\nBenchmarkA 1 1 ns/op\n";
    let keys = |compat| {
        let request = Request {
            compat,
            ..Request::default()
        };
        analyze(&corpus(&[("a", modes)]), &request)
            .unwrap()
            .tables
            .iter()
            .map(|t| t.key[0].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(keys(false), ["z", "a"]);
    assert_eq!(keys(true), ["a", "z"]);
    // Ties of unequal samples.
    let lines = |values: &[u32]| {
        values
            .iter()
            .map(|v| format!("BenchmarkA 1 {v} x\n"))
            .collect::<String>()
    };
    let (old, new) = (lines(&[2, 1, 3, 5]), lines(&[1, 1, 1, 1, 1]));
    let shown = |compat| {
        let request = Request {
            compat,
            ..Request::default()
        };
        render::text(&analyze(&corpus(&[("old", &old), ("new", &new)]), &request).unwrap())
    };
    assert!(shown(true).contains("-60.00% (n=4+5)"), "{}", shown(true));
    assert!(
        shown(false).contains("-60.00% (p=0.048 n=4+5)"),
        "{}",
        shown(false)
    );
}
