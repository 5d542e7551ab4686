/* A machine behind struct kvr_machine: outbound.h and inbound.h have the same functions under their
 * own names and types. KVR_MACHINE(outbound) makes those that the shell calls;
 * KVR_MACHINE_OF(outbound) initialises the fields of struct kvr_machine with them, for the one
 * object of that name. */
#ifndef KVR_AGENT_MACHINE_H
#define KVR_AGENT_MACHINE_H

#include "agent/agent.h"

#define KVR_MACHINE(m)                                                                             \
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
    }                                                                                              \
    static void m##_machine(struct kvr_machine *machine)                                           \
    {                                                                                              \
        machine->self = &(m);                                                                      \
        machine->engines = &(m).engines;                                                           \
        machine->request = m##_on_request;                                                         \
        machine->engine_down = m##_on_engine_down;                                                 \
        machine->peer_up = m##_on_peer_up;                                                         \
        machine->peer_lost = m##_on_peer_lost;                                                     \
        machine->message = m##_on_message;                                                         \
        machine->group = m##_on_group;                                                             \
        machine->registered = m##_on_registered;                                                   \
        machine->tick = m##_on_tick;                                                               \
        machine->live = m##_on_live;                                                               \
        machine->drain = m##_on_drain;                                                             \
        machine->cancel_all = m##_on_cancel_all;                                                   \
        machine->why = m##_on_why;                                                                 \
    }

#endif
