# Fails on each of these:
#
#   An #include of ours that the layers do not allow:
#     base ← tls ← {wire, kv, topology, trace, filter} ← {http, device} ← fabric ← rail_group ← agent ← programs ← tools, tests.
#     In common/tools each of bench, certificates, compare, replay, sim, trace and virtual is a layer of its own (tools/bench, …) beside the files
#     that they share (tools).
#   A system header in a pure file that is not on a short list.
#   An #include of a private header (x_state.h, x_parts.h) by a file that is not x*.c or x*.h beside it,
#     nor its unit test tests/unit/test_x*.c.
#   A log line above debug in common/, outside the shell of the agents and the tools.
cmake_minimum_required(VERSION 3.22)

set(low base tls wire kv topology trace filter)
set(programs prefill-agent decode-agent scheduler)
set(sees_base base)
set(sees_tls base tls)
set(sees_wire base tls wire)
set(sees_kv base kv)
set(sees_topology base topology)
set(sees_trace base trace)
set(sees_filter base filter)
set(sees_http base tls trace http)
set(sees_fabric base wire kv topology device fabric)
set(sees_rail_group ${low} device fabric rail_group)
set(sees_device ${low} device)
set(sees_agent ${low} http fabric device rail_group agent)
set(sees_client base wire client)
set(sees_client_examples engine.h) # beside them, also where they are installed
set(sees_prefill-agent ${low} fabric device rail_group agent prefill-agent)
set(sees_decode-agent ${low} fabric device rail_group agent decode-agent)
set(sees_scheduler base tls wire trace http scheduler)
set(sees_tools ${low} device fabric rail_group agent prefill-agent tools)
set(sees_tools/bench ${low} device fabric rail_group client prefill-agent scheduler tools tools/bench)
set(sees_tools/certificates base tls tools tools/certificates)
set(sees_tools/replay base wire trace client tools tools/replay)
set(sees_tools/sim ${low} device fabric rail_group client ${programs} tools tools/sim)
set(sees_tools/compare base trace tools tools/compare)
set(sees_tools/trace base trace tools tools/trace)
set(sees_tools/virtual base kv trace fabric tools tools/replay tools/virtual) # replay: models, page allocator, cache, contents; fabric: calibration.h
set(sees_tests ${low} http device fabric rail_group agent client ${programs} tests
    tools tools/bench tools/certificates tools/compare tools/replay tools/sim tools/trace tools/virtual)

# Files that decide: the machines of both agents, and what they are made of.
set(pure_files "^((prefill|decode)-agent/|common/kv/|common/agent/core/|common/device/staging|common/fabric/device_path\\.|common/filter/filter_book\\.|common/rail_group/rail_pairs\\.|common/wire/(compat|frame|proof|secret|session)[._])")
set(pure_programs "^(prefill|decode)-agent/main\\.c$")
set(pure_headers assert.h inttypes.h limits.h stdarg.h stdatomic.h stdbool.h stddef.h stdint.h stdio.h stdlib.h
    string.h xxhash.h nettle/hmac.h nettle/memops.h)

# Files that include a private header all the same. This list only shrinks.
set(looks_inside
    common/fabric/sim/fabric_model.c # takes fabric_null's rails over
    tests/support/local_pair.h
    tests/unit/test_fabric_facts.c)

# The shell is the main loop of both agents; a reread of options and the HTTP port are the same in every program.
set(may_log "^common/(agent/agent[^/]*\\.c|filter/(main|filter_server)\\.c|tools/.*|http/.*|base/(log\\.[ch]|options_reread\\.c))$")

foreach(folder IN ITEMS common prefill-agent decode-agent scheduler tests)
    file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/${folder}/*.[ch])
    foreach(file IN LISTS files)
        string(REGEX REPLACE "^(common/)?([^/]+)/.*$" "\\2" layer ${file})
        if(file MATCHES "^common/client/examples/")
            set(layer client_examples)
        elseif(file MATCHES "^common/(tools/[^/]+)/")
            set(layer ${CMAKE_MATCH_1})
        endif()
        set(pure FALSE)
        if(file MATCHES "${pure_files}" AND NOT file MATCHES "${pure_programs}")
            set(pure TRUE)
        endif()
        file(STRINGS ${ROOT}/${file} lines REGEX "^[ \t]*#[ \t]*include[ \t]*[\"<]")
        foreach(line IN LISTS lines)
            string(REGEX REPLACE "^[^\"<]*[\"<]([^\">]*)[\">].*$" "\\1" path "${line}")
            if(line MATCHES "include[ \t]*<")
                if(pure AND NOT path IN_LIST pure_headers)
                    message(SEND_ERROR "${file} is pure and may not include <${path}>")
                endif()
                continue()
            endif()
            string(REGEX REPLACE "^(tools/[^/]+|[^/]+)/.*$" "\\1" used "${path}")
            if(NOT used IN_LIST sees_${layer})
                list(JOIN sees_${layer} ", " allowed)
                message(SEND_ERROR "${file}: \"${path}\" is outside what ${layer} may include (${allowed})")
            endif()
            if(path MATCHES "^(.*/)?([^/]*)_(state|parts)\\.h$")
                set(folder_of "${CMAKE_MATCH_1}")
                set(stem "${CMAKE_MATCH_2}")
                if(NOT file MATCHES "^(common/)?${folder_of}${stem}[^/]*$" AND NOT file MATCHES "^tests/unit/test_${stem}[^/]*$"
                        AND NOT file IN_LIST looks_inside)
                    message(SEND_ERROR "${file}: \"${path}\" is private to ${stem}*.c beside it")
                endif()
            endif()
        endforeach()
        if(file MATCHES "^common/" AND NOT file MATCHES "${may_log}")
            file(STRINGS ${ROOT}/${file} lines LIMIT_COUNT 1 REGEX
                "kvr_log_(info|warning|error)\\(|kvr_log(_failure)?\\(KVR_LOG_(INFO|WARNING|ERROR)")
            if(lines)
                message(SEND_ERROR "${file} logs above debug; its caller decides what is logged")
            endif()
        endif()
    endforeach()
endforeach()
