"""The command line of the benchmarks: which cases, how long, where the results go."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import (
    audit_cases,
    audit_log_cases,
    broker_cases,
    cluster_cases,
    copy_cases,
    failover_cases,
    fixture_cases,
    jms_cases,
    large_cases,
    node_steps,
    own_cases,
    replicated_cases,
    request_cases,
    security_cases,
    source_scale_cases,
    spark_cases,
    spark_scale_cases,
)
from benchmarks.broker_cases import FULL, QUICK, Effort
from benchmarks.report import Row, environment, save, table

Case = Callable[[Effort], list[Row]]
CASES: dict[str, Case] = {
    "throughput": broker_cases.throughput,
    "durable": broker_cases.durable,
    "audit-log": audit_log_cases.audit_log,
    "topic": broker_cases.topic,
    "large": large_cases.large,
    "tls": security_cases.tls,
    "secured": security_cases.secured,
    "latency": broker_cases.latency,
    "step": node_steps.step,
    "group-step": node_steps.group_step,
    "client": own_cases.client,
    "start": own_cases.start,
    "imports": own_cases.imports,
    "requests": request_cases.requests,
    "scale": own_cases.scale,
    "memory": own_cases.memory,
    "failover": failover_cases.failover,
    "failover-replication": failover_cases.failover_replication,
    "replicated": replicated_cases.replicated,
    "copy": copy_cases.copy,
    "cluster": cluster_cases.cluster,
    "failover-test": fixture_cases.failover_test,
    "cluster-test": fixture_cases.cluster_test,
    "spark-source": spark_cases.spark_source,
    "spark-sink": spark_cases.spark_sink,
    "spark-jms": jms_cases.spark_jms,
    "spark-scale": spark_scale_cases.spark_scale,
    "source-scale": source_scale_cases.source_scale,
    "spark-audit": audit_cases.spark_audit,
}


def main() -> int:
    """Run the named cases, or all. Return 1 if a bound that must hold does not, else 0."""
    parser = argparse.ArgumentParser(prog="nox -s bench --", description=__doc__)
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(CASES)}; all without")
    parser.add_argument("--list", action="store_true", help="name the cases and stop")
    parser.add_argument("--quick", action="store_true", help="short runs: to see that it works, not for figures")
    parser.add_argument("--output", type=Path, default=Path("results") / time.strftime("bench-%Y%m%d-%H%M%S.json"))
    arguments = parser.parse_args()
    if arguments.list:
        for name, case in CASES.items():
            print(f"{name:20} {(case.__doc__ or '').splitlines()[0]}")
        return 0
    unknown = set(arguments.cases) - set(CASES)
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    before = environment()
    print(f"Python {before['python']}, built {'with' if before['optimized'] else 'WITHOUT'} --enable-optimizations")
    rows: list[Row] = []
    for name in arguments.cases or CASES:
        print(f"{name} ...", flush=True)
        rows += CASES[name](QUICK if arguments.quick else FULL)
        print(table(rows), flush=True)
        save(rows, arguments.output, before)
    print(f"\nresults: {arguments.output}")
    return 0 if all(row.meets(row.must) is not False for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
