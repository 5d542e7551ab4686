/* One piece of a scattered copy, as the kernel reads it from pinned memory. The C compiler and nvcc
 * both read this file. */
#ifndef KVR_DEVICE_COPY_KERNEL_H
#define KVR_DEVICE_COPY_KERNEL_H

#define KVR_COPY_KERNEL      "kvr_copy_pieces"
#define KVR_COPY_THREADS     256
#define KVR_COPY_SLICE_BYTES 65536u /* of a long piece, by one block in one round */
#define KVR_COPY_SLICES_MAX  32u

struct kvr_copy_piece {
    unsigned long long from, to, bytes; /* addresses as the GPU sees them */
};

#endif
