//! `cargo xtask readme` and `cargo xtask claims` in a workspace of documents alone: tables that are put between their
//! markers, that are noticed when they are stale, and mistakes that are told. The figures are made up.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

const README: &str =
    "# Title\n\n<!-- BEGIN headline -->\nnothing yet\n<!-- END headline -->\n\nThe end.\n";
const RESULTS: &str = "# Results\n\n<!-- BEGIN reference -->\nNo reference data set is committed yet.\n\
    <!-- END reference -->\n\n<!-- BEGIN claims -->\n<!-- END claims -->\n\nThe end.\n";

/// A workspace with the two documents and an empty folder for the tool, removed at the end of its test.
struct Root(PathBuf);

impl Root {
    fn new() -> Root {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("xtask-documents-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        for folder in ["xtask", "results"] {
            fs::create_dir_all(path.join(folder)).unwrap();
        }
        let root = Root(path);
        root.write("README.md", README);
        root.write("results/README.md", RESULTS);
        root
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap()
    }

    /// Runs a verb there.
    fn xtask(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_xtask"))
            .env("CARGO_MANIFEST_DIR", self.0.join("xtask"))
            .env("CACHE_HARNESS", env!("CARGO_BIN_EXE_fake-harness"))
            .env_remove("FAKE_FAULTS")
            .current_dir(&self.0)
            .args(args)
            .output()
            .unwrap()
    }

    /// Runs a verb there, and expects its exit code; returns what it said.
    fn expect(&self, code: i32, args: &[&str]) -> String {
        let output = self.xtask(args);
        let (out, err) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        assert_eq!(output.status.code(), Some(code), "{args:?}\n{out}\n{err}");
        if code == 2 {
            assert_eq!(err.lines().count(), 1, "{args:?}: {err}");
            assert!(out.is_empty(), "{args:?}: {out}");
        }
        format!("{out}{err}")
    }

    /// A data set of the stand-in, made by a sweep.
    fn sweep(&self, name: &str, more: &[&str]) {
        let out = self.0.join("results").join(name);
        let mut args = vec!["sweep", "--threads", "1,2", "--out", out.to_str().unwrap()];
        args.extend(more);
        self.expect(0, &args);
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_headline_is_spliced_from_the_first_reference_set() {
    let root = Root::new();
    assert!(
        root.expect(0, &["readme", "--check"])
            .contains("nothing to check")
    );
    assert!(root.expect(2, &["readme"]).contains("--from NAME"));
    root.sweep("small-2026-01-01", &["--count", "6"]);
    root.expect(0, &["readme", "--from", "small-2026-01-01"]);
    let readme = root.read("README.md");
    assert!(
        readme.starts_with("# Title\n\n<!-- BEGIN headline (made by `cargo xtask readme`) -->\n")
    );
    assert!(
        readme.ends_with("<!-- END headline -->\n\nThe end.\n"),
        "{readme}"
    );
    assert!(!readme.contains("nothing yet"));
    let rows: Vec<&str> = readme
        .lines()
        .filter(|line| line.starts_with('|'))
        .collect();
    assert_eq!(
        rows[0],
        "| ns/op | uniform r100 | uniform r90 | uniform r50 | zipf r100 | zipf r90 | zipf r50 |"
    );
    // The floor stands last; the fastest of each column is bold, and the floor never is.
    let names: Vec<&str> = rows[2..]
        .iter()
        .map(|row| row.split(" | ").next().unwrap())
        .collect();
    assert_eq!(
        names,
        ["| mutex", "| sharded", "| dashmap", "| cow", "| noop"]
    );
    assert!(rows[5].contains("**"), "cow is the fastest: {readme}");
    assert!(!rows.last().unwrap().contains("**"), "{readme}");
    // Cells 7 to 12 have two threads: their times are 75.35 for mutex, by the stand-in's rule.
    assert!(
        rows[2].contains("75.3") || rows[2].contains("75.4"),
        "{readme}"
    );
    assert!(
        readme.contains("Medians of 6 rounds with 2 threads on Example CPU (linux), 50000 keys"),
        "{readme}"
    );
    assert!(
        readme.contains("[results/small-2026-01-01](results/small-2026-01-01)"),
        "{readme}"
    );
    assert!(
        root.read("results/README.md")
            .contains("- [small-2026-01-01](small-2026-01-01)\n")
    );

    assert!(
        root.expect(0, &["readme", "--check"])
            .contains("up to date")
    );
    root.expect(0, &["readme"]);
    assert_eq!(
        root.read("README.md"),
        readme,
        "it changes nothing when nothing changed"
    );

    // The list in results/README.md is what decides, and a stale table is noticed.
    root.sweep("other-2026-02-02", &["--count", "2", "--keys", "77"]);
    let list = root.read("results/README.md");
    let first = "- [small-2026-01-01](small-2026-01-01)\n";
    let both = list.replace(
        first,
        &format!("- [other-2026-02-02](other-2026-02-02)\n{first}"),
    );
    root.write("results/README.md", &both);
    assert!(
        root.expect(1, &["readme", "--check"])
            .contains("is not what results/other-2026-02-02 says")
    );
    assert_eq!(root.read("README.md"), readme, "a check changes nothing");
    root.expect(0, &["readme"]);
    assert!(root.read("README.md").contains("77 keys"));

    // One figure changed by hand is noticed too.
    let tampered = root.read("README.md").replacen("**", "**1", 1);
    root.write("README.md", &tampered);
    root.expect(1, &["readme", "--check"]);
}

#[test]
fn the_headline_shows_the_core_grid_alone() {
    let root = Root::new();
    // A set without a core grid is passed over; one within a folder of sets is found.
    root.sweep("alone", &["--only", "sequential", "--count", "2"]);
    root.sweep("many/grid", &["--count", "2", "--phases", "A"]);
    root.sweep("many/table", &["--only", "study-locks", "--count", "2"]);
    root.expect(0, &["readme", "--from", "many"]);
    root.expect(0, &["readme", "--from", "alone"]);
    let readme = root.read("README.md");
    assert!(readme.contains("results/many/grid"), "{readme}");
    assert!(readme.contains("| mutex |"), "{readme}");
}

#[test]
fn mistakes_with_the_headline_are_one_line() {
    let root = Root::new();
    assert!(
        root.expect(2, &["readme", "--from", "nowhere"])
            .contains("results/nowhere is not there")
    );
    assert_eq!(
        root.read("results/README.md"),
        RESULTS,
        "a mistake changes nothing"
    );
    root.write("results/empty/notes.txt", "");
    assert!(
        root.expect(2, &["readme", "--from", "empty"])
            .contains("no data set")
    );
    root.write("README.md", "# Title\n");
    assert!(
        root.expect(2, &["readme", "--check"])
            .contains("README.md has no line")
    );
    root.write("README.md", README);
    root.write("results/README.md", "# Results\n");
    assert!(
        root.expect(2, &["readme"])
            .contains("results/README.md has no line")
    );
    fs::remove_file(root.0.join("README.md")).unwrap();
    assert!(root.expect(2, &["readme"]).contains("cannot read"));
}

/// Six rounds of a few cells: sharded behind mutex where the study says otherwise, cow as the study says.
fn bench(sharded: f64) -> String {
    let mut text =
        String::from("cpu: Example CPU\ncores: 2\nkeys: 1000\nallocator: mimalloc\ncommit: abc\n");
    for round in 1..=6 {
        text.push_str(&format!("# begin design=all round={round}\n"));
        for threads in [1, 2] {
            for (design, ns) in [("mutex", 100.0), ("sharded", sharded), ("cow", 5e6)] {
                for mix in ["r100", "r50", "r10"] {
                    let suffix = if threads == 1 { "" } else { "-2" };
                    let ns = ns + f64::from(round) / 10.0;
                    text.push_str(&format!(
                        "BenchmarkCache/impl={design}/dist=uniform/mix={mix}{suffix}\t100\t{ns} ns/op\t0 B/op\n"
                    ));
                }
            }
        }
        text.push_str("# end\n");
    }
    text
}

/// The row of the table that contains these words.
fn row(text: &str, words: &str) -> String {
    let row = text
        .lines()
        .find(|line| line.starts_with('|') && line.contains(words));
    row.unwrap_or_else(|| panic!("no row about {words} in\n{text}"))
        .to_owned()
}

#[test]
fn claims_are_spliced_and_stale_tables_noticed() {
    let root = Root::new();
    root.expect(1, &["claims", "--check"]);
    assert_eq!(
        root.read("results/README.md"),
        RESULTS,
        "a check changes nothing"
    );
    let said = root.expect(0, &["claims"]);
    assert!(said.contains("0 confirmed, 0 refuted"), "{said}");
    let bare = root.read("results/README.md");
    assert!(
        row(&bare, "every write of cow").contains("no data: `cargo xtask sweep"),
        "{bare}"
    );
    assert!(
        row(&bare, "sync.Map reads 2.8x").contains("not testable on this machine"),
        "{bare}"
    );
    root.expect(0, &["claims", "--check"]);

    root.write("results/made-up/bench.txt", &bench(50.0));
    root.write(
        "results/README.md",
        &bare.replace(
            "No reference data set is committed yet.",
            "- [made-up](made-up)",
        ),
    );
    assert!(
        root.expect(1, &["claims", "--check"])
            .contains("run `cargo xtask claims`")
    );
    root.expect(0, &["claims"]);
    let text = root.read("results/README.md");
    assert!(
        text.starts_with("# Results\n") && text.ends_with("<!-- END claims -->\n\nThe end.\n"),
        "{text}"
    );
    let cow = row(&text, "every write of cow");
    assert!(
        cow.contains("| **confirmed** |") && cow.contains("cow / sharded") && cow.contains("×"),
        "{cow}"
    );
    let geomean = row(&text, "sharded takes 58 %");
    assert!(
        geomean.contains("**confirmed**") && geomean.contains("0.5"),
        "{geomean}"
    );
    let scaling = row(&text, "sharded scales with the cores");
    assert!(scaling.contains("**refuted**"), "{scaling}");
    assert!(
        row(&text, "rwmutex plateaus").contains("not testable on this machine"),
        "{text}"
    );
    assert!(
        row(&text, "reads reward a wide trie").contains("--only trie-width"),
        "{text}"
    );
    assert!(text.contains(
        "- [made-up](made-up): Example CPU, 2 cores, 1000 keys, allocator mimalloc, commit abc"
    ));
    root.expect(0, &["claims", "--check"]);
    root.expect(0, &["claims"]);
    assert_eq!(
        root.read("results/README.md"),
        text,
        "it changes nothing when nothing changed"
    );

    // Other data, another answer; and the old table is stale.
    root.write("results/made-up/bench.txt", &bench(300.0));
    root.expect(1, &["claims", "--check"]);
    root.expect(0, &["claims"]);
    assert!(row(&root.read("results/README.md"), "sharded takes 58 %").contains("**refuted**"));
}

#[test]
fn claims_take_folders_and_files_and_then_write_nothing() {
    let root = Root::new();
    root.write("mine/one/bench.txt", &bench(50.0));
    root.write("mine/two/bench.txt", &bench(300.0));
    root.write("lone.txt", &bench(300.0));
    let geomean = |args: &[&str]| row(&root.expect(0, args), "sharded takes 58 %");
    assert!(geomean(&["claims", "mine/one"]).contains("confirmed"));
    assert!(geomean(&["claims", "lone.txt"]).contains("refuted"));
    // The first data set that has all it takes decides.
    assert!(geomean(&["claims", "mine"]).contains("(in `mine/one`) | **confirmed** |"));
    assert!(geomean(&["claims", "lone.txt", "mine"]).contains("(in `lone.txt`) | **refuted** |"));
    assert_eq!(root.read("results/README.md"), RESULTS);
}

#[test]
fn mistakes_with_claims_are_one_line() {
    let root = Root::new();
    assert!(
        root.expect(2, &["claims", "nowhere"])
            .contains("nowhere is not there")
    );
    root.write("empty.txt", "hello\n");
    assert!(
        root.expect(2, &["claims", "empty.txt"])
            .contains("has no samples")
    );
    root.write("folder/notes.txt", "");
    assert!(
        root.expect(2, &["claims", "folder"])
            .contains("no data set")
    );
    assert!(
        root.expect(2, &["claims", "--check", "empty.txt"])
            .contains("--check")
    );
    root.write(
        "results/README.md",
        &RESULTS.replace("No reference data set is committed yet.", "- [gone](gone)"),
    );
    assert!(root.expect(2, &["claims"]).contains("results/gone"));
    root.write("results/README.md", "# Results\n");
    assert!(
        root.expect(2, &["claims"])
            .contains("results/README.md has no line")
    );
    fs::remove_file(root.0.join("results/README.md")).unwrap();
    assert!(
        root.expect(2, &["claims"])
            .contains("cannot read results/README.md")
    );
    let root: &Path = &root.0;
    assert!(root.join("README.md").is_file());
}
