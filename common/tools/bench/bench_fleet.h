/* A fleet that does not exist: prefill-agents, as many decode-agents, and the transfers between
 * them, with the events and facts that such agents would report. All of it follows from a seed.
 * Pure: no clock, no memory, no I/O.
 *
 * Transfer t begins t / transfers_per_s after the start. Each row of `pairs` transfers has every
 * agent once, with another partner than in the row before. */
#ifndef KVR_TOOLS_BENCH_FLEET_H
#define KVR_TOOLS_BENCH_FLEET_H

#include "base/clock.h"
#include "trace/report.h"
#include "trace/spans.h"

#define BENCH_FLEET_EVENTS       14          /* of one transfer, of both agents */
#define BENCH_FLEET_PREFIX       "chatcmpl-" /* of every request's id */
#define BENCH_FLEET_TENANTS      8
#define BENCH_FLEET_RAILS        8
#define BENCH_FLEET_TRANSFER_MAX (500 * KVR_MS) /* that one takes */

struct bench_fleet {
    uint64_t seed; /* of ids, times and outcomes */
    uint64_t boot; /* of every agent */
    uint32_t pairs;
    uint64_t transfers;
    double transfers_per_s;
    kvr_ns start;         /* monotonic time 0 of the transfers */
    uint32_t span_layers; /* of the spans that come with each end; 0: none come */
    uint32_t rails;       /* of each agent; 0: BENCH_FLEET_RAILS. Of them so many carry transfers */
};

/* Agents 0 to pairs - 1 are prefill-agents, the others decode-agents. */
uint32_t bench_fleet_agents(const struct bench_fleet *fleet);
kvr_role bench_fleet_role(const struct bench_fleet *fleet, uint32_t agent);
void bench_fleet_name(const struct bench_fleet *fleet, uint32_t agent,
                      char ret_name[KVR_NAME_BYTES]);
/* As the agent's loop gives them at that time; counters grow with it. */
void bench_fleet_facts(const struct bench_fleet *fleet, uint32_t agent, kvr_ns at,
                       struct kvr_agent_facts *ret_facts);
/* The pairs of a prefill-agent's rails with those of `count` decode-agents, from `first` on. */
void bench_fleet_pairs(const struct bench_fleet *fleet, uint32_t agent, uint32_t first,
                       uint32_t count, struct kvr_report_pairs *ret_pairs);

/* The tenant of index 0 has most requests, the last one in a thousand. */
const char *bench_fleet_tenant(uint32_t index);

struct bench_transfer {
    uint64_t number, id;
    uint32_t source, target; /* agents */
    kvr_ns begin, length;
    kvr_status outcome;
    uint64_t mix; /* random, for all else */
};
struct bench_transfer bench_fleet_transfer(const struct bench_fleet *fleet, uint64_t number);
void bench_fleet_request(const struct bench_transfer *transfer, char ret_id[KVR_REQUEST_BYTES]);
/* Which transfer has that request's id. False: none. */
bool bench_fleet_number(const char *request, uint64_t *ret_number);

/* One stage of a transfer at one of its agents; step: 0 to BENCH_FLEET_EVENTS - 1, in the order of
 * their times. */
struct bench_moment {
    kvr_ns at;
    uint64_t number; /* of the transfer */
    uint32_t step;
};
kvr_role bench_fleet_step_role(uint32_t step);
kvr_ns bench_fleet_step_at(const struct bench_transfer *transfer, uint32_t step);
void bench_fleet_event(const struct bench_fleet *fleet, const struct bench_transfer *transfer,
                       uint32_t step, struct kvr_event *ret_event);

/* Adds its spans to an end, packed into `bytes`. Other events stay as they are. */
void bench_fleet_spans(const struct bench_fleet *fleet, const struct bench_transfer *transfer,
                       struct kvr_event *event, uint8_t bytes[KVR_SPANS_BYTES_MAX]);

/* What happens at an agent from `from` until before `to`, in order. Returns how many moments there
 * are; only the first `room` of them, in no order, are written when that is more. */
size_t bench_fleet_moments(const struct bench_fleet *fleet, uint32_t agent, kvr_ns from, kvr_ns to,
                           struct bench_moment *moments, size_t room);

#endif
