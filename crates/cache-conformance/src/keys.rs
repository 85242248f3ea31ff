//! Plain keys whose hash is planned: good, nearly equal, constant; never counted, never panicking.

use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};

use crate::rng::{jitter, mix};

/// How the hashes of test keys are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HashPlan {
    /// All bits depend on all bits of the number.
    Good,
    /// Equal but for the top six bits, and colliding fully 64 numbers apart: the deepest digits of a trie that
    /// starts at the bottom, the tags of a hashbrown table.
    HalfHigh,
    /// Equal but for the lowest six bits: the deepest digits of a trie that starts at the top.
    HalfLow,
    /// Equal but for six bits in the middle, where shards are often chosen.
    HalfMiddle,
    /// Always the same.
    Constant,
}

impl HashPlan {
    /// All plans.
    pub const ALL: [HashPlan; 5] = [
        HashPlan::Good,
        HashPlan::HalfHigh,
        HashPlan::HalfLow,
        HashPlan::HalfMiddle,
        HashPlan::Constant,
    ];

    /// The hash of key number `id`.
    #[must_use]
    pub const fn hash(self, id: u64) -> u64 {
        const COMMON: u64 = 0x2aaa_5555_1234_5678;
        let six = id % 64;
        match self {
            HashPlan::Good => mix(id),
            HashPlan::HalfHigh => (COMMON & (u64::MAX >> 6)) | six << 58,
            HashPlan::HalfLow => (COMMON & (u64::MAX << 6)) | six,
            HashPlan::HalfMiddle => (COMMON & !(63 << 29)) | six << 29,
            HashPlan::Constant => COMMON,
        }
    }
}

/// A key with a number and a planned hash. `Hash`, `Eq` and `Clone` call [`jitter`](crate::rng::jitter).
pub struct PlanKey {
    /// What makes it equal to another key.
    pub id: u64,
    hash: u64,
}

impl PlanKey {
    /// Key number `id` under `plan`.
    #[must_use]
    pub const fn new(id: u64, plan: HashPlan) -> Self {
        Self {
            id,
            hash: plan.hash(id),
        }
    }

    /// The hash that it feeds to the hasher.
    #[must_use]
    pub const fn planned_hash(&self) -> u64 {
        self.hash
    }
}

impl Clone for PlanKey {
    fn clone(&self) -> Self {
        jitter();
        Self {
            id: self.id,
            hash: self.hash,
        }
    }
}

impl PartialEq for PlanKey {
    fn eq(&self, other: &Self) -> bool {
        jitter();
        self.id == other.id
    }
}

impl Eq for PlanKey {}

impl Hash for PlanKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        jitter();
        state.write_u64(self.hash);
    }
}

impl fmt::Debug for PlanKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "k{}", self.id)
    }
}

/// A hasher builder that passes one planned `u64` through unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct PassThrough;

impl BuildHasher for PassThrough {
    type Hasher = PassThroughHasher;

    fn build_hasher(&self) -> PassThroughHasher {
        PassThroughHasher(0)
    }
}

/// See [`PassThrough`]. Anything but a `u64` is folded in byte by byte.
#[derive(Clone, Copy, Debug)]
pub struct PassThroughHasher(u64);

impl Hasher for PassThroughHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = mix(self.0 ^ u64::from(*byte));
        }
    }

    fn write_u64(&mut self, i: u64) {
        self.0 = i;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
