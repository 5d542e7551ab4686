/* Keys of one transfer on the rails of this group (rule 14). The loop has opened them, or they are
 * opened when it says so. They are closed when it says so, or before that: when the last chunk is
 * here and no second copy can come. */
#include "base/mutant.h"
#include "decode-agent/land.h"

static void keys_tell(struct land *land, const union land_message *about, enum land_kind kind,
                      struct landing_keys *keys)
{
    union land_message message = LAND_MESSAGE(kind, .keys = keys);

    message.landing = about->landing;
    message.transfer = about->transfer;
    kvr_group_tell(land->group, &message.any);
}

static void release(struct land *land, struct landing_keys *keys)
{
    for (uint32_t i = 0; i < keys->memory_count; i++) {
        if (keys->memory[i] != NULL && !KVR_MUTANT(keys_left_open))
            kvr_group_memory_close(land->group, keys->memory[i]);
        keys->memory[i] = NULL;
    }
}

kvr_status landing_keys_open(struct landing_keys *keys, landing_memory_open *open, void *self,
                             bool at_once)
{
    struct kvr_memory **memory = keys->memory;

    for (uint64_t rails = keys->rails; rails != 0; rails &= rails - 1) {
        for (uint32_t i = 0; i < keys->spans->count; i++, memory++) {
            const struct landing_span *at = &keys->spans->list[i];
            struct kvr_memory_span span = {.base = at->base,
                                           .bytes = at->bytes,
                                           .remote = true,
                                           .key = at->key.key,
                                           .at_once = at_once,
                                           .fd = -1};

            if (at->bytes > 0 && *memory == NULL)
                KVR_TRY(open(self, (uint32_t)__builtin_ctzll(rails), &span, memory, &keys->error));
        }
    }
    return KVR_OK;
}

static kvr_status group_memory_open(void *self, uint32_t rail, const struct kvr_memory_span *span,
                                    struct kvr_memory **ret_memory, struct kvr_error *error)
{
    return kvr_group_memory_open(self, rail, span, ret_memory, error);
}

/* Those that the loop could not open. */
static void keys_open(struct land *land, struct landing_keys *keys)
{
    keys->error = (struct kvr_error){0};
    if (landing_keys_open(keys, group_memory_open, land->group, false) != KVR_OK)
        release(land, keys);
}

bool land_keys_command(struct land *land, const union land_message *message)
{
    struct landing *landing;

    if (message->head.kind != LAND_KEYS_OPEN && message->head.kind != LAND_KEYS_CLOSE)
        return false;
    landing = land->landings[message->landing]; /* NULL: another group has it */
    if (message->head.kind == LAND_KEYS_OPEN) {
        if (landing != NULL)
            landing->keys = message->keys;
        if (!message->keys->open) {
            keys_open(land, message->keys);
            keys_tell(land, message, LAND_KEYS_OPENED, message->keys);
        }
    } else if (landing == NULL || landing->keys != NULL) { /* else they were closed before that */
        if (landing != NULL)
            landing->keys = NULL;
        release(land, message->keys);
        keys_tell(land, message, LAND_KEYS_CLOSED, message->keys);
    }
    return true;
}

void land_keys_done(struct land *land, struct landing *landing)
{
    union land_message about = {.landing = landing->index, .transfer = landing->transfer};
    struct landing_keys *keys = landing->keys;

    if (keys == NULL || (landing->repeated && !KVR_MUTANT(keys_closed_early)))
        return;
    landing->keys = NULL;
    release(land, keys);
    keys_tell(land, &about, LAND_KEYS_CLOSED, keys);
}
