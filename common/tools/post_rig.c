#include "tools/post_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/rng.h"

#define MEMORY_BYTES (64u << 20)
#define PEER         0
#define ARRIVAL_BASE (1ull << 40) /* where the target's region seems to lie */
#define STUCK_STEPS  1000000u
#define STEP_NS      1000 /* of the clock that the group is shown */

static bool failed(const struct kvr_error *error)
{
    fprintf(stderr, "kvrail: %s\n", error->detail);
    return false;
}

/* Every second page, in random order: no two are neighbours, so that each is a piece. */
static uint32_t *scattered_pages(struct kvr_rng *rng, uint32_t count)
{
    uint32_t *pages = calloc(count, sizeof(*pages));

    for (uint32_t i = 0; pages != NULL && i < count; i++) {
        uint32_t k = (uint32_t)kvr_rng_below(rng, i + 1);

        pages[i] = pages[k];
        pages[k] = 2 * i;
    }
    return pages;
}

static void describe_region(struct post_rig *rig)
{
    const struct post_rig_options *options = &rig->options;
    uint64_t layer_bytes = 2 * options->pages * options->page_bytes;

    rig->layout = (struct kvr_region_layout){
        .region = 1,
        .layer_count = options->layers,
        .part_count = 1,
        .parts = {KVR_PART_KV},
        .head_count = 1,
        .page_tokens = 16,
        .page_count = 2 * options->pages,
        .bytes = options->layers * layer_bytes,
        .layer_stride = layer_bytes,
        .page_stride = options->page_bytes,
        .token_stride = options->page_bytes / 16,
        .head_stride = options->page_bytes / 16,
        .head_bytes = options->page_bytes / 16,
    };
}

static bool plan_make(struct post_rig *rig)
{
    const struct post_rig_options *options = &rig->options;
    struct kvr_rng rng;
    uint32_t *source, *target;
    struct kvr_error error = {0};
    kvr_status status =
        kvr_error_set(&error, KVR_NO_MEMORY, "post_rig", "no memory for the lists of pages");

    kvr_rng_init(&rng, 1);
    source = scattered_pages(&rng, options->pages);
    target = scattered_pages(&rng, options->pages);
    if (source != NULL && target != NULL) {
        struct kvr_plan_input input = {
            .source_layouts = &rig->layout,
            .target_layouts = &rig->layout,
            .source_layout_count = 1,
            .target_layout_count = 1,
            .source_pages = source,
            .target_pages = target,
            .source_page_count = options->pages,
            .target_page_count = options->pages,
            .token_end = 16ull * options->pages,
            .limits = {.pieces_local = options->pieces,
                       .pieces_remote = options->pieces,
                       .chunk_bytes_max = 1u << 30},
        };

        status = kvr_plan_make(&input, &rig->memory, &rig->plan, &error);
    }
    free(source);
    free(target);
    return status == KVR_OK || failed(&error);
}

static bool group_open(struct post_rig *rig)
{
    struct kvr_group_options options = rig->options.group;
    struct kvr_error error = {0};

    rig->null = (struct kvr_fabric_null){.pieces = rig->options.pieces,
                                         .in_flight = rig->options.in_flight};
    if (rig->options.fabric != NULL) {
        rig->fabric = *rig->options.fabric;
    } else {
        kvr_fabric_null(&rig->null, &rig->fabric);
        options.window_bytes = 1ull << 32;
        options.clock = kvr_clock_now;
    }
    options.fabric = &rig->fabric;
    options.rails = rig->rails;
    options.rail_count = rig->options.rails;
    for (uint32_t i = 0; i < rig->options.rails; i++) {
        struct kvr_rail_options wanted = {0};

        if (rig->fabric.ops->rail_open(rig->fabric.self, &wanted, &rig->rails[i], &error) != KVR_OK)
            return failed(&error);
    }
    options.user = push_user(&rig->push);
    if (kvr_group_open(&options, &rig->group, &error) != KVR_OK)
        return failed(&error);
    rig->push.group = rig->group;
    return true;
}

/* The region's bytes are only named, never touched: address space is enough. */
static bool regions_open(struct post_rig *rig)
{
    struct kvr_error error = {0};
    void *base = mmap(NULL, rig->layout.bytes, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (base == MAP_FAILED) {
        perror("kvrail: mmap");
        return false;
    }
    if (kvr_region_open_mapped(&rig->fabric, rig->rails, rig->options.rails, &rig->layout, base,
                               true, KVR_REMOTE_NONE, &rig->region, &error) != KVR_OK) {
        munmap(base, rig->layout.bytes);
        return failed(&error);
    }
    rig->region->mapped_bytes = rig->layout.bytes;
    rig->regions[0] = rig->region;
    rig->source = (struct kvr_region_set){
        .references = 1, .count = 1, .layouts = &rig->layout, .locals = rig->regions};
    rig->remote =
        (struct kvr_remote_region){.layout = rig->layout, .rail_count = rig->options.rails};
    for (uint32_t i = 0; i < rig->options.rails; i++)
        rig->remote.keys[i].base = ARRIVAL_BASE;
    rig->target = (struct kvr_region_set){
        .references = 1, .count = 1, .layouts = &rig->layout, .remotes = &rig->remote};
    return true;
}

static bool command(struct post_rig *rig, uint32_t job, union push_message message)
{
    message.job = job;
    return kvr_group_command(rig->group, &message.any);
}

static bool peer_add(struct post_rig *rig)
{
    static struct kvr_peer_rails rails; /* given back at once */
    const struct kvr_group_message add = {.head.kind = KVR_GROUP_PEER_ADD,
                                          .peer_rails = {.peer = PEER, .rails = &rails}};
    struct kvr_group_message added;

    rails.rail_count = rig->options.rails;
    for (uint32_t i = 0; i < rails.rail_count; i++)
        rails.rails[i] = (struct kvr_rail_address){.rail = i, .epoch = 1, .bytes = 1};
    if (!kvr_group_command(rig->group, &add))
        return false;
    (void)kvr_group_step(rig->group, 0);
    return kvr_group_event(rig->group, &added) && added.head.kind == KVR_GROUP_PEER_ADDED &&
           added.peer_rails.status == KVR_OK;
}

bool post_rig_start(struct post_rig *rig, const struct post_rig_options *options)
{
    rig->options = *options;
    rig->memory_block = malloc(MEMORY_BYTES);
    if (rig->memory_block == NULL) {
        perror("kvrail");
        return false;
    }
    kvr_buddy_init(&rig->memory, rig->memory_block, MEMORY_BYTES);
    describe_region(rig);
    if (!plan_make(rig) || !group_open(rig) || !regions_open(rig) || !peer_add(rig))
        return false;
    for (uint32_t i = 0; i < options->jobs; i++) {
        rig->jobs[i].where = malloc(rig->plan->chunk_count);
        if (options->spans)
            rig->jobs[i].spans = malloc(kvr_span_book_bytes(options->layers));
        if (rig->jobs[i].where == NULL || (options->spans && rig->jobs[i].spans == NULL)) {
            perror("kvrail");
            return false;
        }
    }
    return true;
}

static _Atomic uint64_t *word_of(struct post_rig *rig, struct post_rig_job *entry)
{
    return rig->options.word != NULL ? rig->options.word : &entry->word;
}

/* A transfer as outbound opens it: nothing is ready yet. */
static bool job_open(struct post_rig *rig, uint32_t index)
{
    struct post_rig_job *entry = &rig->jobs[index];
    _Atomic uint64_t *word = word_of(rig, entry);

    entry->base = atomic_load_explicit(word, memory_order_relaxed);
    entry->segment = (struct push_segment){
        .plan = rig->plan, .word = word, .word_base = entry->base, .where = entry->where};
    entry->job = (struct push_job){.index = index,
                                   .peer = PEER,
                                   .transfer = index + 1,
                                   .turn.deadline = KVR_NEVER,
                                   .source = &rig->source,
                                   .target = &rig->target,
                                   .slots = {1},
                                   .slot_count = 1,
                                   .target_rails = UINT32_MAX};
    if (entry->spans != NULL)
        kvr_span_book_open(entry->spans, rig->push.now, 0, rig->options.layers);
    entry->job.posts.spans = entry->spans;
    entry->open = true;
    return command(rig, index, PUSH_MESSAGE(PUSH_OPEN, .opened = &entry->job)) &&
           command(rig, index, PUSH_MESSAGE(PUSH_SEGMENT, .segment = &entry->segment)) &&
           command(rig, index, PUSH_MESSAGE(PUSH_FINAL));
}

/* The engine's store: one more layer of each transfer is final. */
static void compute(struct post_rig *rig)
{
    for (uint32_t i = 0; i < rig->options.jobs && rig->options.word == NULL; i++) {
        struct post_rig_job *entry = &rig->jobs[i];
        uint64_t word = atomic_load_explicit(&entry->word, memory_order_relaxed);

        if (entry->open && word - entry->base < rig->options.layers)
            atomic_store_explicit(&entry->word, word + 1, memory_order_release);
    }
}

static bool events_take(struct post_rig *rig)
{
    union push_message message;
    bool good = true;

    while (good && kvr_group_event(rig->group, &message.any)) {
        if (message.head.kind == PUSH_POSTED) {
            good = command(rig, message.job, PUSH_MESSAGE(PUSH_CLOSE));
        } else if (message.head.kind == PUSH_CLOSED) {
            rig->jobs[message.job].open = false;
            rig->writes += rig->plan->chunk_count;
            rig->open--;
        }
    }
    return good;
}

bool post_rig_step(struct post_rig *rig, kvr_ns now, uint64_t *opens, bool *ret_moved)
{
    for (uint32_t i = 0; *opens > 0 && i < rig->options.jobs; i++) {
        if (rig->jobs[i].open)
            continue;
        if (!job_open(rig, i))
            return false;
        rig->open++;
        (*opens)--;
    }
    compute(rig);
    *ret_moved = kvr_group_step(rig->group, now);
    return events_take(rig);
}

bool post_rig_run(struct post_rig *rig, uint64_t writes)
{
    uint64_t opens = (writes + rig->plan->chunk_count - 1) / rig->plan->chunk_count;
    uint32_t idle = 0;
    bool moved;

    while (opens > 0 || rig->open > 0) {
        if (!post_rig_step(rig, ++rig->steps * STEP_NS, &opens, &moved))
            return false;
        idle = moved ? 0 : idle + 1;
        if (idle > STUCK_STEPS)
            return false;
    }
    return true;
}

void post_rig_stop(struct post_rig *rig)
{
    for (uint32_t i = 0; i < rig->options.jobs; i++) {
        free(rig->jobs[i].where);
        free(rig->jobs[i].spans);
    }
    kvr_region_release(&rig->fabric, rig->region);
    kvr_group_close(rig->group);
    for (uint32_t i = 0; i < rig->options.rails; i++) {
        if (rig->rails[i] != NULL)
            rig->fabric.ops->rail_close(rig->rails[i]);
    }
    kvr_plan_free(rig->plan, &rig->memory);
    free(rig->memory_block);
}
