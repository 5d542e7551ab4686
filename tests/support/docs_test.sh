#!/bin/sh
# Goal: the pages of common/docs name things that exist. Each "rule N" of the code and the tests is a
# heading of design.md. Each path in backquotes and each link exists. In design.md each function,
# message and option exists too, and a row of a table names a function beside the file that has it.
# The lines of each block ```ini example=FILE are those of that file, without its comments.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
work=${TMPDIR:-/tmp}/kvrail-docs.$$
mkdir "$work"
trap 'rm -rf "$work"' EXIT
design=common/docs/design.md
folders="common prefill-agent decode-agent scheduler tests"
missing=0

# lacks SENTENCE
lacks() {
    echo "$1"
    missing=$((missing + 1))
}

# shellcheck disable=SC2086 # a list of folders
sources() { find $folders web-ui -name node_modules -prune -o -path '*/corpus/*' -prune -o -type f -print; }
sources | grep -E '\.([ch]|cu|proto|sh|py|sql|cmake)$|CMakeLists\.txt$|Presets\.json$' >"$work/files"
sources | sed 's|.*/||' >>"$work/files.names"

# ---- rules: "rule 4", "rules 3, 4 and 7" ----
grep -E '\.([ch]|cu|sh)$' "$work/files" | grep -v "^tests/support/docs_test.sh" | xargs cat |
    grep -ohiE '\brules? [0-9]+((,| and|, and) [0-9]+)*' | grep -oE '[0-9]+' | sort -nu >"$work/rules"
while read -r number; do
    grep -q "^### Rule $number: " $design || lacks "the code cites rule $number, which $design lacks"
done <"$work/rules"
[ "$(wc -l <"$work/rules")" -ge 8 ] || lacks "the code cites fewer than 8 rules: this test reads it wrongly"

# ---- paths ----
for page in common/docs/*.md README.md tests/README.md; do
    # shellcheck disable=SC2016 # backquotes of Markdown
    grep -oE '`[A-Za-z0-9_./*{},-]+`' "$page" | tr -d '`' | sort -u >"$work/quoted"
    while read -r name; do
        case $name in
        common/* | prefill-agent/* | decode-agent/* | scheduler/* | tests/* | web-ui/*) ;;
        .*) continue ;;
        *.[ch] | *.cu | *.proto) # a file named alone: anywhere
            case $name in
            */*) ls "common/$name" >/dev/null 2>&1 || lacks "$page names $name, which is nowhere" ;;
            *) grep -qxF "$name" "$work/files.names" || lacks "$page names $name, which is nowhere" ;;
            esac
            continue
            ;;
        *) continue ;;
        esac
        # shellcheck disable=SC2086 # patterns
        ls -d $name >/dev/null 2>&1 || lacks "$page names $name, which does not exist"
    done <"$work/quoted"
done

# ---- links: the file, and the heading behind "#" ----
# anchors FILE: those of its headings.
anchors() { sed -n 's/^##* //p' "$1" | tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9 _-]//g; s/ /-/g'; }
for page in README.md tests/README.md tests/gpu/README.md common/fabric/ADDING.md common/docs/*.md; do
    grep -oE '\]\([^)]*\)' "$page" | sed 's/^](//; s/)$//' | grep -v '^https\?:' | sort -u >"$work/links" || true
    while read -r link; do
        file=${link%%#*}
        target=$([ -n "$file" ] && echo "$(dirname "$page")/$file" || echo "$page")
        if [ ! -e "$target" ]; then
            lacks "$page links to $link, which does not exist"
        elif [ "$link" != "$file" ]; then
            anchors "$target" | grep -qxF -- "${link#*#}" || lacks "$page links to $link: no such heading"
        fi
    done <"$work/links"
done

# ---- examples of INI files, without comments and empty lines ----
for page in common/docs/*.md; do
    sed -n 's/^```ini example=//p' "$page" | while read -r example; do
        awk -v start="\`\`\`ini example=$example" '$0 == start { on = 1; next } /^```/ { on = 0 } on && NF' "$page" >"$work/printed"
        grep -v '^;' "$example" | grep . >"$work/installed"
        echo "$example" >>"$work/examples"
        diff "$work/installed" "$work/printed" >"$work/diff" ||
            { cat "$work/diff"; echo "$page prints other lines than $example"; } >>"$work/drifted"
    done
done
[ ! -e "$work/drifted" ] || lacks "$(cat "$work/drifted")"
[ "$(wc -l <"$work/examples")" -ge 3 ] || lacks "the pages print fewer than 3 examples: this test reads them wrongly"

# ---- names in design.md ----
xargs cat <"$work/files" | grep -oE '[A-Za-z_][A-Za-z0-9_]*' | sort -u >"$work/words"
{
    # shellcheck disable=SC2016
    grep -oE '`(struct |enum )?[A-Za-z_][A-Za-z0-9_]*(\(\))?`' $design | tr -d '`()' | sed 's/^struct //; s/^enum //'
    grep -oE '\b(PUSH|LAND|KVR)_[A-Z_]+' $design
} | sort -u >"$work/names"
count=$(wc -l <"$work/names")
comm -23 "$work/names" "$work/words" >"$work/unknown"
while read -r name; do
    lacks "$design names $name, which is nowhere in the sources"
done <"$work/unknown"
# shellcheck disable=SC2016
grep -oE '`--[a-z][a-z-]*' common/docs/design.md | tr -d '`' | sed 's/^--//' | sort -u >"$work/options"
while read -r name; do
    xargs cat <"$work/files" | grep -F "\"$name\"" >/dev/null || lacks "$design names --$name, which no program has"
done <"$work/options"
# Of a row of a table: FUNCTION FILE…
# shellcheck disable=SC2016
awk '/^\|/ {
    line = $0; files = ""; functions = ""
    while (match(line, /`[^`]*`/)) {
        name = substr(line, RSTART + 1, RLENGTH - 2); line = substr(line, RSTART + RLENGTH)
        if (name ~ /^[a-z-]+\/.*\.[ch]$/) files = files " " name
        else if (name ~ /^[a-z_0-9]+\(\)$/) functions = functions " " substr(name, 1, length(name) - 2)
    }
    n = split(functions, each, " ")
    for (i = 1; files != "" && i <= n; i++) print each[i] files
}' $design >"$work/rows"
while read -r function files; do
    # shellcheck disable=SC2086
    grep -qwF "$function" $files 2>/dev/null || lacks "$design names $function() beside$(printf ' %s' $files)"
done <"$work/rows"

echo "$(wc -l <"$work/rules") rules, $count names, $(wc -l <"$work/rows") functions beside a file: $missing missing"
[ "$missing" = 0 ] && [ "$count" -gt 50 ] && [ "$(wc -l <"$work/rows")" -gt 50 ]
