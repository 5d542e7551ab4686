/* A process that computes on the GPU as a model does, for gpu_beside. */
#ifndef KVR_TESTS_GPU_BESIDE_MODEL_H
#define KVR_TESTS_GPU_BESIDE_MODEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#define MODEL_KERNEL    "kvr_model_step"
#define MODEL_THREADS   256u
#define MODEL_STEPS_MAX 65536u

/* Memory that both processes have. */
struct model {
    _Atomic bool ready, ends;   /* ready: error says whether the GPU is usable */
    _Atomic bool runs, running; /* what is wanted, and what is so */
    _Atomic bool failed;        /* it has ended, and error says why */
    struct kvr_error error;
    uint32_t step_count;
    float step_us[MODEL_STEPS_MAX]; /* from one word to the next */
};

/* Runs until model->ends. */
void gpu_beside_model(struct model *model);

#endif
