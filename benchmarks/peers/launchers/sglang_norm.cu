// SGLang's fused_qk_norm_rope() behind one C function, for ctypes.
//
// Compiles its fused_qknorm_rope.cuh with stub headers of ours, in place of those of tvm-ffi; its
// host code picks the grid.
#include "elementwise/fused_qknorm_rope.cuh"

#include "failure.h"

// Normalizes and rotates q and k within qkv (tokens, (q_heads + 2 kv_heads) d), contiguous, in
// place. bf16; angles are computed on the fly, and the rotation's halves are apart.
//
// weights: bf16 (d,). positions: int32 (tokens,). Returns null, or the message of a failure.
extern "C" const char* norm_and_rotate(void* qkv, void* q_weight, void* k_weight, void* positions,
                                       int64_t tokens, int64_t q_heads, int64_t kv_heads,
                                       int64_t d, double eps, double base, cudaStream_t stream) {
  return failure_of([&] {
    using tvm::ffi::TensorView;
    const DLDataType bf16{kDLBfloat, 16, 1}, int32{kDLInt, 32, 1};
    stream_of_this_call = stream;
    sglang::fused_qk_norm_rope(TensorView(qkv, bf16, {tokens, (q_heads + 2 * kv_heads) * d}),
                               TensorView(q_weight, bf16, {d}), TensorView(k_weight, bf16, {d}),
                               TensorView(positions, int32, {tokens}), q_heads, kv_heads, kv_heads,
                               d, eps, base, /*is_neox=*/1, /*factor=*/1.0f, /*low=*/1.0f,
                               /*high=*/1.0f, /*attention_factor=*/1.0f, /*rotary_dim=*/d);
  });
}
