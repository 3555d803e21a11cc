#!/usr/bin/env python3
"""TPC-C on 1, 2, 4 ... 512 tenants of one small warehouse and one client each: what many tenants cost beside few.

The table is that of the paper on HyPer as a multi-tenant server: average throughput of a tenant and throughput of all. All
tenants are there, loaded, during every measurement; the numbers of active ones are gone through up and down in turn, and
medians are taken. The population is reduced so that 512 of it fit, and printed; the floor is for the sum at 512 tenants: at
least 0.87 of the best sum.
"""

import servers
from servers import say

FLOOR = 0.87


def load_options(arguments, count):
    return ["--tenants", count, "--prefix", "many", "--warehouses", 1, "--clients", 1, "--scale", arguments.scale]


def measure(server, arguments, count):
    return servers.bench_with_cpu(server, "tpcc", *load_options(arguments, count), "--no-load", "--no-check",
                                  warm_up=arguments.warm_up, seconds=arguments.seconds)


def table_of_paper(arguments, folder):
    counts = [1 << n for n in range(arguments.tenants.bit_length())]
    rates = {count: [] for count in counts}
    with servers.running(servers.Rowhouse(folder)) as server:
        say(f"loading {counts[-1]} tenants at scale {arguments.scale}")
        servers.bench(server, "tpcc", *load_options(arguments, counts[-1]), "--load-only")
        for number in range(arguments.runs):
            for count in counts if number % 2 == 0 else counts[::-1]:
                run = measure(server, arguments, count)
                rates[count].append(run["transactions_per_second"])
                say(f"  run {number + 1}, {count} tenants: {rates[count][-1]:,.0f} tx/s, {run['cpu_us']:.0f} us/tx, "
                    f"slowest tenant {min(run['tenant_tps']):.1f}/s")
        servers.check_conditions(server, "tpcc", *load_options(arguments, counts[-1]))
        resident = servers.resident_kib(server.pid)
    sums = {count: servers.median(rates[count]) for count in counts}
    ratio = sums[counts[-1]] / max(sums.values())
    rows = [[f"{count:,}", f"{sums[count] / count:,.1f}", f"{sums[count]:,.0f}"] for count in counts]
    missed = " **missed**" if counts[-1] >= 512 and ratio < FLOOR else ""
    rows.append([f"sum at {counts[-1]} / best", "", f"{ratio:.3f}{missed} (at least {FLOOR} at 512)"])
    result = {"transactions_per_second": {str(count): rates[count] for count in counts}, "sum_by_best": ratio,
              "resident_kib": resident}
    head = ["tenants", "avg. tx/s a tenant", f"sum tx/s (medians of {arguments.runs}, scale {arguments.scale})"]
    return result, servers.table(head, rows)


def main():
    parser = servers.parser(__doc__, runs=1, seconds=2.0, warm_up=1.0, tenants=4, scale=0.01)
    parser.add_argument("--tenants", type=int, default=512, help="the largest number, a power of two")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--warm-up", type=float, default=5.0)
    parser.add_argument("--scale", type=float, default=0.01, help="part of TPC-C's population")
    arguments = servers.parse(parser)
    with servers.folder("many-tenants") as folder:
        result, printed = table_of_paper(arguments, folder)
    servers.finish(arguments, result, printed)


if __name__ == "__main__":
    main()
