// flashinfer's RoPE with a table of cos and sin, and with angles on the fly, for ctypes.
//
// Compiles its pos_enc.cuh; the host code that picks kernel and grid is theirs. bf16, int32
// positions. Contiguous (tokens, heads, d) tensors; q_out may be q, and k_out may be k: in place.
#include "flashinfer/pos_enc.cuh"

#include <stdexcept>

#include "failure.h"

namespace {

using Element = __nv_bfloat16;

void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

}  // namespace

// cache: fp32 (positions, d), cos beside sin. Returns null, or the message of a failure.
extern "C" const char *rotate_by_cache(void *q, void *k, void *q_out, void *k_out, void *cache,
                                       void *positions, int64_t tokens, int64_t q_heads,
                                       int64_t k_heads, int64_t d, cudaStream_t stream) {
  return failure_of([&] {
    const size_t q_row = size_t(q_heads) * d, k_row = size_t(k_heads) * d;
    check(flashinfer::BatchQKApplyRotaryPosIdsCosSinCache<Element, int32_t>(
        static_cast<Element *>(q), static_cast<Element *>(k), static_cast<Element *>(q_out),
        static_cast<Element *>(k_out), static_cast<float *>(cache),
        static_cast<int32_t *>(positions), tokens, q_heads, k_heads, d, d, q_row, d, k_row, d,
        q_row, d, k_row, d, /*interleave=*/false, stream));
  });
}

// The same with angles of fp32 products and the fast sine. Returns as above.
extern "C" const char *rotate_on_the_fly(void *q, void *k, void *q_out, void *k_out,
                                         void *positions, int64_t tokens, int64_t q_heads,
                                         int64_t k_heads, int64_t d, double base,
                                         cudaStream_t stream) {
  return failure_of([&] {
    const size_t q_row = size_t(q_heads) * d, k_row = size_t(k_heads) * d;
    check(flashinfer::BatchQKApplyRotaryPosIds<Element, int32_t>(
        static_cast<Element *>(q), static_cast<Element *>(k), static_cast<Element *>(q_out),
        static_cast<Element *>(k_out), static_cast<int32_t *>(positions), tokens, q_heads, k_heads,
        d, d, q_row, d, k_row, d, q_row, d, k_row, d, /*interleave=*/false, /*rope_scale=*/1.0f,
        base, stream));
  });
}
