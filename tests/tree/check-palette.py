#!/usr/bin/env python3
"""The page's colours are those of schemas/palette.def."""
import re

import tree


def main():
    table = (tree.ROOT / "schemas/palette.def").read_text()
    page = (tree.ROOT / "view/web/map/palette.js").read_text()
    problems, n_colours = [], 0
    for name, pattern in [("VIRIDIS", r"^PALETTE_VIRIDIS\(0x(\w+)\)"),
                          ("OKABE_ITO", r"^PALETTE_KIND\(\w+, 0x(\w+), \d+\)")]:
        wanted = re.findall(pattern, table, re.MULTILINE)
        found = re.search(rf"^const {name} = \[(.*?)\];", page, re.MULTILINE | re.DOTALL)
        colours = re.findall(r"#(\w{6})", found.group(1)) if found else []
        if not wanted or colours != wanted:
            problems.append(f"view/web/map/palette.js: {name} is {colours}, not {wanted}")
        n_colours += len(wanted)
    tree.finish(problems, f"{n_colours} colours")


main()
