/* Texts of JSON beside trees of the same, and what may stand in them. */
#ifndef KVR_TESTS_JSON_CASE_H
#define KVR_TESTS_JSON_CASE_H

#include <jansson.h>

#include "base/rng.h"
#include "base/types.h"

/* Fails the test unless both are equal, but for the last digits of numbers that need not be whole:
 * the same members in the same order. */
void expect_json(const char *where, json_t *found, json_t *wanted);

json_t *json_case_uuid(const struct kvr_uuid *uuid); /* null for one of zeros */
/* As many bits as chance will have it. */
uint64_t json_case_number(struct kvr_rng *rng);
/* A name with quotes, control characters and malformed UTF-8; or, not raw, as a report brings it:
 * what cannot be printed is a question mark. */
void json_case_name(struct kvr_rng *rng, char *to, size_t capacity, bool raw);

#endif
