// Ours, in place of vLLM's header: calls the function with `scalar_t`, for the dtypes of the
// launchers alone, which leaves most of the kernels uncompiled.
#pragma once

#include "torch_utils.h"

#define VLLM_STABLE_DISPATCH_HALF_TYPES(dtype, name, ...)             \
  STD_TORCH_CHECK(dtype == torch::headeronly::ScalarType::BFloat16, name); \
  {                                                                   \
    using scalar_t = c10::BFloat16;                                   \
    __VA_ARGS__();                                                    \
  }

// Braces on both sides: without them all but the check of the dtype would follow the `if`, and an
// fp32 table would be read a second time, as bf16.
#define VLLM_STABLE_DISPATCH_FLOATING_TYPES(dtype, name, ...)       \
  if (dtype == torch::headeronly::ScalarType::Float) {              \
    using scalar_t = float;                                         \
    __VA_ARGS__();                                                  \
  } else {                                                          \
    VLLM_STABLE_DISPATCH_HALF_TYPES(dtype, name, __VA_ARGS__)       \
  }
