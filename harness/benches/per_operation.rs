//! What one operation costs when nobody else calls: every design and peer, one thread, a map that fits the caches and
//! one that does not. `cargo bench -p harness`; a part of it by `-- 'get-hit/1000000/sharded'`.
//!
//! These figures answer another question than the sweep's: they are for working on a design, not for choosing one.

use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main};
use harness::keys::Keys;
use harness::programs::PerOperation;
use harness::registry::{self, Class};

/// Entries of a map that fits the second-level cache, and of one that fits no cache.
const SIZES: [usize; 2] = [1_000, 1_000_000];

fn benches(criterion: &mut Criterion) {
    let keys = Keys::new(2 * SIZES[1], 16);
    for operation in PerOperation::ALL {
        for size in SIZES {
            let mut group = criterion.benchmark_group(format!("{}/{size}", operation.name()));
            for design in registry::all() {
                bench_one(&mut group, design, operation, size, &keys);
            }
            group.finish();
        }
    }
}

fn bench_one(
    group: &mut BenchmarkGroup<'_, WallTime>,
    design: &registry::Design,
    operation: PerOperation,
    size: usize,
    keys: &Keys,
) {
    let writes = !matches!(operation, PerOperation::GetHit | PerOperation::GetMiss);
    // A write that copies a million entries takes hundreds of thousands of reads' time.
    let slow = writes && design.class == Class::Copying;
    group.sample_size(if slow { 10 } else { 20 });
    group.warm_up_time(Duration::from_millis(if slow { 1 } else { 200 }));
    group.measurement_time(Duration::from_millis(500));
    group.bench_function(BenchmarkId::from_parameter(design.name), |bencher| {
        bencher.iter_custom((design.programs.per_operation)(operation, size, keys));
    });
}

criterion_group!(per_operation, benches);
criterion_main!(per_operation);
