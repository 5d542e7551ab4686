/* A kernel's machine code for the architectures that nvcc knew, and PTX for later ones. The
 * assembler puts it into read-only data. KVR_KERNEL_IMAGE(name) defines name[] and name_end[]. They
 * are equal where nvcc was not found (no KVR_KERNEL_FILE, which kvr_kernel() in CMake defines). */
#ifndef KVR_DEVICE_KERNEL_IMAGE_H
#define KVR_DEVICE_KERNEL_IMAGE_H

#ifdef KVR_KERNEL_FILE
#define KVR_KERNEL_INCLUDE ".incbin \"" KVR_KERNEL_FILE "\"\n"
#else
#define KVR_KERNEL_INCLUDE ""
#endif

#define KVR_KERNEL_IMAGE(name)                                                                     \
    __asm__(".section .rodata\n"                                                                   \
            ".balign 64\n"                                                                         \
            ".globl " #name "\n"                                                                   \
            ".hidden " #name "\n" #name ":\n" KVR_KERNEL_INCLUDE ".globl " #name "_end\n"          \
            ".hidden " #name "_end\n" #name "_end:\n"                                              \
            ".byte 0\n"                                                                            \
            ".previous\n")

#endif
