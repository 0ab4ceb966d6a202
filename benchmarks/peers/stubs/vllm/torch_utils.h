// Ours, in place of vLLM's header and of torch's stable C++ API: a contiguous tensor that points.
//
// It has the methods that vLLM's rotary_embedding() calls, so the host code that picks the grid is
// theirs, and nothing has to be linked to libtorch. The element types are torch's own.
#pragma once

#include <cuda_runtime.h>
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#define STD_TORCH_CHECK(condition, ...) \
  if (!(condition)) throw std::invalid_argument("check failed: " #condition)

namespace torch::stable {

enum class ScalarType { kFloat32 = 0, kFloat16 = 1, kBFloat16 = 2 };

class Tensor {
 public:
  Tensor(void* data, std::vector<int64_t> sizes, ScalarType dtype)
      : data_(data), sizes_(std::move(sizes)), dtype_(dtype) {}

  int64_t dim() const { return sizes_.size(); }
  int64_t size(int64_t dim) const { return sizes_[wrapped(dim)]; }
  int64_t numel() const { return product_from(0); }
  int64_t stride(int64_t dim) const { return product_from(wrapped(dim) + 1); }
  ScalarType scalar_type() const { return dtype_; }
  int get_device_index() const { return 0; }

  template <typename T>
  const T* const_data_ptr() const {
    return static_cast<const T*>(data_);
  }

  template <typename T>
  T* mutable_data_ptr() const {
    return static_cast<T*>(data_);
  }

 private:
  int64_t wrapped(int64_t dim) const { return dim < 0 ? dim + this->dim() : dim; }

  int64_t product_from(int64_t first) const {
    int64_t product = 1;
    for (int64_t i = first; i < dim(); ++i) product *= sizes_[i];
    return product;
  }

  void* data_;
  std::vector<int64_t> sizes_;
  ScalarType dtype_;
};

namespace accelerator {

struct DeviceGuard {  // the launcher runs on the current device
  explicit DeviceGuard(int) {}
};

}  // namespace accelerator
}  // namespace torch::stable

inline thread_local cudaStream_t stream_of_this_call = nullptr;

inline cudaStream_t get_current_cuda_stream() { return stream_of_this_call; }
