//! What a snapshot and a fork cost at a thousand and at ten million entries, and what the first writes after one cost.
//! `cargo run --release --example snapshot_cost [-- ENTRIES ...]`. Prints medians; compares nothing.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use cache_ctrie::Map;

/// Freezes timed per size.
const FREEZES: usize = 200;
/// Writes timed after a snapshot, in groups that grow fourfold.
const TOUCHES: usize = 1 << 18;

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn nanoseconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64
}

/// Bijective on 64 bits, so that steps through it never repeat a key early.
const fn scatter(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn report(entries: u64) {
    let map: Map<u64, u64> = (0..entries).map(|n| (n, n)).collect();
    let (mut snapshots, mut forks, mut drops) = (Vec::new(), Vec::new(), Vec::new());
    for n in 0..FREEZES as u64 {
        // A write in between: without one, there would be nothing new to freeze.
        map.insert(scatter(n) % entries, n);
        let mut snapshot = None;
        snapshots.push(nanoseconds(|| snapshot = Some(black_box(map.snapshot()))));
        // Frees what the write before it replaced, too.
        drops.push(nanoseconds(|| drop(snapshot.take())));
        map.insert(scatter(n) % entries, n);
        let mut fork = None;
        forks.push(nanoseconds(|| fork = Some(black_box(map.fork()))));
        drop(fork);
    }
    println!(
        "{entries:>10} entries: snapshot {:.0} ns, fork {:.0} ns, drop of a snapshot {:.0} ns",
        median(snapshots),
        median(forks),
        median(drops)
    );

    let steady: f64 =
        nanoseconds(|| (0..TOUCHES as u64).for_each(|n| map.insert(scatter(n) % entries, n)));
    let _held = map.snapshot();
    print!(
        "{:>10} ns per overwrite, steady {:.0}; after a snapshot,",
        "",
        steady / TOUCHES as f64
    );
    let (mut done, mut group) = (0, 1);
    while done < TOUCHES {
        let end = (done + group).min(TOUCHES);
        let time =
            nanoseconds(|| (done..end).for_each(|n| map.insert(scatter(n as u64) % entries, 0)));
        print!(" #{}..{}: {:.0}", done + 1, end, time / (end - done) as f64);
        (done, group) = (end, group * 4);
    }
    println!();
}

fn main() -> ExitCode {
    let sizes: Option<Vec<u64>> = std::env::args()
        .skip(1)
        .map(|text| text.parse().ok().filter(|size| *size > 0))
        .collect();
    let Some(sizes) = sizes else {
        eprintln!(
            "usage: snapshot_cost [ENTRIES ...]   (each above 0; default: 1000 100000 10000000)"
        );
        return ExitCode::from(2);
    };
    let sizes = if sizes.is_empty() {
        vec![1_000, 100_000, 10_000_000]
    } else {
        sizes
    };
    sizes.into_iter().for_each(report);
    ExitCode::SUCCESS
}
