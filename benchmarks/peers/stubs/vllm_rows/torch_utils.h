// Ours, in place of vLLM's header and of torch's stable C++ API: a tensor with strides that points.
//
// It has what the host code of vLLM's kernels for caches and norms names, so the code that picks grid, types and
// path is theirs, and nothing has to be linked to libtorch. Element types and checks are torch's.
#pragma once

#include <cuda_runtime.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Exception.h>
#include <torch/headeronly/util/Half.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace torch::stable {

struct Device {  // every tensor is on the current GPU
  bool is_cuda() const { return true; }
  bool is_cpu() const { return false; }
  int index() const { return 0; }
  bool operator==(const Device&) const { return true; }
};

class Tensor {
 public:
  struct Sizes : std::vector<int64_t> {
    using std::vector<int64_t>::vector;
    bool equals(const Sizes& other) const { return *this == other; }
  };

  Tensor(void* data, headeronly::ScalarType dtype, Sizes sizes, Sizes strides)
      : data_(data), dtype_(dtype), sizes_(std::move(sizes)), strides_(std::move(strides)) {}

  Tensor(void* data, headeronly::ScalarType dtype, Sizes sizes)  // contiguous
      : Tensor(data, dtype, sizes, strides_of(sizes)) {}

  int64_t dim() const { return sizes_.size(); }
  const Sizes& sizes() const { return sizes_; }
  int64_t size(int64_t dim) const { return sizes_[wrapped(dim)]; }
  int64_t stride(int64_t dim) const { return strides_[wrapped(dim)]; }
  int64_t numel() const { return sizes_.empty() ? 1 : sizes_[0] * strides_of(sizes_)[0]; }
  bool is_contiguous() const { return strides_ == strides_of(sizes_); }
  headeronly::ScalarType scalar_type() const { return dtype_; }
  Device device() const { return {}; }
  bool is_cuda() const { return true; }
  int get_device_index() const { return 0; }
  void* data_ptr() const { return data_; }
  const void* const_data_ptr() const { return data_; }

  int64_t element_size() const {
    using headeronly::ScalarType;
    if (dtype_ == ScalarType::Float || dtype_ == ScalarType::Int) return 4;
    if (dtype_ == ScalarType::Half || dtype_ == ScalarType::BFloat16) return 2;
    return dtype_ == ScalarType::Long ? 8 : 1;
  }

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

  static Sizes strides_of(const Sizes& sizes) {
    Sizes strides(sizes.size(), 1);
    for (int64_t i = int64_t(sizes.size()) - 2; i >= 0; --i)
      strides[i] = strides[i + 1] * sizes[i + 1];
    return strides;
  }

  void* data_;
  headeronly::ScalarType dtype_;
  Sizes sizes_, strides_;
};

inline Tensor flatten(const Tensor&, int64_t, int64_t) {
  throw std::runtime_error("flatten() is for functions that are not measured");
}

namespace accelerator {

struct DeviceGuard {  // the launcher runs on the current device
  explicit DeviceGuard(int) {}
};

}  // namespace accelerator
}  // namespace torch::stable

inline thread_local cudaStream_t stream_of_this_call = nullptr;

inline cudaStream_t get_current_cuda_stream(int = -1) { return stream_of_this_call; }

inline const cudaDeviceProp* get_device_prop() {
  static const cudaDeviceProp properties = [] {
    int device = 0;
    cudaDeviceProp found;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaGetDeviceProperties(&found, device) != cudaSuccess)
      throw std::runtime_error("there is no GPU");
    return found;
  }();
  return &properties;
}
