// Ours, in place of flashinfer's header, which needs a newer CCCL than CUDA 13.0 brings.
//
// Only its paged caches divide, and the RoPE that is measured here has none.
#pragma once

#include <cstdint>

namespace flashinfer {

struct uint_fastdiv {
  uint32_t divisor = 1;

  uint_fastdiv() = default;
  __host__ uint_fastdiv(uint32_t d) : divisor(d) {}
  __host__ __device__ operator unsigned int() const { return divisor; }
  __host__ __device__ void divmod(uint32_t n, uint32_t &quotient, uint32_t &remainder) const {
    quotient = n / divisor;
    remainder = n % divisor;
  }
};

}  // namespace flashinfer
