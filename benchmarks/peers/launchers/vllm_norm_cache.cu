// vLLM's fused_qknorm_rope_cache() behind one C function, for ctypes.
//
// Compiles its fused_qknorm_rope_cache_kernel.cu with stub headers of ours; its host code picks the
// grid. bf16; the rotation's halves are apart. It also returns k, and a copy of v.
#include "fused_qknorm_rope_cache_kernel.cu"

#include "failure.h"

// qkv: (tokens, (q_heads + 2 kv_heads) d), tokens strided, else contiguous; q, k and v are new and
// contiguous. weights: bf16 (d,). table: (rows, d), cos beside sin, fp32 or bf16. positions: int64
// (tokens,). slots: int64 (written,). Caches as in vllm_cache.cu; scales: fp32 (1,), for fp8 alone.
// Returns null, or the message of a failure.
extern "C" const char* norm_rotate_and_write(
    void* q, void* k, void* v, void* qkv, void* q_weight, void* k_weight, void* table,
    void* positions, void* slots, void* k_cache, void* v_cache, void* k_scale, void* v_scale,
    int64_t table_is_fp32, int64_t fp8, int64_t written, int64_t tokens, int64_t q_heads,
    int64_t kv_heads, int64_t d, int64_t qkv_stride, int64_t rows, int64_t blocks, int64_t page,
    int64_t block_stride, int64_t page_stride, int64_t head_stride, double eps,
    cudaStream_t stream) {
  return failure_of([&] {
    using torch::headeronly::ScalarType;
    using torch::stable::Tensor;
    const ScalarType type = ScalarType::BFloat16, stored = fp8 ? ScalarType::Byte : type;
    const ScalarType table_type = table_is_fp32 ? ScalarType::Float : type;
    const int64_t half = d / 2 * (table_is_fp32 ? 4 : 2), width = (q_heads + 2 * kv_heads) * d;
    Tensor q_out(q, type, {tokens, q_heads * d});
    Tensor k_out(k, type, {tokens, kv_heads * d}), v_out(v, type, {tokens, kv_heads * d});
    Tensor packed(qkv, type, {tokens, width}, {qkv_stride, 1});
    Tensor q_by(q_weight, type, {d}), k_by(k_weight, type, {d});
    Tensor cos(table, table_type, {rows, d / 2}, {d, 1});
    Tensor sin(static_cast<char*>(table) + half, table_type, {rows, d / 2}, {d, 1});
    Tensor ids(positions, ScalarType::Long, {tokens}), to(slots, ScalarType::Long, {written});
    const Tensor::Sizes cache{blocks, page, kv_heads, d};
    const Tensor::Sizes strides{block_stride, page_stride, head_stride, 1};
    Tensor keys(k_cache, stored, cache, strides), values(v_cache, stored, cache, strides);
    std::optional<Tensor> k_unit, v_unit;
    if (fp8) k_unit.emplace(k_scale, ScalarType::Float, Tensor::Sizes{1});
    if (fp8) v_unit.emplace(v_scale, ScalarType::Float, Tensor::Sizes{1});
    stream_of_this_call = stream;
    vllm::fused_qknorm_rope_cache(q_out, k_out, v_out, packed, q_by, k_by, cos, sin, ids, to, keys,
                                  values, d, q_heads, kv_heads, d / 2, eps, /*norm_weight_bias=*/0,
                                  fp8 ? "fp8" : "auto", k_unit, v_unit);
  });
}
