"""The real programs and their inputs: made here, the same on every machine that has the same
versions, and fed to the program twice, untraced and traced."""
import dataclasses
import random

PYTHON_JSON = """
import json
records = [{"id": i, "name": "record %d" % i, "tags": ["a", "b", str(i % 97)], "value": i * 1.5}
           for i in range(N_RECORDS)]
text = json.dumps(records)
back = json.loads(text)
print(len(text), sum(len(record["tags"]) for record in back), back[-1]["name"])
"""

SQL = """
create table item(id integer primary key, owner integer, label text, price real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < N_ROWS)
insert into item select i, i * 7919 % 1000, 'label ' || (i * 31 % 5003), i * 0.25 from n;
create index item_owner on item(owner, price);
select owner, count(*), sum(price), max(label) from item
 group by owner having owner < 20 order by 1;
select count(distinct label) from item;
"""

PYTHON = {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}  # its own allocator hides blocks

PIPELINE = ("seq 1 200000 | awk '{ print $1 % 977 }' | sort -n | uniq -c | sort -rn -k1,1 -k2,2 | "
            "tail -n 20")


@dataclasses.dataclass
class Case:
    """What to run. `expected`: the programs that must have been traced, each with blocks."""
    command: list
    expected: list
    stdin: bytes = b""
    variables: dict = dataclasses.field(default_factory=dict)
    status: int = 0
    made: list = dataclasses.field(default_factory=list)  # files it writes, compared as well
    n_threads: int = 0  # of the first program; 0: any


def write_c_source(path, n_functions=285):
    """About 2,000 lines of C with structs, loops, switches and calls to each other."""
    dice = random.Random(4242)
    lines = [
        "#include <stdio.h>", "#include <string.h>",
        "struct node { struct node *next; int key[8]; };"
    ]
    for i in range(n_functions):
        lines += [
            f"static int work_{i}(struct node *node, int x)",
            "{",
            f"\tfor (int i = 0; i < {dice.randint(2, 9)}; i++)",
            f"\t\tnode->key[i % 8] += x * {dice.randint(1, 99)} ^ i;",
            f"\treturn node->key[{dice.randint(0, 7)}]" +
            (f" + work_{i - 1}(node, x + 1)" if i else "") + ";",
            "}",
            "",
        ]
    lines += ["int main(void)", "{", "\tstruct node node = { 0 };",
              f'\tprintf("%d\\n", work_{n_functions - 1}(&node, 3));', "\treturn 0;", "}"]
    path.write_text("\n".join(lines) + "\n")
    return path


def write_lines(path, n):
    dice = random.Random(42)
    with path.open("w") as file:
        for _ in range(n):
            file.write(f"{dice.getrandbits(64):016x} {dice.randrange(1000)}\n")
    return path


def python_json(folder, n=60000):
    return Case(["/usr/bin/python3", "-c", PYTHON_JSON.replace("N_RECORDS", str(n))], ["python3"],
                variables=dict(PYTHON))


def sqlite(folder, n=300000):
    return Case(["sqlite3", ":memory:"], ["sqlite3"], stdin=SQL.replace("N_ROWS", str(n)).encode())


def gcc(folder, n=285):
    """The driver starts cc1, as, collect2 and ld."""
    source, program = write_c_source(folder / "work.c", n), folder / "work"
    return Case(["gcc", "-O2", "-o", str(program), str(source)],
                ["gcc", "cc1", "as", "collect2", "ld"], made=[program])


def sort(folder, n=1000000):
    return Case(["sort", str(write_lines(folder / "lines", n))], ["sort"])


def xz(folder, n=100000):
    return Case(["xz", "-3", "-c", str(write_lines(folder / "lines", n))], ["xz"])


def threads_and_exceptions(folder, program):
    return Case([program], ["threads-and-exceptions"], status=3, n_threads=5)


def pipeline(folder):
    return Case(["sh", "-c", PIPELINE], ["sh", "seq", "awk", "sort", "uniq", "tail"])


def env_python(folder):
    """heaptrack loses what env starts."""
    return Case(["env", "WORD=1", *python_json(folder, 6000).command], ["python3"],
                variables=dict(PYTHON))


def env_i_python(folder):
    """Nothing of our environment is left for the program that env starts."""
    words = [f"{name}={value}" for name, value in PYTHON.items()]
    return Case(["env", "-i", *words, *python_json(folder, 6000).command], ["python3"])
