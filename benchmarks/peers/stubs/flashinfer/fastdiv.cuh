// Ours, in place of flashinfer's header, which needs a newer CCCL than CUDA 13.0 brings.
//
// Only its paged caches divide. As theirs, a division on the GPU is a multiplication: by the
// reciprocal in 64 bits, rounded up, which is exact for every 32-bit dividend.
#pragma once

#include <cstdint>

namespace flashinfer {

struct uint_fastdiv {
  uint32_t divisor = 1;
  uint64_t reciprocal = 0;

  uint_fastdiv() = default;
  __host__ uint_fastdiv(uint32_t d) : divisor(d), reciprocal(d > 1 ? ~0ull / d + 1 : 0) {}
  __host__ __device__ operator unsigned int() const { return divisor; }
  __host__ __device__ void divmod(uint32_t n, uint32_t &quotient, uint32_t &remainder) const {
#ifdef __CUDA_ARCH__
    quotient = divisor > 1 ? uint32_t(__umul64hi(reciprocal, n)) : n;
#else
    quotient = n / divisor;
#endif
    remainder = n - quotient * divisor;
  }
};

}  // namespace flashinfer
