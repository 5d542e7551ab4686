#include "trace/kvtrace_scan.h"

#include "base/text.h"

#define DEPTH_MAX   16 /* of values under a key that is not known */
#define KEY_BYTES   64 /* longer ones are not known */
#define DIGITS_SAFE 18 /* of a number: so many fit 64 bits with a sign */

static bool fail(struct kvtrace_scan *scan, const char *problem)
{
    if (scan->problem == NULL)
        scan->problem = problem;
    return false;
}

static void skip_blanks(struct kvtrace_scan *scan)
{
    while (*scan->at == ' ' || *scan->at == '\t' || *scan->at == '\r')
        scan->at++;
}

/* The next character that is not blank, if it is this one. */
static inline bool take(struct kvtrace_scan *scan, char wanted)
{
    if (*scan->at != wanted) {
        skip_blanks(scan);
        if (*scan->at != wanted)
            return false;
    }
    scan->at++;
    return true;
}

static bool expect(struct kvtrace_scan *scan, char wanted, const char *problem)
{
    return take(scan, wanted) || fail(scan, problem);
}

/* Between elements: true, there is one more. */
static bool more(struct kvtrace_scan *scan, char close, bool *ret_good)
{
    if (take(scan, ','))
        return true;
    *ret_good = expect(scan, close, "a comma or the end of a list or an object is missing");
    return false;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* The digits from `first` up to scan->at, which may be too many. */
static bool long_number(struct kvtrace_scan *scan, const char *first, bool negative,
                        uint64_t *ret_value)
{
    uint64_t value = 0, limit = (uint64_t)INT64_MAX + negative;

    for (const char *at = first; at < scan->at; at++) {
        uint64_t digit = (uint64_t)(*at - '0');

        if (value > (limit - digit) / 10) {
            scan->at = at;
            return fail(scan, "a number is larger than 64 bits with a sign hold");
        }
        value = value * 10 + digit;
    }
    *ret_value = value;
    return true;
}

static inline bool number(struct kvtrace_scan *scan, int64_t *ret_number)
{
    bool negative = take(scan, '-');
    const char *first = scan->at, *at = first;
    uint64_t value = 0;

    for (; (unsigned char)(*at - '0') < 10; at++)
        value = value * 10 + (uint64_t)(*at - '0');
    scan->at = at;
    if (at == first)
        return fail(scan, "a whole number is expected");
    if (at - first > DIGITS_SAFE && !long_number(scan, first, negative, &value))
        return false;
    if (*first == '0' && at - first > 1)
        return fail(scan, "a number begins with 0");
    if (*at == '.' || *at == 'e' || *at == 'E')
        return fail(scan, "a whole number is expected, without fraction or exponent");
    *ret_number = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

/* ---- texts ----------------------------------------------------------------------------------- */

static bool hex4(struct kvtrace_scan *scan, uint32_t *ret_unit)
{
    uint32_t unit = 0;

    for (int i = 0; i < 4; i++) {
        char digit = *scan->at;
        uint32_t value = digit >= '0' && digit <= '9'   ? (uint32_t)(digit - '0')
                         : digit >= 'a' && digit <= 'f' ? (uint32_t)(digit - 'a' + 10)
                         : digit >= 'A' && digit <= 'F' ? (uint32_t)(digit - 'A' + 10)
                                                        : 16;

        if (value == 16)
            return fail(scan, "four hexadecimal digits must follow \\u");
        unit = unit << 4 | value;
        scan->at++;
    }
    *ret_unit = unit;
    return true;
}

/* After \u: the character as UTF-8, of at most 4 bytes. */
static bool unicode(struct kvtrace_scan *scan, char bytes[4], size_t *ret_count)
{
    uint32_t point, low;

    if (!hex4(scan, &point))
        return false;
    if (point >= 0xD800 && point < 0xDC00) {
        if (scan->at[0] != '\\' || scan->at[1] != 'u')
            return fail(scan, "half of a character stands alone");
        scan->at += 2;
        if (!hex4(scan, &low))
            return false;
        if (low < 0xDC00 || low > 0xDFFF)
            return fail(scan, "half of a character stands alone");
        point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
    } else if (point >= 0xDC00 && point <= 0xDFFF) {
        return fail(scan, "half of a character stands alone");
    }
    if (point < 0x20)
        return fail(scan, "a text holds a control character");
    *ret_count = 0;
    if (point < 0x80) {
        bytes[(*ret_count)++] = (char)point;
        return true;
    }
    if (point >= 0x10000)
        bytes[(*ret_count)++] = (char)(0xF0 | point >> 18);
    else if (point >= 0x800)
        bytes[(*ret_count)++] = (char)(0xE0 | point >> 12);
    else
        bytes[(*ret_count)++] = (char)(0xC0 | point >> 6);
    if (point >= 0x10000)
        bytes[(*ret_count)++] = (char)(0x80 | (point >> 12 & 0x3F));
    if (point >= 0x800)
        bytes[(*ret_count)++] = (char)(0x80 | (point >> 6 & 0x3F));
    bytes[(*ret_count)++] = (char)(0x80 | (point & 0x3F));
    return true;
}

/* After a backslash. */
static bool escaped(struct kvtrace_scan *scan, char bytes[4], size_t *ret_count)
{
    char what = *scan->at++;

    *ret_count = 1;
    switch (what) {
    case '"':
    case '\\':
    case '/':
        bytes[0] = what;
        return true;
    case 'u':
        return unicode(scan, bytes, ret_count);
    default: /* \n, \t and their like are control characters, too */
        scan->at--;
        return fail(scan, "a text holds a control character, or a backslash before none of \"\\/u");
    }
}

/* Any length, but UTF-8 all the same. */
static bool skip_text(struct kvtrace_scan *scan)
{
    char bytes[4], one[8];
    size_t count;

    if (!expect(scan, '"', "a text in quotation marks is expected"))
        return false;
    while (*scan->at != '"') {
        size_t room = (size_t)(scan->end - scan->at);

        if ((unsigned char)*scan->at < 0x20)
            return fail(scan, scan->at < scan->end ? "a text holds a control character"
                                                   : "a text has no end");
        if (*scan->at == '\\') {
            scan->at++;
            if (!escaped(scan, bytes, &count))
                return false;
            continue;
        }
        memset(one, 0, sizeof(one));
        memcpy(one, scan->at, room < 4 ? room : 4);
        count = kvr_text_character(one);
        if (count == 0)
            return fail(scan, "a text is not UTF-8");
        scan->at += count;
    }
    scan->at++;
    return true;
}

/* Takes characters up to the first that needs a look, and copies them, fewer than `room`. Returns
 * how many. */
static size_t plain_part(struct kvtrace_scan *scan, char *ret_text, size_t room)
{
    const char *first = scan->at, *at = first;
    size_t count;

    while ((unsigned char)(*at - 0x20) < 0x7F - 0x20 && *at != '"' && *at != '\\' &&
           (size_t)(at - first) + 1 < room)
        at++;
    count = (size_t)(at - first);
    memcpy(ret_text, first, count);
    scan->at = at;
    return count;
}

/* A text of fewer than `room` bytes, with a NUL. *ret_fits NULL: a longer one is refused; else it
 * is cut, and *ret_fits false. */
static bool text(struct kvtrace_scan *scan, char *ret_text, size_t room, bool *ret_fits)
{
    size_t count = 0, added;
    char bytes[4];
    bool plain = true, fits = true;
    const char *first;

    skip_blanks(scan);
    first = scan->at;
    if (!expect(scan, '"', "a text in quotation marks is expected"))
        return false;
    count = plain_part(scan, ret_text, room);
    while (*scan->at != '"') {
        unsigned char one = (unsigned char)*scan->at;

        if (one < 0x20)
            return fail(scan, scan->at < scan->end ? "a text holds a control character"
                                                   : "a text has no end");
        added = 1;
        bytes[0] = *scan->at++;
        plain &= one < 0x7F;
        if (one == '\\') {
            plain = false;
            if (!escaped(scan, bytes, &added))
                return false;
        }
        fits &= count + added < room;
        if (fits) {
            memcpy(ret_text + count, bytes, added);
            count += added;
        }
    }
    ret_text[count] = '\0';
    if (!fits && ret_fits == NULL)
        return fail(scan, "a text is too long");
    if (ret_fits != NULL)
        *ret_fits = fits;
    if (!fits) {
        scan->at = first;
        return skip_text(scan);
    }
    if (!plain && !kvr_text_valid(ret_text, room))
        return fail(scan, "a text is not UTF-8, or holds a control character");
    scan->at++;
    return true;
}

/* ---- values that are not known --------------------------------------------------------------- */

static bool word(struct kvtrace_scan *scan, const char *wanted)
{
    size_t bytes = strlen(wanted);

    if ((size_t)(scan->end - scan->at) < bytes || memcmp(scan->at, wanted, bytes) != 0)
        return false;
    scan->at += bytes;
    return true;
}

static bool skip(struct kvtrace_scan *scan, int depth)
{
    bool list, good = true;
    int64_t ignored;

    skip_blanks(scan);
    if (*scan->at == '"')
        return skip_text(scan);
    if (word(scan, "true") || word(scan, "false"))
        return true;
    if (*scan->at != '{' && *scan->at != '[')
        return number(scan, &ignored);
    if (depth == DEPTH_MAX)
        return fail(scan, "lists and objects are too deep");
    list = *scan->at++ == '[';
    if (take(scan, list ? ']' : '}'))
        return true;
    do {
        if (!list && !(skip_text(scan) && expect(scan, ':', "a colon is missing")))
            return false;
        if (!skip(scan, depth + 1))
            return false;
    } while (more(scan, list ? ']' : '}', &good));
    return good;
}

/* ---- records --------------------------------------------------------------------------------- */

static bool object(struct kvtrace_scan *scan, const struct kvtrace_fields *fields, void *base);

static bool choice(struct kvtrace_scan *scan, const struct kvtrace_field *field, int *ret_value)
{
    char name[KEY_BYTES];
    int value = 0;
    bool fits;

    if (!text(scan, name, sizeof(name), &fits))
        return false;
    while (value < field->names && strcmp(name, field->name(value)) != 0)
        value++;
    if (value == field->names || !fits)
        return fail(scan, "a word is none of its choices");
    *ret_value = value;
    return true;
}

/* A row as a writer writes it, without blanks and with short numbers. Returns the place behind it,
 * or NULL: row() looks again. */
static inline const char *plain_row(const char *at, uint32_t width, int64_t *numbers)
{
    for (uint32_t i = 0; i < width; i++, at++) {
        bool negative = *at == '-';
        const char *first = at += negative;
        uint64_t value = 0;

        for (; (unsigned char)(*at - '0') < 10; at++)
            value = value * 10 + (uint64_t)(*at - '0');
        if (at == first || at - first > DIGITS_SAFE || (*first == '0' && at - first > 1) ||
            *at != (i + 1 < width ? ',' : ']'))
            return NULL;
        numbers[i] = negative ? (int64_t)(0 - value) : (int64_t)value;
    }
    return at - 1; /* its bracket */
}

static bool row(struct kvtrace_scan *scan, uint32_t width)
{
    const char *behind = width > 1 ? plain_row(scan->at, width, &scan->numbers[scan->count]) : NULL;

    if (behind != NULL) {
        scan->at = behind;
        scan->count += width;
        return true;
    }
    for (uint32_t i = 0; i < width; i++) {
        if (i > 0 && !expect(scan, ',', "a row has too few numbers"))
            return false;
        skip_blanks(scan);
        if (!number(scan, &scan->numbers[scan->count]))
            return false;
        scan->count++;
    }
    return true;
}

static bool rows(struct kvtrace_scan *scan, uint32_t width, struct kvtrace_rows *ret_rows)
{
    bool good = true;
    size_t first = scan->count;

    if (!expect(scan, '[', "a list is expected"))
        return false;
    if (!take(scan, ']')) {
        do {
            if (width > 1 && !expect(scan, '[', "a row, which is a list, is expected"))
                return false;
            if (!row(scan, width))
                return false;
            if (width > 1 && !expect(scan, ']', "a row has too many numbers"))
                return false;
        } while (more(scan, ']', &good));
    }
    *ret_rows = (struct kvtrace_rows){scan->numbers + first, scan->count - first};
    return good;
}

static bool objects(struct kvtrace_scan *scan, const struct kvtrace_field *field, char *first,
                    size_t *ret_count)
{
    bool good = true;
    size_t count = 0;

    *ret_count = 0;
    if (!expect(scan, '[', "a list is expected"))
        return false;
    if (take(scan, ']'))
        return true;
    do {
        char *element = first + count * field->room;

        if (count == field->count_max)
            return fail(scan, "a list is too long");
        memset(element, 0, field->room);
        kvtrace_fields_clear(field->fields, element);
        if (!object(scan, field->fields, element))
            return false;
        count++;
    } while (more(scan, ']', &good));
    *ret_count = count;
    return good;
}

static bool flag(struct kvtrace_scan *scan, bool *ret_value)
{
    skip_blanks(scan);
    *ret_value = word(scan, "true");
    return *ret_value || word(scan, "false") || fail(scan, "true or false is expected");
}

static bool value(struct kvtrace_scan *scan, const struct kvtrace_field *field, void *base)
{
    void *at = (char *)base + field->offset;

    scan->key = field->key;
    switch (field->type) {
    case KVTRACE_NUMBER:
        skip_blanks(scan);
        return number(scan, at);
    case KVTRACE_FLAG:
        return flag(scan, at);
    case KVTRACE_TEXT:
        return text(scan, at, field->room, NULL);
    case KVTRACE_CHOICE:
        return choice(scan, field, at);
    case KVTRACE_ROWS:
        return rows(scan, field->room, at);
    case KVTRACE_OBJECT:
        return object(scan, field->fields, at);
    case KVTRACE_OBJECTS:
        return objects(scan, field, at, (size_t *)((char *)base + field->count_offset));
    }
    return false;
}

static bool key_is(const struct kvtrace_scan *scan, const struct kvtrace_field *field)
{
    return scan->at[1] == field->key[0] && (size_t)(scan->end - scan->at) > field->key_bytes + 1 &&
           memcmp(scan->at + 1, field->key, field->key_bytes) == 0 &&
           scan->at[field->key_bytes + 1] == '"';
}

/* The place of the next key; fields->count: it is not known. Keys mostly come in the table's order,
 * some left out. */
static bool find_key(struct kvtrace_scan *scan, const struct kvtrace_fields *fields, uint32_t from,
                     uint32_t *ret_place)
{
    char name[KEY_BYTES];
    bool fits;

    skip_blanks(scan);
    if (*scan->at != '"')
        return fail(scan, "a key in quotation marks is expected");
    for (uint32_t i = 0; i < fields->count; i++) {
        uint32_t place = from + i < fields->count ? from + i : from + i - fields->count;

        if (key_is(scan, &fields->at[place])) {
            scan->at += fields->at[place].key_bytes + 2;
            *ret_place = place;
            return true;
        }
    }
    if (!text(scan, name, sizeof(name), &fits))
        return false;
    *ret_place = 0;
    while (*ret_place < fields->count && !(fits && strcmp(name, fields->at[*ret_place].key) == 0))
        ++*ret_place;
    return true;
}

static bool object(struct kvtrace_scan *scan, const struct kvtrace_fields *fields, void *base)
{
    uint32_t place, from = 0, seen = 0; /* a bit for each key; no object has so many */
    bool good = true;

    if (!expect(scan, '{', "an object is expected"))
        return false;
    if (take(scan, '}'))
        return true;
    do {
        if (!find_key(scan, fields, from, &place) || !expect(scan, ':', "a colon is missing"))
            return false;
        if (place == fields->count) {
            if (!skip(scan, 0))
                return false;
            continue;
        }
        if ((seen >> place & 1) != 0)
            return fail(scan, "a key comes twice");
        seen |= UINT32_C(1) << place;
        if (!value(scan, &fields->at[place], base))
            return false;
        from = place + 1 < fields->count ? place + 1 : 0;
    } while (more(scan, '}', &good));
    return good;
}

static int kind_of(const char *name)
{
    int kind = 0;

    while (kind < KVTRACE_KIND_END && strcmp(name, kvtrace_kind_name((kvtrace_kind)kind)) != 0)
        kind++;
    return kind;
}

kvtrace_scanned kvtrace_scan_line(struct kvtrace_scan *scan, struct kvtrace_record *record)
{
    char name[KEY_BYTES];
    bool fits, good;
    int kind;

    scan->problem = scan->key = NULL;
    scan->count = 0;
    if (!expect(scan, '{', "a line is an object") || !text(scan, name, sizeof(name), &fits) ||
        !expect(scan, ':', "a colon is missing"))
        return KVTRACE_SCANNED_NOT;
    kind = fits ? kind_of(name) : KVTRACE_KIND_END;
    if (kind == KVTRACE_KIND_END) {
        good = skip(scan, 0);
    } else {
        kvtrace_clear(record, (kvtrace_kind)kind);
        good = object(scan, kvtrace_fields((kvtrace_kind)kind), kvtrace_members(record));
    }
    good = good && expect(scan, '}', "a line has one key");
    skip_blanks(scan);
    if (good && scan->at != scan->end)
        good = fail(scan, "something follows the record");
    if (!good)
        return KVTRACE_SCANNED_NOT;
    return kind == KVTRACE_KIND_END ? KVTRACE_SCANNED_UNKNOWN : KVTRACE_SCANNED;
}
