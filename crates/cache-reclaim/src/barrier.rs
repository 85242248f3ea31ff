//! The asymmetric barrier: nothing for readers, a system call for writers; it never fails silently.

use std::sync::atomic::{AtomicU8, Ordering, compiler_fence};

use crate::sync::fence;

/// Not decided yet.
const UNKNOWN: u8 = 0;
/// Readers keep program order only, and writers call the operating system.
const ASYMMETRIC: u8 = 1;
/// Both sides execute a full fence.
const SYMMETRIC: u8 = 2;

static MODE: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Whether readers need a fence of their own. The first call decides for the process.
pub(crate) fn readers_fence() -> bool {
    // Relaxed: the mode is a number that never changes again, and nothing else is published with it.
    match MODE.load(Ordering::Relaxed) {
        UNKNOWN => decide(),
        mode => mode == SYMMETRIC,
    }
}

#[cold]
fn decide() -> bool {
    let found = if system::register() {
        ASYMMETRIC
    } else {
        SYMMETRIC
    };
    // Two threads may decide at the same time, and differently if the system changes its mind: the first one counts.
    let mode = match MODE.compare_exchange(UNKNOWN, found, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => found,
        Err(decided) => decided,
    };
    mode == SYMMETRIC
}

/// The reader's side, between its announcement and its second look.
#[inline(always)]
pub(crate) fn light(fenced: bool) {
    if fenced {
        fence(Ordering::SeqCst);
    } else {
        // The writer's system call makes a running reader's processor order the two accesses, if they are in program
        // order: the compiler is all that could break it.
        compiler_fence(Ordering::SeqCst);
    }
}

/// The writer's side, between publishing and looking through the slots.
///
/// Afterwards, whatever a reader announced before its [`light`] is visible to this thread, or that reader's second
/// look comes after and sees what this thread published before. `false` if the system refuses: then nothing is known.
#[must_use]
pub(crate) fn heavy() -> bool {
    fence(Ordering::SeqCst);
    readers_fence() || system::barrier()
}

#[cfg(all(target_os = "linux", not(miri), not(loom)))]
mod system {
    //! `membarrier(2)`.

    // From linux/membarrier.h, part of the kernel's stable interface.
    const QUERY: libc::c_int = 0;
    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

    fn membarrier(command: libc::c_int) -> libc::c_long {
        let (flags, cpu): (libc::c_uint, libc::c_int) = (0, 0);
        // SAFETY: the call takes three integers and touches no memory of the process. An unknown command or a kernel
        // without the call yields an error.
        unsafe { libc::syscall(libc::SYS_membarrier, command, flags, cpu) }
    }

    /// Whether barriers are available from now on.
    pub(super) fn register() -> bool {
        let supported = membarrier(QUERY);
        supported >= 0
            && supported & libc::c_long::from(PRIVATE_EXPEDITED) != 0
            && membarrier(REGISTER_PRIVATE_EXPEDITED) == 0
    }

    /// Makes all running threads of the process execute a full barrier. Whether it did.
    pub(super) fn barrier() -> bool {
        // A child process may find the registration gone: once more, then.
        membarrier(PRIVATE_EXPEDITED) == 0 || (register() && membarrier(PRIVATE_EXPEDITED) == 0)
    }
}

#[cfg(not(all(target_os = "linux", not(miri), not(loom))))]
mod system {
    //! No such call: both sides fence.

    pub(super) fn register() -> bool {
        false
    }

    pub(super) fn barrier() -> bool {
        false
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_decision_is_kept_and_the_barrier_works() {
        let fenced = readers_fence();
        assert!((0..10).all(|_| readers_fence() == fenced));
        assert!((0..10).all(|_| heavy()));
    }
}
