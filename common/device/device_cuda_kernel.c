/* The kernel's machine code for the architectures that nvcc knew and PTX for later ones, put into
 * read-only data by the assembler. */
#include "device/device_cuda_state.h"

__asm__(".section .rodata\n"
        ".balign 64\n"
        ".globl kvr_copy_kernel_image\n"
        ".hidden kvr_copy_kernel_image\n"
        "kvr_copy_kernel_image:\n"
#ifdef KVR_COPY_KERNEL_FILE
        ".incbin \"" KVR_COPY_KERNEL_FILE "\"\n"
#endif
        ".globl kvr_copy_kernel_image_end\n"
        ".hidden kvr_copy_kernel_image_end\n"
        "kvr_copy_kernel_image_end:\n"
        ".byte 0\n"
        ".previous\n");
