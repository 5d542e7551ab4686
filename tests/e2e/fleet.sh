#!/bin/sh
# Goal: one agent serves several engines of several ranks, and several agents of the other side at
# once; whatever dies takes only its own requests with it. Argument: the provider.
# Method: fleet (tests/support/fleet.c) plays one rank a process, 2 engines × 2 ranks on each side; every
# target engine fetches from every source engine, rank by rank, and checks every byte.
set -eu
provider=${1:?provider}
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need prefill-agent decode-agent ../tests/fleet
fleet=$bin/../tests/fleet
# Where the target copies, a source that ends may have been seen by its revocation words first (rule 11).
lent=$([ "$provider" = tcp ] || echo revoked)

# prefill NAME RAIL…: an agent; its address is in $at_NAME, its pid in $pid_NAME.
prefill() {
    agent=$1
    shift
    rm -f "$work/$agent.port" "$work/$agent.sock"
    # shellcheck disable=SC2086 # a list of options
    start "$agent" "$bin/prefill-agent" --name "$agent" --engine-socket "$work/$agent.sock" \
        --listen "${host:-127.0.0.1}:0" --port-file "$work/$agent.port" --provider "$provider" --connections 1 \
        $(credentials prefill "$agent") $(rails "$@")
    eval "pid_$agent=$started"
    await "$agent" "$work/$agent.port"
    await "$agent" "$work/$agent.sock"
    eval "at_$agent=${host:-127.0.0.1}:$(cat "$work/$agent.port")"
}

# decode NAME RAIL…
decode() {
    agent=$1
    shift
    # shellcheck disable=SC2086
    start "$agent" "$bin/decode-agent" --name "$agent" --engine-socket "$work/$agent.sock" \
        --provider "$provider" $(credentials decode "$agent") $(rails "$@")
    eval "pid_$agent=$started"
    await "$agent" "$work/$agent.sock"
}

rails() {
    [ "$provider" = tcp ] || return 0
    for rail in "$@"; do
        echo "--rail $rail"
    done
}

# ranks source|target AGENT ENGINE OPTION…: both ranks of an engine. A rank writes to
# $work/RUN.source-ENGINE-RANK.log; its pid is in $pid_source_ENGINE_RANK.
ranks() {
    side=$1 agent=$2 engine=$3
    shift 3
    for rank in ${only_ranks:-0 1}; do
        start "$run.$side-$engine-$rank" "$fleet" "$side" socket="$work/$agent.sock" \
            engine="$engine" tp="$rank" gate="$work/$run.gate" release="$work/$run.release" \
            timeout_s=$((30 * patience)) "$@"
        eval "pid_${side}_${engine}_$rank=$started"
        running="$running $run.$side-$engine-$rank:$started"
    done
}

# Lets the ranks of this run begin, all at the same time.
begin() {
    for entry in $running; do
        wait_for 30 grep -q '^attached' "$work/${entry%:*}.log" || fail "${entry%:*} did not attach in time"
    done
    echo >"$work/$run.gate"
}

# Waits for every rank of this run; those named may end in another way than 0.
finish() {
    for entry in $running; do
        status=0
        wait "${entry#*:}" || status=$?
        rank=${entry%:*}
        case " $* " in
        *" ${rank#*.} "*) [ $status != 1 ] || fail "$rank ended in 1" ;;
        *) [ $status = 0 ] || fail "$rank ended in $status" ;;
        esac
    done
    running=
}

# count RANK PATTERN: how many lines of it say that; counted RANK PATTERN COUNT: so many.
count() {
    grep -c -- "$2" "$work/$run.$1.log" || true
}

counted() {
    [ "$(count "$1" "$2")" = "$3" ] || fail "$run.$1 says '$2' $(count "$1" "$2") times, not $3"
}

# reasons RANK REQUESTS STATUS…: all failures are of these requests and have one of these reasons.
reasons() {
    who=$1 requests=$2
    shift 2
    allowed=$(printf '%s\n' "$@" | paste -s -d '|')
    others=$(grep '^failed' "$work/$run.$who.log" | grep -vE "^failed $requests-[0-9]+ ($allowed):" || true)
    [ -z "$others" ] || fail "$run.$who: $others"
}

# What the sources of a run get of which some are killed: the last 5 requests with each partner wait for
# `go_on`, so that the kill meets some under way, however late it comes.
slowly="step_us=10000 lease_ms=5000 hold=45"
go_on() { echo >"$work/$run.release"; }

has_done() { [ "$(count "$1" '^done')" -ge "$2" ]; }

# await_done RANK COUNT: until that rank is in the middle of its work.
await_done() {
    wait_for 30 has_done "$@" || fail "$run.$1 made no progress in $((30 * patience)) s"
}

running=
run=all
prefill p0 127.0.0.1 127.0.0.2
decode d0 127.0.0.1 127.0.0.2

# Every rank of the four engines had 50 requests with each of its two partners.
all_done() {
    for rank in 0-0 0-1 1-0 1-1; do
        counted source-$rank '^done' 100
        counted target-$rank '^done' 100
    done
}

# Everything arrives: 50 requests between each source engine and each target engine, of each rank.
for engine in 0 1; do
    ranks source p0 $engine to=0 to=1
    # shellcheck disable=SC2154 # set by prefill
    ranks target d0 $engine from=0,1,"$at_p0" from=1,1,"$at_p0"
done
begin
finish
all_done

# One source engine and one rank of a target engine are killed in the middle. Their
# partners get a reason, and no other rank does.
run=killed
for engine in 0 1; do
    # shellcheck disable=SC2086
    ranks source p0 $engine generation=2 to=0 to=1 $slowly
    ranks target d0 $engine generation=2 from=0,2,"$at_p0" from=1,2,"$at_p0"
done
begin
await_done target-0-0 10
# shellcheck disable=SC2154 # set by ranks
kill -9 "$pid_source_1_0" "$pid_source_1_1" "$pid_target_1_1"
go_on
finish source-1-0 source-1-1 target-1-1
for rank in 0 1; do
    counted target-0-$rank '^done s0-t0' 50
    reasons target-0-$rank s1-t0 engine_lost $lent
    [ "$(count target-0-$rank '^failed s1-t0')" -gt 0 ] || fail "the kill met nothing under way"
    counted source-0-$rank '^done s0-t0' 50
done
counted source-0-0 '^done' 100
counted source-0-0 '^failed' 0
counted target-1-0 '^done s0-t1' 50
reasons target-1-0 s1-t1 engine_lost $lent
# What its target had not asked for yet is freed when its lease ends.
counted source-0-1 '^done s0-t0' 50
[ "$(count source-0-1 '^failed')" -gt 0 ] || fail "a source got no event for the end of its target"
reasons source-0-1 's0-t1' engine_lost expired

# What died is forgotten: an agent has room for 64 ranks, and 64 newcomers find it.
run=newcomers
for side in source:p0 target:d0; do
    "$fleet" "${side%:*}" socket="$work/${side#*:}.sock" engine=9 visitors=64 >"$work/visit" ||
        fail "${side#*:} has no room: $(cat "$work/visit")"
done
for engine in 0 1; do
    ranks source p0 $engine generation=3 to=0 to=1 requests=10
    ranks target d0 $engine generation=3 from=0,3,"$at_p0" from=1,3,"$at_p0" requests=10
done
begin
finish
for rank in 0-0 0-1 1-0 1-1; do
    counted target-$rank '^done' 20
done

# Two target ranks fetch what is published once, with two priorities. The second comes late: nothing
# is freed before it is done.
run=shared
only_ranks=0
ranks source p0 0 generation=4 to=0 requests=4 consumers=2
ranks target d0 0 generation=4 from=0,4,"$at_p0" requests=4 consumers=2
begin
await_done target-0-0 4
sleep 0.3 # what is freed too early may be so within this time; a slow machine only sees less
counted source-0-0 '^done' 0
ranks target d0 1 generation=4 from=0,4,"$at_p0" requests=4 consumers=2
finish
counted source-0-0 '^done s0-all' 4
counted target-0-0 '^done' 4
counted target-1-0 '^done' 4
only_ranks=

# Two agents of each side: source engine N is at the Nth prefill-agent, target engine N at the Nth
# decode-agent, and every target fetches from both prefill-agents at once.
prefill p1 127.0.0.3 127.0.0.4
decode d1 127.0.0.3 127.0.0.4

# square GENERATION OPTION…
square() {
    generation=$1
    shift
    for engine in 0 1; do
        ranks source p$engine $engine generation="$generation" to=0 to=1 "$@"
        # shellcheck disable=SC2154
        ranks target d$engine $engine generation="$generation" \
            from=0,"$generation","$at_p0" from=1,"$generation","$at_p1" "$@"
    done
    begin
}

run=square
square 5
finish
all_done

# A prefill-agent is killed: the pages of the other one arrive.
run=prefill_killed
# shellcheck disable=SC2086 # options
square 6 $slowly
await_done target-0-0 10
# shellcheck disable=SC2154 # set by prefill
kill -9 "$pid_p1"
go_on
finish source-1-0 source-1-1
for rank in 0-0 0-1 1-0 1-1; do
    counted target-$rank '^done s0' 50
    reasons target-$rank 's1-t[01]' peer_lost $lent
done
[ "$(count target-0-0 '^failed s1')" -gt 0 ] || fail "the kill met nothing under way"
counted target-0-0 '^peer_down p1$' 1
counted target-0-0 '^peer_down' 1
for rank in 0 1; do
    counted source-0-$rank '^done' 100
    reasons source-1-$rank 's1-t[01]' agent_lost
done
prefill p1 127.0.0.3 127.0.0.4

# A decode-agent is killed: the other one's engines get theirs.
run=decode_killed
# shellcheck disable=SC2086
square 7 $slowly
await_done target-0-0 10
# shellcheck disable=SC2154 # set by decode
kill -9 "$pid_d1"
go_on
finish target-1-0 target-1-1
for rank in 0 1; do
    counted target-0-$rank '^done' 100
    reasons target-1-$rank 's[01]-t1' agent_lost
    for engine in 0 1; do
        counted source-$engine-$rank "^done s$engine-t0" 50
        reasons source-$engine-$rank "s$engine-t1" peer_lost expired
        [ "$(count source-$engine-$rank '^failed')" -gt 0 ] ||
            fail "source-$engine-$rank got no reason"
    done
done

# The same over IPv6.
if [ "$provider" = tcp ]; then
    run=ipv6
    host='[::1]'
    prefill p6 ::1
    decode d6 ::1
    for engine in 0 1; do
        ranks source p6 $engine to=0 to=1 requests=10
        # shellcheck disable=SC2154
        ranks target d6 $engine from=0,1,"$at_p6" from=1,1,"$at_p6" requests=10
    done
    begin
    finish
    for rank in 0-0 0-1 1-0 1-1; do
        counted target-$rank '^done' 20
    done
    grep -q 'rail 0: ::1' "$work/p6.log" || fail "the rails of p6 are not on ::1"
fi
echo "e2e.fleet: passed"
