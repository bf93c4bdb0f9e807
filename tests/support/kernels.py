"""What truth/kernels.py and bench/accuracy share: a kernel recorded, and its answers beside the
truth that it printed itself."""
from whole import Recording, skip

KERNELS = [
    "ratio", "far", "chase", "copy", "copy-avx2", "stencil", "gather", "string", "recursion",
    "phases"
]
# Whose loop has a mix in closed form, and whose loop waits for one object.
WITH_MIX = ["ratio", "far", "chase", "copy", "copy-avx2", "stencil", "gather", "string"]
WITH_CULPRIT = ["far", "chase"]

MAIN_LOOP = "(SELECT id FROM loop ORDER BY n_samples DESC, id LIMIT 1)"


class Kernel:
    """One run: .mix, .counts {(object, access): ...}, .times {object: share}, .culprit as the
    truth; the rest as it was measured."""

    def __init__(self, memsight, victim, name, milliseconds, freq=4999, options=()):
        self.name = name
        self.db = Recording(memsight, [victim, name, str(milliseconds)],
                            ["--source", "clock", "--freq", str(freq), *options])
        self.db.need_source("clock")
        self.mix, self.counts, self.times, self.culprit = {}, {}, {}, None
        self.read_truth()
        self.n_samples = self.db.one("SELECT n_samples FROM source WHERE name = 'clock'")

    def read_truth(self):
        total = None
        for line in self.db.output.splitlines():
            word, *rest = line.split()
            if word == "mix":
                self.mix[(rest[0], rest[1])] = int(rest[2])
            elif word == "accesses":
                self.counts[(rest[0], rest[1])] = int(rest[2])
            elif word == "time":
                self.times[rest[0]] = int(rest[1])
            elif word == "culprit":
                self.culprit = rest[0]
            elif word == "total":
                total = int(rest[0])
        whole = sum(self.mix.values())
        self.mix = {key: n / whole for key, n in self.mix.items()}
        self.times = {key: ns / total for key, ns in self.times.items()}

    def measured_mix(self):
        """{(object, access): share} of the loop with the most samples."""
        rows = self.db.ask(
            "SELECT coalesce(function, owner.name), is_write, sum(a.n_samples / loop.n_samples)"
            " FROM loop_access AS a JOIN loop ON loop.id = loop_id JOIN owner ON owner.id = "
            "owner_kind"
            " LEFT JOIN stack_line ON owner_kind = 1 AND stack_id = owner_id"
            " WHERE loop.id = " + MAIN_LOOP + " GROUP BY 1, 2")
        return {(name, "write" if is_write else "read"): share for name, is_write, share in rows}

    def mix_error(self):
        """Half of the sum of all absolute errors, in points. What is unknown may lack anywhere."""
        measured = {key: n for key, n in self.measured_mix().items() if key[0] != "unknown"}
        keys = set(measured) | set(self.mix)
        return 50 * (sum(abs(measured.get(key, 0) - self.mix.get(key, 0))
                         for key in keys) - self.unknown_mix())

    def unknown_mix(self):
        """The share of the mix that is nobody's."""
        return sum(n for key, n in self.measured_mix().items() if key[0] == "unknown")

    def loop_coverage(self):
        """Samples in the loop with the most, of all."""
        return (self.db.one("SELECT max(n_samples) FROM loop") or 0) / max(self.n_samples, 1)

    def measured_counts(self):
        """{(object, access): (count, its 95 % half width)} of what is claimed, and how: {method:
        loops}."""
        rows = self.db.ask(
            "SELECT coalesce(function, owner.name), is_write, sum(a.accesses),"
            " sum(a.accesses * loop.accesses_half / loop.accesses), group_concat(DISTINCT method)"
            " FROM loop_access AS a JOIN loop ON loop.id = loop_id JOIN owner ON owner.id = "
            "owner_kind"
            " LEFT JOIN stack_line ON owner_kind = 1 AND stack_id = owner_id"
            " WHERE a.accesses IS NOT NULL GROUP BY 1, 2")
        return {(name, "write" if is_write else "read"): (n, half, method)
                for name, is_write, n, half, method in rows}

    def share(self, role, function):
        """(share, 95 % half width as reports have it) of the blocks of a function."""
        column = {1: "n_samples", 2: "n_stalls"}[role]
        n, squares = self.db.ask(
            f"SELECT coalesce(sum({column}), 0), coalesce(sum({column}_sq), 0) FROM site"
            " JOIN stack_line USING (stack_id) WHERE function = ?", function)[0]
        return n / max(self.n_samples, 1), half_width(n, squares, self.n_samples)

    def unknown_stalls(self):
        """The share of the samples of which is not known what they waited for."""
        return (self.db.one("SELECT coalesce(sum(share), 0) FROM touch JOIN owner ON owner.id ="
                            " owner_kind WHERE role = 2 AND owner.name = 'unknown'") /
                max(self.n_samples, 1))


def half_width(total, squares, n):
    """As format_half_width() of common/human-number.c."""
    mean = (total + 2) / (n + 4)
    return 1.96 * (max((squares + 2) / (n + 4) - mean * mean, 0) / (n + 4)) ** 0.5


def need_samples(kernel, least):
    if kernel.n_samples < least:
        skip("%s has only %d samples" % (kernel.name, kernel.n_samples))
