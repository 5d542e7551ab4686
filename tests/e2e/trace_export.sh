#!/bin/sh
# Goal: the exports of a trace are what their formats say, with hostile names, times that are not known, transfers that
# overlap and a trace that was cut. Method: a trace by heart; Python's json and csv read the files, and
# tests/support/trace_export.py checks slices, flows, spans and rows.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need kvrail
check() { python3 "$KVRAIL_ROOT_DIR/tests/support/trace_export.py" "$@"; }
export_to() { "$bin/kvrail" trace export --to "$@"; }

cat >"$work/cut.kvtrace" <<'END'
{"kvtrace":{"version":1,"made_by":"test","start":"2026-11-27T10:00:00.000Z","start_us":1795773600000000}}
{"agent":{"number":0,"name":"p,\"0\"; =1+1","role":"source","host":"h\\","rails":[{"name":"rail,\"a\""},{"name":"b"}]}}
{"agent":{"number":1,"name":"d</script>\u2028","role":"target","host":"h","rails":[{"name":"x"},{"name":"y"}]}}
{"engine":{"number":0,"agent":0,"name":"e,\"1\""}}
{"request":{"id":"ask \"1\"","at_us":100,"input_tokens":700,"output_tokens":9,"source":0,"target":1}}
{"transfer":{"id":"00000000000000a1","request":"ask \"1\"","tenant":"t,\"","at_us":1000,"tokens":700,"bytes":4096,"layers":3,"chunks":3,"outcome":"done","detail":"a \"quoted\", sentence; of two lines","source":{"agent":0,"engine":0,"path":"host","stages_us":{"opened":-500,"matched":20,"granted":90,"first_ready":100,"last_ready":900,"first_post":110,"last_post":920,"ended":1500},"layer_first":2,"layers_us":[[100,110],[500,510],[900,-1]],"rails":[[0,2,3000,0],[1,1,1096,1]]},"target":{"agent":1,"stages_us":{"opened":0,"matched":10,"granted":80,"first_land":200,"last_land":1400,"ended":1450},"layer_first":2,"layers_us":[[200,210],[600,610],[1400,1410]],"rails":[[0,3,4096,0]]}}}
{"transfer":{"id":"00000000000000a2","request":"ask \"1\"","attempt":1,"at_us":1200,"tokens":5,"bytes":10,"outcome":"failed","reason":"no_rail","source":{"agent":0},"target":{"agent":1,"stages_us":{"opened":0,"ended":400}}}}
{"transfer":{"id":"no digits","at_us":1300,"tokens":5,"outcome":"lost","source":{"agent":0,"stages_us":{"opened":0,"first_ready":9,"last_ready":3}}}}
{"transfer":{"id":"00000000000000a4","request":"other","at_us":-90,"tokens":5,"outcome":"live"}}
{"transfer":{"id":"00000000000000a5","request":"ask \"1\"","at_us":50,"tokens":5,"outcome":"done","source":{"agent":0,"stages_us":{"opened":0,"ended":10}},"target":{"agent":1,"stages_us":{"opened":0,"matched":7,"granted":3,"ended":9}}}}
{"fault":{"at_us":1500,"agent":0,"rail":1,"kind":"rail_lost","text":"\"gone\""}}
{"mark":{"at_us":1600,"agent":1,"kind":"option","before":"a","after":"\\"}}
END
"$bin/kvrail" trace cut "$work/cut.kvtrace" --output "$work/hostile.kvtrace.zst" 2>"$work/log" || true

for format in perfetto otlp csv summary; do
    export_to $format "$work/hostile.kvtrace.zst" --output "$work/$format.out" || fail "$format: the export failed"
    check $format "$work/$format.out" "$([ $format = perfetto ] && echo 4 || echo 5)" >"$work/$format.said" ||
        fail "$format: $(cat "$work/$format.out")"
    # The same by pipes, and compressed.
    export_to $format - --output "$work/piped.zst" <"$work/hostile.kvtrace.zst" || fail "$format: no export of a pipe"
    zstd -qdc "$work/piped.zst" | cmp - "$work/$format.out" || fail "$format: a pipe gives another file"
    # A trace that was cut is exported as far as it goes.
    ! export_to $format "$work/cut.kvtrace" --output - >"$work/cut.out" 2>"$work/log" || fail "a cut trace ends well"
    file_has "$work/log" "it has no footer" || fail "$format: the cut is not named"
    cmp "$work/cut.out" "$work/$format.out" || fail "$format: a cut trace gives another file"
done
file_has "$work/perfetto.said" "2 flows" || fail "the flows are others: $(cat "$work/perfetto.said")"
file_has "$work/perfetto.said" "10 asynchronous slices" || fail "layers and rails are others: $(cat "$work/perfetto.said")"
file_has "$work/otlp.said" "'request': 2" || fail "the requests are others: $(cat "$work/otlp.said")"
file_has "$work/otlp.out" '"spanId":"00000000000000a1","parentSpanId":' || fail "a transfer's span has another id"
file_has "$work/otlp.out" '"startTimeUnixNano":"1795773600001000000"' || fail "the times are others"
python3 - "$work" <<'END' || fail "a name or a time changed on its way"
import json, sys
row = json.load(open(sys.argv[1] + "/csv.said"))
assert row["source_agent"] == 'p,"0"; =1+1', row
assert row["source_engine"] == 'e,"1"', row
assert row["detail"] == 'a "quoted", sentence; of two lines', row
assert (row["queue_us"], row["land_us"], row["total_us"], row["cancelled_us"]) == ("10", "1200", "1450", ""), row
summary = json.load(open(sys.argv[1] + "/summary.said"))
assert summary["reasons"] == {"no_rail": 1}, summary
assert summary["outcomes"] == {"live": 1, "done": 2, "failed": 1, "cancelled": 0, "expired": 0, "lost": 1}, summary
assert summary["agents"][0]["rails"][1] == {"name": "b", "writes": 1, "bytes": 1096, "retries": 1}, summary
assert summary["time_ms"]["total"]["max"] == 1.45, summary
END
# A time that no span can have is the latest one; a start beyond all bounds is refused.
{
    echo '{"kvtrace":{"version":1,"start_us":9007199254740992}}'
    echo '{"request":{"id":"far","at_us":1152921504606846976,"input_tokens":7}}'
} >"$work/far.cut"
"$bin/kvrail" trace cut "$work/far.cut" --output "$work/far.kvtrace" 2>"$work/log" || true
export_to otlp "$work/far.kvtrace" --output "$work/far.out" || fail "no export of a far time"
file_has "$work/far.out" '"startTimeUnixNano":"18446744073709551615"' || fail "a far time is another one: $(cat "$work/far.out")"
sed 's/9007199254740992/9007199254740993/' "$work/far.cut" >"$work/wrong.kvtrace"
! export_to otlp "$work/wrong.kvtrace" --output "$work/wrong.out" 2>"$work/log" || fail "a start beyond all bounds was taken"
file_has "$work/log" "starts at 9007199254740993 us since 1970" || fail "the start is not named: $(cat "$work/log")"
! export_to csv "$work/hostile.kvtrace.zst" --output /nowhere/out 2>"$work/log" || fail "a file nowhere was written"
file_has "$work/log" "/nowhere/out cannot be written" || fail "that is not said: $(cat "$work/log")"
! export_to pdf "$work/hostile.kvtrace.zst" --output - 2>"$work/log" || fail "another format was taken"
printf '{"kvtrace":{"version":1}}\n{"transfer":{"tokens":"x"}}\n' >"$work/wrong.kvtrace"
! export_to csv "$work/wrong.kvtrace" --output "$work/wrong.csv" 2>"$work/log" || fail "a wrong line ends well"
file_has "$work/log" "wrong.kvtrace, line 2" || fail "the wrong line is not named: $(cat "$work/log")"
