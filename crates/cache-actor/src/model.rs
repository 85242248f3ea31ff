//! The rendezvous under a model checker: every schedule of the caller and the owner that it cares to try.
//!
//! Run with `RUSTFLAGS="--cfg shuttle" cargo test -p cache-actor`. The mailboxes are the checker's own channels; what
//! is checked is the protocol of `rendezvous.rs`, with the crate's own code.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::mpsc::{Sender, channel};
use shuttle::{Config, MaxSteps, Runner, thread};

use crate::rendezvous::{Call, Slot, Task, run_all};

/// Schedules per scheduler, and the time after which each stops anyway.
const SCHEDULES: usize = 5_000;
const LIMIT: Duration = Duration::from_secs(10);

fn check(scenario: fn()) {
    let mut config = Config::new();
    config.max_time = Some(LIMIT);
    config.max_steps = MaxSteps::FailAfter(20_000);
    Runner::new(RandomScheduler::new(SCHEDULES), config.clone()).run(scenario);
    Runner::new(PctScheduler::new(3, SCHEDULES), config).run(scenario);
}

type Mailbox = Sender<Call<u64>>;

/// An owner of one number; hears `heard` calls, and drops the others unheard.
fn owner(mut number: u64, heard: usize) -> (Mailbox, thread::JoinHandle<()>) {
    let (sender, receiver) = channel::<Call<u64>>();
    let life = thread::spawn(move || {
        for (position, call) in receiver.iter().enumerate() {
            if position < heard {
                call.run(&mut number);
            }
        }
    });
    (sender, life)
}

/// Adds `n` to the number of each owner, at the same time; the new numbers.
fn add(slot: &std::sync::Arc<Slot>, owners: &[Mailbox], n: u64) -> Vec<u64> {
    let mut tasks: Vec<_> = owners
        .iter()
        .map(|_| {
            Task::new(|number: &mut u64| {
                *number += n;
                *number
            })
        })
        .collect();
    run_all(slot, &mut tasks, |position, call| {
        // A mailbox whose owner is gone drops the call, which is an answer too.
        let _ = owners[position].send(call);
    });
    tasks.into_iter().map(Task::into_answer).collect()
}

#[test]
fn answers_arrive_whole_and_once() {
    check(|| {
        let (first, first_life) = owner(0, usize::MAX);
        let (second, second_life) = owner(100, usize::MAX);
        let callers: Vec<_> = [1, 10]
            .into_iter()
            .map(|n| {
                let owners = [first.clone(), second.clone()];
                thread::spawn(move || {
                    // One slot for several requests: nothing of the first may leak into the second.
                    let slot = Slot::new();
                    let before = add(&slot, &owners, n);
                    let after = add(&slot, &owners, n);
                    assert!(
                        before[0] % 100 >= n && after[0] >= before[0] + n,
                        "{before:?} {after:?}"
                    );
                    assert!(
                        before[1] >= 100 + n && after[1] >= before[1] + n,
                        "{before:?} {after:?}"
                    );
                })
            })
            .collect();
        for caller in callers {
            caller.join().expect("the caller is answered");
        }
        assert_eq!(add(&Slot::new(), &[first, second], 0), [22, 122]);
        first_life.join().expect("the owner ends");
        second_life.join().expect("the owner ends");
    });
}

#[test]
fn a_panic_is_an_answer() {
    check(|| {
        let (mailbox, life) = owner(0, usize::MAX);
        let slot = Slot::new();
        // `resume_unwind` spares the hook, which the checker uses for its own reports.
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let mut tasks = [Task::new(|_: &mut u64| -> u64 {
                resume_unwind(Box::new(7_u32))
            })];
            run_all(&slot, &mut tasks, |_, call| {
                mailbox.send(call).expect("the owner lives")
            });
            let [task] = tasks;
            task.into_answer()
        }));
        let payload = outcome.expect_err("the panic comes back");
        assert_eq!(payload.downcast_ref::<u32>(), Some(&7));
        assert_eq!(add(&slot, &[mailbox], 1), [1]);
        life.join().expect("the owner outlives the panic");
    });
}

#[test]
fn an_unheard_call_is_an_answer() {
    check(|| {
        // Answers the first, drops the second.
        let (mailbox, life) = owner(0, 1);
        let slot = Slot::new();
        let mut tasks: Vec<_> = (0..2)
            .map(|_| Task::new(|number: &mut u64| *number))
            .collect();
        run_all(&slot, &mut tasks, |_, call| {
            let _ = mailbox.send(call);
        });
        let answered: Vec<bool> = tasks.iter().map(Task::is_answered).collect();
        assert_eq!(answered, [true, false]);
        drop(mailbox);
        life.join().expect("the owner ends");
    });
}
