//! What every backend owes, as one suite. Each world runs all of it; differences would be listed in the docs.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

mod backend;
mod cases;

/// Runs every case in the memory world, on a paused clock: there, waiting takes no time.
macro_rules! in_memory {
    ($($group:ident :: $file:ident { $($case:ident),+ $(,)? })+) => {
        mod memory {
            $(mod $file {
                $(#[tokio::test(start_paused = true)]
                async fn $case() {
                    crate::$group::$file::$case(queuey_tests::World::memory()).await;
                })+
            })+
        }
    };
}

/// Runs every case against the broker that `AMQP_URL` names, on the real clock.
macro_rules! on_rabbitmq {
    ($($group:ident :: $file:ident { $($case:ident),+ $(,)? })+) => {
        mod rabbit {
            $(mod $file {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let Some(url) = queuey_tests::shared_broker() else { return };
                    let world = queuey_tests::World::rabbit(&url).await;
                    crate::$group::$file::$case(world.clone()).await;
                    queuey_tests::World::clean_up(&world, &url).await;
                })+
            })+
        }
    };
}

/// The suite: every case by its file.
macro_rules! suite {
    ($run:ident) => {
        $run! {
            backend::order {
                deliveries_come_in_the_order_of_publishing,
                higher_priorities_come_first,
                a_priority_above_the_maximum_counts_as_the_maximum,
                a_queue_without_priorities_ignores_them,
                no_more_than_the_prefetch_is_unsettled,
                two_consumers_share_a_queue,
            }
            backend::delays {
                a_delayed_job_is_never_early_and_joins_the_back,
                a_deferred_job_comes_back_ahead_of_the_backlog,
                r01_a_long_delay_holds_up_no_shorter_one,
                a_deferral_of_zero_waits_and_a_delay_of_zero_does_not,
                a_delay_past_the_ceiling_is_refused,
                a_wait_on_an_undeclared_queue_is_refused_first,
            }
            backend::settling {
                ack_and_discard_end_a_job,
                a_retry_comes_back_as_the_next_attempt,
                a_deferral_keeps_the_attempt,
                a_dead_letter_is_kept_with_its_reason,
                redeliver_comes_next_whatever_its_priority,
                requeue_gives_the_job_back_in_its_place_and_flags_it,
                a_delivery_that_is_dropped_goes_back,
                a_stream_that_is_dropped_leaves_its_deliveries_alive,
                a_settlement_that_can_never_succeed_gives_the_delivery_back,
                successors_stay_on_the_queue_they_were_consumed_from,
                unknown_fields_and_every_digit_survive_all_hops,
                a_quorum_queue_counts_its_deliveries,
                expired_jobs_are_dropped_or_kept,
            }
            backend::errors {
                a_missing_queue_is_unroutable,
                an_undeclared_queue_cannot_be_consumed,
                bad_queues_are_refused_before_anything_is_made,
                o01_a_queue_with_other_arguments_is_a_mismatch,
                declaring_again_changes_nothing,
                p04_a_message_too_large_is_refused_and_its_neighbours_are_not,
                a_long_correlation_id_is_refused,
                each_of_many_has_its_own_result,
                p01_bodies_that_are_no_job_are_put_aside,
                a_closed_backend_refuses_everything_and_ends_its_streams,
                health_tells_what_is_consumed,
            }
            cases::attempts {
                r07_attempts_are_numbered_without_gaps_up_to_the_maximum,
                r07_deferrals_never_change_the_attempt,
                r08_the_highest_policy_wins_and_the_handler_sees_it,
                a_job_past_its_age_is_given_up_on,
                a_job_that_defers_itself_too_often_is_given_up_on,
            }
            cases::panics {
                s01_a_panic_is_a_failed_attempt,
                a_panic_in_a_layer_or_a_hook_stops_nothing,
            }
            cases::timeouts {
                s07_a_run_past_its_limit_is_a_failed_attempt,
                the_handlers_limit_beats_the_jobs_and_that_the_workers,
            }
            cases::starts {
                o05_a_returning_deferral_overtakes_all_but_the_prefetched,
                o05_the_backlog_drains_beside_jobs_that_defer_for_ever,
                o08_jobs_start_in_the_order_each_producer_enqueued_them,
            }
            cases::deploys {
                p02_a_job_this_worker_does_not_know_is_kept,
                p10_a_payload_of_another_release_runs_or_is_kept_undamaged,
            }
            cases::redelivery {
                a_redelivery_is_counted_on_the_message_before_it_runs,
                a_job_that_kills_its_workers_is_given_up_on_at_its_limit,
                a_limit_of_zero_makes_no_copies,
                from_half_its_limit_on_a_job_runs_alone,
                an_isolation_that_cannot_be_had_ends_in_a_run_without_it,
                a_job_that_hands_itself_back_keeps_all_its_counters,
                what_can_never_be_published_becomes_a_dead_letter,
            }
            cases::shutdown {
                s03_an_idle_worker_stops_at_once,
                s03_a_job_that_never_ends_is_cut_off_at_the_deadline,
                running_jobs_finish_and_waiting_ones_go_back,
                a_failure_after_the_stop_is_handed_back_and_spends_no_attempt,
                s09_a_stop_works_at_any_time_and_from_anywhere,
                s09_a_run_that_is_dropped_gives_everything_back,
                a_worker_whose_backend_closes_ends_with_an_error,
                a_worker_that_stops_before_it_runs_closes_its_backend_too,
                what_a_handler_spawned_is_told_when_the_run_is_dropped,
            }
        }
    };
}

suite!(in_memory);
suite!(on_rabbitmq);
