//! The measuring program: `harness list`, `harness facts`, `harness run`. See the library of the same name.

fn main() {
    std::process::exit(harness::cli::main());
}
