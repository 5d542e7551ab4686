/* Names, and checks that the public header's numbers are the wire's. */
#include "client/client.h"

#include "base/version.h"

#define SAME(name)        _Static_assert((int)KVRAIL_##name == (int)KVR_##name, #name);
#define SAME_NOTICE(name) _Static_assert((int)KVRAIL_EVENT_##name == (int)KVR_NOTICE_##name, #name);

/* clang-format off */
SAME(OK) SAME(AGAIN) SAME(INVALID) SAME(NO_MEMORY) SAME(NOT_FOUND) SAME(EXISTS) SAME(TOO_LARGE)
SAME(UNSUPPORTED) SAME(SYSTEM) SAME(TIMED_OUT) SAME(MALFORMED) SAME(STALE)
SAME(CANCELLED) SAME(EXPIRED) SAME(NO_SOURCE) SAME(INCOMPATIBLE) SAME(PLAN_MISMATCH)
SAME(DIGEST_MISMATCH) SAME(ABORTED) SAME(FULL) SAME(REVOKED)
SAME(UNKNOWN_TRANSFER) SAME(DRAINING) SAME(COPY_FAILED) SAME(RAIL_FAILED) SAME(EPOCH_ENDED)
SAME(NO_RAIL) SAME(PEER_LOST) SAME(PEER_RESTARTED) SAME(REFUSED) SAME(ENGINE_LOST)
SAME(AGENT_LOST) SAME(INTERNAL) SAME(PART_K) SAME(PART_V) SAME(PART_KV) SAME(PART_MLA)
SAME(PART_STATE) SAME(MEMORY_MEMFD) SAME(MEMORY_DMABUF) SAME(MEMORY_CUDA_IPC)
SAME(MEMORY_CUDA_VMM) SAME(WORDS_MAX) SAME(GROUPS_MAX) SAME(PARTS_MAX) SAME(SOURCES_MAX)
SAME(REQUEST_BYTES) SAME(NAME_BYTES) SAME(DETAIL_BYTES)
SAME(DIGEST_SAMPLE) SAME(DIGEST_FULL)
SAME_NOTICE(REGION_READY) SAME_NOTICE(REGION_GONE) SAME_NOTICE(ACCEPTED) SAME_NOTICE(LAYER_IN)
SAME_NOTICE(TAIL_IN) SAME_NOTICE(DONE) SAME_NOTICE(FAILING) SAME_NOTICE(FAILED)
SAME_NOTICE(CANCELLED) SAME_NOTICE(EXPIRED) SAME_NOTICE(SOURCE_FREE) SAME_NOTICE(WHY)
SAME_NOTICE(AGENT_LOST) SAME_NOTICE(REFUSED) SAME_NOTICE(LEASE_LOW) SAME_NOTICE(LEASE_END)
SAME_NOTICE(PEER_DOWN) SAME_NOTICE(PEER_UP) SAME_NOTICE(RAIL_DOWN) SAME_NOTICE(RAIL_UP)
SAME_NOTICE(TARGET_REFUSED) SAME_NOTICE(PEER_WARM)
    /* clang-format on */

    _Static_assert(KVRAIL_TAIL_BYTES_MAX == KVR_TAIL_BYTES_MAX - 1024, "tail");

/* Engines were compiled with these sizes: after a release, another size needs another SOVERSION. */
#define SIZE(name, bytes) _Static_assert(sizeof(struct kvrail_##name) == (bytes), #name)
#if UINTPTR_MAX == UINT64_MAX
SIZE(event, 400);
SIZE(identity, 80);
SIZE(allocation, 16);
SIZE(region, 232);
SIZE(source_options, 40);
SIZE(target_options, 64);
SIZE(source_address, 40);
#endif

const char *kvrail_status_name(int status)
{
    return kvr_status_name((kvr_status)status);
}

const char *kvrail_status_text(int status)
{
    return kvr_status_text((kvr_status)status);
}

const char *kvrail_event_name(int kind)
{
    return kvr_notice_name((kvr_notice_kind)kind);
}

const char *kvrail_version(void)
{
    return KVRAIL_VERSION;
}
