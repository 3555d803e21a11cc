"""Writes expressions.golden by asking a running PostgreSQL 15: python3 write_golden.py [psql arguments, e.g. -h HOST -p PORT -d DB].

The server's time zone must be UTC. Run in this directory.
"""
import subprocess
import sys
import tempfile

SETUP = [
    "set time zone 'UTC';",
    "\\set VERBOSITY verbose",
    "\\pset format unaligned",
    "\\pset tuples_only on",
    "\\pset null '<NULL>'",
]


def escape(text):
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


def main():
    expressions = [line.rstrip("\n") for line in open("expressions.txt") if line.strip()]
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
        script.write("\n".join(SETUP) + "\n")
        for i, expression in enumerate(expressions):
            script.write(f"\\echo =={i}\nselect {expression};\n")
            script.write("\\if :ERROR\n\\echo ERR :LAST_ERROR_SQLSTATE\n\\echo M :LAST_ERROR_MESSAGE\n\\endif\n")
            script.write(f"select 'T:' || format_type((select pg_typeof(x)::oid from (select {expression} as x) q), null);\n")
        script.flush()
        command = ["psql", "-X", "-q", *sys.argv[1:], "-f", script.name]
        out = subprocess.run(command, capture_output=True, text=True).stdout
    blocks = {}
    current = None
    for line in out.split("\n"):
        if line.startswith("==") and line[2:].isdigit():
            current = blocks.setdefault(int(line[2:]), [])
        elif current is not None:
            current.append(line)
    with open("expressions.golden", "w") as golden:
        golden.write("# PostgreSQL 15's answers: expression, type (or !SQLSTATE), text (or message). By write_golden.py.\n")
        for i, expression in enumerate(expressions):
            block = blocks[i]
            state = [line for line in block if line.startswith("ERR ")]
            if state:
                message = next(line for line in block if line.startswith("M "))[2:]
                fields = [expression, "!" + state[0][4:], message]
            else:
                ty = next(line for line in block if line.startswith("T:"))
                fields = [expression, ty[2:], "\n".join(block[: block.index(ty)])]
            golden.write("\t".join(map(escape, fields)) + "\n")


main()
