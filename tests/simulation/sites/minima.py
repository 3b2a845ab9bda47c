"""The moments that campaigns of several brokers must meet, per 1,000 seeds: about a third of what they usually do."""

from __future__ import annotations

from collections.abc import Mapping

from embedbroker.testing._scene import Moment

__all__ = ["BRIDGE_MINIMA_PER_1000", "CLUSTER_MINIMA_PER_1000", "FAILOVER_MINIMA_PER_1000"]

BRIDGE_MINIMA_PER_1000: Mapping[Moment, int] = {
    Moment.BRIDGED: 55_000,
    Moment.BRIDGED_LARGE: 14_000,
    Moment.DISTURBED_WITH_SENDS: 1_000,
    Moment.SOURCE_CRASHED: 160,
    Moment.TARGET_CRASHED: 200,
    Moment.BRIDGE_STOPPED: 900,
    Moment.BRIDGE_PAUSED: 700,
    Moment.BRIDGE_WAIT_ENDED: 100,
    Moment.BRIDGE_GAVE_UP: 10,
    Moment.BRIDGE_DOUBLED: 20,
    Moment.BRIDGE_FOLLOWED: 10,
    Moment.CRASH: 800,
    Moment.CRASH_WITH_UNSYNCED_RECORDS: 230,
    Moment.CRASH_DURING_RECOVERY: 110,
    Moment.CRASH_DURING_COMPACTION: 15,
    Moment.ORDERLY_RESTART: 100,
    Moment.DISK_FULL: 40,
    Moment.DISK_ERROR: 50,
    Moment.SLOW_DISK: 130,
    Moment.CONNECTION_CUT: 500,
    Moment.HALF_OPEN: 90,
    Moment.FROZEN_LIVE: 90,
    Moment.PARTED_BOTH_WAYS: 170,
    Moment.PARTED_ONE_WAY: 130,
    Moment.LINK_SLOWED: 100,
    Moment.CLOCK_JUMPED: 30,
    Moment.SEND_IN_DOUBT: 200,
    Moment.COMMIT_IN_DOUBT: 130,
    Moment.DUPLICATE_REJECTED: 20,
    Moment.REPLAY_COMPARED: 1_500,
}

CLUSTER_MINIMA_PER_1000: Mapping[Moment, int] = {
    Moment.CLUSTER_FORMED: 3_000,
    Moment.TARGET_FAILED_OVER: 30,
    Moment.TAKEN_OF_GROUP: 3_000,
    Moment.SCALED_DOWN: 60,
    Moment.SCALE_DOWN_INTERRUPTED: 30,
    Moment.FORWARDED: 20_000,
    Moment.TAKEN: 60_000,
    Moment.TAKEN_ELSEWHERE: 33_000,
    Moment.SENT_IN_FORMED_CLUSTER: 37_000,
    Moment.SENT_IN_PART_OF_CLUSTER: 4_000,
    Moment.ROLLBACK: 1_000,
    Moment.IN_DOUBT_WHOLE: 5,
    Moment.IN_DOUBT_ABSENT: 20,
    Moment.TAKEN_IN_ORDER: 20_000,
    Moment.SUBSCRIPTION_CREATED: 1_000,
    Moment.SUBSCRIPTION_DELETED: 800,
    Moment.QUEUE_AUTO_CREATED: 250,
    Moment.OWED_TO_SUBSCRIPTION: 1_000,
    Moment.ACKNOWLEDGED_IN_DOUBT: 70,
    Moment.DISTURBED_WITH_SENDS: 650,
    Moment.SOURCE_CRASHED: 80,
    Moment.CRASH: 500,
    Moment.CRASH_WITH_UNSYNCED_RECORDS: 150,
    Moment.CRASH_DURING_RECOVERY: 60,
    Moment.ORDERLY_RESTART: 80,
    Moment.CONNECTION_CUT: 600,
    Moment.HALF_OPEN: 100,
    Moment.FROZEN_LIVE: 60,
    Moment.PARTED_BOTH_WAYS: 150,
    Moment.PARTED_ONE_WAY: 100,
    Moment.LINK_SLOWED: 90,
    Moment.SLOW_DISK: 70,
    Moment.SEND_IN_DOUBT: 120,
    Moment.REPLAY_COMPARED: 2_000,
}

FAILOVER_MINIMA_PER_1000: Mapping[Moment, int] = {
    Moment.CLUSTER_FORMED: 3_000,
    Moment.TARGET_FAILED_OVER: 1_500,
    Moment.FAILOVER: 1_500,
    Moment.FAILBACK: 1_500,
    Moment.FORWARDED: 10_000,
    Moment.TAKEN_ELSEWHERE: 30_000,
    Moment.SENT_IN_FORMED_CLUSTER: 50_000,
    Moment.SOURCE_CRASHED: 900,
    Moment.SEND_IN_DOUBT: 1_200,
    Moment.FROZEN_LIVE: 200,
}
