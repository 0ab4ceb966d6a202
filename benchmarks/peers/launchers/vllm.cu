// vLLM's rotary_embedding() behind one C function, for ctypes.
//
// Compiles its pos_encoding_kernels.cu with stub headers of ours. The host code that picks the grid
// is theirs.
#include "pos_encoding_kernels.cu"

#include "failure.h"

// Rotates contiguous q (tokens, q_heads, d), and k with k_heads where it is not null, in place.
//
// positions: int64 (tokens,). cache: (rows, d) of the tensors' dtype, cos beside sin.
// dtype: 0 float, 1 half, 2 bfloat16. Returns null, or the message of a failure.
extern "C" const char* rotate_in_place(void* positions, void* q, void* k, void* cache,
                                       int64_t dtype, int64_t tokens, int64_t q_heads,
                                       int64_t k_heads, int64_t d, int64_t rows,
                                       cudaStream_t stream) {
  return failure_of([&] {
    using torch::stable::ScalarType;
    using torch::stable::Tensor;
    const ScalarType type = ScalarType(dtype);
    Tensor ids(positions, {tokens}, type), query(q, {tokens, q_heads, d}, type);
    Tensor table(cache, {rows, d}, type);
    std::optional<Tensor> key;
    if (k != nullptr) key.emplace(k, std::vector<int64_t>{tokens, k_heads, d}, type);
    stream_of_this_call = stream;
    rotary_embedding(ids, query, key, d, table, /*is_neox=*/true, /*rope_dim_offset=*/0,
                     /*inverse=*/false);
  });
}
