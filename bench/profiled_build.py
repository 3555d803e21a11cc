#!/usr/bin/env python3
"""The release build optimised by a profile of its own work (PGO), linked as one program (LTO) and laid out anew (BOLT): what is to be run for others.

Builds the program with counters, has it serve TPC-C on one tenant and on many, pgbench's two scripts, TPC-H and the DVD Store for two
minutes, and builds it again by what was counted. Then the branches of the result are counted at the same work, and its machine code is
put in the order in which it is run. The result is target/release/rowhouse; until it is there, and if this fails, there is none. The
counts stay in target/profiled. Only the crates of this workspace are built so, the layout is of all: what they depend on is that of
`cargo build --release`, which is needed once, and which puts the usual program back whenever it is run.

Takes some 20 minutes on two cores, after that one. Needs llvm-profdata of the LLVM that rustc has (`rustc -vV`): from rustup's
component llvm-tools, or Debian's llvm-NN; lld, which rustc brings on Linux; and llvm-bolt with merge-fdata, of Debian's bolt-NN.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import servers
from servers import say

TARGET = servers.ROOT / "target"
PROFILED = TARGET / "profiled"
PROGRAM = TARGET / "release" / "rowhouse"
# BOLT takes `.cold` and `.warm` in a name for a part of another function, and rustc's older names have dots of their own before modules so named.
NAMES = "-Csymbol-mangling-version=v0"
# What counts, out of the way: nobody is to take it for the result.
COUNTING = PROFILED / "rowhouse-counting"
# LLVM takes for hot what makes up 99 % of what was counted, and of a large program makes all small that is not among 95 %: the loops of TPC-H are,
# what a message comes by is not. With these 99.9 % are hot, and small is what was hardly ever seen. To the compiler and to the linker, which makes the code.
OF_COUNTS = ["-profile-summary-cutoff-hot=999000", "-pgso-cold-code-only"]
# Tenants, how each is loaded, and for how many seconds: what a server does for others, by its parts.
LOADS = [
    ["tpcc", "--tenants", 1, "--prefix", "one", "--warehouses", 2, "--clients", 8, "--seconds", 30],
    ["tpcc", "--tenants", 32, "--prefix", "many", "--scale", 0.01, "--seconds", 20],
    ["pgbench", "--tenants", 1, "--prefix", "changed", "--clients", 8, "--seconds", 10],
    ["pgbench-select", "--tenants", 1, "--prefix", "read", "--clients", 8, "--seconds", 10],
    ["tpch", "--tenants", 1, "--prefix", "reported", "--scale", 0.02, "--seconds", 10],
    ["dvdstore", "--tenants", 1, "--prefix", "visited", "--clients", 4, "--seconds", 10],
]


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=servers.ROOT).stdout


def llvm_version():
    """The major version of the LLVM that rustc has."""
    return re.search(r"LLVM version: (\d+)", output("rustc", "-vV"))[1]


def profile_tool():
    """llvm-profdata of rustc's LLVM, whose format no other one is sure to read."""
    major = llvm_version()
    host = re.search(r"host: (\S+)", output("rustc", "-vV"))[1]
    component = Path(output("rustc", "--print", "sysroot").strip()) / "lib" / "rustlib" / host / "bin" / "llvm-profdata"
    for found in (component, shutil.which(f"llvm-profdata-{major}"), shutil.which("llvm-profdata")):
        if found and Path(found).exists() and f"LLVM version {major}." in output(str(found), "--version"):
            return str(found)
    sys.exit(f"llvm-profdata {major} is not there: rustup component add llvm-tools, or Debian's llvm-{major}")


def layout_tool(name):
    """A program of BOLT's, of rustc's LLVM if it is there."""
    major = llvm_version()
    found = shutil.which(f"{name}-{major}") or shutil.which(name)
    return found or sys.exit(f"{name} is not there: Debian's bolt-{major}; --no-layout does without")


def build(*flags):
    """Builds the workspace's crates anew with these flags of rustc. Their wrapper is the same each time, as the names in a profile have it in them."""
    wrapper = PROFILED / "rustc"
    wrapper.write_text('#!/bin/sh\nexec "$@" $ROWHOUSE_RUSTC_FLAGS\n')
    wrapper.chmod(0o755)
    members = [package["name"] for package in json.loads(output("cargo", "metadata", "--no-deps", "--format-version", "1"))["packages"]]
    # What is there was built with other flags, which cargo does not know of.
    packages = [word for name in members for word in ("-p", name)]
    subprocess.run(["cargo", "clean", "--release", "--quiet", "--target-dir", str(TARGET), *packages], check=True, cwd=servers.ROOT)
    # A cache of compilations, which is called by the first of these, knows of the flags no more than cargo does.
    variables = dict(os.environ, RUSTC_WRAPPER="", RUSTC_WORKSPACE_WRAPPER=str(wrapper), ROWHOUSE_RUSTC_FLAGS=" ".join([NAMES, *flags]))
    command = ["cargo", "build", "--release", "--target-dir", str(TARGET), "-p", "rowhouse"]
    subprocess.run(command, check=True, env=variables, cwd=servers.ROOT)


def work():
    """Has the program do what it is optimised for."""
    servers.ROWHOUSE = COUNTING
    with servers.folder("profiled") as folder, servers.running(servers.Rowhouse(folder, ["--memory", "2GiB"], COUNTING)) as server:
        for load in LOADS:
            say(f"  {' '.join(map(str, load))}")
            servers.bench(server, *load, "--warm-up", 1, "--no-check")


def lay_out(bolt, merge):
    """Puts the program's code in the order in which it is run, which is counted first."""
    counts, merged, laid_out = PROFILED / "branches", PROFILED / "rowhouse.fdata", PROFILED / "rowhouse-laid-out"
    shutil.rmtree(counts, ignore_errors=True)
    counts.mkdir()
    say("4 of 5: at work, counting branches")
    # Each process of the program writes a file of its own.
    bolted(bolt, PROGRAM, "-o", COUNTING, "-instrument", f"--instrumentation-file={counts / 'of'}", "--instrumentation-file-append-pid")
    work()
    subprocess.run([merge, "-o", str(merged), *map(str, counts.iterdir())], check=True, stdout=subprocess.DEVNULL)
    say("5 of 5: laying it out")
    bolted(bolt, PROGRAM, "-o", laid_out, f"-data={merged}", "-reorder-blocks=ext-tsp", "-reorder-functions=cdsort", "-split-functions",
           "-split-all-cold", "-split-eh", "-icf=1", "-update-debug-sections")
    laid_out.replace(PROGRAM)


def bolted(*command):
    """Runs BOLT, which has much to say, and most of it of code that it leaves as it is."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{done.stdout[-2000:]}{done.stderr[-2000:]}\n{command[0]} failed")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-layout", action="store_true", help="ends behind the link, without BOLT")
    layout = not parser.parse_args().no_layout
    tools = [layout_tool(name) for name in ("llvm-bolt", "merge-fdata")] if layout else []
    steps = 5 if layout else 3
    tool, counts, profile = profile_tool(), PROFILED / "counts", PROFILED / "rowhouse.profdata"
    shutil.rmtree(counts, ignore_errors=True)
    counts.mkdir(parents=True)
    say(f"1 of {steps}: building with counters")
    build(f"-Cprofile-generate={counts}")
    PROGRAM.replace(COUNTING)
    say(f"2 of {steps}: at work, two minutes")
    work()
    subprocess.run([tool, "merge", "-o", str(profile), *map(str, counts.glob("*.profraw"))], check=True)
    say(f"3 of {steps}: building by what was counted")
    link = ["-Clinker-plugin-lto", f"-Clink-arg=-Wl,--thinlto-jobs={os.cpu_count()}", *(f"-Clink-arg=-Wl,-mllvm,{option}" for option in OF_COUNTS)]
    if layout:
        link.append("-Clink-arg=-Wl,--emit-relocs")
    build(f"-Cprofile-use={profile}", *(f"-Cllvm-args={option}" for option in OF_COUNTS), *link)
    if layout:
        lay_out(*tools)
    say(f"{PROGRAM}")


if __name__ == "__main__":
    main()
