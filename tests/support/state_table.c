#include "tests/support/state_table.h"

#include <stdio.h>

#include "base/state.h"

#define CELLS_MAX  32
#define NAMES_MAX  32
#define LINE_BYTES 200

struct row {
    char text[LINE_BYTES];
    char *cells[CELLS_MAX];
    unsigned count;
};

struct reader {
    const struct state_table *table;
    unsigned columns[CELLS_MAX], column_count; /* events of the part that is being read */
    bool seen[NAMES_MAX][NAMES_MAX];
    char *fault;
    size_t capacity;
};

static char *trim(char *text)
{
    char *end;

    text += strspn(text, " /*");
    end = text + strlen(text);
    while (end > text && strchr(" /*", end[-1]) != NULL)
        *--end = '\0';
    return text;
}

/* False: the line is no row of a table. */
static bool row_read(const char *line, size_t bytes, struct row *ret_row)
{
    char *at = ret_row->text;

    if (bytes >= sizeof(ret_row->text) || memchr(line, '|', bytes) == NULL)
        return false;
    memcpy(at, line, bytes);
    at[bytes] = '\0';
    for (ret_row->count = 0; at != NULL && ret_row->count < CELLS_MAX; ret_row->count++) {
        char *bar = strchr(at, '|');

        if (bar != NULL)
            *bar = '\0';
        ret_row->cells[ret_row->count] = trim(at);
        at = bar != NULL ? bar + 1 : NULL;
    }
    return true;
}

static int number_of(const char *name, const char *const *names, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0)
            return (int)i;
    return -1;
}

static bool fault(const struct reader *reader, const char *what, const char *state,
                  const char *event)
{
    snprintf(reader->fault, reader->capacity, "%s: %s (state %s, event %s)", reader->table->file,
             what, state, event);
    return false;
}

static bool head_read(struct reader *reader, const struct row *row)
{
    for (unsigned i = 1; i < row->count; i++) {
        int event = number_of(row->cells[i], reader->table->events, reader->table->event_count);

        if (event < 0)
            return fault(reader, "the table names an unknown event", "-", row->cells[i]);
        reader->columns[i - 1] = (unsigned)event;
    }
    reader->column_count = row->count - 1;
    return true;
}

static bool cell_check(struct reader *reader, const char *cell, unsigned state, unsigned event)
{
    const struct state_table *table = reader->table;
    const char *name = table->states[state], *event_name = table->events[event];
    unsigned next = table->next(state, event);
    int expected = strcmp(cell, "=") == 0   ? (int)state
                   : strcmp(cell, "-") == 0 ? KVR_STATE_NEVER
                                            : number_of(cell, table->states, table->state_count);

    if (expected < 0)
        return fault(reader, "a cell names an unknown state", name, event_name);
    if (reader->seen[state][event])
        return fault(reader, "the table has a cell twice", name, event_name);
    reader->seen[state][event] = true;
    return next == (unsigned)expected ||
           fault(reader, "the code does otherwise than the table says", name, event_name);
}

static bool row_check(struct reader *reader, const struct row *row)
{
    int state;

    if (row->cells[0][0] == '-')
        return true; /* the line below the head */
    state = number_of(row->cells[0], reader->table->states, reader->table->state_count);
    if (state < 0)
        return fault(reader, "the table names an unknown state", row->cells[0], "-");
    if (row->count - 1 != reader->column_count)
        return fault(reader, "a row has more or fewer cells than the head", row->cells[0], "-");
    for (unsigned i = 1; i < row->count; i++)
        if (!cell_check(reader, row->cells[i], (unsigned)state, reader->columns[i - 1]))
            return false;
    return true;
}

static bool all_seen(const struct reader *reader)
{
    for (unsigned state = 0; state < reader->table->state_count; state++)
        for (unsigned event = 0; event < reader->table->event_count; event++)
            if (!reader->seen[state][event])
                return fault(reader, "the table lacks a cell", reader->table->states[state],
                             reader->table->events[event]);
    return true;
}

bool state_table_matches(const struct state_table *table, const char *text, char *fault_text,
                         size_t capacity)
{
    struct reader reader = {.table = table, .fault = fault_text, .capacity = capacity};
    const char *name = table->name != NULL ? table->name : "state";
    bool inside = false;

    assert_true(table->state_count <= NAMES_MAX && table->event_count <= NAMES_MAX);
    while (*text != '\0') {
        size_t bytes = strcspn(text, "\n");
        struct row row;

        if (!row_read(text, bytes, &row))
            inside = false;
        else if (inside && !row_check(&reader, &row))
            return false;
        else if (!inside && strcmp(row.cells[0], name) == 0) {
            if (!head_read(&reader, &row))
                return false;
            inside = true;
        }
        text += bytes + (text[bytes] == '\n');
    }
    return all_seen(&reader);
}

void state_table_check(const struct state_table *table)
{
    static char text[1 << 18];
    char path[512], fault_text[256];
    const char *root = getenv("KVRAIL_ROOT_DIR");
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", root != NULL ? root : ".", table->file);
    file = fopen(path, "r");
    if (file == NULL)
        fail_msg("%s cannot be read", path);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    if (!state_table_matches(table, text, fault_text, sizeof(fault_text)))
        fail_msg("%s", fault_text);
}
