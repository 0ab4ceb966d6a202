// flashinfer's RoPE that quantizes and appends to a paged cache, for ctypes.
//
// Compiles its pos_enc.cuh; the host code that picks the grid is theirs. bf16, int32 positions, no
// dimensions without a rotation.
#include "flashinfer/pos_enc.cuh"

#include <stdexcept>

#include "failure.h"

namespace {

using Element = __nv_bfloat16;

}  // namespace

// Rotates q (tokens, q_heads, d) into q_out, and k (tokens, kv_heads, d) into its cache; v goes to
// its cache. Tokens are strided, and q_out is contiguous.
//
// Stored: bf16 or e4m3 (fp8), as is q_out; the project's own function has fp8 alone. Quantized: what
// is rotated times a scale. table: fp32 (positions, d), cos beside sin. positions: what is rotated
// by. The token's slot is `places[i]` counted from the pages of request `requests[i]`, which are
// indices[indptr[request]] and the next ones; a negative request: the token is left out. All int32.
// Caches: (blocks, page, kv_heads, d), which share strides; the last dimension is contiguous.
// Returns null, or the message of a failure.
extern "C" const char *rotate_and_append(
    void *q, void *k, void *v, void *q_out, void *table, void *positions, void *k_cache,
    void *v_cache, void *indices, void *indptr, void *requests, void *places, int64_t fp8,
    int64_t tokens, int64_t q_heads, int64_t kv_heads, int64_t d, int64_t q_stride,
    int64_t k_stride, int64_t v_stride, int64_t batch, int64_t page, int64_t block_stride,
    int64_t page_stride, int64_t head_stride, double q_scale, double kv_scale,
    cudaStream_t stream) {
  return failure_of([&] {
    const auto append = [&](auto *stored) {
      using Stored = std::remove_pointer_t<decltype(stored)>;
      const int64_t strides[] = {block_stride, page_stride, head_stride, 1};
      flashinfer::paged_kv_t<Stored, int32_t> cache(
          kv_heads, page, d, batch, flashinfer::QKVLayout::kNHD, static_cast<Stored *>(k_cache),
          static_cast<Stored *>(v_cache), strides, static_cast<int32_t *>(indices),
          static_cast<int32_t *>(indptr), /*last_page_len=*/nullptr);
      const size_t q_row = size_t(q_heads) * d;
      const cudaError_t status =
          flashinfer::RopeQuantizeAppendPagedKVCache<Element, int32_t, int32_t, Stored>(
              static_cast<Element *>(q), static_cast<Element *>(k), nullptr, nullptr,
              static_cast<Element *>(v), static_cast<Stored *>(q_out), nullptr, cache,
              static_cast<int32_t *>(requests), static_cast<int32_t *>(places),
              static_cast<float *>(table), static_cast<int32_t *>(positions), tokens, q_heads,
              kv_heads, /*rope_dim=*/d, /*no_rope_dim=*/0, q_stride, d, 0, 0, q_row, d, 0, 0,
              k_stride, d, 0, 0, v_stride, d, q_scale, kv_scale, /*interleave=*/false,
              /*enable_pdl=*/false, stream);
      if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
    };
    if (fp8)
      append(static_cast<__nv_fp8_e4m3 *>(nullptr));
    else
      append(static_cast<Element *>(nullptr));
  });
}
