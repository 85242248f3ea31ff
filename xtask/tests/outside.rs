//! Somebody else's crate, outside this workspace, that depends on one design by path and on nothing more. It is
//! built and run in a folder of its own, without the network.

use std::fs;
use std::path::Path;
use std::process::Command;

const PROGRAM: &str = r#"
use cache_sharded::ShardedCache;

fn main() {
    let cache = ShardedCache::new();
    std::thread::scope(|scope| {
        for thread in 0..2_u64 {
            let cache = &cache;
            scope.spawn(move || (0..1000).for_each(|key: u64| cache.insert(thread << 32 | key, key)));
        }
    });
    assert_eq!(cache.get_with(&(1 << 32 | 7), |value| *value), Some(7));
    println!("{} entries", cache.len());
}
"#;

#[test]
fn a_crate_that_depends_on_one_design_builds() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let dir = std::env::temp_dir().join(format!("xtask-outside-{}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(dir.join("src")).unwrap();
    let path = root.join("crates/cache-sharded");
    let manifest = format!(
        "[package]\nname = \"outside\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [dependencies]\ncache-sharded = {{ path = {path:?} }}\n"
    );
    fs::write(dir.join("Cargo.toml"), manifest).unwrap();
    fs::write(dir.join("src/main.rs"), PROGRAM).unwrap();
    // The versions this workspace is tested with; they are on this machine already.
    fs::copy(root.join("Cargo.lock"), dir.join("Cargo.lock")).unwrap();
    let output = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
        .current_dir(&dir)
        .args(["run", "--offline", "--quiet", "--target-dir"])
        .arg(dir.join("target"))
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("CARGO_BUILD_TARGET")
        .output()
        .unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    let _ = fs::remove_dir_all(&dir);
    assert!(output.status.success(), "{err}");
    assert_eq!(out.trim(), "2000 entries");
}
