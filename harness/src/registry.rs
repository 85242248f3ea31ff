//! One row per contender, and the only place that names them.
//!
//! The order of [`REGISTRY`] has a meaning: the floor, the designs from the plainest to the most refined, then the
//! peers. Lists and tables keep it. Adding a design is one family (how to build it) and one row.

use std::borrow::Borrow;
use std::hash::Hash;
use std::io;
use std::sync::OnceLock;

use cache_api::{BulkLoad, Cache, DefaultHashBuilder};

use crate::family::{Family, Key, Value};
use crate::grid::{self, Job};
#[cfg(feature = "peers")]
use crate::peers;

/// What a contender is to the study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Measures the loop itself.
    Floor,
    /// One of this workspace's designs.
    Design,
    /// A crate that people would otherwise pick.
    Peer,
}

impl Kind {
    /// In lists.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Design => "design",
            Self::Peer => "peer",
        }
    }
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The name in reports.
    pub name: &'static str,
    /// What it is to the study.
    pub kind: Kind,
    /// The crate that it comes from.
    pub package: &'static str,
    /// The phases of the sweep that it belongs to.
    pub phases: &'static [&'static str],
    /// How a value is read: what the closure, guard or clone costs.
    pub read: &'static str,
    /// The call that a write makes.
    pub write: &'static str,
    /// What kind of snapshot it has.
    pub snapshot: &'static str,
    /// The idea, in one line.
    pub idea: &'static str,
    /// Measures the core grid.
    pub grid: fn(&Job) -> io::Result<bool>,
}

/// The phases of contenders whose writes are cheap.
const GRID: &[&str] = &["A"];
/// The phases of contenders that copy the whole map to write.
const COPYING: &[&str] = &["B", "C"];

const fn design<F: Family>(name: &'static str, package: &'static str, idea: &'static str) -> Entry
where
    F::Map<&'static str, &'static str>: Sync,
{
    Entry {
        name,
        kind: Kind::Design,
        package,
        phases: GRID,
        read: "closure on a reference",
        write: "insert",
        snapshot: "none",
        idea,
        grid: grid::run::<F>,
    }
}

/// All contenders.
pub const REGISTRY: &[Entry] = &[
    Entry {
        kind: Kind::Floor,
        ..design::<Noop>("noop", "harness", "does nothing: what the loop itself costs")
    },
    Entry {
        phases: &[],
        grid: grid::run_alone::<Naive>,
        ..design::<Mutex>("naive", "cache-locked", "one unsynchronised map; one thread only")
    },
    design::<Mutex>("mutex", "cache-locked", "one mutex around one map"),
    design::<RwLock>("rwlock", "cache-locked", "one read-write lock around one map"),
    design::<Sharded>("sharded", "cache-sharded", "256 shards, a mutex each"),
    design::<ShardedRw>("sharded-rw", "cache-sharded", "256 shards, a read-write lock each"),
    Entry {
        phases: COPYING,
        snapshot: "whole map, O(1)",
        ..design::<Cow>("cow", "cache-cow", "an atomic pointer to an immutable map; writers copy it")
    },
    Entry {
        read: "closure sent to the owner",
        write: "message",
        ..design::<Actor>("actor", "cache-actor", "owner threads and messages instead of locks")
    },
    #[cfg(feature = "peers")]
    peer::<peers::DashMap>("dashmap", "dashmap 6", "guard", "insert", "none", "sharded read-write locks"),
    #[cfg(feature = "peers")]
    peer::<peers::DashMap256>("dashmap-256", "dashmap 6", "guard", "insert", "none", "the same with 256 shards"),
    #[cfg(feature = "peers")]
    peer::<peers::Papaya>(
        "papaya",
        "papaya 0.2",
        "reference under a pin",
        "insert under a pin",
        "none",
        "lock-free open addressing",
    ),
    #[cfg(feature = "peers")]
    peer::<peers::SccHashMap>(
        "scc-hashmap",
        "scc 3",
        "closure (read_sync)",
        "upsert_sync",
        "none",
        "a read-write lock per bucket",
    ),
    #[cfg(feature = "peers")]
    peer::<peers::SccHashIndex>(
        "scc-hashindex",
        "scc 3",
        "closure (peek_with)",
        "entry_sync, update",
        "none",
        "lock-free reads, locked buckets for writes",
    ),
    #[cfg(feature = "peers")]
    peer::<peers::Flurry>(
        "flurry",
        "flurry 0.5",
        "reference under a guard",
        "insert under a guard",
        "none",
        "Java's ConcurrentHashMap",
    ),
    #[cfg(feature = "peers")]
    peer::<peers::Moka>("moka", "moka 0.12", "clone", "insert", "none", "a cache with eviction, here unbounded"),
    #[cfg(feature = "peers")]
    peer::<peers::QuickCache>(
        "quick-cache",
        "quick_cache 0.7",
        "clone",
        "insert",
        "none",
        "a cache with eviction, here with room for all",
    ),
    #[cfg(feature = "peers")]
    peer::<peers::Contrie>(
        "contrie",
        "contrie 0.1",
        "clone of key and value",
        "insert",
        "none",
        "a concurrent hash trie without snapshots",
    ),
    #[cfg(feature = "peers")]
    peer::<peers::ImblArcSwap>(
        "imbl-arcswap",
        "imbl 7, arc-swap 1",
        "reference under a guard (load)",
        "rcu",
        "whole map, O(1)",
        "a persistent map behind an atomic pointer",
    ),
    #[cfg(feature = "peers")]
    peer::<peers::RpdsArcSwap>(
        "rpds-arcswap",
        "rpds 1, arc-swap 1",
        "reference under a guard (load)",
        "rcu",
        "whole map, O(1)",
        "a persistent map behind an atomic pointer",
    ),
    #[cfg(feature = "peers")]
    Entry {
        phases: COPYING,
        ..peer::<peers::HashMapArcSwap>(
            "hashmap-arcswap",
            "hashbrown 0.17, arc-swap 1",
            "reference under a guard (load)",
            "copy and store under a mutex",
            "whole map, O(1)",
            "a hash map behind an atomic pointer",
        )
    },
];

#[cfg(feature = "peers")]
const fn peer<F: Family>(
    name: &'static str,
    package: &'static str,
    read: &'static str,
    write: &'static str,
    snapshot: &'static str,
    idea: &'static str,
) -> Entry
where
    F::Map<&'static str, &'static str>: Sync,
{
    Entry {
        kind: Kind::Peer,
        read,
        write,
        snapshot,
        ..design::<F>(name, package, idea)
    }
}

/// Contenders that are wrong on purpose, for the tests of whatever reads the results. Never listed.
const FAULTY: &[Entry] = &[
    design::<Panicking>("faulty-panics", "harness", "panics on every thousandth read"),
    design::<Forgetful>("faulty-wrong", "harness", "forgets one write in a thousand"),
];

/// The environment variable that makes the faulty contenders available.
pub const TEST_DESIGNS: &str = "HARNESS_TEST_DESIGNS";

/// What can be measured: [`REGISTRY`], and the faulty ones where the environment asks for them.
pub fn all() -> impl Iterator<Item = &'static Entry> {
    let faulty = std::env::var_os(TEST_DESIGNS).is_some_and(|value| value == "1");
    REGISTRY
        .iter()
        .chain(if faulty { FAULTY } else { &[] })
}

/// The contender of this name.
///
/// # Errors
///
/// One line that names those there are, the nearest first.
pub fn find(name: &str) -> Result<&'static Entry, String> {
    all().find(|entry| entry.name == name).ok_or_else(|| {
        let mut known: Vec<&str> = all().map(|entry| entry.name).collect();
        known.sort_by_key(|known| distance(known, name));
        format!("unknown design '{name}'; there are {}", known.join(", "))
    })
}

/// Edits between two words (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// A family whose map is built by `with_capacity_and_hasher`.
macro_rules! family {
    ($(#[$doc:meta])* $family:ident, $map:ty) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $family;

        impl Family for $family {
            type Map<K: Key, V: Value> = $map;

            fn build<K: Key, V: Value>(capacity: usize, hasher: DefaultHashBuilder) -> Self::Map<K, V> {
                <$map>::with_capacity_and_hasher(capacity, hasher)
            }

            fn load<K: Key, V: Value>(map: &Self::Map<K, V>, entries: impl Iterator<Item = (K, V)>) {
                BulkLoad::bulk_load(map, entries);
            }
        }
    };
}

family!(
    /// [`cache_locked::NaiveCache`].
    Naive, cache_locked::NaiveCache<K, V>);
family!(
    /// [`cache_locked::MutexCache`].
    Mutex, cache_locked::MutexCache<K, V>);
family!(
    /// [`cache_locked::RwLockCache`].
    RwLock, cache_locked::RwLockCache<K, V>);
family!(
    /// [`cache_sharded::ShardedCache`].
    Sharded, cache_sharded::ShardedCache<K, V>);
family!(
    /// [`cache_sharded::ShardedRwCache`].
    ShardedRw, cache_sharded::ShardedRwCache<K, V>);
family!(
    /// [`cache_cow::CowCache`].
    Cow, cache_cow::CowCache<K, V>);
family!(
    /// [`cache_actor::Map`].
    Actor, cache_actor::Map<K, V>);

/// Does nothing.
#[derive(Debug)]
pub struct Noop;

/// Answers every read with the first value it was given, at no cost.
#[derive(Debug)]
pub struct NoopMap<V> {
    value: OnceLock<V>,
    len: usize,
}

impl Family for Noop {
    type Map<K: Key, V: Value> = NoopMap<V>;

    fn build<K: Key, V: Value>(capacity: usize, _: DefaultHashBuilder) -> NoopMap<V> {
        NoopMap {
            value: OnceLock::new(),
            len: capacity,
        }
    }

    fn load<K: Key, V: Value>(map: &NoopMap<V>, mut entries: impl Iterator<Item = (K, V)>) {
        if let Some((_, value)) = entries.next() {
            let _ = map.value.set(value);
        }
    }
}

impl<K, V> Cache<K, V> for NoopMap<V> {
    #[inline]
    fn get_with<Q, F, R>(&self, key: &Q, f: F) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized,
        F: FnOnce(&V) -> R + Send,
        R: Send,
    {
        // The key's header has been fetched; its bytes have not been looked at.
        std::hint::black_box(key);
        self.value.get().map(f)
    }

    #[inline]
    fn insert(&self, key: K, value: V) {
        std::hint::black_box((&key, &value));
    }

    fn remove<Q>(&self, _: &Q)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized,
    {
    }

    fn len(&self) -> usize {
        self.len
    }
}

/// A mutex map that panics on every thousandth read.
#[derive(Debug)]
struct Panicking;

/// A mutex map that forgets one write in a thousand.
#[derive(Debug)]
struct Forgetful;

struct FaultyMap<K, V, const PANICS: bool> {
    map: cache_locked::MutexCache<K, V>,
    calls: std::sync::atomic::AtomicUsize,
    capacity: usize,
}

impl<K: Key, V: Value, const PANICS: bool> FaultyMap<K, V, PANICS> {
    /// Whether this call, after filling, is the thousandth.
    fn now(&self) -> bool {
        let call = self.calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        call > self.capacity && call.is_multiple_of(1000)
    }
}

impl<K: Key, V: Value, const PANICS: bool> Cache<K, V> for FaultyMap<K, V, PANICS> {
    fn get_with<Q, F, R>(&self, key: &Q, f: F) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized,
        F: FnOnce(&V) -> R + Send,
        R: Send,
    {
        assert!(!(PANICS && self.now()), "a thousand reads are enough");
        self.map.get_with(key, f)
    }

    fn insert(&self, key: K, value: V) {
        if PANICS || !self.now() {
            self.map.insert(key, value);
        }
    }

    fn remove<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + Sync + ?Sized,
    {
        self.map.remove(key);
    }

    fn len(&self) -> usize {
        self.map.len()
    }
}

macro_rules! faulty {
    ($family:ident, $panics:literal) => {
        impl Family for $family {
            type Map<K: Key, V: Value> = FaultyMap<K, V, $panics>;

            fn build<K: Key, V: Value>(capacity: usize, hasher: DefaultHashBuilder) -> Self::Map<K, V> {
                FaultyMap {
                    map: cache_locked::MutexCache::with_capacity_and_hasher(capacity, hasher),
                    calls: std::sync::atomic::AtomicUsize::new(0),
                    capacity,
                }
            }
        }
    };
}
faulty!(Panicking, true);
faulty!(Forgetful, false);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_fit_row_names() {
        let mut names: Vec<_> = REGISTRY.iter().chain(FAULTY).map(|entry| entry.name).collect();
        for name in &names {
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'));
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), REGISTRY.len() + FAULTY.len());
    }

    #[test]
    fn a_typing_error_is_answered_with_the_nearest_name_first() {
        let error = find("shraded").expect_err("there is none");
        assert!(error.starts_with("unknown design 'shraded'; there are sharded, "), "{error}");
        assert_eq!(find("mutex").map(|entry| entry.package), Ok("cache-locked"));
    }
}
