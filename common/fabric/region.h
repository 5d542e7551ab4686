/* A region: an engine's memory, mapped into the agent and registered on every rail of its
 * rail group; on another group's rails later, for a failover.
 *
 * Made by a helper thread (registration of 100 GB is slow), then read-only: the rail thread and
 * the loop thread share it without locks. Released by the loop thread after the last job that names
 * it has settled. */
#ifndef KVR_FABRIC_REGION_H
#define KVR_FABRIC_REGION_H

#include "base/data_path.h"
#include "fabric/fabric.h"

struct kvr_stage;
struct kvr_device;
struct kvr_device_memory;

/* Whether peers may write to a region. */
typedef enum kvr_remote_access {
    KVR_REMOTE_NONE,
    KVR_REMOTE_ALWAYS,  /* with its key, as long as the region is registered */
    KVR_REMOTE_GRANTED, /* the same; but on rails with grant_keys its registration opens nothing,
                           and each GRANT opens keys of its own */
} kvr_remote_access;

struct kvr_region {
    struct kvr_region_layout layout;
    uint8_t *base;         /* where byte 0 of the region is mapped here, or what cards call it */
    uint64_t mapped_bytes; /* to unmap at release; 0: the mapping is the caller's */
    uint32_t home;         /* the rail group that it is registered with from the start */
    uint32_t rail_count;   /* of the agent */
    kvr_path path;         /* of its bytes, here; where there are two, over rails to other hosts */
    kvr_remote_access remote;
    struct kvr_memory *memory[KVR_RAILS_MAX];  /* by rail of this agent; NULL: not there */
    struct kvr_remote_key keys[KVR_RAILS_MAX]; /* key 0: none, or each GRANT opens its own */
    /* The stage copies pages to and from staging memory (device/stage.h). Where path is
     * KVR_PATH_STAGED, cards reach staging memory alone: memory, keys and base are its own. Else a
     * transfer may use the stage where that is faster; NULL: not so far. The loop thread sets
     * stage, pages and device before it sends rail threads a job that uses them. Device memory
     * that cards reach has no stage. */
    struct kvr_stage *stage;
    struct kvr_device_memory *pages;
    struct kvr_device *device; /* that imported pages, to release them with; else NULL */
    /* Where path is KVR_PATH_STAGED: the same pages for rails on which the target's device copies
     * (kvr_rail_facts.moves_pages), with keys of the pages instead of the staging memory's. NULL:
     * there is none. */
    struct kvr_region *moved;
};

/* On this rail each GRANT opens keys of its own. */
static inline bool kvr_region_is_granted(const struct kvr_region *region, uint32_t rail)
{
    return region->remote == KVR_REMOTE_GRANTED && rail < region->rail_count &&
           region->memory[rail] != NULL && region->keys[rail].key == 0;
}

/* Every byte of it goes through staging memory. */
static inline bool kvr_region_is_staged(const struct kvr_region *region)
{
    return region->path == KVR_PATH_STAGED;
}

/* A peer's region, from its REGIONS message: all that a source needs to write there. */
struct kvr_remote_region {
    struct kvr_region_layout layout;
    uint32_t rail_count;
    struct kvr_remote_key keys[KVR_RAILS_MAX]; /* by rail index of the target */
};

/* Maps `bytes` of a memfd from fd_offset and registers them on all rails but those that are NULL,
 * which keep their numbers. Takes fd (closes it). The
 * descriptor must carry F_SEAL_SHRINK, else a truncation would kill the agent: KVR_INVALID with
 * that sentence. A registration that fails for memlock names the limit, the size and the remedy. A
 * rail for this host alone that cannot take it goes without, where others before it could; *error
 * then says why. */
KVR_MUST_CHECK kvr_status kvr_region_open_memfd(
    const struct kvr_fabric *fabric, struct kvr_rail *const *rails, uint32_t rail_count,
    const struct kvr_region_layout *layout, int fd, uint64_t fd_offset, bool local,
    kvr_remote_access remote, struct kvr_region **ret_region, struct kvr_error *error);
/* The same for memory that the caller maps itself and keeps until release (tests, the simulator).
 */
KVR_MUST_CHECK kvr_status kvr_region_open_mapped(const struct kvr_fabric *fabric,
                                                 struct kvr_rail *const *rails, uint32_t rail_count,
                                                 const struct kvr_region_layout *layout, void *base,
                                                 bool local, kvr_remote_access remote,
                                                 struct kvr_region **ret_region,
                                                 struct kvr_error *error);
/* A region of device memory behind a stage with the memory `pinned`. The caller keeps stage and
 * pages, and releases them after the region. */
KVR_MUST_CHECK kvr_status kvr_region_open_staged(const struct kvr_region *pinned,
                                                 const struct kvr_region_layout *layout,
                                                 struct kvr_stage *stage,
                                                 struct kvr_device_memory *pages,
                                                 struct kvr_region **ret_region,
                                                 struct kvr_error *error);
/* Sets region->moved, on all rails that can, or on none: after a failure the region is as before.
 * import: how another process imports the pages, borrowed. KVR_UNSUPPORTED: no rail can, or no
 * other process can import the pages. */
KVR_MUST_CHECK kvr_status kvr_region_move(const struct kvr_fabric *fabric,
                                          struct kvr_rail *const *rails, struct kvr_region *region,
                                          const struct kvr_device_import *import, bool local,
                                          bool remote, struct kvr_error *error);
/* Device memory, and the ways to name it to a card. */
struct kvr_device_form {
    int dmabuf; /* borrowed; -1: none */
    uint64_t dmabuf_offset;
    bool addressable; /* address is a device pointer of this process */
    uint64_t address;
    int32_t ordinal;
    bool copies; /* its device copies it, so it could be staged */
    bool hashed; /* the agent reads its bytes for a digest */
};
/* A region of device memory that the cards reach themselves, registered on all rails but those that
 * are NULL. KVR_UNSUPPORTED with the card and what it lacks: on none. The caller keeps what it
 * imported. */
KVR_MUST_CHECK kvr_status kvr_region_open_direct(const struct kvr_fabric *fabric,
                                                 struct kvr_rail *const *rails, uint32_t rail_count,
                                                 const struct kvr_region_layout *layout,
                                                 const struct kvr_device_form *form, bool local,
                                                 bool remote, struct kvr_region **ret_region,
                                                 struct kvr_error *error);
/* Registers it on more rails, those that are not NULL, by the agent's numbers; any thread, while
 * the region is in use. All or none: ret_memory has KVR_RAILS_MAX entries, NULL where nothing is
 * new. */
KVR_MUST_CHECK kvr_status kvr_region_register(
    const struct kvr_fabric *fabric, const struct kvr_region *region, struct kvr_rail *const *rails,
    bool local, kvr_remote_access remote, struct kvr_memory **ret_memory, struct kvr_error *error);
/* The registrations are the region's from here on. Loop thread; it informs rail threads that use
 * these rails later. True when there were any. */
bool kvr_region_adopt(const struct kvr_fabric *fabric, struct kvr_region *region,
                      struct kvr_memory *const *memory);
void kvr_region_release(const struct kvr_fabric *fabric,
                        struct kvr_region *region); /* NULL is fine */

#endif
