// Ours, in place of TransformerEngine's header: failed checks throw, and our launcher catches them.
#pragma once

#include <cuda_runtime.h>

#include <stdexcept>

#define NVTE_API_CALL(name)
#define NVTE_CHECK(condition, message) \
  if (!(condition)) throw std::runtime_error(message)
#define NVTE_CHECK_CUDA(call)             \
  do {                                    \
    const cudaError_t status = (call);    \
    NVTE_CHECK(status == cudaSuccess, cudaGetErrorString(status)); \
  } while (0)
