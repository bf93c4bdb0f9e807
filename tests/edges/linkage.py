#!/usr/bin/env python3
"""Start-up and linkage: what a program is made of does not change what becomes of it."""
from edges import case, main


@case
def a_program_finds_its_libraries_by_runpath_as_without_us(edge):
    """A library that only $ORIGIN leads to, opened by its bare name: dlopen looks at its caller."""
    traced = edge.compare([edge.victim("victim-linkage"), "runpath"])
    edge.that(traced.n_blocks(1906) == 1, "the block that the library allocated")


if __name__ == "__main__":
    main()
