/* A CUDA driver for machines without a GPU: it notes a launch down instead of performing it.

   It has what Triton calls between a compiled kernel and its launch. `sizes_of_parameters` says how
   many bytes each parameter of a function has, before which none is read; `last_launch` returns the
   last launch. After `fail_launches(1)` each launch is counted and then refused. */

#include "cuda.h"
#include <string.h>

enum { MOST = 128, MOST_FUNCTIONS = 256 };

static struct {
  unsigned long long launches, function, programs, threads, shared, stream, attributes;
  unsigned long long parameters[MOST];
} noted;
static struct {
  int count, sizes[MOST];
} signatures[MOST_FUNCTIONS];
static long long functions;

void sizes_of_parameters(long long function, int n, const int *bytes) {
  signatures[function].count = n;
  memcpy(signatures[function].sizes, bytes, n * sizeof(int));
}

void last_launch(void *destination) { memcpy(destination, &noted, sizeof noted); }

static void note_parameters(void **parameters) {
  memset(noted.parameters, 0, sizeof noted.parameters);
  for (int i = 0; i < signatures[noted.function].count; i++)
    memcpy(&noted.parameters[i], parameters[i], signatures[noted.function].sizes[i]);
}

static int failing;

void fail_launches(int yes) { failing = yes; }

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **parameters,
                          void **extra) {
  noted.launches++;
  noted.function = (unsigned long long)f;
  noted.programs = config->gridDimX * config->gridDimY * config->gridDimZ;
  noted.threads = config->blockDimX * config->blockDimY * config->blockDimZ;
  noted.shared = config->sharedMemBytes;
  noted.stream = (unsigned long long)config->hStream;
  noted.attributes = config->numAttrs;
  note_parameters(parameters);
  return failing ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *f, CUmodule module, const char *name) {
  if (++functions == MOST_FUNCTIONS)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *f = (CUfunction)functions;
  return CUDA_SUCCESS;
}

/* every address is one on the device */
CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr address) {
  *(CUdeviceptr *)value = address;
  return CUDA_SUCCESS;
}

/* generous answers to what an H200 would be asked for */
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  *value = 232448;
  return CUDA_SUCCESS;
}
CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction f) {
  *value = 1024;
  return CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int *version) {
  *version = 13000;
  return CUDA_SUCCESS;
}

CUresult cuInit(unsigned flags) { return CUDA_SUCCESS; }
CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext *context) {
  *context = (CUcontext)1;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice *device) {
  *device = 0;
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context) { return CUDA_SUCCESS; }
CUresult cuCtxGetLimit(size_t *value, CUlimit limit) {
  *value = 0;
  return CUDA_SUCCESS;
}
CUresult cuCtxSetLimit(CUlimit limit, size_t value) { return CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  *context = (CUcontext)1;
  return CUDA_SUCCESS;
}
CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  *module = (CUmodule)1;
  return CUDA_SUCCESS;
}
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule module) { return CUDA_SUCCESS; }
CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute attribute, int value) {
  return CUDA_SUCCESS;
}
CUresult cuFuncSetCacheConfig(CUfunction f, CUfunc_cache config) { return CUDA_SUCCESS; }
CUresult cuGetErrorString(CUresult error, const char **text) {
  *text = "error";
  return CUDA_SUCCESS;
}
CUresult cuOccupancyMaxActiveClusters(int *clusters, CUfunction f, const CUlaunchConfig *config) {
  *clusters = 1;
  return CUDA_SUCCESS;
}
