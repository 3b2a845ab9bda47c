"""The seed that found each bug when it was last looked for: where a hunt begins, and nothing that it has to be.

A seed that finds its bug no more costs time and fails nothing; ``python -m tests.simulation.find_again`` lists those.
"""

from __future__ import annotations

__all__ = ["FOUND_BY"]

#: By kind of seeds and name of the bug; the other hunts begin with seed 1.
FOUND_BY: dict[str, dict[str, int]] = {
    "ONE_BROKER": {
        "commit_half_of_a_branch": 37,
        "confirm_before_sync": 8,
        "deliver_again_what_a_prepared_branch_took": 37,
        "deliver_before_the_count_is_on_disk": 25,
        "forget_duplicate_ids": 7,
        "forget_producers_that_wait_for_memory": 22,
        "forget_what_an_operator_decided": 5,
        "forget_what_was_sent_behind_a_commit": 154,
        "forget_when_a_redelivery_is_due_in_a_restart": 56,
        "forget_who_has_a_group": 4,
        "forget_who_has_an_exclusive_queue": 18,
        "give_out_in_the_middle_of_a_reconnect": 20,
        "grant_credits_without_memory": 22,
        "keep_the_duplicate_ids_of_what_was_rolled_back": 7,
        "leave_messages_of_a_group_whose_consumer_is_gone": 72,
        "let_a_commit_overtake_a_rollback": 6,
        "lose_a_prepared_branch": 17,
        "lose_what_a_second_session_adds_to_a_branch": 5,
        "mark_a_message_that_expires_as_the_first": 169,
        "pause_for_ever_after_a_rebalance": 11,
        "rebalance_groups_in_the_middle_of_transactions": 112,
        "rebalance_groups_with_messages_in_flight": 11,
        "remember_what_is_to_be_forgotten": 5,
        "repeat_nothing_after_a_reattachment": 102,
        "repeat_what_was_processed_before_a_reattachment": 4,
        "show_what_a_prepared_branch_sent": 4,
        "start_in_front_of_a_stop_that_waits": 8,
        "take_a_consumer_for_granted": 49,
        "wait_for_a_silent_broker_for_ever": 44,
        "wait_for_a_silent_client_for_ever": 21,
    },
    "ADMINISTRATION": {
        "acknowledge_for_clients_that_are_cut_off": 5,
        "forget_how_a_queue_is_shared_in_a_restart": 12,
        "forget_redelivery_delays_in_a_restart": 3,
        "go_on_sharing_a_queue_that_becomes_exclusive": 5,
        "grant_credit_for_a_blocked_address": 5,
        "lose_messages_in_an_update": 4,
        "remove_without_a_look_at_the_filter": 6,
        "take_what_is_in_delivery_with_a_purge": 3,
    },
    "BRIDGES": {
        "confirm_before_sync": 14,
        "drop_a_message_that_was_not_sent": 4,
        "ignore_the_filter_of_a_bridge": 3,
        "leave_the_routing_type_as_it_is": 2,
        "lose_a_part_of_a_body": 3,
        "never_try_again": 3,
    },
    "DIVERTS": {
        "store_the_copies_of_a_message_one_by_one": 75,
    },
    "LARGE_BODIES": {
        "send_a_chunk_twice": 18,
    },
    "REPLICATION": {
        "claim_no_number_when_the_backup_is_lost": 3,
        "confirm_alone_while_it_hands_over": 3,
        "go_on_alone_without_asking": 12,
        "go_on_when_the_lease_is_over": 8,
    },
    "SHARED_STORE": {
        "call_a_commit_in_doubt_rolled_back": 9,
        "call_a_transaction_that_is_lost_one_in_doubt": 3,
        "confirm_before_looking": 13,
        "confirm_before_sync": 10,
        "forget_duplicate_ids": 3,
        "give_up_after_a_fault": 60,
        "hold_on_to_a_lost_lock": 11,
        "lose_a_prepared_branch": 25,
        "lose_the_mark_that_only_a_rollback_is_left": 3,
        "never_give_way": 3,
        "never_take_over": 3,
        "raise_what_interrupted_a_commit": 6,
        "say_paused_after_a_crash": 9,
        "wait_for_the_frozen_for_ever": 53,
        "write_no_record": 3,
    },
    "VOTES": {
        "begin_whoever_gives_way": 33,
        "begin_with_data_that_somebody_else_has": 3,
        "forget_how_many_there_were": 52,
        "forget_words_in_a_restart": 53,
        "give_one_word_to_several": 37,
        "give_way_to_nobody": 6,
        "go_on_whatever_the_others_say": 12,
        "go_on_without_asking": 12,
        "say_yes_although_it_sees_the_live_broker": 3,
        "say_yes_without_giving_a_word": 6,
        "take_over_whatever_the_others_say": 3,
    },
}
