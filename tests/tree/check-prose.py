#!/usr/bin/env python3
"""What people read is short: words per sentence, columns per line, one word for one thing. Code
blocks, tables and headings are not counted. Help texts and manual pages come from two tables."""
import re

import tree

MEAN_WORDS, MOST_WORDS, COLUMNS = 20, 35, 100
FORBIDDEN = {"tells": "reports, says or shows", "told": "reported, known or said"}
HELP = ("schemas/commands.def", "schemas/options.def", "schemas/owner.def", "schemas/events.def")
NOT_YET = {"CHANGELOG.md"}  # only shrinks


def paragraphs(text):
    """(line number, words as one line) of each paragraph and list item."""
    found, begin, fenced, in_code = [], 0, False, False
    for number, line in enumerate(text.split("\n"), 1):
        was_blank = not found or begin == 0
        if line.startswith("```"):
            fenced = not fenced
        # Indented by four after a blank line: code, but not inside of a list.
        in_code = line.startswith(
            ("    ", "\t")) and (in_code or was_blank) or in_code and not line.strip()
        is_text = not (fenced or in_code) and line.strip() and not line.startswith(
            ("#", "|", "```", "!["))
        if not is_text:
            begin = 0
        elif begin == 0 or re.match(r"\s*(?:[-*]|\d+\.) ", line):
            begin = number
            found.append([number, re.sub(r"^\s*(?:[-*]|\d+\.) ", "", line)])
        else:
            found[-1][1] += " " + line.strip()
    return found


def sentences(paragraph):
    """Ends are a full stop, question or exclamation mark before a blank, outside of `code`."""
    plain = re.sub(r"`[^`]*`", "CODE", paragraph)
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", plain)
    return [part for part in re.split(r"(?<=[.!?])[*)\"]*\s+(?=\S)", plain) if n_words(part)]


def n_words(sentence):
    return sum(bool(re.search(r"[A-Za-z0-9]", word)) for word in sentence.split())


def problems_of(name, text):
    counts = []
    for number, paragraph in paragraphs(text):
        for sentence in sentences(paragraph):
            counts.append(n_words(sentence))
            if counts[-1] > MOST_WORDS:
                yield (f"{name}:{number}: {counts[-1]} words, at most {MOST_WORDS}: "
                       f"{sentence[:60]}...")
    if counts and sum(counts) > MEAN_WORDS * len(counts):
        yield f"{name}: {sum(counts) / len(counts):.1f} words per sentence, at most {MEAN_WORDS}"
    fenced = False
    for number, line in enumerate(text.split("\n"), 1):
        fenced ^= line.startswith("```")
        if len(line) > COLUMNS and not fenced and not line.startswith(("|", "    ")):
            yield f"{name}:{number}: {len(line)} columns, at most {COLUMNS}"
        for word in re.findall(r"[a-z]+", re.sub(r"`[^`]*`", "", line).lower()):
            if word in FORBIDDEN:
                yield f"{name}:{number}: '{word}': write {FORBIDDEN[word]}"


def texts_of(path):
    """(line number, text) of each string of a table, joined over its literals; no examples, which
    begin with a tab."""
    source = re.sub(r"^/\*.*?\*/", lambda found: "\n" * found[0].count("\n"), path.read_text(),
                    flags=re.S | re.M)
    literal = r'"(?:[^"\\]|\\.)*"'
    for found in re.finditer(rf"{literal}(?:\s*{literal})*", source):
        text = "".join(piece[1:-1] for piece in re.findall(literal, found[0]))
        yield source.count("\n", 0, found.start()) + 1, "\n\n".join(
            part for part in text.split("\\n") if not part.startswith("\\t"))


def main():
    paths = [*tree.ROOT.glob("*.md"), *(tree.ROOT / "docs").rglob("*.md")]
    names = {str(path.relative_to(tree.ROOT)) for path in paths}
    problems = [f"{name} is exempted, but not there" for name in sorted(NOT_YET - names)]
    checked = sorted(names - NOT_YET)
    for name in checked:
        problems += problems_of(name, (tree.ROOT / name).read_text())
    for name in HELP:
        for number, text in texts_of(tree.ROOT / name):
            # `quoted' as in a terminal; the lines of a literal are not those of the page.
            text = re.sub(r"`[^`']*'", "CODE", text)
            problems += [problem.replace(f"{name}:1:", f"{name}:{number}:")
                         for problem in problems_of(name, text)
                         if "columns" not in problem and "words per sentence" not in problem]
    for name in sorted(NOT_YET & names):
        if not list(problems_of(name, (tree.ROOT / name).read_text())):
            problems.append(
                f"{name} is in order: take it out of NOT_YET in tests/tree/check-prose.py")
    tree.finish(problems, f"{len(checked)} documents, {len(HELP)} tables of help")


main()
