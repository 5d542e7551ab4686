/* Marks memory of ours (a freed block, a released slot) as unusable for AddressSanitizer. The state
 * machines use no heap, so without this it would not watch them. Does nothing in other builds. */
#ifndef KVR_BASE_POISON_H
#define KVR_BASE_POISON_H

#if defined(__SANITIZE_ADDRESS__)
#define KVR_POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KVR_POISONS 1
#endif
#endif

#ifdef KVR_POISONS
#include <sanitizer/asan_interface.h>
#define KVR_POISON(memory, bytes)   __asan_poison_memory_region((memory), (bytes))
#define KVR_UNPOISON(memory, bytes) __asan_unpoison_memory_region((memory), (bytes))
#else
#define KVR_POISON(memory, bytes)   ((void)(memory), (void)(bytes))
#define KVR_UNPOISON(memory, bytes) ((void)(memory), (void)(bytes))
#endif

#endif
