#include "tools/pairs_print.h"
#include "tools/json_fields.h"

#include <stdint.h>
#include <string.h>

#include "base/limits.h"
#include "base/pair_states.h"
#include "tools/scheduler_get.h"

#define LABEL_BYTES (KVR_NAME_BYTES + 12)
#define CELL_BYTES  32

void pairs_path(const char *source, const char *target, char ret_path[PAIRS_PATH_BYTES])
{
    const char *const names[] = {source, target};
    char escaped[3 * KVR_NAME_BYTES];
    int length = snprintf(ret_path, PAIRS_PATH_BYTES, "/api/v1/rails/matrix");
    const char *before = "?";

    for (int i = 0; i < 2; i++) {
        if (names[i] == NULL)
            continue;
        scheduler_escape(names[i], escaped, sizeof(escaped));
        length += snprintf(ret_path + length, PAIRS_PATH_BYTES - (size_t)length, "%s%s=%s", before,
                           i == 0 ? "source" : "target", escaped);
        before = "&";
    }
}

/* ---- one pair -------------------------------------------------------------------------------- */

static uint32_t index_of(const json_t *pair, const char *side)
{
    json_int_t index = json_integer_value(json_object_get(json_object_get(pair, side), "index"));

    return index >= 0 && index < KVR_RAILS_MAX ? (uint32_t)index : 0;
}

/* "1 mlx5_1", or "1" where the name is not known. */
static const char *label_of(const json_t *pair, const char *side, char text[LABEL_BYTES])
{
    const char *name = json_text_or(json_object_get(pair, side), "name", "");

    snprintf(text, LABEL_BYTES, "%u%s%.63s", index_of(pair, side), name[0] != '\0' ? " " : "",
             name);
    return text;
}

static const char *bytes_text(double bytes, char *text, size_t room)
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB"};
    size_t unit = 0;

    for (; bytes >= 1000 && unit + 1 < sizeof(units) / sizeof(units[0]); unit++)
        bytes /= 1000;
    snprintf(text, room, unit == 0 ? "%.0f %s" : "%.2f %s", bytes, units[unit]);
    return text;
}

static double bytes_of(const json_t *pair)
{
    return json_number_value(json_object_get(pair, "bytes"));
}

static bool is_troubled(const json_t *pair)
{
    kvr_pair_state state = kvr_pair_state_from_name(json_text_or(pair, "state", ""));

    return state != KVR_PAIR_UP && state != KVR_PAIR_WARMING && state != KVR_PAIR_WARM;
}

/* The verb of a sentence, and what follows the names of both rails. */
static void words_of(const json_t *pair, const char **ret_verb, const char **ret_rest)
{
    switch (kvr_pair_state_from_name(json_text_or(pair, "state", ""))) {
    case KVR_PAIR_UNREACHABLE:
        *ret_verb = "does not reach";
        *ret_rest = "";
        return;
    case KVR_PAIR_SLOW:
        *ret_verb = "is slow to";
        *ret_rest = "";
        return;
    case KVR_PAIR_DOUBTED:
        *ret_verb = "is in doubt with";
        *ret_rest = ", one write at a time";
        return;
    case KVR_PAIR_SPARE:
        *ret_verb = "is spare for";
        *ret_rest = ", used where no near pair works";
        return;
    default:
        *ret_verb = "has a state that is not known here with";
        *ret_rest = "";
    }
}

/* Since when, and how often. */
static void trouble_print(const json_t *pair, FILE *stream)
{
    const json_t *seconds = json_object_get(pair, "state_seconds");
    double breaks = json_number_value(json_object_get(pair, "breaks"));

    if (!kvr_pair_in_trouble(kvr_pair_state_from_name(json_text_or(pair, "state", ""))))
        return;
    if (json_is_number(seconds))
        fprintf(stream, "; for %.0f s", json_number_value(seconds));
    if (breaks > 0)
        fprintf(stream, "; %.0f time%s in this session", breaks, breaks > 1 ? "s" : "");
}

static void sentence_print(const json_t *pair, bool with_bytes, FILE *stream)
{
    char ours[LABEL_BYTES], theirs[LABEL_BYTES], bytes[CELL_BYTES];
    const char *verb, *rest, *detail = json_text_or(pair, "detail", "");

    words_of(pair, &verb, &rest);
    fprintf(stream, "  rail %s %s %s of %s%s%s%s", label_of(pair, "rail", ours), verb,
            label_of(pair, "target_rail", theirs), json_text_or(pair, "target", ""), rest,
            detail[0] != '\0' ? ": " : "", detail);
    trouble_print(pair, stream);
    if (with_bytes)
        fprintf(stream, "; %s came through", bytes_text(bytes_of(pair), bytes, sizeof(bytes)));
    fputc('\n', stream);
}

unsigned pairs_count_troubled(const json_t *pairs)
{
    unsigned count = 0;
    size_t index;
    json_t *pair;

    json_array_foreach(pairs, index, pair)
    {
        count += is_troubled(pair);
    }
    return count;
}

void pairs_print_troubled(const json_t *pairs, bool with_bytes, unsigned most, FILE *stream)
{
    unsigned count = 0;
    size_t index;
    json_t *pair;

    json_array_foreach(pairs, index, pair)
    {
        if (!is_troubled(pair))
            continue;
        if (count++ < most)
            sentence_print(pair, with_bytes, stream);
    }
    if (count > most)
        fprintf(stream, "  and %u more pairs\n", count - most);
}

/* ---- a matrix -------------------------------------------------------------------------------- */

struct matrix {
    const json_t *cells[KVR_RAILS_MAX][KVR_RAILS_MAX]; /* by our rail and theirs */
    const json_t *ours[KVR_RAILS_MAX],
        *theirs[KVR_RAILS_MAX]; /* a pair of each rail that has one */
};

static void matrix_take(const json_t *pairs, struct matrix *ret_matrix)
{
    size_t index;
    json_t *pair;

    memset(ret_matrix, 0, sizeof(*ret_matrix));
    json_array_foreach(pairs, index, pair)
    {
        uint32_t ours = index_of(pair, "rail"), theirs = index_of(pair, "target_rail");

        ret_matrix->cells[ours][theirs] = ret_matrix->ours[ours] = ret_matrix->theirs[theirs] =
            pair;
    }
}

/* The state, and the bytes that came through. */
static const char *cell_text(const json_t *pair, char text[CELL_BYTES])
{
    char bytes[CELL_BYTES];

    if (pair == NULL)
        return "-";
    if (bytes_of(pair) <= 0)
        return json_text_or(pair, "state", "");
    snprintf(text, CELL_BYTES, "%.11s %.12s", json_text_or(pair, "state", ""),
             bytes_text(bytes_of(pair), bytes, sizeof(bytes)));
    return text;
}

static int width_of(const struct matrix *matrix, uint32_t theirs)
{
    char text[LABEL_BYTES];
    size_t width = strlen(label_of(matrix->theirs[theirs], "target_rail", text));

    for (uint32_t i = 0; i < KVR_RAILS_MAX; i++) {
        size_t cell = strlen(cell_text(matrix->cells[i][theirs], text));

        width = cell > width ? cell : width;
    }
    return (int)width;
}

/* row KVR_RAILS_MAX: the names of their rails. */
static void row_print(const struct matrix *matrix, uint32_t row, int name_width, FILE *stream)
{
    char text[LABEL_BYTES];
    bool head = row == KVR_RAILS_MAX;

    fprintf(stream, "  %-*s", name_width, head ? "" : label_of(matrix->ours[row], "rail", text));
    for (uint32_t i = 0; i < KVR_RAILS_MAX; i++) {
        if (matrix->theirs[i] == NULL)
            continue;
        fprintf(stream, "  %-*s", width_of(matrix, i),
                head ? label_of(matrix->theirs[i], "target_rail", text)
                     : cell_text(matrix->cells[row][i], text));
    }
    fputc('\n', stream);
}

static void matrix_print(const struct matrix *matrix, FILE *stream)
{
    char text[LABEL_BYTES];
    size_t width = 0;

    for (uint32_t i = 0; i < KVR_RAILS_MAX; i++) {
        size_t name = matrix->ours[i] != NULL ? strlen(label_of(matrix->ours[i], "rail", text)) : 0;

        width = name > width ? name : width;
    }
    row_print(matrix, KVR_RAILS_MAX, (int)width, stream);
    for (uint32_t i = 0; i < KVR_RAILS_MAX; i++)
        if (matrix->ours[i] != NULL)
            row_print(matrix, i, (int)width, stream);
}

static bool same(const json_t *a, const json_t *b)
{
    return strcmp(json_text_or(a, "source", ""), json_text_or(b, "source", "")) == 0 &&
           strcmp(json_text_or(a, "target", ""), json_text_or(b, "target", "")) == 0;
}

/* Those of one source and target, borrowed. */
static json_t *pairs_like(const json_t *pairs, const json_t *like)
{
    json_t *found = json_array();
    size_t index;
    json_t *pair;

    json_array_foreach(pairs, index, pair)
    {
        if (same(pair, like))
            json_array_append(found, pair);
    }
    return found;
}

static void connection_print(const json_t *pairs, FILE *stream)
{
    static struct matrix matrix; /* large */
    const json_t *first = json_array_get(pairs, 0);

    fprintf(stream, "Rails of %s (rows) to those of %s (columns), %.0f s ago:\n",
            json_text_or(first, "source", ""), json_text_or(first, "target", ""),
            json_number_value(json_object_get(first, "age_seconds")));
    matrix_take(pairs, &matrix);
    matrix_print(&matrix, stream);
    pairs_print_troubled(pairs, true, KVR_RAILS_MAX * KVR_RAILS_MAX, stream);
}

void pairs_print(const json_t *pairs, FILE *stream)
{
    size_t index, before;
    json_t *pair;

    json_array_foreach(pairs, index, pair)
    {
        json_t *all;

        for (before = 0; before < index && !same(json_array_get(pairs, before), pair); before++)
            ;
        if (before < index)
            continue;
        if (index > 0)
            fputc('\n', stream);
        all = pairs_like(pairs, pair);
        connection_print(all, stream);
        json_decref(all);
    }
}
