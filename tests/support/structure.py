"""Checks the sizes and the maps of the C sources: python3 tests/support/structure.py [ROOT]

A file has at most 600 lines and a function at most 70. A struct of the cores (both agents' machines and
the rail group) has at most 30 members and 8 bools. Where headers of a folder have a map of its files
(lines "file.c  text" in the comment at the top), together they name every .c file of the folder once.
tests/support/structure_known.txt has the structs and functions that are still too large, with their size:
"kind name size" a line. A larger one fails; remove the line when the check reports that it is not needed.
"""
import os
import re
import sys

FILE_LINES, FUNCTION_LINES, MEMBERS, BOOLS = 600, 70, 30, 8
FOLDERS = ("common", "prefill-agent", "decode-agent", "scheduler", "tests")
CORES = ("prefill-agent/", "decode-agent/", "common/rail_group/")
MAP_LINES = 3  # fewer are a remark, and no map
MAP_ENTRY = re.compile(r"(?:^|(?<=\s))([a-z0-9_]+\.c) {2,}(?=\S)")


def strip_comments(text):
    blank = lambda match: re.sub(r"[^\n]", " ", match[0])
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.S)


def block_end(text, start):
    """The index behind the brace that closes the one at start."""
    depth = 0
    for index in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[index], 0)
        if depth == 0:
            return index + 1
    return len(text)


def members(body, union=False):
    """The numbers of members and of bools. Members of a struct within count as this one's; of a union only
    its largest member counts, because one of them is there at a time."""
    body = re.sub(r"^[ \t]*#.*$", "", body, flags=re.M)
    parts, inner, start, index = [], None, 0, 0
    while index < len(body):
        if body[index] == "{":
            end = block_end(body, index)
            kind = re.search(r"\b(struct|union)\b[^;]*$", body[start:index])
            if kind:
                inner = members(body[index + 1:end - 1], kind[1] == "union")
            body = body[:index] + " " * (end - index) + body[end:]
        elif body[index] == ";":
            declaration = re.sub(r"\([^()]*\)|\[[^\]]*\]", "", body[start:index])
            declared = declaration.count(",") + 1
            is_bool = re.search(r"\bbool\b", declaration) or re.search(r":\s*1\s*$", declaration)
            parts.append(inner or (declared, declared if is_bool else 0))
            start, inner = index + 1, None
        index += 1
    together = max if union else sum
    return tuple(together((part[side] for part in parts), **({"default": 0} if union else {})) for side in (0, 1))


def structs(text):
    for match in re.finditer(r"^(?:typedef )?(?:static )?(?:struct|union) (\w+) \{", text, re.M):
        end = block_end(text, match.end() - 1)
        yield match[1], members(text[match.end():end - 1])


def functions(lines):
    """A function's braces are in the first column."""
    start = None
    for number, line in enumerate(lines):
        if line == "{":
            start = number
        elif line == "}" and start is not None:
            name = re.findall(r"(\w+)\(", " ".join(lines[max(0, start - 4):start]))
            yield (name or ["?"])[-1 if len(name) < 2 else 0], number - start - 1
            start = None


def check_maps(root, folder, names, report):
    mapped, headers = [], []
    for name in sorted(names):
        if name.endswith(".h"):
            with open(os.path.join(root, folder, name), encoding="utf-8") as file:
                text = file.read()
            entries = MAP_ENTRY.findall(text[:text.find("*/")]) if text.startswith("/*") else []
            if len(entries) >= MAP_LINES:
                mapped += entries
                headers.append(name)
    where = f"{folder}/{' and '.join(headers)}"
    for entry in sorted(set(mapped)):
        if entry not in names:
            report(f"{where}: the map names {entry}, which does not exist")
        if mapped.count(entry) > 1:
            report(f"{where}: the map names {entry} {mapped.count(entry)} times")
    for name in sorted(names) if mapped else ():
        if name.endswith(".c") and name not in mapped:
            report(f"{where}: the map lacks {name}")


def main(root):
    problems, known = [], {}
    path = os.path.join(root, "tests/support/structure_known.txt")
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            known = {tuple(line.split()[:2]): int(line.split()[2]) for line in file if line[0] != "#"}

    def limit(kind, path, name, size, most):
        if size > max(most, known.get((kind, name), 0)):
            problems.append(f"{path}: {kind} {name}: {size}, at most {most}")
        if size > most:
            known.pop((kind, name), None)

    for top in FOLDERS:
        for folder, _, names in os.walk(os.path.join(root, top)):
            folder = os.path.relpath(folder, root)
            check_maps(root, folder, names, problems.append)
            for name in sorted(names):
                if not re.search(r"\.[ch]$", name):
                    continue
                path = f"{folder}/{name}"
                with open(os.path.join(root, path), encoding="utf-8") as file:
                    text = file.read()
                limit("lines", path, path, text.count("\n"), FILE_LINES)
                for function, size in functions(text.split("\n")):
                    limit("function", path, function, size, FUNCTION_LINES)
                for struct, (count, bools) in structs(strip_comments(text)) if path.startswith(CORES) else ():
                    limit("members", path, struct, count, MEMBERS)
                    limit("bools", path, struct, bools, BOOLS)
    for kind, name in sorted(known):
        print(f"structure_known.txt: {kind} {name} is not needed any more")
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else
              os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))))
