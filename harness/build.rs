//! Records which compiler and profile build the measuring program, for its `facts` verb.

use std::env;
use std::process::Command;

fn main() {
    let compiler = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let output = Command::new(compiler).arg("--version").output();
    let version = output
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .unwrap_or_default();
    let version = version
        .trim()
        .strip_prefix("rustc ")
        .unwrap_or(version.trim());
    println!("cargo::rustc-env=HARNESS_RUSTC={version}");
    println!(
        "cargo::rustc-env=HARNESS_PROFILE={}",
        env::var("PROFILE").unwrap_or_default()
    );
    println!("cargo::rerun-if-changed=build.rs");
}
