//! A small input of our own (two revisions, two designs, six rounds, one failed sample) in every form of output.
//!
//! `UPDATE_GOLDENS=1 cargo test -p bench-compare --test small` rewrites the expected files; read the difference
//! before you commit it.

use std::path::Path;

use bench_compare::format::Corpus;
use bench_compare::gate::{self, Status};
use bench_compare::rank::{self, RankRequest};
use bench_compare::report::{Report, Request, analyze};
use bench_compare::{noise, render};

fn corpus(labels: &[&str]) -> Corpus {
    let mut corpus = Corpus::default();
    for label in labels {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/data")
            .join(format!("{label}.txt"));
        corpus.read(
            label,
            &format!("{label}.txt"),
            &std::fs::read(path).unwrap(),
        );
    }
    corpus
}

fn both() -> (Corpus, Report) {
    let corpus = corpus(&["old", "new"]);
    let report = analyze(&corpus, &Request::default()).unwrap();
    (corpus, report)
}

fn expect(name: &str, got: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/golden")
        .join(name);
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        std::fs::write(&path, got).unwrap();
    }
    let want = std::fs::read_to_string(&path).unwrap();
    assert!(got == want, "{name} differs; want:\n{want}\ngot:\n{got}");
}

#[test]
fn two_files_as_text() {
    let (corpus, report) = both();
    expect(
        "two.txt",
        &(render::text(&report) + "\n" + &render::failures(&report, &corpus)),
    );
    assert!(
        report.notes[0].starts_with("commit differs"),
        "{:?}",
        report.notes
    );
}

#[test]
fn two_files_as_csv() {
    let csv = render::csv(&both().1);
    expect("two.csv", &csv.records);
    expect("two.csv.warnings", &csv.warnings);
}

#[test]
fn two_files_as_markdown() {
    expect("two.md", &render::markdown(&both().1));
}

#[test]
fn two_files_as_json() {
    let corpus = corpus(&["old", "new"]);
    let filter = "/impl:sharded /gomaxprocs:2 .unit:ns/op".to_owned();
    let report = analyze(
        &corpus,
        &Request {
            filter,
            ..Request::default()
        },
    )
    .unwrap();
    let json = render::json(&report, &corpus);
    expect("two.json", &format!("{json:#}\n"));
    assert_eq!(json["failures"][0]["round"], 3);
    let cell = &json["tables"][0]["rows"][0]["cells"][1];
    assert_eq!(cell["comparison"]["verdict"], "worse");
    // Two sweeps have no rounds in common, whatever their numbers; the designs of one sweep do.
    assert_eq!(cell["comparison"]["shift"]["paired"], false);
    let by_impl = Request {
        col: "/impl".into(),
        ignore: ".file".into(),
        filter: ".file:new".into(),
        ..Request::default()
    };
    let json = render::json_tables(&analyze(&corpus, &by_impl).unwrap());
    assert_eq!(
        json[0]["rows"][0]["cells"][1]["comparison"]["shift"]["paired"],
        true
    );
}

#[test]
fn columns_by_design() {
    let text =
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/new.txt")).unwrap();
    expect(
        "by-impl.txt",
        &bench_compare::render_by_impl(&text, "new.txt", Some("sharded")).unwrap(),
    );
    expect(
        "summary.txt",
        &bench_compare::render_summary(&text, "new.txt").unwrap(),
    );
    let text = bench_compare::render_by_impl(&text, "new.txt", Some("nobody"))
        .unwrap_err()
        .to_string();
    assert_eq!(
        text,
        "--base: no column is called 'nobody'; columns: mutex sharded"
    );
}

#[test]
fn bars() {
    let request = Request {
        col: "/impl".into(),
        filter: ".unit:ns/op".into(),
        ..Request::default()
    };
    expect(
        "bars.txt",
        &render::bars(&analyze(&corpus(&["new"]), &request).unwrap()),
    );
}

#[test]
fn ranking() {
    let ranking = rank::rank(
        &corpus(&["new"]),
        &Request::default(),
        &RankRequest::default(),
    )
    .unwrap();
    expect("rank.txt", &rank::text(&ranking));
    expect("rank.md", &rank::markdown(&ranking));
    expect("rank.csv", &rank::csv(&ranking));
    assert_eq!(rank::json(&ranking)[0]["places"][0]["design"], "sharded");
}

#[test]
fn gating() {
    let (_, report) = both();
    let verdict = gate::judge(&report, 0.02, None);
    expect("gate.txt", &gate::text(&verdict));
    let regressions: Vec<&str> = verdict
        .of(Status::Regression)
        .map(|f| f.row.as_str())
        .collect();
    assert_eq!(
        regressions,
        [
            "Cache/impl=sharded/dist=zipf/mix=r90",
            "Cache/impl=sharded/dist=zipf/mix=r90-2"
        ]
    );
    assert_eq!(gate::json(&verdict)["regressions"], 2);
}

#[test]
fn noise_of_one_run() {
    let noise = noise::check(&corpus(&["old"]), &Request::default()).unwrap();
    assert_eq!(noise.sides, noise::Sides::Rounds);
    expect("noise.txt", &noise::text(&noise));
}
