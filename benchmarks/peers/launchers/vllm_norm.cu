// vLLM's fused_qk_norm_rope() behind one C function, for ctypes.
//
// Compiles its fused_qknorm_rope_kernel.cu with stub headers of ours; its host code picks the grid,
// and how many heads a warp has.
#include "fused_qknorm_rope_kernel.cu"

#include "failure.h"

// Normalizes and rotates q and k within qkv (tokens, (q_heads + 2 kv_heads) d), contiguous, in
// place. bf16; the rotation's halves are apart.
//
// weights: bf16 (d,). table: (rows, d), cos beside sin, fp32 or bf16. positions: int64 (tokens,).
// Returns null, or the message of a failure.
extern "C" const char* norm_and_rotate(void* qkv, void* q_weight, void* k_weight, void* table,
                                       void* positions, int64_t table_is_fp32, int64_t tokens,
                                       int64_t q_heads, int64_t kv_heads, int64_t d, int64_t rows,
                                       double eps, cudaStream_t stream) {
  return failure_of([&] {
    using torch::headeronly::ScalarType;
    using torch::stable::Tensor;
    const ScalarType type = ScalarType::BFloat16;
    Tensor packed(qkv, type, {tokens, (q_heads + 2 * kv_heads) * d});
    Tensor q_by(q_weight, type, {d}), k_by(k_weight, type, {d});
    Tensor cos_sin(table, table_is_fp32 ? ScalarType::Float : type, {rows, d});
    Tensor ids(positions, ScalarType::Long, {tokens});
    stream_of_this_call = stream;
    fused_qk_norm_rope(packed, q_heads, kv_heads, kv_heads, d, eps, q_by, k_by, cos_sin,
                       /*is_neox=*/true, ids, /*forced_token_heads_per_warp=*/-1);
  });
}
