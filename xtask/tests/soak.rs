//! `cargo xtask soak` against a stand-in: what it passes on. The soak itself is run by continuous integration.

use std::process::{Command, Output};

fn soak(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask"))
        .env("CACHE_SOAK", env!("CARGO_BIN_EXE_fake-harness"))
        .arg("soak")
        .args(args)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_minute_of_eight_writers_is_the_default() {
    let output = soak(&[]);
    assert_eq!(text(&output.stdout), "soak for 60 s, 8 writers\n");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_violation_is_a_failure() {
    let output = soak(&["--seconds", "1", "--writers", "9"]);
    assert_eq!(text(&output.stdout), "soak for 1 s, 9 writers\n");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn an_abnormal_end_is_told() {
    let output = soak(&["--writers", "17"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with("error: the soak did not end as it should"));
}

#[test]
fn mistakes_are_told_from_failures() {
    for args in [
        &["--seconds", "0"][..],
        &["--seconds", "x"],
        &["--writers", "0"],
        &["more"],
    ] {
        assert_eq!(soak(args).status.code(), Some(2), "{args:?}");
    }
}
