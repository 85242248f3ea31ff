//! The macros that turn checks into `#[test]` functions, one per check, so that a failing one is named.

/// All checks of a [`Design`](crate::Design): `suite!(Mine)`, or `suite!(mod mine, Mine)` for several in one file.
#[macro_export]
macro_rules! suite {
    (mod $module:ident, $design:ty) => {
        mod $module {
            #[allow(unused_imports, reason = "the design may be named by an absolute path")]
            use super::*;
            $crate::suite!($design);
        }
    };
    ($design:ty) => {
        $crate::sequential_suite!($design);
        $crate::concurrent_suite!($design);
    };
}

/// The checks of one thread, for a [`SequentialDesign`](crate::SequentialDesign). Part of [`suite!`].
#[macro_export]
macro_rules! sequential_suite {
    (mod $module:ident, $design:ty) => {
        mod $module {
            #[allow(unused_imports, reason = "the design may be named by an absolute path")]
            use super::*;
            $crate::sequential_suite!($design);
        }
    };
    ($design:ty) => {
        $crate::tests! { $design, $crate::SequentialDesign, sequential:
            model_with_good_hashes = model($crate::HashPlan::Good),
            model_with_hashes_equal_but_for_the_top_bits = model($crate::HashPlan::HalfHigh),
            model_with_hashes_equal_but_for_the_low_bits = model($crate::HashPlan::HalfLow),
            model_with_hashes_equal_but_for_middle_bits = model($crate::HashPlan::HalfMiddle),
            model_with_constant_hashes = model($crate::HashPlan::Constant),
        }
    };
}

/// The checks of several threads. Part of [`suite!`].
#[doc(hidden)]
#[macro_export]
macro_rules! concurrent_suite {
    ($design:ty) => {
        $crate::tests! { $design, $crate::Design, smoke:
            send_and_sync = send_and_sync(),
            four_threads_use_every_method = four_threads_use_every_method(),
        }
    };
}

/// The checks of a [`SnapshotDesign`](crate::SnapshotDesign), in addition to [`suite!`].
#[macro_export]
macro_rules! snapshot_suite {
    (mod $module:ident, $design:ty) => {
        mod $module {
            #[allow(unused_imports, reason = "the design may be named by an absolute path")]
            use super::*;
            $crate::snapshot_suite!($design);
        }
    };
    ($design:ty) => {};
}

/// The checks of a [`ForkDesign`](crate::ForkDesign), in addition to [`suite!`].
#[macro_export]
macro_rules! fork_suite {
    (mod $module:ident, $design:ty) => {
        mod $module {
            #[allow(unused_imports, reason = "the design may be named by an absolute path")]
            use super::*;
            $crate::fork_suite!($design);
        }
    };
    ($design:ty) => {};
}

/// The checks of a [`RoutedDesign`](crate::RoutedDesign), in addition to [`suite!`].
#[macro_export]
macro_rules! routed_suite {
    (mod $module:ident, $design:ty) => {
        mod $module {
            #[allow(unused_imports, reason = "the design may be named by an absolute path")]
            use super::*;
            $crate::routed_suite!($design);
        }
    };
    ($design:ty) => {};
}

/// Turns `name = check(arguments)` into `#[test] fn name()`.
#[doc(hidden)]
#[macro_export]
macro_rules! tests {
    ($design:ty, $trait:path, $module:ident: $($name:ident = $check:ident($($argument:expr),*),)*) => {
        $(
            #[test]
            fn $name() {
                $crate::run(<$design as $trait>::NAME, stringify!($name), || {
                    $crate::checks::$module::$check::<$design>($($argument),*);
                });
            }
        )*
    };
}
