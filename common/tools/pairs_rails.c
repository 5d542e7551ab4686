/* The rails of one source that have pairs in trouble, in one line. */
#include <stdint.h>
#include <string.h>

#include "base/limits.h"
#include "base/pair_states.h"
#include "tools/json_fields.h"
#include "tools/pairs_print.h"

/* A rail with one target: the worst of its pairs, the longest time, the most breaks. */
struct trouble {
    uint32_t rail;
    const char *name, *target; /* borrowed */
    kvr_pair_state state;
    double seconds; /* negative: unknown */
    double breaks;
};

struct troubles {
    uint64_t rails; /* bits */
    unsigned count; /* rails with a target; those beyond the shown ones are counted alone */
    struct trouble shown[RAILS_SHOWN_MAX];
};

static struct trouble trouble_of(const json_t *pair)
{
    const json_t *rail = json_object_get(pair, "rail");
    const json_t *seconds = json_object_get(pair, "state_seconds");
    json_int_t index = json_integer_value(json_object_get(rail, "index"));

    return (struct trouble){
        .rail = index >= 0 && index < KVR_RAILS_MAX ? (uint32_t)index : 0,
        .name = json_text_or(rail, "name", ""),
        .target = json_text_or(pair, "target", ""),
        .state = kvr_pair_state_from_name(json_text_or(pair, "state", "")),
        .seconds = json_is_number(seconds) ? json_number_value(seconds) : -1,
        .breaks = json_number_value(json_object_get(pair, "breaks")),
    };
}

static void trouble_add(struct troubles *troubles, const struct trouble *more)
{
    unsigned shown = troubles->count < RAILS_SHOWN_MAX ? troubles->count : RAILS_SHOWN_MAX;

    troubles->rails |= UINT64_C(1) << more->rail;
    for (unsigned i = 0; i < shown; i++) {
        struct trouble *other = &troubles->shown[i];

        if (other->rail != more->rail || strcmp(other->target, more->target) != 0)
            continue;
        other->state = more->state > other->state ? more->state : other->state;
        other->seconds = more->seconds > other->seconds ? more->seconds : other->seconds;
        other->breaks = more->breaks > other->breaks ? more->breaks : other->breaks;
        return;
    }
    if (troubles->count < RAILS_SHOWN_MAX)
        troubles->shown[troubles->count] = *more;
    troubles->count++;
}

static void trouble_print(const struct trouble *trouble, FILE *stream)
{
    fprintf(stream, "rail %u", trouble->rail);
    if (trouble->name[0] != '\0')
        fprintf(stream, " (%s)", trouble->name);
    fprintf(stream, " to %s: %s", trouble->target, kvr_pair_state_name(trouble->state));
    if (trouble->seconds >= 0)
        fprintf(stream, " for %.0f s", trouble->seconds);
    if (trouble->breaks > 0)
        fprintf(stream, " (%.0f time%s)", trouble->breaks, trouble->breaks > 1 ? "s" : "");
}

unsigned pairs_print_rails(const json_t *pairs, const char *source, size_t rail_count, FILE *stream)
{
    struct troubles troubles = {0};
    size_t index;
    json_t *pair;
    unsigned rails;

    json_array_foreach(pairs, index, pair)
    {
        struct trouble trouble = trouble_of(pair);

        if (kvr_pair_in_trouble(trouble.state) &&
            strcmp(json_text_or(pair, "source", ""), source) == 0)
            trouble_add(&troubles, &trouble);
    }
    rails = (unsigned)__builtin_popcountll(troubles.rails);
    if (rails == 0)
        return 0;
    fprintf(stream, "  %u of %zu rails of %s %s in trouble: ", rails, rail_count, source,
            rails > 1 ? "are" : "is");
    for (unsigned i = 0; i < troubles.count && i < RAILS_SHOWN_MAX; i++) {
        fputs(i > 0 ? "; " : "", stream);
        trouble_print(&troubles.shown[i], stream);
    }
    if (troubles.count > RAILS_SHOWN_MAX)
        fprintf(stream, "; and %u more", troubles.count - RAILS_SHOWN_MAX);
    fputc('\n', stream);
    return rails;
}
