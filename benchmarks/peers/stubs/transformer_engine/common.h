// Ours, in place of TransformerEngine's header: a tensor that points, and a switch over its dtype.
//
// The real ones are in transformer_engine/common/common.h of
// https://github.com/NVIDIA/TransformerEngine. Nothing here runs on the GPU.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <stdexcept>
#include <vector>

namespace transformer_engine {

enum class DType { kFloat32 = 0, kFloat16 = 1, kBFloat16 = 2 };

struct Tensor {
  struct {
    void *dptr = nullptr;
    std::vector<size_t> shape;
    DType dtype = DType::kFloat32;
  } data;
};

inline Tensor *convertNVTETensorCheck(void *tensor) { return static_cast<Tensor *>(tensor); }

}  // namespace transformer_engine

#define TRANSFORMER_ENGINE_TYPE_SWITCH_INPUT(dtype, type, ...)          \
  switch (dtype) {                                                      \
    case transformer_engine::DType::kFloat32: {                         \
      using type = float;                                               \
      { __VA_ARGS__ }                                                   \
    } break;                                                            \
    case transformer_engine::DType::kFloat16: {                         \
      using type = __half;                                              \
      { __VA_ARGS__ }                                                   \
    } break;                                                            \
    case transformer_engine::DType::kBFloat16: {                        \
      using type = __nv_bfloat16;                                       \
      { __VA_ARGS__ }                                                   \
    } break;                                                            \
  }
