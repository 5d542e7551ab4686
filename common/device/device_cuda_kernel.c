#include "device/device_cuda_state.h"
#include "device/kernel_image.h"

KVR_KERNEL_IMAGE(kvr_copy_kernel_image);
