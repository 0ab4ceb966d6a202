// Ours, in place of vLLM's header: calls the function with `scalar_t` for the dtype.
#pragma once

#include "torch_utils.h"

#define VLLM_STABLE_DISPATCH_FLOATING_TYPES(dtype, name, ...) \
  switch (dtype) {                                            \
    case torch::stable::ScalarType::kFloat32: {               \
      using scalar_t = float;                                 \
      __VA_ARGS__();                                          \
    } break;                                                  \
    case torch::stable::ScalarType::kFloat16: {               \
      using scalar_t = c10::Half;                             \
      __VA_ARGS__();                                          \
    } break;                                                  \
    case torch::stable::ScalarType::kBFloat16: {              \
      using scalar_t = c10::BFloat16;                         \
      __VA_ARGS__();                                          \
    } break;                                                  \
  }
