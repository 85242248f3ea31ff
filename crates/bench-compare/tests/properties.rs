//! The arithmetic against its definitions, on inputs that nobody chose.

use std::collections::BTreeMap;

use bench_compare::format::{self, Corpus, Failure, Measurement, Record, Source};
use bench_compare::query::{Filter, parse_projection};
use bench_compare::report::{Request, analyze};
use bench_compare::stats::median::interval;
use bench_compare::stats::multiple::holm;
use bench_compare::stats::utest::{self, mann_whitney};
use bench_compare::{gate, name, noise, number, rank, render, unit};
use proptest::prelude::*;

/// The two-sided p by its definition: over all ways to choose which of the pooled values belong to the first sample.
fn brute_force(a: &[f64], b: &[f64]) -> f64 {
    let pooled: Vec<f64> = a.iter().chain(b).copied().collect();
    let twice_u = |mask: u32| {
        let chosen = |i: usize| mask >> i & 1 == 1;
        let mut twice = 0i64;
        for (i, x) in pooled.iter().enumerate().filter(|(i, _)| chosen(*i)) {
            for (_, y) in pooled
                .iter()
                .enumerate()
                .filter(|(j, _)| *j != i && !chosen(*j))
            {
                twice += if x > y { 2 } else { i64::from(x == y) };
            }
        }
        twice
    };
    let mean = (a.len() * b.len()) as i64;
    let observed = (twice_u((1 << a.len()) - 1) - mean).abs();
    let (mut far, mut all) = (0u32, 0u32);
    for mask in 0..1u32 << pooled.len() {
        if mask.count_ones() as usize == a.len() {
            all += 1;
            far += u32::from((twice_u(mask) - mean).abs() >= observed);
        }
    }
    f64::from(far) / f64::from(all)
}

/// For all n <= m <= 6: every pattern of ties that n + m values can have, and every value that U can take in it.
/// (The test is symmetric in its samples, which `u_test_is_a_symmetric_probability` checks.)
#[test]
fn exact_u_test_equals_brute_force_for_all_small_sizes_and_ties() {
    let mut compared = 0;
    for (n, m) in (1..=6).flat_map(|m| (1..=m).map(move |n| (n, m))) {
        let total = n + m;
        // Bit i of a pattern says that the (i + 1)-th value exceeds the i-th.
        for pattern in 0u32..1 << (total - 1) {
            let mut values = vec![0.0f64; total];
            for i in 1..total {
                values[i] = values[i - 1] + f64::from(pattern >> (i - 1) & 1);
            }
            // How often twice U takes each value, and one deal in which it does.
            let mut deals = vec![(0u32, 0u32); 2 * n * m + 1];
            for mask in (0u32..1 << total).filter(|mask| mask.count_ones() as usize == n) {
                let slot = &mut deals[twice_u(&values, mask)];
                *slot = (slot.0 + 1, mask);
            }
            let all: u32 = deals.iter().map(|d| d.0).sum();
            // Values of U at the same distance from the mean share their p: the lower half stands for both.
            for (twice, (_, mask)) in deals
                .iter()
                .enumerate()
                .take(n * m + 1)
                .filter(|(_, d)| d.0 > 0)
            {
                let side = |first: bool| {
                    let of = (0..total).filter(|i| (mask >> i & 1 == 1) == first);
                    of.map(|i| values[i]).collect::<Vec<f64>>()
                };
                let Ok(test) = mann_whitney(&side(true), &side(false)) else {
                    assert_eq!(pattern, 0, "only samples that are all equal have no p");
                    continue;
                };
                let distance = twice.abs_diff(n * m);
                let far = deals
                    .iter()
                    .enumerate()
                    .filter(|(other, _)| other.abs_diff(n * m) >= distance);
                let want = f64::from(far.map(|(_, d)| d.0).sum::<u32>()) / f64::from(all);
                assert!(
                    (test.p - want).abs() < 1e-12,
                    "{values:?} {mask:b}: {} {want}",
                    test.p
                );
                assert_eq!(test.u * 2.0, twice as f64);
                compared += 1;
            }
        }
    }
    assert!(compared > 50_000, "{compared}");
}

/// Twice the U of the values chosen by `mask`, which are sorted: each counts twice the others below it and once the
/// others equal to it.
fn twice_u(values: &[f64], mask: u32) -> usize {
    let (mut twice, mut below, mut at) = (0, 0, 0);
    while at < values.len() {
        let (mut chosen, mut others, value) = (0, 0, values[at]);
        while at < values.len() && values[at] == value {
            let bit = (mask >> at & 1) as usize;
            chosen += bit;
            others += 1 - bit;
            at += 1;
        }
        twice += chosen * (2 * below + others);
        below += others;
    }
    twice
}

/// The interval must hold the median with the promised probability, by the binomial definition, and no interval that
/// is one order statistic shorter at either end may do so as well unless the growth passed through it.
#[test]
fn intervals_follow_the_binomial_definition() {
    let pascal = |n: usize| {
        let mut row = vec![1f64];
        for _ in 0..n {
            let mut next = vec![1.0; row.len() + 1];
            for k in 1..row.len() {
                next[k] = row[k - 1] + row[k];
            }
            row = next;
        }
        row
    };
    for n in 1..=30usize {
        let row = pascal(n);
        // The k-th smallest of n values lies below the median in exactly the cases with at least k values below it.
        let mass =
            |lo: usize, hi: usize| (lo..hi).map(|k| row[k]).sum::<f64>() / 2f64.powi(n as i32);
        for confidence in [0.0, 0.5, 0.8, 0.9, 0.95, 0.99, 0.999] {
            let i = interval(n, confidence);
            assert!(i.lo < i.hi && i.hi <= n + 1, "{n} {confidence} {i:?}");
            assert!(
                (i.confidence - mass(i.lo, i.hi)).abs() < 1e-12,
                "{n} {confidence} {i:?}"
            );
            assert!(
                i.confidence >= confidence - 1e-12 || (i.lo, i.hi) == (0, n + 1),
                "{n} {confidence} {i:?}"
            );
            if i.hi - i.lo > 1 {
                let shorter = mass(i.lo + 1, i.hi).min(mass(i.lo, i.hi - 1));
                assert!(
                    shorter < confidence,
                    "{n} {confidence} {i:?}: a shorter one would do"
                );
            }
        }
    }
}

/// How often the interval misses the true median in drawn samples, against the promise.
#[test]
fn intervals_cover_the_median_as_often_as_they_say() {
    let mut random = bench_compare::stats::resample::Random::new(5);
    for n in [6, 10, 20, 40] {
        let i = interval(n, 0.95);
        let trials = 4000;
        let mut held = 0;
        for _ in 0..trials {
            let mut sample: Vec<f64> = (0..n)
                .map(|_| random.bits() as f64 / 2f64.powi(64))
                .collect();
            sample.sort_by(f64::total_cmp);
            held += u32::from(sample[i.lo - 1] <= 0.5 && 0.5 <= sample[i.hi - 1]);
        }
        let share = f64::from(held) / f64::from(trials);
        assert!(
            (share - i.confidence).abs() < 0.015,
            "n = {n}: {share} against {}",
            i.confidence
        );
    }
}

fn values() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec((0i32..12).prop_map(f64::from), 1..12)
}

fn word() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9_.=/µ-]{1,12}"
}

fn float() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>().prop_filter("NaN is unequal to itself", |v| !v.is_nan()),
        (0i32..100).prop_map(f64::from)
    ]
}

prop_compose! {
    fn config()(pairs in prop::collection::vec(("[a-z][a-z0-9/.-]{0,6}", "[!-~]([ -~]{0,8}[!-~])?"), 0..4))
        -> Vec<(String, String)> {
        let mut seen = BTreeMap::new();
        pairs.into_iter().filter(|(k, _)| seen.insert(k.clone(), ()).is_none()).collect()
    }
}

prop_compose! {
    fn record()(
        name in word(),
        iterations in any::<i64>(),
        measurements in prop::collection::vec((float(), word()), 1..4),
        config in config(),
        round in prop::option::of(0u64..1000),
    ) -> Record {
        let measurements = measurements.into_iter().map(|(v, u)| Measurement::new(v, &u)).collect();
        Record { source: 0, line: 0, name, iterations, measurements, config: config.into(), round }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn u_test_equals_brute_force_on_any_values(
        a in prop::collection::vec(0i32..8, 1..7), b in prop::collection::vec(0i32..8, 1..7),
    ) {
        let (a, b): (Vec<f64>, Vec<f64>) =
            (a.into_iter().map(f64::from).collect(), b.into_iter().map(f64::from).collect());
        if let Ok(test) = mann_whitney(&a, &b) {
            prop_assert!((test.p - brute_force(&a, &b)).abs() < 1e-12);
        }
    }

    #[test]
    fn u_test_is_a_symmetric_probability(a in values(), b in values()) {
        if let (Ok(ab), Ok(ba)) = (mann_whitney(&a, &b), mann_whitney(&b, &a)) {
            prop_assert!(ab.p > 0.0 && ab.p <= 1.0);
            prop_assert!((ab.p - ba.p).abs() < 1e-12);
            prop_assert!((ab.u + ba.u - (a.len() * b.len()) as f64).abs() < 1e-9);
            prop_assert!(ab.p >= utest::smallest_p(a.len(), b.len()) / 2.0);
        }
    }

    #[test]
    fn holm_is_monotone_and_never_below_raw(p in prop::collection::vec(0.0f64..=1.0, 0..20)) {
        let adjusted = holm(&p);
        for (i, raw) in p.iter().enumerate() {
            prop_assert!(adjusted[i] >= *raw && adjusted[i] <= 1.0);
            for (j, other) in p.iter().enumerate() {
                prop_assert!(raw > other || adjusted[i] <= adjusted[j] + 1e-15);
            }
        }
    }

    #[test]
    fn numbers_round_trip(value in any::<f64>()) {
        let text = number::shortest(value);
        let back = number::parse_float(&text).unwrap();
        let same = back == value && back.is_sign_negative() == value.is_sign_negative();
        prop_assert!(same || value.is_nan() && back.is_nan());
    }

    #[test]
    fn hexadecimal_floats_read_as_written(mantissa in 0u64..1 << 52, exponent in -900i32..900) {
        let want = mantissa as f64 * 2f64.powi(exponent);
        prop_assert_eq!(number::parse_float(&format!("0x{mantissa:x}p{exponent}")), Ok(want));
        let nine = number::parse_float(&format!("-0X0.{mantissa:013X}P{exponent}")).unwrap();
        prop_assert_eq!(nine, -want / 2f64.powi(52));
    }

    #[test]
    fn names_are_the_sum_of_their_parts(text in "[a-z/=0-9-]{0,20}") {
        prop_assert_eq!(name::without(&text, &[]), text.clone());
        let (head, threads) = name::split_threads(&text);
        prop_assert_eq!(head.to_owned() + threads.unwrap_or(""), text);
    }

    #[test]
    fn tidying_is_idempotent_and_keeps_the_class(
        unit in "[a-zA-Z*/ -]{0,12}|(ns|MB|B|op|s|sec)([*/-](ns|MB|B|op|s)){0,3}",
    ) {
        let (_, tidied) = unit::tidy(1.0, &unit);
        prop_assert_eq!(unit::tidy(1.0, &tidied), (1.0, tidied.clone()));
        prop_assert_eq!(unit::class_of(&unit), unit::class_of(&tidied));
    }

    #[test]
    fn written_records_read_back(
        records in prop::collection::vec(record(), 0..8),
        failures in prop::collection::vec((word(), prop::option::of(0u64..99), "[!-~]([ -~]{0,8}[!-~])?"), 0..3),
    ) {
        let source = Source { label: "a".into(), path: "a".into(), records: records.len() };
        let mut corpus = Corpus { sources: vec![source], records, ..Corpus::default() };
        for (line, record) in corpus.records.iter_mut().enumerate() {
            record.line = line + 1;
        }
        for (cell, round, reason) in failures {
            let config = corpus.records.last().map(|r| r.config.clone()).unwrap_or_default();
            let cell = cell.strip_prefix("Benchmark").unwrap_or(&cell).to_owned();
            corpus.failures.push(Failure { source: 0, line: 1000, cell, round, reason, config });
        }
        let text = format::write(&corpus, 0);
        let mut back = Corpus::default();
        back.read("a", "a", text.as_bytes());
        prop_assert_eq!(&back.problems, &vec![], "{}", text);
        for (old, new) in corpus.records.iter_mut().zip(&mut back.records) {
            (old.line, new.line) = (0, 0);
        }
        for (old, new) in corpus.failures.iter_mut().zip(&mut back.failures) {
            (old.line, new.line) = (0, 0);
        }
        prop_assert_eq!(back, corpus, "{}", text);
    }

    #[test]
    fn no_query_panics(text in "\\PC{0,40}|[-a-z/:()@, \"*\\[\\]ORAND]{0,40}") {
        let _ = Filter::parse(&text);
        let _ = parse_projection("col", &text);
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        everything(&bytes);
    }

    #[test]
    fn no_text_of_the_format_panics(lines in prop::collection::vec(line(), 0..30)) {
        everything(lines.join("\n").as_bytes());
    }
}

/// Lines that are nearly right, which reach further than noise does.
fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        (
            "[ab](/impl=[xy])?(/mix=r[19]0)?(-[12])?",
            "(0|1|-5|1e3|[0-9]{1,20})",
            "(0|-?[0-9.e-]{1,6}|inf|nan|0x1p3)",
            "(ns/op|B/op|ms/op|MB/s|x)"
        )
            .prop_map(|(n, i, v, u)| format!("Benchmark{n} {i} {v} {u}")),
        "(cpu|commit|os|x): ?[ab]{0,2}",
        "Unit (ns/op|B/op|x) (assume|better)=(exact|nothing|lower|higher)( q)?",
        "# sample \\{\"cell\":\"[ab]\",\"round\":[0-9]\\}",
        "# (begin|end|failed) [ab] round=[0-9x]:? ?z?",
        "\\PC{0,20}",
    ]
}

/// Every step of the crate on one input, twice given so that there is something to compare.
fn everything(bytes: &[u8]) {
    let mut corpus = Corpus::default();
    corpus.read("a", "a.txt", bytes);
    corpus.read("b", "b.txt", bytes);
    for col in [".file", "/impl"] {
        for compat in [false, true] {
            let request = Request {
                col: col.into(),
                compat,
                ..Request::default()
            };
            let Ok(report) = analyze(&corpus, &request) else {
                continue;
            };
            let _ = (
                render::text(&report),
                render::markdown(&report),
                render::csv(&report),
                render::bars(&report),
            );
            let _ = (
                render::json(&report, &corpus).to_string(),
                render::failures(&report, &corpus),
            );
            let _ = gate::text(&gate::judge(&report, 0.01, None));
            let _ = noise::text(&noise::from_columns(&report));
            let _ = noise::text(&noise::from_rounds(&report, |_| true));
        }
    }
    let how = rank::RankRequest {
        draws: 5,
        ..rank::RankRequest::default()
    };
    if let Ok(ranking) = rank::rank(
        &corpus,
        &Request {
            force: true,
            ..Request::default()
        },
        &how,
    ) {
        let _ = (
            rank::text(&ranking),
            rank::markdown(&ranking),
            rank::csv(&ranking),
            rank::json(&ranking).to_string(),
        );
    }
    let _ = noise::check(&corpus, &Request::default());
    let _ = format::write(&corpus, 0);
}
