//! User code calls back into the map it is called from: the call completes, or panics at once; it never hangs.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};

use cache_api::{
    BulkLoad, Cache, DefaultHashBuilder, GetBatch, Iterate, REENTRANT, SnapshotView, Update,
};

use crate::checks::panics::{ABSENT, FILL, PRESENT, operations};
use crate::design::{Design, FullMap, SnapshotDesign};
use crate::keys::{HashPlan, PassThrough};
use crate::lab::{Event, Lab, LabKey, LabValue};
use crate::run::{ignore, message_of, threads};

/// What user code calls back for, given a key's number.
type Call<M> = fn(&M, &'static Lab, HashPlan, u64);
type Inner<M> = (&'static str, Call<M>);

type LabMap<D> = <D as Design>::Map<LabKey, LabValue, PassThrough>;
type PlainMap<D> = <D as Design>::Map<u64, u64, DefaultHashBuilder>;

fn inner_calls<M: FullMap<LabKey, LabValue>>() -> Vec<Inner<M>> {
    vec![
        ("get", |m, l, p, id| ignore(m.get(&l.key(id, p)))),
        ("len", |m, _, _, _| ignore(m.len())),
        ("insert", |m, l, p, id| m.insert(l.key(id, p), l.value(1))),
        ("remove", |m, l, p, id| m.remove(&l.key(id, p))),
        ("upsert", |m, l, p, id| {
            m.upsert(l.key(id, p), |_| l.value(2))
        }),
        ("get_or_insert_with", |m, l, p, id| {
            ignore(m.get_or_insert_with(l.key(id, p), || l.value(3)))
        }),
        ("swap", |m, l, p, id| {
            ignore(m.swap(l.key(id, p), l.value(4)))
        }),
        ("take", |m, l, p, id| ignore(m.take(&l.key(id, p)))),
        ("remove_if", |m, l, p, id| {
            ignore(m.remove_if(&l.key(id, p), |_| true))
        }),
        ("get_batch", |m, l, p, id| {
            ignore(m.get_batch(&[l.key(id, p), l.key(id + 1, p)]))
        }),
        ("bulk_load", |m, l, p, id| {
            m.bulk_load((0..4).map(|n| (l.key(id + n, p), l.value(n))))
        }),
        ("for_each", |m, _, _, _| m.for_each(|_, _| ())),
        ("retain", |m, _, _, id| m.retain(|key, _| key.id != id)),
        ("clear", |m, _, _, _| m.clear()),
    ]
}

/// Refused calls panic by the hundred here: their messages are not printed.
fn silence_refusals() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let refused = info
                .payload_as_str()
                .is_some_and(|message| message.contains(REENTRANT));
            if !refused {
                others(info);
            }
        }));
    });
}

/// Every operation, with every kind of user code in it calling back for every operation, on the same key and on
/// another one. The inner call completes or panics with [`REENTRANT`] in its message; afterwards the map is usable.
///
/// Destructors of what an operation replaces or removes run after its locks are released: from them, everything
/// completes (but for designs whose owner threads drop values: [`Design::ASYNC_WRITES`]).
pub fn from<D: Design>(event: Event) {
    silence_refusals();
    // Collisions make `Eq` run often; good hashes take the common path.
    for plan in [HashPlan::Good, HashPlan::Constant] {
        for outer in operations::<D::Map<LabKey, LabValue, PassThrough>>() {
            for (inner_name, inner) in inner_calls::<D::Map<LabKey, LabValue, PassThrough>>() {
                for (inner_key, rethrow) in
                    [(PRESENT, true), (ABSENT, true), (2, true), (PRESENT, false)]
                {
                    let context = format!(
                        "{inner_name}(k{inner_key}) from {event:?} inside {}, {plan:?} hashes{}",
                        outer.name,
                        if rethrow { "" } else { ", caught inside" }
                    );
                    let rethrow = rethrow && event != Event::Drop;
                    call_back::<D>(plan, event, outer.run, inner, inner_key, rethrow, &context);
                }
            }
        }
    }
}

fn call_back<D: Design>(
    plan: HashPlan,
    event: Event,
    outer: fn(&D::Map<LabKey, LabValue, PassThrough>, &'static Lab, HashPlan),
    inner: Call<LabMap<D>>,
    inner_key: u64,
    rethrow: bool,
    context: &str,
) {
    let lab = Lab::open();
    let map = Arc::new(D::build::<LabKey, LabValue, _>(None, PassThrough));
    (0..FILL).for_each(|id| map.insert(lab.key(id, plan), lab.value(id)));
    map.len();
    let refusals: Arc<Mutex<Vec<String>>> = Arc::default();
    let calls = AtomicUsize::new(0);
    {
        let (map, refusals) = (Arc::downgrade(&map), Arc::clone(&refusals));
        lab.hook(move |happened| {
            // A few calls per operation tell all there is to tell.
            if happened != event || calls.fetch_add(1, Ordering::Relaxed) >= 3 {
                return;
            }
            let Some(map) = map.upgrade() else { return };
            if let Err(payload) =
                catch_unwind(AssertUnwindSafe(|| inner(&map, lab, plan, inner_key)))
            {
                let message = message_of(payload.as_ref());
                refusals
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(message);
                if rethrow && !std::thread::panicking() {
                    resume_unwind(payload);
                }
            }
        });
    }
    let outcome = catch_unwind(AssertUnwindSafe(|| outer(&map, lab, plan)));
    if D::ASYNC_WRITES {
        // The hook is still in while queued writes run.
        let _ = catch_unwind(AssertUnwindSafe(|| map.len()));
    }
    lab.unhook();
    let refusals = refusals
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    for message in &refusals {
        assert!(
            message.contains(REENTRANT),
            "{context}: the inner call panics, and not as `{REENTRANT}`: {message}"
        );
    }
    if let Err(payload) = outcome {
        assert!(
            !refusals.is_empty(),
            "{context}: panics by itself: {}",
            message_of(payload.as_ref())
        );
    }
    if event == Event::Drop && !D::ASYNC_WRITES {
        assert!(
            refusals.is_empty(),
            "{context}: a destructor runs under a lock: {}",
            refusals[0]
        );
    }
    // A refused or completed call leaves a map that others can use.
    threads(1, |_| {
        let present = (0..160)
            .filter(|id| map.contains_key(&lab.key(*id, plan)))
            .count();
        assert_eq!(map.len(), present, "{context}: len afterwards");
        assert_eq!(
            map.entries().len(),
            present,
            "{context}: entries afterwards"
        );
        for id in [PRESENT, ABSENT, inner_key] {
            map.insert(lab.key(id, plan), lab.value(9));
            assert_eq!(
                map.get(&lab.key(id, plan)).map(|v| v.number),
                Some(9),
                "{context}: k{id} afterwards"
            );
        }
    });
    let len = map.len();
    D::quiesce(&map);
    lab.assert_living::<D>(len, len);
    drop(map);
    lab.assert_living::<D>(0, 0);
}

/// The same method again from its own closure, on the same key: the inner call counts or is refused, and one value
/// is there at the end.
pub fn the_same_call_inside_itself<D: Design>() {
    silence_refusals();
    let check = |name: &str, call: &dyn Fn(&PlainMap<D>)| {
        let map = D::build::<u64, u64, _>(None, DefaultHashBuilder::with_seed(6));
        map.insert(1, 10);
        let outcome = catch_unwind(AssertUnwindSafe(|| call(&map)));
        if let Err(payload) = outcome {
            let message = message_of(payload.as_ref());
            assert!(
                message.contains(REENTRANT),
                "{name} inside itself panics: {message}"
            );
        }
        threads(1, |_| {
            for key in [1, 2] {
                let copies = map.keys().into_iter().filter(|found| *found == key).count();
                assert_eq!(
                    copies,
                    usize::from(map.contains_key(&key)),
                    "{name}: copies of key {key}"
                );
                map.insert(key, 0);
            }
            assert_eq!(
                (map.len(), map.get(&1), map.get(&2)),
                (2, Some(0), Some(0)),
                "{name}"
            );
        });
    };
    check("get_with", &|map| {
        let answer = map.get_with(&1, |outer| map.get_with(&1, |inner| outer + inner));
        assert_eq!(answer, Some(Some(20)));
    });
    check("upsert", &|map| {
        map.upsert(1, |_| {
            map.upsert(1, |_| 11);
            12
        });
        assert_eq!(map.get(&1), Some(12), "the outer upsert ends last");
    });
    check("get_or_insert_with", &|map| {
        let got = map.get_or_insert_with(2, || map.get_or_insert_with(2, || 1) + 1);
        assert_eq!(map.get(&2), Some(got), "what is returned is what is stored");
    });
    check("remove_if", &|map| {
        map.remove_if(&1, |_| map.remove_if(&1, |_| true));
        assert!(!map.contains_key(&1));
    });
    check("for_each", &|map| {
        map.for_each(|_, _| map.for_each(|_, _| ()))
    });
    check("retain", &|map| map.retain(|_, _| map.retain_all()));
    check("get_batch_with", &|map| {
        map.get_batch_with(&[1, 2], |_, _| ignore(map.get_batch(&[2, 1])))
    });
    check("bulk_load", &|map| {
        map.bulk_load((0..3).map(|n| {
            map.bulk_load([(n + 10, n)]);
            map.remove(&(n + 10));
            (2, n)
        }));
    });
}

/// A name for `retain` that keeps everything, as a closure's last expression.
trait RetainAll {
    fn retain_all(&self) -> bool;
}

impl<M: Iterate<u64, u64>> RetainAll for M {
    fn retain_all(&self) -> bool {
        self.retain(|_, _| true);
        true
    }
}

/// Closures use *another* map of the same design: that always works. And back again into the first: as usual.
pub fn another_map_inside_a_closure<D: Design>() {
    silence_refusals();
    let build = || D::build::<u64, u64, _>(None, DefaultHashBuilder::with_seed(7));
    let (a, b) = (build(), build());
    a.insert(1, 10);
    b.insert(1, 20);
    assert_eq!(
        a.get_with(&1, |x| b.get_with(&1, |y| x + y)),
        Some(Some(30))
    );
    a.upsert(1, |old| {
        b.insert(2, 5);
        old.copied().unwrap_or(0) + b.get(&2).unwrap_or(0)
    });
    assert_eq!(a.get(&1), Some(15), "a closure uses another map");
    a.for_each(|key, value| b.insert(*key, *value));
    assert_eq!(b.get(&1), Some(15), "a visit fills another map");
    a.retain(|key, _| b.contains_key(key));
    b.bulk_load((0..4).map(|n| (n, a.get(&1).unwrap_or(0) + n)));
    assert_eq!((a.len(), b.len(), b.get(&3)), (1, 4, Some(18)));
    if !D::ASYNC_WRITES {
        // With owner threads this would be two of them waiting for each other, which neither can know.
        let round = AtomicBool::new(false);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            a.upsert(1, |_| {
                b.upsert(1, |_| a.get(&1).unwrap_or(0));
                round.store(true, Ordering::Relaxed);
                1
            });
        }));
        if let Err(payload) = outcome {
            assert!(
                message_of(payload.as_ref()).contains(REENTRANT),
                "a detour over another map panics"
            );
        }
    }
    a.insert(1, 1);
    b.insert(1, 1);
    assert_eq!((a.get(&1), b.get(&1)), (Some(1), Some(1)));
}

/// While a view is read and a reference out of it is held, the live map takes every call.
pub fn from_reads_of_a_view<D: SnapshotDesign>() {
    let map = D::build::<u64, u64, _>(None, DefaultHashBuilder::with_seed(8));
    (0..10).for_each(|key| map.insert(key, key));
    let view = D::snapshot(&map);
    let held = view.get_ref(&3).expect("in the view");
    view.get_with(&1, |_| {
        map.insert(1, 100);
        map.clear();
        map.upsert(2, |old| old.map_or(7, |_| 8));
        assert_eq!(D::snapshot(&map).len(), 1);
    });
    for (key, value) in view.iter() {
        assert_eq!(key, value);
        map.remove(key);
        map.insert(*key, 50);
    }
    assert_eq!(
        (*held, view.len(), map.len(), map.get(&3)),
        (3, 10, 10, Some(50))
    );
}
