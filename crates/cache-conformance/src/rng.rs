//! A small seeded generator for schedules and operation mixes; not for anything secret.

use std::cell::Cell;
use std::thread;

/// SplitMix64 (Steele, Lea, Flood 2014): one multiplication-xorshift mix of a counter.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// A generator that yields the same numbers for the same seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number below `n`, which is above 0. The bias of the modulus is below 2^-40 for the sizes of tests.
    pub fn below(&mut self, n: usize) -> usize {
        (self.draw() % n as u64) as usize
    }
}

/// The finaliser of SplitMix64: a bijection on 64 bits whose output bits all depend on all input bits.
#[must_use]
pub const fn mix(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

thread_local! {
    /// The state of this thread's jitter; 0 is off.
    static JITTER: Cell<u64> = const { Cell::new(0) };
}

/// Turns jitter on for this thread: every later [`jitter`] call may yield or spin, as the seed decides.
pub fn set_jitter(seed: u64) {
    JITTER.set(seed | 1);
}

/// Sometimes yields the processor or spins for a moment, so that two cores see interleavings that only many cores
/// would show otherwise. Called between operations and from the test keys' `Hash`, `Eq` and `Clone`, that is, in
/// the middle of operations.
pub fn jitter() {
    // Thread-local destructors may hash keys after this cell is gone.
    let _ = JITTER.try_with(|cell| {
        let state = cell.get();
        if state == 0 {
            return;
        }
        let next = state.wrapping_add(0x9e37_79b9_7f4a_7c15 << 1);
        cell.set(next);
        let draw = mix(next);
        match draw % 16 {
            0 => thread::yield_now(),
            1..=3 => {
                for _ in 0..(draw >> 32) % 256 {
                    std::hint::spin_loop();
                }
            }
            _ => {}
        }
    });
}
