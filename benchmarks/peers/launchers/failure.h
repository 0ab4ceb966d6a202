// Every launcher returns null, or the message of what went wrong: no exception crosses into Python.
#pragma once

#include <cuda_runtime.h>

#include <exception>
#include <string>

template <typename Call>
const char *failure_of(Call call) {
  static std::string message;
  try {
    call();
  } catch (const std::exception &failure) {
    message = failure.what();
    return message.c_str();
  }
  const cudaError_t status = cudaGetLastError();
  return status == cudaSuccess ? nullptr : cudaGetErrorString(status);
}
