//! Makes `parking_lot` allocate its table of waiting threads before the clock starts; measures nothing.
//!
//! That table belongs to the process, not to a lock: it is made when a thread has to wait for the first time, and grows
//! with the number of threads that have ever waited at once. Inside the clock it would show as a fraction of a byte per
//! operation in whichever cell happens to meet contention first.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Lets `threads` threads wait for one lock at the same time.
pub fn prepare(threads: usize) {
    let lock = Mutex::new(());
    let arrived = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let held = lock.lock();
        let waiting = (0..threads)
            .filter(|_| {
                let wait = || {
                    arrived.fetch_add(1, Ordering::Relaxed);
                    drop(lock.lock());
                };
                let builder = std::thread::Builder::new().stack_size(64 << 10);
                builder.spawn_scoped(scope, wait).is_ok()
            })
            .count();
        // A thread that has arrived spins for some microseconds, then waits for real. Nothing depends on its having
        // got there but a fraction of a byte per operation, so this is bounded.
        let deadline = Instant::now() + Duration::from_millis(500);
        while arrived.load(Ordering::Relaxed) < waiting && Instant::now() < deadline {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(2));
        drop(held);
    });
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_ends() {
        super::prepare(1);
        super::prepare(16);
    }
}
