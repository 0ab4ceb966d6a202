// vLLM's reshape_and_cache_flash() behind one C function, for ctypes.
//
// Compiles its cache_kernels.cu with stub headers of ours. The host code that picks grid, types and
// path is theirs.
#include "cache_kernels.cu"

#include "failure.h"

// Writes k and v (tokens, heads, d), tokens strided, heads contiguous, to their slots of the caches
// (blocks, page, heads, d), which share strides; the last dimension is contiguous.
//
// slots: int64 (written,). scales: fp32 (scales,), 1 or heads; read for fp8 alone. dtype of k and v:
// 0 float, 1 half, 2 bfloat16. fp8: the caches are e4m3, else of the tensors' dtype.
// Returns null, or the message of a failure.
extern "C" const char* write_to_cache(void* k, void* v, void* k_cache, void* v_cache, void* slots,
                                      void* k_scale, void* v_scale, int64_t dtype, int64_t fp8,
                                      int64_t written, int64_t tokens, int64_t heads, int64_t d,
                                      int64_t k_stride, int64_t v_stride, int64_t blocks,
                                      int64_t page, int64_t block_stride, int64_t page_stride,
                                      int64_t head_stride, int64_t scales, cudaStream_t stream) {
  return failure_of([&] {
    using torch::headeronly::ScalarType;
    using torch::stable::Tensor;
    constexpr ScalarType types[] = {ScalarType::Float, ScalarType::Half, ScalarType::BFloat16};
    const ScalarType type = types[dtype], stored = fp8 ? ScalarType::Byte : type;
    const Tensor::Sizes row{tokens, heads, d}, cache{blocks, page, heads, d};
    const Tensor::Sizes strides{block_stride, page_stride, head_stride, 1};
    Tensor key(k, type, row, {k_stride, d, 1}), value(v, type, row, {v_stride, d, 1});
    Tensor keys(k_cache, stored, cache, strides), values(v_cache, stored, cache, strides);
    Tensor slot_mapping(slots, ScalarType::Long, {written});
    Tensor k_by(k_scale, ScalarType::Float, {scales}), v_by(v_scale, ScalarType::Float, {scales});
    stream_of_this_call = stream;
    reshape_and_cache_flash(key, value, keys, values, slot_mapping, fp8 ? "fp8" : "auto", k_by,
                            v_by);
  });
}
