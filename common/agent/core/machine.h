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
    /* The source's; NULL: group threads do not read the words in an engine's shared page. The
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
    /* What the scheduler asks; returns how many publishes it was about. NULL: it holds none. */
    uint32_t (*order)(void *self, kvr_ns now, const struct kvr_order *order);
    void (*drain)(void *self);
    void (*cancel_all)(void *self, kvr_ns now, kvr_status status, const char *detail);
    /* The ids of the requests that are live, borrowed: at most max of them; returns how many. */
    uint32_t (*requests)(const void *self, const char *requests[], uint32_t max);
    void (*why)(const void *self, uint32_t engine, uint64_t handle, char *json, size_t capacity);
};

/* What outbound.h and inbound.h have alike under their own names and types:
 * KVR_MACHINE_ADAPT(outbound) makes functions of these types of them, which
 * KVR_MACHINE_ADAPTED(outbound) puts in their places. */
#define KVR_MACHINE_ADAPT(m)                                                                       \
    static void m##_on_request(void *self, kvr_ns now, uint32_t engine,                            \
                               const struct kvr_request *request)                                  \
    {                                                                                              \
        m##_request(self, now, engine, request);                                                   \
    }                                                                                              \
    static void m##_on_engine_down(void *self, kvr_ns now, uint32_t engine)                        \
    {                                                                                              \
        m##_engine_down(self, now, engine);                                                        \
    }                                                                                              \
    static void m##_on_peer_up(void *self, kvr_ns now, uint32_t peer,                              \
                               const struct kvr_msg_hello *hello)                                  \
    {                                                                                              \
        m##_peer_up(self, now, peer, hello);                                                       \
    }                                                                                              \
    static void m##_on_peer_lost(void *self, kvr_ns now, uint32_t peer, kvr_status status,         \
                                 const char *detail)                                               \
    {                                                                                              \
        m##_peer_lost(self, now, peer, status, detail);                                            \
    }                                                                                              \
    static void m##_on_peer_writable(void *self, kvr_ns now, uint32_t peer)                        \
    {                                                                                              \
        m##_peer_writable(self, now, peer);                                                        \
    }                                                                                              \
    static void m##_on_message(void *self, kvr_ns now, uint32_t peer,                              \
                               const struct kvr_message *message)                                  \
    {                                                                                              \
        m##_message(self, now, peer, message);                                                     \
    }                                                                                              \
    static void m##_on_group(void *self, kvr_ns now, const struct kvr_group_message *message)      \
    {                                                                                              \
        m##_group(self, now, message);                                                             \
    }                                                                                              \
    static void m##_on_registered(void *self, kvr_ns now, uint64_t id, kvr_status status)          \
    {                                                                                              \
        m##_registered(self, now, id, status);                                                     \
    }                                                                                              \
    static void m##_on_tick(void *self, kvr_ns now)                                                \
    {                                                                                              \
        m##_tick(self, now);                                                                       \
    }                                                                                              \
    static uint32_t m##_on_live(const void *self)                                                  \
    {                                                                                              \
        return m##_live(self);                                                                     \
    }                                                                                              \
    static void m##_on_drain(void *self)                                                           \
    {                                                                                              \
        m##_drain(self);                                                                           \
    }                                                                                              \
    static void m##_on_cancel_all(void *self, kvr_ns now, kvr_status status, const char *detail)   \
    {                                                                                              \
        m##_cancel_all(self, now, status, detail);                                                 \
    }                                                                                              \
    static void m##_on_why(const void *self, uint32_t engine, uint64_t handle, char *json,         \
                           size_t capacity)                                                        \
    {                                                                                              \
        m##_why(self, engine, handle, json, capacity);                                             \
    }

#define KVR_MACHINE_ADAPTED(m)                                                                     \
    .request = m##_on_request, .engine_down = m##_on_engine_down, .peer_up = m##_on_peer_up,       \
    .peer_lost = m##_on_peer_lost, .peer_writable = m##_on_peer_writable,                          \
    .message = m##_on_message, .group = m##_on_group, .registered = m##_on_registered,             \
    .tick = m##_on_tick, .live = m##_on_live, .drain = m##_on_drain,                               \
    .cancel_all = m##_on_cancel_all, .why = m##_on_why

#endif
