//! Tells the program what it was built with.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc)
        .arg("--version")
        .output()
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok());
    let version = version.map_or_else(|| "unknown".to_owned(), |text| text.trim().to_owned());
    println!("cargo::rustc-env=HARNESS_RUSTC={version}");
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| "unknown".to_owned());
    println!("cargo::rustc-env=HARNESS_PROFILE={}", variable("PROFILE"));
    println!(
        "cargo::rustc-env=HARNESS_TARGET_FEATURES={}",
        variable("CARGO_CFG_TARGET_FEATURE")
    );
}
