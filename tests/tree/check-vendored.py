#!/usr/bin/env python3
"""Libraries of the web page are what scripts/vendor-web fetched, each with its licence beside it.
"""
import hashlib

import tree

VENDOR = tree.ROOT / "view/web/vendor"
LICENCES = {"MIT", "ISC", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0"}


def problems_of_packages(sums):
    lines = [line.split() for line in (VENDOR / "packages").read_text().splitlines()
             if not line.startswith("#")]
    named = {
        f"{name}/{file.rpartition('/')[2]}"
        for name, _, _, _, *files in lines for file in files
    }
    for name, version, licence, checksum, *files in lines:
        if licence not in LICENCES:
            yield f"{name} {version}: licence {licence} is none of {', '.join(sorted(LICENCES))}"
        if not checksum.startswith("sha512-"):
            yield f"{name} {version}: no checksum of the package"
        if "LICENSE" not in files:
            yield f"{name} {version}: its licence is not among its files"
    for path in named ^ (set(sums) - {"packages"}):
        yield f"{path}: in SHA256SUMS or in packages, and not in both: scripts/vendor-web"


def problems_of_files(sums):
    here = {str(path.relative_to(VENDOR)) for path in VENDOR.rglob("*") if path.is_file()}
    for path in sorted(here - set(sums) - {"SHA256SUMS"}):
        yield f"{path}: nothing says where it is from: list it in vendor/packages"
    for path, expected in sums.items():
        if path not in here:
            yield f"{path}: is missing: scripts/vendor-web"
        elif hashlib.sha256((VENDOR / path).read_bytes()).hexdigest() != expected:
            yield f"{path}: was changed: scripts/vendor-web fetches it again"


def main():
    lines = (VENDOR / "SHA256SUMS").read_text().splitlines()
    sums = {path: value for value, path in (line.split(maxsplit=1) for line in lines)}
    problems = [*problems_of_packages(sums), *problems_of_files(sums)]
    tree.finish(problems, f"{len(sums)} vendored files")


main()
