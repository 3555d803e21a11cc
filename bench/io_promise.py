#!/usr/bin/env python3
"""Promised I/Os a second on one volume, as in figure 4 of the paper on SQLVM (section 5.2).

Two tenants, each with a table several times the server's memory and closed loops of random lookups, so that nearly each of
them reads from the data file. The first is promised 60 I/Os a second, the second 20, each with the same limit; half-way the two
are exchanged. What each got is the ledger's, second by second, from one second after a change on. Then without limits, where
each is to have its promise at least. A last table has more tenants at a time, each with a promise of its own.

The floor: means within 3 % of what is promised (the paper has 63 +- 6.9 and 20 +- 3.8).
"""

import random
import statistics
import threading
import time

import servers
from servers import say

PROMISES = (60, 20)
OFF_MAX = 0.03


class Lookups:
    """Closed loops of random lookups on one tenant."""

    def __init__(self, server, tenant, clients, rows):
        self.over = threading.Event()
        self.threads = [
            threading.Thread(target=self.run, args=(server, tenant, rows, n), daemon=True) for n in range(clients)
        ]
        for thread in self.threads:
            thread.start()

    def run(self, server, tenant, rows, number):
        chance = random.Random(f"{tenant} {number}")
        with server.connect(tenant) as connection:
            while not self.over.is_set():
                connection.query(f"select length(pad) from load where n = {chance.randrange(rows)}")

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join()


def load(server, tenant, rows):
    with server.connect(tenant) as owner:
        owner.query("create table load (n int primary key, pad text not null)")
        pad = "x" * 1500
        for begin in range(0, rows, 500):
            end = min(begin + 500, rows)
            values = ", ".join(f"({n}, '{pad}')" for n in range(begin, end))
            owner.query(f"insert into load values {values}")


def promise(admin, tenant, iops, limited):
    limit = str(iops) if limited else "none"
    admin.query(f"alter tenant {tenant} set (iops_max = none)")
    admin.query(f"alter tenant {tenant} set (iops = {iops}, iops_max = {limit})")


def given(admin, tenant, since, until):
    """I/Os of the data files' volume in each whole interval between two times of the server's clock."""
    rows = admin.query(
        "select given, missed, demanded from rowhouse.ledger where resource = 'io' and volume = 'default' "
        f"and tenant = '{tenant}' and began >= '{since}' and ended <= '{until}' order by began"
    )
    return [(float(given), float(missed), float(demanded)) for given, missed, demanded in rows]


def clock(admin):
    return admin.query("select clock_timestamp()")[0][0]


def phase(admin, names, promised, limited, seconds):
    """One stretch under the same promises."""
    for tenant, iops in zip(names, promised):
        promise(admin, tenant, iops, limited)
    time.sleep(1)
    since = clock(admin)
    time.sleep(seconds)
    until = clock(admin)
    time.sleep(2.5)
    found = {}
    for tenant, iops in zip(names, promised):
        rows = given(admin, tenant, since, until)
        series = [row[0] for row in rows]
        missed, demanded = sum(row[1] for row in rows), sum(row[2] for row in rows)
        mean, deviation = statistics.mean(series), statistics.pstdev(series)
        found[tenant] = {"promised": iops, "mean": mean, "deviation": deviation, "missed": missed, "demanded": demanded, "series": series}
        say(f"  {tenant}: {iops} promised{', its limit' if limited else ''}: {mean:.2f} +- {deviation:.2f}, {missed:.0f} of {demanded:.0f} missed")
    return found


def main():
    made = servers.parser(__doc__, seconds=6, tenants=2)
    made.add_argument("--seconds", type=float, default=300, help="of each of the two halves")
    made.add_argument("--tenants", type=int, default=32, help="at most, each promised 10, in steps of doubling")
    made.add_argument("--rows", type=int, default=40_000, help="of 1.5 KB for each tenant")
    made.add_argument("--clients", type=int, default=4, help="of each tenant")
    made.add_argument("--memory", default="16MiB")
    arguments = servers.parse(made)
    result, rows = {}, []
    with servers.folder("io-promise") as folder:
        server = servers.Rowhouse(folder, ["--memory", arguments.memory, "--read-ahead", "0"])
        with servers.running(server):
            with server.connect() as admin:
                pair = ["t1", "t2"]
                for name in pair:
                    admin.query(f"create tenant {name}")
                    load(server, name, arguments.rows)
                groups = [Lookups(server, name, arguments.clients, arguments.rows) for name in pair]
                for limited in (True, False):
                    for half, promised in (("first half", PROMISES), ("exchanged", PROMISES[::-1])):
                        say(f"{half}, {'with' if limited else 'without'} limits")
                        found = phase(admin, pair, promised, limited, arguments.seconds)
                        what = f"{half}, {'iops = iops_max' if limited else 'no maximum'}"
                        result[what] = found
                        for tenant in pair:
                            one = found[tenant]
                            off = one["mean"] / one["promised"] - 1
                            kept = abs(off) <= OFF_MAX if limited else off >= 0
                            rows.append([
                                what, tenant, str(one["promised"]), f"{one['mean']:.2f} +- {one['deviation']:.2f}",
                                f"{off:+.2%}" + ("" if kept else " **missed**"), f"{one['missed'] / max(one['demanded'], 1):.2%}",
                                "63 +- 6.9" if one["promised"] == 60 else "20 +- 3.8",
                            ])
                for group in groups:
                    group.stop()
                for name in pair:
                    promise(admin, name, 0, False)
                count, names, groups = 2, [], []
                while count <= arguments.tenants:
                    for number in range(len(names), count):
                        name = f"many{number}"
                        admin.query(f"create tenant {name}")
                        load(server, name, arguments.rows // 4)
                        names.append(name)
                    groups += [Lookups(server, name, arguments.clients, arguments.rows // 4) for name in names[len(groups):]]
                    say(f"{count} tenants, 10 promised to each")
                    found = phase(admin, names, [10] * count, True, min(arguments.seconds, 30))
                    result[f"{count} tenants"] = found
                    offs = [abs(one["mean"] / 10 - 1) for one in found.values()]
                    missed = sum(one["missed"] for one in found.values()) / max(sum(one["demanded"] for one in found.values()), 1)
                    rows.append([f"{count} tenants", "all", "10", f"{statistics.mean(one['mean'] for one in found.values()):.2f}",
                                 f"at most {max(offs):.2%}" + ("" if max(offs) <= OFF_MAX else " **missed**"), f"{missed:.2%}", ""])
                    count *= 2
                for group in groups:
                    group.stop()
    head = ["", "tenant", "promised", "I/Os a second, deviation of seconds", "off", "missed by the ledger", "the paper's"]
    servers.finish(arguments, result, servers.table(head, rows))


if __name__ == "__main__":
    main()
