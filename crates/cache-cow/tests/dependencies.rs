//! What a user of this crate alone takes in: a short list, without the harness or any test tool.

use std::collections::BTreeSet;
use std::process::Command;

#[test]
fn the_crate_stands_on_a_few_others() {
    let tree = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--package",
            "cache-cow",
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--offline",
            "--locked",
        ])
        .args([
            "--format",
            "{p}",
            "--manifest-path",
            concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
        ])
        .output()
        .expect("cargo runs");
    assert!(
        tree.status.success(),
        "{}",
        String::from_utf8_lossy(&tree.stderr)
    );
    let text = String::from_utf8(tree.stdout).expect("UTF-8");
    let names: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(
        names.contains("cache-cow") && names.len() <= 14,
        "{} crates: {names:?}",
        names.len()
    );
    for unwanted in [
        "harness",
        "xtask",
        "cache-conformance",
        "proptest",
        "shuttle",
        "loom",
        "criterion",
    ] {
        assert!(!names.contains(unwanted), "{unwanted} is among {names:?}");
    }
}
