// TransformerEngine's fused RoPE behind one C function, for ctypes.
//
// Compiles its fused_rope.cu with stub headers of ours. The host code that picks the grid is theirs.
#include "fused_rope.cu"

#include "failure.h"

using transformer_engine::DType;
using transformer_engine::Tensor;

namespace {

Tensor tensor(const void *data, DType dtype) {
  Tensor made;
  made.data.dptr = const_cast<void *>(data);
  made.data.dtype = dtype;
  return made;
}

}  // namespace

// Rotates (forward) or rotates back (backward) `in` into the contiguous `out`.
//
// dtype: 0 float, 1 half, 2 bfloat16. format: 0 sbhd, 1 bshd, 2 thd. freqs: fp32 angles
// (at least s, d2). cu_seqlens: int32 (b + 1,) for thd, else null. Strides count elements, of s or
// t, b, h and d. tokens: rows of a thd tensor. Returns null, or the message of a failure.
extern "C" const char *rotate(int64_t backward, const void *in, const void *cu_seqlens,
                              const void *freqs, void *out, int64_t dtype, int64_t format,
                              int64_t s, int64_t b, int64_t h, int64_t d, int64_t d2,
                              int64_t stride_s, int64_t stride_b, int64_t stride_h,
                              int64_t stride_d, int64_t tokens, cudaStream_t stream) {
  return failure_of([&] {
    Tensor input = tensor(in, DType(dtype)), output = tensor(out, DType(dtype));
    Tensor cuts = tensor(cu_seqlens, DType::kFloat32), angles = tensor(freqs, DType::kFloat32);
    Tensor no_starts = tensor(nullptr, DType::kFloat32);
    if (format == NVTE_THD) input.data.shape = {size_t(tokens), size_t(h), size_t(d)};
    auto *function = backward ? nvte_fused_rope_backward : nvte_fused_rope_forward;
    function(&input, &cuts, &angles, &no_starts, &output, NVTE_QKV_Format(format),
             /*interleaved=*/false, /*cp_size=*/1, /*cp_rank=*/0, s, b, h, d, d2, stride_s,
             stride_b, stride_h, stride_d, stream);
  });
}
