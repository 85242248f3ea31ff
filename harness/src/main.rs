//! The measuring program: `harness list`, `harness run`.
fn main() {}
