/* An engine that speaks the protocol correctly, and then lies in one field. */
#ifndef KVR_TESTS_GARBAGE_LIAR_H
#define KVR_TESTS_GARBAGE_LIAR_H

#include "tests/support/garbage.h"

/* A whole life of an engine at either agent: attach, a region, a request with pages, watch, tail
 * and end. One field of one of the requests is a lie. */
void garbage_liar(struct garbage *garbage);
/* The same life without a lie; then the memory itself lies: holes, another size, another file. */
void garbage_liar_memory(struct garbage *garbage);
/* Requests with the handles of other engines, and more of them than an engine may have. */
void garbage_liar_handles(struct garbage *garbage);

#endif
