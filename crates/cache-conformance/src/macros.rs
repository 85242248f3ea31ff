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
            content_does_not_depend_on_history = content_does_not_depend_on_history(),
            capacity_extremes = capacity_extremes(),
            zero_sized_keys_and_values = zero_sized_keys_and_values(),
            batch_and_bulk_edges = batch_and_bulk_edges(),
            borrowed_lookups = borrowed_lookups(),
            each_operation_hashes_once = each_operation_hashes_once(),
        }
        $crate::tests! { $design, $crate::SequentialDesign, drops:
            each_is_dropped_once = each_is_dropped_once(),
            emptied_maps_keep_nothing = emptied_maps_keep_nothing(),
        }
        #[test]
        fn resident_memory_does_not_grow() {
            $crate::run_alone(module_path!(), "resident_memory_does_not_grow", || {
                let name = <$design as $crate::SequentialDesign>::NAME;
                $crate::run(name, "resident_memory_does_not_grow", || {
                    $crate::checks::drops::resident_memory_does_not_grow::<$design>();
                });
            });
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
        $crate::tests! { $design, $crate::Design, linear:
            each_key_is_linearizable = each_key($crate::HashPlan::Good),
            each_key_is_linearizable_among_near_collisions = each_key($crate::HashPlan::HalfHigh),
            each_key_is_linearizable_among_collisions = each_key($crate::HashPlan::Constant),
            the_whole_map_is_linearizable = whole_map(),
        }
        $crate::tests! { $design, $crate::Design, growth:
            acknowledged_keys_are_never_missed = acknowledged_keys_are_never_missed(),
            visits_see_what_stays_exactly_once = visits_see_what_stays_exactly_once(),
        }
        $crate::tests! { $design, $crate::Design, drops:
            each_is_dropped_once_under_threads = each_is_dropped_once_under_threads(),
        }
        $crate::tests! { $design, $crate::Design, races:
            a_kept_value_blocks_nothing = a_kept_value_blocks_nothing(),
            crossed_writes_do_not_deadlock = crossed_writes_do_not_deadlock(),
            clearing_an_empty_map = clearing_an_empty_map(),
            clear_takes_effect_during_the_call = clear_takes_effect_during_the_call(),
            upsert_loses_no_update = upsert_loses_no_update(),
            swap_hands_out_each_value_once = swap_hands_out_each_value_once(),
            take_takes_each_value_once = take_takes_each_value_once(),
            remove_if_removes_only_what_it_tested = remove_if_removes_only_what_it_tested(),
            get_or_insert_agrees = get_or_insert_agrees(),
            a_panicking_init_releases_the_waiters = a_panicking_init_releases_the_waiters(),
            a_panicking_closure_leaves_the_others_served = a_panicking_closure_leaves_the_others_served(),
            len_stays_possible = len_stays_possible(),
            len_of_one_contended_key = len_of_one_contended_key(),
            a_moving_token_is_never_out_of_sight = a_moving_token_is_never_out_of_sight(),
            versions_never_run_backwards = versions_never_run_backwards(),
            batches_among_writers = batches_among_writers(),
            handles_dropped_amid_requests = handles_dropped_amid_requests(),
            the_last_handle_is_dropped_by_the_map = the_last_handle_is_dropped_by_the_map(),
            usable_while_a_thread_ends = usable_while_a_thread_ends(),
            one_clone_panics_among_many = one_clone_panics_among_many(),
        }
        $crate::tests! { $design, $crate::Design, panics:
            panics_in_hash = at_every_call($crate::HashPlan::Good, $crate::lab::Event::Hash),
            panics_in_eq = at_every_call($crate::HashPlan::HalfLow, $crate::lab::Event::Eq),
            panics_in_eq_among_collisions = at_every_call($crate::HashPlan::Constant, $crate::lab::Event::Eq),
            panics_in_clone = at_every_call($crate::HashPlan::Good, $crate::lab::Event::Clone),
            panics_in_clone_among_collisions = at_every_call($crate::HashPlan::Constant, $crate::lab::Event::Clone),
            panics_in_drop = at_every_call($crate::HashPlan::Good, $crate::lab::Event::Drop),
            panics_in_drop_among_collisions = at_every_call($crate::HashPlan::Constant, $crate::lab::Event::Drop),
            panics_in_closures = at_every_call($crate::HashPlan::HalfHigh, $crate::lab::Event::Closure),
        }
        $crate::tests! { $design, $crate::Design, reentry:
            reentry_from_hash = from($crate::lab::Event::Hash),
            reentry_from_eq = from($crate::lab::Event::Eq),
            reentry_from_clone = from($crate::lab::Event::Clone),
            reentry_from_drop = from($crate::lab::Event::Drop),
            reentry_from_closures = from($crate::lab::Event::Closure),
            the_same_call_inside_itself = the_same_call_inside_itself(),
            another_map_inside_a_closure = another_map_inside_a_closure(),
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
    ($design:ty) => {
        $crate::tests! { $design, $crate::Design, snapshots:
            views_follow_the_model_with_good_hashes = model($crate::HashPlan::Good),
            views_follow_the_model_with_near_collisions = model($crate::HashPlan::HalfHigh),
            views_follow_the_model_with_collisions = model($crate::HashPlan::Constant),
            views_are_send_and_sync = send_and_sync(),
            views_are_cuts = cut_of_two_keys(),
            a_moving_token_is_in_every_view = a_moving_token_is_in_every_view(),
            many_snapshots_at_once = many_at_once(),
            views_keep_only_what_they_show = views_keep_only_what_they_show(),
            each_is_dropped_once_with_views = each_is_dropped_once(),
        }
        $crate::tests! { $design, $crate::Design, linear:
            snapshots_are_linearizable = whole_map_with_snapshots(),
        }
        $crate::tests! { $design, $crate::Design, panics:
            panics_in_snapshots = in_snapshots(),
        }
        $crate::tests! { $design, $crate::Design, reentry:
            reentry_from_reads_of_a_view = from_reads_of_a_view(),
        }
    };
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
    ($design:ty) => {
        $crate::tests! { $design, $crate::Design, forks:
            forks_follow_the_model_with_good_hashes = model($crate::HashPlan::Good),
            forks_follow_the_model_with_near_collisions = model($crate::HashPlan::HalfHigh),
            forks_follow_the_model_with_collisions = model($crate::HashPlan::Constant),
            forks_are_cuts = cut_of_two_keys(),
            each_is_dropped_once_with_forks = each_is_dropped_once(),
        }
        $crate::tests! { $design, $crate::Design, linear:
            forks_are_linearizable = whole_map_with_forks(),
        }
    };
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
    ($design:ty) => {
        $crate::tests! { $design, $crate::Design, routed:
            keys_have_one_partition = keys_have_one_partition(),
        }
    };
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
