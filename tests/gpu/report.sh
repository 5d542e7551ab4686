#!/bin/sh
# Prints results of tests/gpu/run.sh as a page, in the form of tests/bench/RESULTS.md: a section for each
# machine and commit. Of a check that ran several times the last result stands, and how often it ran; of a
# figure the last number, and the lowest and the highest.
#
#   sh tests/gpu/report.sh FOLDER…
set -eu
export LC_ALL=C
[ $# -gt 0 ] || { echo "usage: report.sh FOLDER…" >&2 && exit 2; }
for folder in "$@"; do
    for file in "$folder"/*.tsv; do
        [ ! -s "$file" ] || cat "$file"
    done
done | awk -F '\t' '
    # A run begins: its results belong to it until the next one begins.
    $1 == "run" {
        machine = $3 ", driver " $4 ", commit " $5 ", " $6 " cores"
        if (!(machine in known)) { known[machine] = 1; machines[++machine_count] = machine }
        when = $2
        run = ++runs[machine]
        kernels[machine] = $8
        begun[machine, run] = $9 " | " $2; load[machine, run] = $7; seconds[machine, run] = "cut off"
    }
    $1 == "end" { seconds[machine, run] = $2 }
    $1 == "result" {
        at = machine SUBSEP $2
        if (!(at in times)) names[machine, ++name_count[machine]] = $2
        times[at]++
        failures[at] += $3 == "failed"
        count[machine, run, $3]++
        if (when >= latest[at]) { latest[at] = when; said[at] = $4; got[at] = $3 }
    }
    $1 == "figure" {
        at = machine SUBSEP $2
        if (!(at in number)) { keys[machine, ++key_count[machine]] = $2; low[at] = high[at] = $3 }
        if ($3 + 0 < low[at] + 0) low[at] = $3
        if ($3 + 0 > high[at] + 0) high[at] = $3
        if (when >= measured[at]) { measured[at] = when; number[at] = $3 }
    }
    function plain(words) { gsub(/\|/, "/", words); return words }
    function again(at) {
        if (times[at] == 1) return ""
        return " (of " times[at] " runs" (failures[at] ? ", " failures[at] " failed" : "") ")"
    }
    function page(machine,    i, at) {
        print "## On " machine "\n\nKernels: " kernels[machine] ".\n"
        print "| part | begun (UTC) | seconds | load | passed | failed | skipped |\n|---|---|---|---|---|---|---|"
        for (i = 1; i <= runs[machine]; i++)
            print "| " begun[machine, i] " | " seconds[machine, i] " | " load[machine, i] " | " \
                count[machine, i, "passed"] + 0 " | " count[machine, i, "failed"] + 0 " | " \
                count[machine, i, "skipped"] + 0 " |"
        print "\n| check | result | what it said |\n|---|---|---|"
        for (i = 1; i <= name_count[machine]; i++) {
            at = machine SUBSEP names[machine, i]
            print "| " names[machine, i] " | " got[at] again(at) " | " plain(said[at]) " |"
        }
        if (key_count[machine] == 0) return
        print "\n| figure | last | lowest | highest |\n|---|---|---|---|"
        for (i = 1; i <= key_count[machine]; i++) {
            at = machine SUBSEP keys[machine, i]
            print "| " keys[machine, i] " | " number[at] " | " low[at] " | " high[at] " |"
        }
    }
    END {
        for (m = 1; m <= machine_count; m++) { if (m > 1) print ""; page(machines[m]) }
        if (machine_count == 0) { print "no results" > "/dev/stderr"; exit 1 }
    }'
