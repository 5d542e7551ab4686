/* How far apart the cores are at this moment. On a virtual machine they wander: two that shared a
 * cache a second ago may share none now, and everything that hands bytes from one core to another
 * then takes twice the CPU. A measurement that does not say so compares two machines. */
#ifndef KVR_TOOLS_BENCH_CORES_H
#define KVR_TOOLS_BENCH_CORES_H

/* Round trip of a cache line between two cores that this process may use, in nanoseconds; 0 where
 * there is only one. Takes a few milliseconds. */
double bench_core_round_trip_ns(void);

#endif
