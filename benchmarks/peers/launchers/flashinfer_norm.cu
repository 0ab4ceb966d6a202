// flashinfer's RMSNorm over all heads with a rotation of video tokens, for ctypes.
//
// Compiles its fused_qk_rmsnorm_rope.cuh; the host code that picks the grid is theirs. All
// dimensions are those of frames, each of one token, so a token's position is its index.
#include "flashinfer/norm/fused_qk_rmsnorm_rope.cuh"

#include "failure.h"

// Normalizes and rotates q and k of qkv (tokens, (q_heads + 2 kv_heads) d), contiguous, into new
// tensors, and copies v to another. bf16; the rotation's halves are apart.
//
// weights: bf16 (q_heads d,) and (kv_heads d,): a token's heads are normalized together. seq_len:
// tokens of a sequence, which starts at position 0. Returns null, or the message of a failure.
extern "C" const char *norm_all_heads_and_rotate(void *qkv, void *q, void *k, void *v,
                                                 void *q_weight, void *k_weight, int64_t tokens,
                                                 int64_t seq_len, int64_t q_heads,
                                                 int64_t kv_heads, int64_t d, double eps,
                                                 double base, cudaStream_t stream) {
  return failure_of([&] {
    flashinfer::launchFusedQKNormRope(
        qkv, q, k, v, tokens, seq_len, /*ppf=*/seq_len, /*pph=*/1, /*ppw=*/1,
        /*num_frame_channels=*/d, /*num_height_channels=*/0, /*num_width_channels=*/0, q_heads,
        kv_heads, kv_heads, d, eps, q_weight, k_weight, base, /*interleave=*/false,
        /*factor=*/1.0f, /*low=*/1.0f, /*high=*/1.0f, /*attention_factor=*/1.0f, stream,
        /*is_qk_norm=*/true, /*output_fp8=*/false, /*output_quant_scale=*/1.0f,
        /*v_quant_scale=*/1.0f);
  });
}
