"""What a machine can check of plain English; `sh tests/support/lint.sh words` runs it.

    words.py                  every file, against tests/support/words_baseline.txt
    words.py FILE|FOLDER…     these files, every violation
    words.py --write          writes the baseline anew: folders may exchange, the sum never grows

It reads the comments and string literals of C, CUDA and protobuf files, the comments and messages of shell and
CMake files, and Markdown. The baseline has the number of violations that each folder still has: more
than that fail. words_allowed.txt has the places that speak of people, one "file: words" a line.
"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BASELINE = os.path.join(ROOT, "tests/support/words_baseline.txt")
ALLOWED = os.path.join(ROOT, "tests/support/words_allowed.txt")
COMMITS_FROM = "1d8e6fe"  # subjects of later commits have at most 72 characters

SENTENCE_WORDS, PARAGRAPH_LINES, CELL_CHARACTERS, COLUMNS, README_LINES = 35, 8, 200, 100, 150
RULES = [(re.compile(pattern, re.I), rule) for pattern, rule in (
    (r"\b(who|whom|whose|whoever|whomever|he|his|him|himself|nobody|anybody|somebody|everybody"
     r"|someone|anyone|everyone)\b", "a word for people"),
    (r"\bwhat (is|are|was|were|has|have) to\b", "inverted: name the thing that must"),
    (r"\b(of|for|from|to|in|on|by|with|at|after|before|than) what (?!it|they|we|you|a|an|the|this|that|each|every)\w",
     "name the thing instead of 'what'"),
    (r"\bwhat (stood|stands|came|comes|went|goes|waits|waited|lies|lay|holds|held|moved|moves)\b",
     "name the thing instead of 'what'"),
    (r"\b(of|to|in|on|for|by|from|with) (which|whom) (nothing|none|there|it|no)\b", "inverted order"),
    (r"\b(tells|told)\b(?! (apart|from))", "name the kind of report: sends, announces, logs"),
    (r"\b(is|are|was|were) (said|asked) (of|what|how|which)\b", "name the actor and the report"),
    (r"(?:^|[.;] )(of|to|from|in|on|by) (it|them|these|those|this|that|which|what)\b[^,.]* (is|are|has|have|was|were)\b",
     "inverted order"),
)]
C_TOKEN = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'|^[ \t]*#[ \t]*include[^\n]*",
                     re.S | re.M)
SKIPPED = {"node_modules", "corpus", ".git", "build", "topology"}
FOLDERS = ("common", "prefill-agent", "decode-agent", "scheduler", "tests")


def joined_strings(tokens, text):
    """Neighbouring literals of C are one."""
    groups = []
    for match in tokens:
        between = text[groups[-1][-1].end():match.start()] if groups else "x"
        if groups and match[0][0] == '"' and groups[-1][-1][0][0] == '"' and \
                re.fullmatch(r"\s*([A-Z]\w*\s*)?", between):
            groups[-1].append(match)
        else:
            groups.append([match])
    return groups


def c_texts(text):
    """Yields a list of (line number, line) for each comment and each message."""
    comments = []
    tokens = [match for match in C_TOKEN.finditer(text) if match[0][0] in '"/']
    for group in joined_strings(tokens, text):
        lines = []
        for match in group:
            number = text.count("\n", 0, match.start()) + 1
            if match[0][0] == '"':
                piece = match[0][1:-1].replace('\\"', '"').replace("\\t", " ")
                for part in re.split(r"(?<=\\n)", piece):
                    lines.append((number, part.replace("\\n", "  .")))
            else:
                body = re.sub(r"^(/\*+|//)|\*/$", "", match[0])
                for offset, line in enumerate(body.split("\n")):
                    lines.append((number + offset, re.sub(r"^\s*\*( |$)", "", line)))
        is_line = group[0][0].startswith("//")
        if is_line and comments and comments[-1][0] and comments[-1][1][-1][0] + 1 == lines[0][0]:
            comments[-1][1].extend(lines)
        else:
            comments.append((is_line, lines))
    for _, lines in comments:
        yield lines


def hash_texts(text):
    comment = []
    for number, line in enumerate(text.split("\n"), 1):
        match = re.match(r"\s*#(?!!)\s?(.*)", line)
        if match:
            comment.append((number, match[1]))
            continue
        if comment:
            yield comment
            comment = []
        match = re.search(r"(?:\s|;)# (.*)", line)
        if match and line.count('"', 0, match.start()) % 2 == 0:
            yield [(number, match[1])]
            line = line[:match.start()]
        for string in re.findall(r'"((?:\\.|[^"\\])*)"', line):
            if re.search(r"\b(fail|echo|printf|message|say|skip|die)\b", line):
                yield [(number, re.sub(r"\$\([^)]*\)", "x", string))]
    if comment:
        yield comment


def markdown(text, report):
    """Checks the form, and yields the prose."""
    paragraph, fenced = [], False
    for number, line in enumerate(text.split("\n") + [""], 1):
        if line.lstrip().startswith("```"):
            fenced, line = not fenced, ""
        elif fenced:
            line = ""
        if line.startswith("|"):
            for cell in line.strip("|").split("|"):
                if len(cell.strip()) > CELL_CHARACTERS:
                    report(number, cell.strip()[:50], f"a table cell of {len(cell.strip())} characters")
                yield [(number, cell)]
            line = ""
        elif len(line) > COLUMNS:
            report(number, line[:50], f"a line of {len(line)} columns")
        starts = not line.strip() or re.match(r"\s*([-*]|\d+\.) |#", line)
        if starts and paragraph:
            if len(paragraph) > PARAGRAPH_LINES:
                report(paragraph[0][0], paragraph[0][1][:50], f"a paragraph of {len(paragraph)} lines")
            yield paragraph
            paragraph = []
        if line.strip():
            paragraph.append((number, re.sub(r"\]\([^)]*\)", "]", re.sub(r"^\s*([-*]|\d+\.) |^#+ ", "", line))))


def sentences(lines):
    """Yields (line number, sentence). Tables, maps of files and lists end a sentence at each row."""
    words = []
    for number, line in lines:
        line = re.sub(r"`[^`]*`", "`x`", line)
        row = re.search(r"\S {2,}\S| \| |^\s*[-*|=]{2}", line) or re.match(r"\s*([-*]|\d+\.) |\s{3,}\S", line)
        if (row or not line.strip()) and words:
            yield words
            words = []
        for word in line.split():
            words.append((number, word))
            if re.search(r"[.!?][\"')\]]*$", word):
                yield words
                words = []
    if words:
        yield words


def check_file(path, report):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        text = file.read()
    if path.endswith(".md"):
        if path == "README.md" and text.count("\n") > README_LINES:
            report(1, path, f"{text.count(chr(10))} lines, at most {README_LINES}")
        texts = markdown(text, report)
    elif re.search(r"\.(c|h|cu|proto)$", path):
        texts = c_texts(text)
    else:
        texts = hash_texts(text)
    for lines in texts:
        for sentence in sentences(lines):
            said = " ".join(word for _, word in sentence)
            count = sum(1 for _, word in sentence if re.search(r"[A-Za-z]", word))
            if count > SENTENCE_WORDS:
                report(sentence[0][0], said[:50], f"a sentence of {count} words")
            for pattern, rule in RULES:
                for match in pattern.finditer(said) if count > 2 else ():
                    line = sentence[said.count(" ", 0, match.start() + len(match[0]) - len(match[0].lstrip(". ;")))][0]
                    report(line, said[max(0, match.start() - 25):match.end() + 25], f"{rule} ({match[0].strip('. ;')})")


def files(roots):
    for root in roots:
        if not os.path.exists(os.path.join(ROOT, root)):
            sys.exit(f"words.py: there is no {root}")
        if os.path.isfile(os.path.join(ROOT, root)):
            yield root
        for folder, below, names in os.walk(os.path.join(ROOT, root)):
            below[:] = sorted(set(below) - SKIPPED)
            for name in sorted(names):
                if re.search(r"\.(c|h|cu|proto|sh|cmake|md)$|^CMakeLists\.txt$", name):
                    yield os.path.relpath(os.path.join(folder, name), ROOT)


def long_subjects():
    log = subprocess.run(["git", "-C", ROOT, "log", "--format=%h %s", f"{COMMITS_FROM}..HEAD"],
                         capture_output=True, text=True, check=False)
    lines = log.stdout.split("\n") if log.returncode == 0 else []
    return [line for line in lines if len(line.partition(" ")[2]) > 72]


def main(arguments):
    everything = not [name for name in arguments if name != "--write"]
    roots = [os.path.relpath(os.path.abspath(name), ROOT) for name in arguments] if not everything else \
        [*FOLDERS, "CMakeLists.txt"] + sorted(name for name in os.listdir(ROOT) if name.endswith(".md"))
    with open(ALLOWED, encoding="utf-8") as file:
        allowed = [line.rstrip("\n").split(": ", 1) for line in file if not line.startswith("#")]
    found = {}
    for path in files(roots):
        def report(line, said, rule):
            if not any(path == where and words.lower() in said.lower() for where, words in allowed):
                found.setdefault(os.path.dirname(path) or path, []).append(f"{path}:{line}: {said}: {rule}")
        check_file(path, report)
    if not everything:
        for lines in found.values():
            print("\n".join(lines))
        return bool(found)
    with open(BASELINE, encoding="utf-8") as file:
        baseline = {name: int(count) for name, count in (line.split() for line in file if line[0] != "#")}
    if "--write" in arguments:
        with open(BASELINE, "w", encoding="utf-8") as file:
            file.write("# Violations of `lint.sh words` that a folder still has; the check allows no more. Made by --write.\n")
            shrinks = sum(map(len, found.values())) <= sum(baseline.values())
            for name in sorted(found):
                left = len(found[name]) if shrinks else min(baseline.get(name, 0), len(found[name]))
                file.write(f"{name} {left}\n" if left else "")
        return 0
    status = 0
    for name, lines in sorted(found.items()):
        if len(lines) > baseline.get(name, 0):
            print("\n".join(lines) + f"\n{name}: {len(lines)} violations, {baseline.get(name, 0)} allowed")
            status = 1
    for line in long_subjects():
        print(f"commit {line}: a subject over 72 characters")
        status = 1
    return status


sys.exit(main(sys.argv[1:]))
