#include "trace/import_csv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FIELD_BYTES_MAX 64
#define COLUMNS_MAX     64
#define YEAR_MAX        2500 /* its nanoseconds are a kvr_ns */

static const char where[] = "trace";

const struct kvr_import_columns kvr_import_azure = {
    .time = "TIMESTAMP",
    .input = "ContextTokens",
    .output = "GeneratedTokens",
    .wall_time = true,
};

const struct kvr_import_columns kvr_import_burstgpt = {
    .time = "Timestamp",
    .input = "Request tokens",
    .output = "Response tokens",
    .wall_time = false,
};

/* The next field of a line, copied and cut at its spaces; longer ones are cut short, which is fine
 * because none that we read is. False at the end of the line. */
static bool next_field(const char **line, const char *end, char text[FIELD_BYTES_MAX])
{
    const char *first = *line, *comma, *last;

    if (first == NULL)
        return false;
    comma = memchr(first, ',', (size_t)(end - first));
    last = comma != NULL ? comma : end;
    *line = comma != NULL ? comma + 1 : NULL;
    while (first < last && (*first == ' ' || *first == '\t'))
        first++;
    while (last > first && strchr(" \t\r\n", last[-1]) != NULL)
        last--;
    if (last - first > FIELD_BYTES_MAX - 1)
        last = first + FIELD_BYTES_MAX - 1;
    memcpy(text, first, (size_t)(last - first));
    text[last - first] = '\0';
    return true;
}

kvr_status kvr_import_csv_header(const struct kvr_import_columns *columns, const char *line,
                                 size_t bytes, struct kvr_import_csv *ret_csv,
                                 struct kvr_error *error)
{
    struct kvr_import_csv csv = {columns->wall_time, -1, -1, -1};
    const char *end = line + bytes;
    char text[FIELD_BYTES_MAX];

    for (int column = 0; column < COLUMNS_MAX && next_field(&line, end, text); column++) {
        if (strcmp(text, columns->time) == 0)
            csv.time_column = column;
        else if (strcmp(text, columns->input) == 0)
            csv.input_column = column;
        else if (strcmp(text, columns->output) == 0)
            csv.output_column = column;
    }
    if (csv.time_column < 0 || csv.input_column < 0 || csv.output_column < 0)
        return kvr_error_set(error, KVR_MALFORMED, where, "the header names no column \"%s\"",
                             csv.time_column < 0    ? columns->time
                             : csv.input_column < 0 ? columns->input
                                                    : columns->output);
    *ret_csv = csv;
    return KVR_OK;
}

/* Digits only, at most 12 of them. */
static bool parse_count(const char *text, uint64_t *ret_value)
{
    size_t digits = strspn(text, "0123456789");

    if (digits == 0 || digits > 12 || text[digits] != '\0')
        return false;
    *ret_value = strtoull(text, NULL, 10);
    return true;
}

/* ".9799600" or nothing, in nanoseconds; *text moves behind it. */
static kvr_ns parse_fraction(const char **text)
{
    kvr_ns unit = KVR_S / 10, sum = 0;

    if (**text != '.')
        return 0;
    for ((*text)++; **text >= '0' && **text <= '9'; (*text)++, unit /= 10)
        sum += (kvr_ns)(**text - '0') * unit;
    return sum;
}

static bool parse_seconds(const char *text, kvr_ns *ret_at)
{
    size_t digits = strspn(text, "0123456789");
    kvr_ns fraction;
    const char *rest = text + digits;

    if (digits == 0 || digits > 9)
        return false;
    fraction = parse_fraction(&rest);
    if (*rest != '\0')
        return false;
    *ret_at = strtoull(text, NULL, 10) * KVR_S + fraction;
    return true;
}

bool kvr_import_date(const char *text, kvr_ns *ret_at)
{
    struct tm tm = {0};
    kvr_ns fraction;
    const char *rest;
    time_t seconds;
    char separator;
    int used = 0;

    if (sscanf(text, "%4d-%2d-%2d%c%2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &separator,
               &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &used) != 7 ||
        used == 0 || (separator != ' ' && separator != 'T'))
        return false;
    if (tm.tm_year < 1970 || tm.tm_year > YEAR_MAX || tm.tm_mon < 1 || tm.tm_mon > 12 ||
        tm.tm_mday < 1 || tm.tm_mday > 31 || tm.tm_hour < 0 || tm.tm_hour > 23 || tm.tm_min < 0 ||
        tm.tm_min > 59 || tm.tm_sec < 0 || tm.tm_sec > 60)
        return false;
    rest = text + used;
    fraction = parse_fraction(&rest);
    if (*rest != '\0' && strcmp(rest, "Z") != 0 && strcmp(rest, "+00:00") != 0)
        return false;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    seconds = timegm(&tm);
    if (seconds < 0)
        return false;
    *ret_at = (kvr_ns)seconds * KVR_S + fraction;
    return true;
}

kvr_status kvr_import_csv_line(const struct kvr_import_csv *csv, const char *line, size_t bytes,
                               struct kvr_trace *trace, struct kvr_error *error)
{
    bool at_known = false, input_known = false, output_known = false;
    uint64_t input_tokens = 0, output_tokens = 0;
    const char *end = line + bytes;
    char text[FIELD_BYTES_MAX];
    kvr_ns at = 0;

    for (int column = 0; column < COLUMNS_MAX && next_field(&line, end, text); column++) {
        if (column == csv->time_column)
            at_known = csv->wall_time ? kvr_import_date(text, &at) : parse_seconds(text, &at);
        else if (column == csv->input_column)
            input_known = parse_count(text, &input_tokens);
        else if (column == csv->output_column)
            output_known = parse_count(text, &output_tokens);
    }
    if (!at_known)
        return kvr_error_set(error, KVR_MALFORMED, where, "column %d is not a time",
                             csv->time_column + 1);
    if (!input_known || !output_known)
        return kvr_error_set(error, KVR_MALFORMED, where, "column %d is not a number of tokens",
                             (!input_known ? csv->input_column : csv->output_column) + 1);
    if (input_tokens == 0) {
        trace->skipped_count++;
        return KVR_OK;
    }
    return kvr_trace_add(trace, at, input_tokens, output_tokens, NULL, 0, error);
}
