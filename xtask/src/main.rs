//! `cargo xtask VERB`: parse, match, call. One file per verb; none of them measures anything itself.
fn main() {}
