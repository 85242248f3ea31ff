//! One thread against `std::collections::HashMap`: random operation sequences over all hash plans.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cache_api::{BulkLoad, Cache, DefaultHashBuilder, GetBatch, Iterate, Update};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any};
use proptest::prop_oneof;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use crate::design::SequentialDesign;
use crate::keys::{HashPlan, PassThrough, PassThroughHasher, PlanKey};
use crate::rng::mix;
use crate::run::{ignore, message_of, scaled};

/// One step of a random sequence.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Insert(u64, u64),
    Remove(u64),
    Get(u64),
    Upsert(u64, u64),
    GetOrInsert(u64, u64),
    Swap(u64, u64),
    Take(u64),
    RemoveIf(u64, u64),
    Batch(Vec<u64>),
    BulkLoad(Vec<(u64, u64)>),
    Retain(u64),
    Clear,
    Visit,
}

/// Keys 0 to 95: under the half-equal plans, some collide fully (64 apart), most only nearly.
fn steps(length: usize) -> impl Strategy<Value = Vec<Step>> {
    let key = || 0..96_u64;
    let value = any::<u64>;
    let step = prop_oneof![
        8 => (key(), value()).prop_map(|(k, v)| Step::Insert(k, v)),
        5 => key().prop_map(Step::Remove),
        3 => key().prop_map(Step::Get),
        3 => (key(), value()).prop_map(|(k, v)| Step::Upsert(k, v)),
        3 => (key(), value()).prop_map(|(k, v)| Step::GetOrInsert(k, v)),
        3 => (key(), value()).prop_map(|(k, v)| Step::Swap(k, v)),
        3 => key().prop_map(Step::Take),
        2 => (key(), 0..3_u64).prop_map(|(k, m)| Step::RemoveIf(k, m)),
        1 => vec(key(), 0..40).prop_map(Step::Batch),
        1 => vec((key(), value()), 0..60).prop_map(Step::BulkLoad),
        1 => (0..4_u64).prop_map(Step::Retain),
        1 => Just(Step::Clear),
        1 => Just(Step::Visit),
    ];
    vec(step, 1..length)
}

/// Runs `test` on random sequences of up to `length` steps, shrinks what fails, and panics with the smallest.
pub(crate) fn property(
    cases: usize,
    length: usize,
    test: &dyn Fn(&[Step]) -> Result<(), TestCaseError>,
) {
    let cases = u32::try_from(scaled(cases)).unwrap_or(u32::MAX);
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 4_000,
        ..Config::default()
    };
    // A fixed seed: a failure is the same in every run, and a larger scale goes on where a smaller one ends.
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, rng);
    match runner.run(&steps(length), |steps| test(&steps)) {
        Ok(()) => {}
        Err(TestError::Fail(why, input)) => panic!("{why}\nsmallest failing input: {input:?}"),
        Err(TestError::Abort(why)) => panic!("no inputs: {why}"),
    }
}

macro_rules! same {
    ($got:expr, $expected:expr, $($what:tt)+) => {
        // A `match` keeps temporaries of both sides alive until the comparison is over.
        match (&$got, &$expected) {
            (got, expected) => {
                if got != expected {
                    let what = format!($($what)+);
                    let text = format!("{what}: got {got:?}, expected {expected:?}");
                    return Err(proptest::test_runner::TestCaseError::fail(text));
                }
            }
        }
    };
}

pub(crate) use same;

/// A map and its model, advanced together.
pub(crate) fn apply<M>(
    map: &M,
    model: &mut HashMap<u64, u64>,
    step: &Step,
    plan: HashPlan,
) -> Result<(), TestCaseError>
where
    M: crate::design::FullMap<PlanKey, u64>,
{
    let key = |id: &u64| PlanKey::new(*id, plan);
    match step {
        Step::Insert(k, v) => {
            map.insert(key(k), *v);
            model.insert(*k, *v);
            same!(map.get(&key(k)), Some(*v), "get after insert");
        }
        Step::Remove(k) => {
            map.remove(&key(k));
            model.remove(k);
            same!(map.get(&key(k)), None, "get after remove");
        }
        Step::Get(k) => {
            let expected = model.get(k);
            same!(map.get(&key(k)).as_ref(), expected, "get");
            same!(
                map.get_with(&key(k), |v| v ^ 1),
                expected.map(|v| v ^ 1),
                "get_with"
            );
            same!(
                map.contains_key(&key(k)),
                expected.is_some(),
                "contains_key"
            );
        }
        Step::Upsert(k, v) => {
            let mut seen = None;
            map.upsert(key(k), |old| {
                seen = Some(old.copied());
                old.map_or(*v, |old| old.wrapping_mul(3) ^ v)
            });
            same!(
                seen,
                Some(model.get(k).copied()),
                "what upsert's closure saw"
            );
            let new = model.get(k).map_or(*v, |old| old.wrapping_mul(3) ^ v);
            model.insert(*k, new);
        }
        Step::GetOrInsert(k, v) => {
            let mut runs = 0;
            let got = map.get_or_insert_with(key(k), || {
                runs += 1;
                *v
            });
            same!(runs, usize::from(!model.contains_key(k)), "runs of init");
            same!(got, *model.entry(*k).or_insert(*v), "get_or_insert_with");
        }
        Step::Swap(k, v) => same!(map.swap(key(k), *v), model.insert(*k, *v), "swap"),
        Step::Take(k) => same!(map.take(&key(k)), model.remove(k), "take"),
        Step::RemoveIf(k, remainder) => {
            let condition = |v: &u64| v % 3 == *remainder;
            let expected = model.get(k).is_some_and(condition);
            same!(map.remove_if(&key(k), condition), expected, "remove_if");
            if expected {
                model.remove(k);
            }
        }
        Step::Batch(ids) => {
            let keys: Vec<PlanKey> = ids.iter().map(key).collect();
            let expected: Vec<Option<u64>> = ids.iter().map(|id| model.get(id).copied()).collect();
            same!(map.get_batch(&keys), expected, "get_batch");
            let mut calls = vec![0; keys.len()];
            let mut answers = vec![None; keys.len()];
            map.get_batch_with(&keys, |position, value| {
                calls[position] += 1;
                answers[position] = value.copied();
            });
            same!(answers, expected, "get_batch_with");
            same!(
                calls,
                vec![1; keys.len()],
                "calls per position of get_batch_with"
            );
        }
        Step::BulkLoad(pairs) => {
            map.bulk_load(pairs.iter().map(|(k, v)| (key(k), *v)));
            model.extend(pairs.iter().copied());
        }
        Step::Retain(remainder) => {
            let mut tested = Vec::new();
            map.retain(|k, v| {
                tested.push((k.id, *v));
                v % 4 != *remainder
            });
            tested.sort_unstable();
            same!(tested, sorted(model), "what retain tested");
            model.retain(|_, v| *v % 4 != *remainder);
        }
        Step::Clear => {
            map.clear();
            model.clear();
        }
        Step::Visit => {
            let mut keys: Vec<u64> = map.keys().iter().map(|key| key.id).collect();
            keys.sort_unstable();
            same!(
                keys,
                sorted(model).iter().map(|(k, _)| *k).collect::<Vec<_>>(),
                "keys"
            );
            let (mut values, mut expected) =
                (map.values(), model.values().copied().collect::<Vec<_>>());
            values.sort_unstable();
            expected.sort_unstable();
            same!(values, expected, "values");
        }
    }
    same!(map.len(), model.len(), "len after {step:?}");
    same!(map.is_empty(), model.is_empty(), "is_empty after {step:?}");
    Ok(())
}

pub(crate) fn sorted(model: &HashMap<u64, u64>) -> Vec<(u64, u64)> {
    let mut entries: Vec<(u64, u64)> = model.iter().map(|(k, v)| (*k, *v)).collect();
    entries.sort_unstable();
    entries
}

pub(crate) fn sorted_entries<M: Iterate<PlanKey, u64>>(map: &M) -> Vec<(u64, u64)> {
    let mut entries: Vec<(u64, u64)> = map
        .entries()
        .iter()
        .map(|(key, value)| (key.id, *value))
        .collect();
    entries.sort_unstable();
    entries
}

/// Random sequences of every method under one hash plan answer as a `HashMap` does, and leave the same content.
pub fn model<D: SequentialDesign>(plan: HashPlan) {
    property(60, 120, &|steps| {
        let map = D::build::<PlanKey, u64, _>(None, PassThrough);
        let mut model = HashMap::new();
        for step in steps {
            apply(&map, &mut model, step, plan)?;
            // Present and absent keys alike, after every step: a write that harms another key is found at once.
            for id in 0..96 {
                let got = map.get(&PlanKey::new(id, plan));
                same!(got.as_ref(), model.get(&id), "get of k{id} after {step:?}");
            }
            same!(
                sorted_entries(&map),
                sorted(&model),
                "content after {step:?}"
            );
        }
        Ok(())
    });
}

/// Two maps filled in different orders, one of them through detours, are equal in content and answers.
pub fn content_does_not_depend_on_history<D: SequentialDesign>() {
    for plan in HashPlan::ALL {
        let (forward, backward) = (
            D::build(None, PassThrough),
            D::build::<PlanKey, u64, _>(Some(4), PassThrough),
        );
        let key = |id: u64| PlanKey::new(id, plan);
        (0..150).for_each(|id| forward.insert(key(id), id));
        (100..250).rev().for_each(|id| backward.insert(key(id), 0));
        backward.bulk_load((0..200).rev().map(|id| (key(id), id)));
        (150..250).for_each(|id| backward.remove(&key(id)));
        for map in [&forward, &backward] {
            assert_eq!(
                sorted_entries(map),
                (0..150).map(|id| (id, id)).collect::<Vec<_>>(),
                "{plan:?}"
            );
            assert_eq!(map.len(), 150, "{plan:?}");
            assert!(
                (0..300).all(|id| map.get(&key(id)) == (id < 150).then_some(id)),
                "{plan:?}"
            );
        }
        // Emptied one by one, in yet another order, and used again.
        (0..150)
            .map(|n| n * 7 % 150)
            .for_each(|id| assert_eq!(backward.take(&key(id)), Some(id), "{plan:?}"));
        assert!(
            backward.is_empty() && backward.entries().is_empty(),
            "{plan:?}"
        );
        backward.insert(key(1), 1);
        assert_eq!(sorted_entries(&backward), [(1, 1)], "{plan:?}");
    }
}

/// Capacities 0, 1, odd and huge: hints, or refused by a panic that says "capacity"; never an overflow or abort.
pub fn capacity_extremes<D: SequentialDesign>() {
    for capacity in [0, 1, 2, 3, 5, 100, 1_000] {
        let map = D::build::<u64, u64, _>(Some(capacity), DefaultHashBuilder::with_seed(1));
        assert!(map.is_empty() && map.get(&1).is_none());
        (0..200).for_each(|key| map.insert(key, key));
        assert_eq!(
            (map.len(), map.get(&199)),
            (200, Some(199)),
            "capacity {capacity}"
        );
    }
    for capacity in [usize::MAX, usize::MAX - 1, usize::MAX / 2 + 1] {
        let outcome = catch_unwind(|| {
            let map = D::build::<u64, u64, _>(Some(capacity), DefaultHashBuilder::with_seed(1));
            map.insert(1, 2);
            assert_eq!((map.len(), map.get(&1)), (1, Some(2)));
            let map = D::build::<(), (), _>(Some(capacity), DefaultHashBuilder::with_seed(1));
            map.insert((), ());
            assert_eq!(map.len(), 1);
        });
        if let Err(payload) = outcome {
            let message = message_of(payload.as_ref());
            assert!(
                message.to_lowercase().contains("capacity"),
                "capacity {capacity} is refused by a panic that does not say why: {message}"
            );
        }
    }
}

/// `()` as key, as value and as both.
pub fn zero_sized_keys_and_values<D: SequentialDesign>() {
    let hasher = || DefaultHashBuilder::with_seed(1);
    let unit = D::build::<(), (), _>(None, hasher());
    assert_eq!((unit.len(), unit.get(&())), (0, None));
    unit.insert((), ());
    unit.insert((), ());
    assert_eq!(
        (unit.len(), unit.get(&()), unit.entries()),
        (1, Some(()), vec![((), ())])
    );
    assert_eq!(unit.get_batch(&[(), ()]), [Some(()), Some(())]);
    assert_eq!(
        (unit.swap((), ()), unit.take(&()), unit.take(&())),
        (Some(()), Some(()), None)
    );
    unit.bulk_load([((), ()), ((), ())]);
    assert_eq!(unit.len(), 1);
    unit.clear();
    assert!(unit.is_empty());

    let one = D::build::<(), String, _>(None, hasher());
    one.upsert((), |old| {
        old.map_or_else(|| "a".to_owned(), |old| format!("{old}b"))
    });
    one.upsert((), |old| {
        old.map_or_else(|| "a".to_owned(), |old| format!("{old}b"))
    });
    assert_eq!(one.get(&()).as_deref(), Some("ab"));
    assert!(one.remove_if(&(), |value| value == "ab") && one.is_empty());

    let set = D::build::<u64, (), _>(None, hasher());
    (0..100).for_each(|key| set.insert(key % 50, ()));
    assert_eq!(
        (set.len(), set.get(&49), set.get(&50)),
        (50, Some(()), None)
    );
    set.retain(|key, ()| key % 2 == 0);
    assert_eq!((set.len(), set.values().len()), (25, 25));
}

/// Batches and bulk loads: empty, with repeats and misses, from slices and iterators, in input order.
pub fn batch_and_bulk_edges<D: SequentialDesign>() {
    let map = D::build::<String, u64, _>(None, DefaultHashBuilder::with_seed(1));
    map.bulk_load(Vec::new());
    assert_eq!(map.len(), 0, "a bulk load of nothing");
    assert!(
        map.get_batch::<str, [&str; 0]>([]).is_empty(),
        "an empty batch of an empty map"
    );
    assert_eq!(map.get_batch(["a", "b", "a"]), [None, None, None]);
    map.bulk_load(
        [("a", 1), ("b", 2), ("a", 3), ("c", 4), ("a", 5)]
            .map(|(key, value)| (key.to_owned(), value)),
    );
    assert_eq!(
        (map.len(), map.get("a")),
        (3, Some(5)),
        "for repeated keys the last wins and counts once"
    );
    map.bulk_load(std::iter::once(("b".to_owned(), 6)));
    assert_eq!(
        (map.len(), map.get("b")),
        (3, Some(6)),
        "a bulk load replaces what is there"
    );
    assert_eq!(
        map.get_batch(["c", "zz", "a", "c", "b", ""]),
        [Some(4), None, Some(5), Some(4), Some(6), None]
    );
    let owned: Vec<String> = ["b", "a"].map(str::to_owned).to_vec();
    assert_eq!(map.get_batch(&owned), [Some(6), Some(5)]);
    assert!(map.get_batch::<str, [&str; 0]>([]).is_empty());
    map.get_batch_with::<str, [&str; 0], _>([], |_, _| panic!("an empty batch calls its closure"));
    // More keys than any group or shard count, with every third missing and many repeats.
    let numbers = D::build::<u64, u64, _>(None, DefaultHashBuilder::with_seed(1));
    numbers.bulk_load((0..3_000).filter(|n| n % 3 > 0).map(|n| (n, n + 1)));
    let asked: Vec<u64> = (0..10_000).map(|n| n * 7_919 % 3_000).collect();
    let expected: Vec<Option<u64>> = asked.iter().map(|n| (n % 3 > 0).then_some(n + 1)).collect();
    assert!(
        numbers.get_batch(&asked) == expected,
        "a big batch is answered wrongly or out of order"
    );
}

/// Lookups by borrowed forms of the key.
pub fn borrowed_lookups<D: SequentialDesign>() {
    let map = D::build::<String, Vec<u8>, _>(None, std::hash::RandomState::new());
    map.insert("key".to_owned(), vec![1]);
    assert_eq!(map.get("key"), Some(vec![1]));
    assert_eq!(map.get_with("key", Vec::len), Some(1));
    assert!(map.contains_key("key") && !map.contains_key("Key"));
    assert_eq!(map.take("key"), Some(vec![1]));
    let map = D::build::<Box<[u8]>, u8, _>(None, DefaultHashBuilder::new());
    map.insert(Box::from([1, 2, 3]), 6);
    assert_eq!(map.get([1_u8, 2, 3].as_slice()), Some(6));
    map.remove([1_u8, 2, 3].as_slice());
    assert!(map.is_empty());
}

/// A hasher that counts how many keys it finishes.
#[derive(Clone, Default)]
struct CountingBuilder(Arc<AtomicUsize>);

struct CountingHasher(PassThroughHasher, Arc<AtomicUsize>);

impl BuildHasher for CountingBuilder {
    type Hasher = CountingHasher;
    fn build_hasher(&self) -> CountingHasher {
        CountingHasher(PassThrough.build_hasher(), Arc::clone(&self.0))
    }
}

impl Hasher for CountingHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }
    fn write_u64(&mut self, i: u64) {
        self.0.write_u64(mix(i));
    }
    fn finish(&self) -> u64 {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.finish()
    }
}

/// Each operation on one key hashes that key exactly once, growth included: hashes are stored, not taken again.
pub fn each_operation_hashes_once<D: SequentialDesign>() {
    let counter = CountingBuilder::default();
    if !D::STORES_HASHES {
        return;
    }
    let map = D::build::<u64, u64, _>(None, counter.clone());
    let hashes = |what: &str, expected: usize, call: &dyn Fn()| {
        let before = counter.0.load(Ordering::Relaxed);
        call();
        // Waits for writes under way.
        map.len();
        let taken = counter.0.load(Ordering::Relaxed) - before;
        assert_eq!(taken, expected, "{what}: hashes taken");
    };
    hashes("500 inserts from empty", 500, &|| {
        (0..500).for_each(|key| map.insert(key, key))
    });
    hashes("insert over a key", 1, &|| map.insert(1, 2));
    hashes("get", 1, &|| assert_eq!(map.get(&1), Some(2)));
    hashes("get of a missing key", 1, &|| {
        assert_eq!(map.get(&1_000), None)
    });
    hashes("contains_key", 1, &|| assert!(map.contains_key(&1)));
    hashes("upsert", 1, &|| map.upsert(1, |_| 3));
    hashes("upsert of a new key", 1, &|| map.upsert(1_001, |_| 3));
    hashes("get_or_insert_with", 1, &|| {
        ignore(map.get_or_insert_with(1, || 4))
    });
    hashes("get_or_insert_with of a new key", 1, &|| {
        ignore(map.get_or_insert_with(1_002, || 4))
    });
    hashes("swap", 1, &|| ignore(map.swap(1, 5)));
    hashes("take", 1, &|| ignore(map.take(&1)));
    hashes("remove", 1, &|| map.remove(&2));
    hashes("remove_if", 1, &|| assert!(map.remove_if(&3, |_| true)));
    hashes("get_batch of 10", 10, &|| {
        ignore(map.get_batch(&[4, 5, 6, 7, 8, 9, 10, 4, 4, 2_000]))
    });
    hashes("bulk_load of 100", 100, &|| {
        map.bulk_load((0..100).map(|key| (key, key)))
    });
    hashes("for_each, retain, clear", 0, &|| {
        map.for_each(|_, _| ());
        map.retain(|key, _| key % 2 == 0);
        map.clear();
    });
}
