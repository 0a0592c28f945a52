//! What the machines promise, and by which tests each promise is held. `cargo xtask tidy` checks
//! that these tests and properties are there.

use std::fmt::Write;

/// A promise, and what holds it.
struct Invariant {
    machine: &'static str,
    says: &'static str,
    held: &'static [Held],
}

enum Held {
    /// By this test, in this crate.
    Test(&'static str),
    /// By this property of the model in `tests/it/model`.
    Model(&'static str),
    /// By a test of another crate: its file and its name.
    Elsewhere(&'static str),
    /// Not yet, for this reason.
    Later(&'static str),
}

use Held::{Elsewhere, Later, Model, Test};

const INVARIANTS: &[Invariant] = &[
    Invariant {
        machine: "connection",
        says: "Before `initialize`, every method but `initialize` (and `ping`, unless the server is strict) is refused with 1076, and nothing changes.",
        held: &[
            Test("before_initialize_every_other_method_is_refused_and_nothing_changes"),
            Test("nothing_of_the_handshake_era_is_served_before_initialize"),
            Model("no request of the handshake era is served before initialize"),
        ],
    },
    Invariant {
        machine: "connection",
        says: "After `initialize`, another one is refused and changes nothing, not even the client's name; the other methods of the version are served.",
        held: &[
            Test("after_initialize_another_one_is_refused_and_changes_nothing"),
            Test("after_initialize_exactly_the_methods_of_the_version_are_served"),
            Model("a second initialize changes nothing"),
            Model("at most one handshake is begun"),
        ],
    },
    Invariant {
        machine: "connection",
        says: "There is no way back from initialized.",
        held: &[
            Test("a_connection_is_initialized_once_and_for_good"),
            Model("what is initialized stays initialized"),
        ],
    },
    Invariant {
        machine: "connection",
        says: "Notifications before `initialize` and stray answers are ignored and never answered.",
        held: &[
            Test("what_is_told_before_initialize_is_ignored_and_changes_nothing"),
            Model("a silent client is never answered"),
        ],
    },
    Invariant {
        machine: "connection",
        says: "A request with 2026-07-28 `_meta` is served in every open state and nothing of it is remembered.",
        held: &[
            Test("a_modern_request_is_served_whatever_the_state_and_leaves_nothing_behind"),
            Model("a stateless connection is initialized"),
        ],
    },
    Invariant {
        machine: "connection",
        says: "Subscribed means at least one subscription; the last one to go leads back to Initialized.",
        held: &[
            Test("subscribed_means_at_least_one_subscription"),
            Test("the_first_and_last_subscription_move_the_state"),
            Model("subscribed means at least one subscription"),
        ],
    },
    Invariant {
        machine: "connection",
        says: "Closed is terminal, and nothing is left in flight.",
        held: &[
            Test("closed_is_the_end"),
            Test("no_more_is_in_flight_than_may_be_and_nothing_once_closed"),
            Model("nothing is left of a closed connection"),
        ],
    },
    Invariant {
        machine: "connection",
        says: "A shutdown drains: nothing new is taken, and what was admitted is settled or abandoned exactly once.",
        held: &[
            Test("every_admitted_request_ends_exactly_once"),
            Test("nothing_new_is_taken_while_draining"),
            Model("what is admitted ends exactly once"),
            Model("nothing is served while draining"),
        ],
    },
    Invariant {
        machine: "connection",
        says: "A silent client is closed after 30 s, an idle one after 5 min where that clock is on.",
        held: &[
            Test("a_silent_client_is_closed_at_the_deadline_and_not_before"),
            Test("an_idle_connection_closes_only_when_nothing_runs"),
            Model("a silent client is closed"),
            Model("an idle connection is closed"),
        ],
    },
    Invariant {
        machine: "connection",
        says: "An id in flight is not used twice: the second request is dropped on a shared stream, refused over HTTP.",
        held: &[
            Test("a_dropped_duplicate_is_dropped_in_every_state_and_whatever_it_asks"),
            Test("a_duplicate_on_a_shared_stream_is_never_answered"),
            Test("a_duplicate_is_dropped_or_refused_and_the_first_goes_on"),
        ],
    },
    Invariant {
        machine: "negotiation",
        says: "Negotiation is complete before any other method is served.",
        held: &[
            Test("only_what_was_agreed_on_is_served"),
            Model("nothing is served before the negotiation is complete"),
        ],
    },
    Invariant {
        machine: "negotiation",
        says: "Capabilities nobody here knows are kept and block nothing.",
        held: &[
            Test("agreed_and_unsupported_are_kept_apart"),
            Model("what is unsupported is kept and blocks nothing"),
        ],
    },
    Invariant {
        machine: "negotiation",
        says: "One version is agreed on: the one asked for if it has a handshake, else our counter-offer.",
        held: &[
            Test("the_version_asked_for_is_agreed_on_if_it_has_a_handshake"),
            Model("what is agreed on is not negotiated again"),
        ],
    },
    Invariant {
        machine: "negotiation",
        says: "A server that is not ready within 5 s fails the handshake with 1069.",
        held: &[
            Test("a_server_that_is_not_ready_in_time_fails_the_handshake"),
            Model("the server is not ready in time"),
        ],
    },
    Invariant {
        machine: "invocation",
        says: "Each call has exactly one end: answered, refused, or suppressed because the client took it back.",
        held: &[
            Test("a_call_has_exactly_one_end_and_at_most_one_commit"),
            Test("a_call_is_suppressed_only_if_it_was_taken_back"),
            Model("exactly one end per call"),
        ],
    },
    Invariant {
        machine: "invocation",
        says: "What executes comes to a result, by its deadline at the latest.",
        held: &[
            Test("what_executes_comes_to_a_result"),
            Model("what executes comes to a result"),
            Model("what must end has a deadline, and it is near"),
        ],
    },
    Invariant {
        machine: "invocation",
        says: "A call starts within its time in the queue, or not at all.",
        held: &[
            Test("a_turn_that_comes_too_late_is_none"),
            Test("no_call_starts_after_its_deadline"),
            Model("no call starts after its deadline"),
        ],
    },
    Invariant {
        machine: "invocation",
        says: "A step is committed once, before the answer, and only if the handler ran.",
        held: &[
            Model("what ran is committed once and what did not run is not"),
            Model("the commit comes before the answer"),
        ],
    },
    Invariant {
        machine: "invocation",
        says: "The clock stands still while the call waits for a person or the client.",
        held: &[
            Test("the_clock_stands_still_while_somebody_is_asked"),
            Test("a_clock_that_stands_still_loses_nothing"),
        ],
    },
    Invariant {
        machine: "invocation",
        says: "Each invocation has an id of its own.",
        held: &[
            Test("every_admitted_request_ends_exactly_once"),
            Elsewhere(
                "crates/server/tests/it/session/duplicate_ids.rs::there_is_no_such_check_between_stateless_requests",
            ),
        ],
    },
    Invariant {
        machine: "session",
        says: "A session's id never changes.",
        held: &[Elsewhere(
            "crates/server/tests/it/transport/http/sessions.rs::a_session_that_was_idle_stands_where_it_stood",
        )],
    },
    Invariant {
        machine: "session",
        says: "It is written down when it goes from Active to Idle, before it leaves memory.",
        held: &[
            Test("it_is_saved_when_it_idles_and_loaded_when_it_comes_back"),
            Model("it is saved before it leaves memory"),
        ],
    },
    Invariant {
        machine: "session",
        says: "Its life ends after 24 h, whoever uses it.",
        held: &[
            Test("nobody_extends_its_life"),
            Test("nothing_is_served_after_its_end_or_its_life"),
            Model("nothing is served after its life"),
        ],
    },
    Invariant {
        machine: "session",
        says: "Once it has ended, every request for it fails.",
        held: &[
            Test("destroyed_is_the_end"),
            Model("every request fails once it has ended"),
        ],
    },
    Invariant {
        machine: "session",
        says: "It neither idles nor expires under a running request.",
        held: &[
            Test("only_its_owner_ends_it_while_requests_run"),
            Model("only its owner ends it while requests run"),
        ],
    },
    Invariant {
        machine: "session",
        says: "It gives way to another only while it is not in use.",
        held: &[
            Test("only_a_session_that_is_not_in_use_gives_way"),
            Model("one in use gives way to nothing"),
        ],
    },
    Invariant {
        machine: "session",
        says: "Somebody else's session is no session.",
        held: &[
            Test("a_stranger_changes_nothing_and_learns_nothing"),
            Model("a stranger changes nothing"),
        ],
    },
    Invariant {
        machine: "subscription",
        says: "There is exactly one subscription for each client and resource.",
        held: &[
            Test("subscribing_twice_is_subscribing_once"),
            Model("one listener while subscribed and none else"),
            Elsewhere(
                "crates/server/tests/it/catalog/uris.rs::a_subscriber_is_told_of_the_uri_that_it_wrote",
            ),
        ],
    },
    Invariant {
        machine: "subscription",
        says: "Notifications go out while Subscribed and never else.",
        held: &[
            Test("only_a_subscriber_is_told"),
            Model("only a subscriber is told"),
        ],
    },
    Invariant {
        machine: "subscription",
        says: "It is cleaned up on the way through Unsubscribing.",
        held: &[
            Test("what_is_attached_is_detached_exactly_once"),
            Model("it is cleaned up on the way out"),
        ],
    },
    Invariant {
        machine: "subscription",
        says: "What does not exist, or is not canonical, cannot be subscribed to.",
        held: &[
            Test("what_does_not_exist_cannot_be_subscribed_to_in_any_state"),
            Elsewhere(
                "crates/server/tests/it/transport/http/server_messages.rs::subscribing_to_what_is_not_there_is_refused",
            ),
        ],
    },
    Invariant {
        machine: "task",
        says: "The limit on tasks at once is enforced when one is made, and counts what is unfinished.",
        held: &[
            Test("the_limit_counts_what_is_unfinished_of_one_owner"),
            Test("limits_ids_owners_and_pages_hold"),
        ],
    },
    Invariant {
        machine: "task",
        says: "Ids are unique; a collision is tried again, three times in all.",
        held: &[
            Test("an_id_that_is_taken_is_tried_again_three_times"),
            Test("limits_ids_owners_and_pages_hold"),
        ],
    },
    Invariant {
        machine: "task",
        says: "Cancelling what has ended, or what is not there, is an error.",
        held: &[
            Test("what_has_ended_cannot_be_cancelled"),
            Test("a_task_of_somebody_else_is_no_task"),
            Model("what has ended cannot be taken back"),
        ],
    },
    Invariant {
        machine: "task",
        says: "Pages are complete, newest first, of 100 at most, and a cursor stays good.",
        held: &[
            Test("a_page_holds_a_hundred_at_most_and_one_at_least"),
            Test("a_cursor_stays_good_whatever_happens_meanwhile"),
            Test("limits_ids_owners_and_pages_hold"),
        ],
    },
    Invariant {
        machine: "task",
        says: "Only a failure that may pass is tried again, so often and no more.",
        held: &[
            Test("only_what_may_pass_and_works_is_tried_again"),
            Model("it is tried so often and no more"),
        ],
    },
    Invariant {
        machine: "task",
        says: "Every word about a task is saved before it is said.",
        held: &[
            Test("every_word_about_it_is_saved_first"),
            Model("it is saved before anybody is told"),
        ],
    },
    Invariant {
        machine: "task",
        says: "What belongs to a task, its handler above all, does not outlive it.",
        held: &[
            Test("one_handler_runs_at_a_time_and_none_when_it_is_over"),
            Model("a handler runs while it works and never else"),
            Later("progress tokens come with the task feature"),
        ],
    },
    Invariant {
        machine: "elicitation",
        says: "An expired question takes no answer.",
        held: &[
            Test("an_expired_question_takes_no_answer_and_is_forgotten_later"),
            Test("nobody_answers_after_the_deadline"),
            Model("nobody answers after the deadline"),
        ],
    },
    Invariant {
        machine: "elicitation",
        says: "Of several answers the first wins; the same again is fine, another is an error.",
        held: &[
            Test("the_first_end_wins_and_is_told_once"),
            Test("another_answer_is_refused_and_the_same_is_not"),
            Model("the first end wins"),
        ],
    },
    Invariant {
        machine: "elicitation",
        says: "A client that goes away cancels what it asked, and nothing is left of it.",
        held: &[
            Test("each_way_to_end_is_saved_before_it_is_told"),
            Model("it is cleaned up"),
            Model("what must end has a deadline, and it is near"),
        ],
    },
    Invariant {
        machine: "elicitation",
        says: "Only the one who is asked can answer.",
        held: &[
            Test("a_stranger_can_do_nothing"),
            Model("a stranger changes nothing"),
        ],
    },
    Invariant {
        machine: "elicitation",
        says: "A URL is https, or http on loopback only.",
        held: &[Later(
            "URLs come with the elicitation feature; the machine never sees one",
        )],
    },
    Invariant {
        machine: "all",
        says: "Atomicity: a step is taken or refused as a whole, and a refusal changes nothing.",
        held: &[
            Model("a refusal changes nothing"),
            Elsewhere("crates/store/src/conformance/records.rs::a_commit_is_all_or_nothing"),
        ],
    },
    Invariant {
        machine: "all",
        says: "Idempotency: the same event again is told to nobody and written down by nobody a second time.",
        // Every property plays its stories with `Life`, which also plays each event again.
        held: &[
            Test("every_admitted_request_ends_exactly_once"),
            Test("only_what_was_agreed_on_is_served"),
            Test("only_its_owner_ends_it_while_requests_run"),
            Test("what_is_attached_is_detached_exactly_once"),
            Test("a_call_has_exactly_one_end_and_at_most_one_commit"),
            Test("every_word_about_it_is_saved_first"),
            Test("the_first_end_wins_and_is_told_once"),
        ],
    },
    Invariant {
        machine: "all",
        says: "Bounded time: what must end has a deadline, a tick at its deadline moves it, and no tick before does.",
        // `Life` looks at the clock around each event.
        held: &[
            Test("every_admitted_request_ends_exactly_once"),
            Test("no_call_starts_after_its_deadline"),
            Test("nobody_answers_after_the_deadline"),
            Model("after a tick nothing is overdue"),
            Model("what must end has a deadline, and it is near"),
        ],
    },
    Invariant {
        machine: "all",
        says: "Every refusal has a code in 1001–1089.",
        held: &[
            Test("the_catalogue_is_in_order_and_within_its_range"),
            Test("bytes_of_any_kind_are_survived"),
        ],
    },
    Invariant {
        machine: "all",
        says: "What a peer can see comes after what is written down.",
        held: &[
            Test("success_and_error_are_committed_then_answered"),
            Test("every_word_about_it_is_saved_first"),
            Test("every_end_is_saved_before_it_is_told"),
            Model("the commit comes before the answer"),
        ],
    },
    Invariant {
        machine: "all",
        says: "No time, however far, and no bytes, whatever they are, make anything panic.",
        held: &[
            Test("no_time_is_too_far"),
            Test("bytes_of_any_kind_are_survived"),
            Test("changed_messages_are_survived"),
        ],
    },
    Invariant {
        machine: "all",
        says: "A malformed message is answered with the id that could be read; what has a method and no id is never answered.",
        held: &[Test(
            "an_id_that_can_be_read_is_echoed_and_what_has_none_is_not_answered",
        )],
    },
    Invariant {
        machine: "all",
        says: "Every output is one message on one line.",
        held: &[
            Test("a_result_reads_as_it_is_written_and_is_one_line"),
            Test("an_error_reads_as_it_is_written_and_is_one_line"),
            Test("a_notification_reads_as_it_is_written_and_is_one_line"),
        ],
    },
    Invariant {
        machine: "all",
        says: "Every transition is logged.",
        held: &[Elsewhere(
            "crates/server/tests/it/session/tracing.rs::a_log_can_be_a_resource_and_tells_of_each_machine_that_runs",
        )],
    },
    Invariant {
        machine: "all",
        says: "Every timeout is watched.",
        held: &[Later("metrics come with the operator's features")],
    },
];

/// Writes the invariants of one machine as a table.
pub(super) fn write(page: &mut String, machine: &str) {
    page.push_str("| Invariant | Held by |\n|---|---|\n");
    for invariant in INVARIANTS.iter().filter(|known| known.machine == machine) {
        let held: Vec<_> = invariant
            .held
            .iter()
            .map(|held| match held {
                Test(name) | Elsewhere(name) => format!("`{name}`"),
                Model(property) => format!("model: *{property}*"),
                Later(reason) => format!("not yet: {reason}"),
            })
            .collect();
        writeln!(page, "| {} | {} |", invariant.says, held.join("<br>")).unwrap();
    }
}
