/* The GPU's half of a ping-pong with a thread of the host: it raises a word, waits until the reply
 * has reached it, and notes on its own clock how long that took. Both compilers read this file: C,
 * and nvcc's for the GPU. */
#ifndef KVR_TOOLS_BENCH_GPU_PING_H
#define KVR_TOOLS_BENCH_GPU_PING_H

#define GPU_PING_KERNEL  "gpu_ping"
#define GPU_PING_MAX     65536u
#define GPU_PING_LATE_NS 3000000000ull /* a wait that ends a turn: nothing spins for ever */
#define GPU_PING_LINE    16            /* words; a wait for one disturbs no other */

/* In pinned memory. All words only grow. */
struct gpu_ping {
    unsigned long long go[GPU_PING_LINE];    /* the host's: so far the word may rise */
    unsigned long long word[GPU_PING_LINE];  /* the GPU's */
    unsigned long long reply[GPU_PING_LINE]; /* the host's */
    unsigned long long count, pause_ns;      /* of the next turn; the host's, as no turn runs */
    /* The GPU stores these when a turn has ended; `ended` last. */
    unsigned long long late; /* it gave up */
    unsigned long long ticks, ns;
    unsigned long long ended[GPU_PING_LINE]; /* turns */
    unsigned long long took[GPU_PING_MAX];   /* ticks */
};

#endif
