/* The interface of an agent's machine (struct outbound or inbound) for its drivers: the agent's
 * shell, the simulator, the fuzzers. outbound_machine() and inbound_machine() make it.
 *
 * Pure, and one thread's, as the machine is. */
#ifndef KVR_AGENT_MACHINE_H
#define KVR_AGENT_MACHINE_H

#include "agent/core/engines.h"
#include "trace/report.h"

struct kvr_machine {
    void *self;
    struct kvr_engines *engines;
    kvr_role role;
    size_t stage_bytes; /* what push or land keeps of a stage (kvr_stage.user) */
    /* The source's; NULL: rail threads do not read the words in an engine's shared page. The
     * command that has a group read them (page NULL: no longer), and true when a message of the
     * group says that it no longer does. */
    struct kvr_group_message (*page_command)(uint32_t engine, struct kvr_shared_page *page);
    bool (*page_forgotten)(const struct kvr_group_message *message, uint32_t *ret_engine);
    bool (*serves)(kvr_request_kind kind); /* requests of the other kind of agent are refused */
    void (*request)(void *self, kvr_ns now, uint32_t engine, const struct kvr_request *request);
    void (*engine_down)(void *self, kvr_ns now, uint32_t engine);
    void (*peer_up)(void *self, kvr_ns now, uint32_t peer, const struct kvr_msg_hello *hello);
    void (*peer_lost)(void *self, kvr_ns now, uint32_t peer, kvr_status status, const char *detail);
    void (*peer_writable)(void *self, kvr_ns now, uint32_t peer);
    void (*message)(void *self, kvr_ns now, uint32_t peer, const struct kvr_message *message);
    void (*group)(void *self, kvr_ns now, const struct kvr_group_message *message);
    void (*registered)(void *self, kvr_ns now, uint64_t id, kvr_status status);
    void (*tick)(void *self, kvr_ns now);
    uint32_t (*live)(const void *self);
    /* What the scheduler asks about a request; returns how many publishes or fetches have it. */
    uint32_t (*order)(void *self, kvr_ns now, const struct kvr_order *order);
    /* why: a sentence for requests that engines open from now on; NULL: they are taken again. The
     * sentence lives as long as the machine. */
    void (*drain)(void *self, const char *why);
    void (*cancel_all)(void *self, kvr_ns now, kvr_status status, const char *detail);
    /* The ids of the requests that are live, borrowed: at most max of them; returns how many. */
    uint32_t (*requests)(const void *self, const char *requests[], uint32_t max);
    void (*why)(const void *self, uint32_t engine, uint64_t handle, char *json, size_t capacity);
};

/* What outbound.h and inbound.h have alike under their own names and types:
 * KVR_MACHINE_ADAPT(outbound) makes functions of these types of them, which
 * KVR_MACHINE_ADAPTED(outbound) puts in their places. */
#define KVR_MACHINE_CALL(m, name, parameters, ...)                                                 \
    static void m##_on_##name parameters                                                           \
    {                                                                                              \
        m##_##name(__VA_ARGS__);                                                                   \
    }
#define KVR_MACHINE_ADAPT(m)                                                                       \
    KVR_MACHINE_CALL(m, request,                                                                   \
                     (void *self, kvr_ns now, uint32_t engine, const struct kvr_request *request), \
                     self, now, engine, request)                                                   \
    KVR_MACHINE_CALL(m, engine_down, (void *self, kvr_ns now, uint32_t engine), self, now, engine) \
    KVR_MACHINE_CALL(m, peer_up,                                                                   \
                     (void *self, kvr_ns now, uint32_t peer, const struct kvr_msg_hello *hello),   \
                     self, now, peer, hello)                                                       \
    KVR_MACHINE_CALL(                                                                              \
        m, peer_lost,                                                                              \
        (void *self, kvr_ns now, uint32_t peer, kvr_status status, const char *detail), self, now, \
        peer, status, detail)                                                                      \
    KVR_MACHINE_CALL(m, peer_writable, (void *self, kvr_ns now, uint32_t peer), self, now, peer)   \
    KVR_MACHINE_CALL(m, message,                                                                   \
                     (void *self, kvr_ns now, uint32_t peer, const struct kvr_message *message),   \
                     self, now, peer, message)                                                     \
    KVR_MACHINE_CALL(m, group, (void *self, kvr_ns now, const struct kvr_group_message *message),  \
                     self, now, message)                                                           \
    KVR_MACHINE_CALL(m, registered, (void *self, kvr_ns now, uint64_t id, kvr_status status),      \
                     self, now, id, status)                                                        \
    KVR_MACHINE_CALL(m, tick, (void *self, kvr_ns now), self, now)                                 \
    KVR_MACHINE_CALL(m, drain, (void *self, const char *why), self, why)                           \
    KVR_MACHINE_CALL(m, cancel_all,                                                                \
                     (void *self, kvr_ns now, kvr_status status, const char *detail), self, now,   \
                     status, detail)                                                               \
    KVR_MACHINE_CALL(                                                                              \
        m, why, (const void *self, uint32_t engine, uint64_t handle, char *json, size_t capacity), \
        self, engine, handle, json, capacity)                                                      \
    static uint32_t m##_on_live(const void *self)                                                  \
    {                                                                                              \
        return m##_live(self);                                                                     \
    }

#define KVR_MACHINE_ADAPTED(m)                                                                     \
    .request = m##_on_request, .engine_down = m##_on_engine_down, .peer_up = m##_on_peer_up,       \
    .peer_lost = m##_on_peer_lost, .peer_writable = m##_on_peer_writable,                          \
    .message = m##_on_message, .group = m##_on_group, .registered = m##_on_registered,             \
    .tick = m##_on_tick, .live = m##_on_live, .drain = m##_on_drain,                               \
    .cancel_all = m##_on_cancel_all, .why = m##_on_why

#endif
