/* Singly linked lists with a first and a last entry. */
#ifndef KVR_BASE_LIST_H
#define KVR_BASE_LIST_H

#include <stddef.h>

/* Puts item behind the last; `next` is its link. last counts only while first is not NULL. */
#define KVR_LIST_APPEND(first, last, item, next)                                                   \
    do {                                                                                           \
        (item)->next = NULL;                                                                       \
        if ((first) != NULL)                                                                       \
            (last)->next = (item);                                                                 \
        else                                                                                       \
            (first) = (item);                                                                      \
        (last) = (item);                                                                           \
    } while (0)

#endif
