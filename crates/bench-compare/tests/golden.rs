//! Our output against that of the real tool on a real input of 2,240 lines, kept outside the repository. Without that
//! data these tests say `skipped` and pass; `small.rs` runs everywhere.

use std::path::{Path, PathBuf};

use bench_compare::format::Corpus;
use bench_compare::render;
use bench_compare::report::{Request, analyze};

fn data() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)?;
    let dir = root.join("../shared/data/benchstat");
    if dir.join("bench.txt").is_file() {
        return Some(dir);
    }
    eprintln!("skipped: {} is not there", dir.display());
    None
}

fn check(golden: &str, request: &Request) {
    let Some(dir) = data() else { return };
    let mut corpus = Corpus::default();
    // The column header of the golden output holds the path under which the input was named.
    corpus.read(
        "results/bench.txt",
        "results/bench.txt",
        &std::fs::read(dir.join("bench.txt")).unwrap(),
    );
    let want = std::fs::read_to_string(dir.join(golden)).unwrap();
    for compat in [false, true] {
        let request = Request {
            compat,
            ..request.clone()
        };
        let got = render::text(&analyze(&corpus, &request).unwrap());
        for (number, (got, want)) in got.lines().zip(want.lines()).enumerate() {
            assert_eq!(got, want, "{golden}, line {}, compat {compat}", number + 1);
        }
        assert_eq!(got.len(), want.len(), "{golden}, compat {compat}");
        assert!(got == want, "{golden} differs in its line ends");
    }
}

#[test]
fn no_flags() {
    check("summary.txt", &Request::default());
}

#[test]
fn columns_by_design() {
    check(
        "by-impl.txt",
        &Request {
            col: "/impl".to_owned(),
            ..Request::default()
        },
    );
}
