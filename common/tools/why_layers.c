/* The slowest layer of a transfer, and the rail that wrote most again. */
#include <stdbool.h>
#include <stdio.h>

#include "tools/json_fields.h"
#include "tools/why_print.h"

/* Seconds from one moment of the layer to another; negative: one was not seen, or the clocks of the
 * two hosts differ by more. */
static double took(const json_t *layer, const char *from, const char *to)
{
    const json_t *begin = json_object_get(layer, from), *end = json_object_get(layer, to);

    return json_is_number(begin) && json_is_number(end)
               ? json_number_value(end) - json_number_value(begin)
               : -1;
}

static void print_part(const json_t *layer, const char *from, const char *to, const char *what,
                       FILE *stream)
{
    double seconds = took(layer, from, to);

    if (seconds >= 0)
        fprintf(stream, ", %.1f ms %s", 1000 * seconds, what);
}

/* From ready to delivered; each clock's error is in all layers alike. */
static const json_t *slowest(const json_t *layers)
{
    const json_t *layer, *slowest = NULL;
    double longest = -1;
    size_t index;

    json_array_foreach(layers, index, layer)
    {
        double seconds = took(layer, "ready_seconds", "delivered_seconds");

        if (seconds > longest) {
            longest = seconds;
            slowest = layer;
        }
    }
    return slowest;
}

static void print_layer(const json_t *layer, FILE *stream)
{
    fprintf(stream, "\n  The slowest layer is %.0f: %.1f ms", json_number_of(layer, "layer"),
            1000 * took(layer, "ready_seconds", "delivered_seconds"));
    print_part(layer, "ready_seconds", "posted_seconds", "until its last write was posted", stream);
    print_part(layer, "posted_seconds", "landed_seconds", "until it had landed", stream);
    print_part(layer, "landed_seconds", "delivered_seconds", "until it was delivered", stream);
    fputc('\n', stream);
}

/* Of a side, the rail with most writes that were repeated; NULL: it repeated none. */
static const json_t *worst_rail(const json_t *side)
{
    const json_t *rail, *worst = NULL;
    double most = 0;
    size_t index;

    json_array_foreach(json_object_get(side, "rails"), index, rail)
    {
        if (json_number_of(rail, "retries") > most) {
            most = json_number_of(rail, "retries");
            worst = rail;
        }
    }
    return worst;
}

void why_print_layers(const json_t *timeline, FILE *stream)
{
    const json_t *layer = slowest(json_object_get(timeline, "layers")), *side, *rail;
    size_t index;

    if (layer != NULL)
        print_layer(layer, stream);
    json_array_foreach(json_object_get(timeline, "sides"), index, side)
    {
        rail = worst_rail(side);
        if (rail != NULL)
            fprintf(stream, "  Of the %s's rails %s (%.0f) had most repeats: %.0f of %.0f writes\n",
                    json_text_or(side, "role", "-"), json_text_or(rail, "name", "-"),
                    json_number_of(rail, "index"), json_number_of(rail, "retries"),
                    json_number_of(rail, "writes"));
    }
}
