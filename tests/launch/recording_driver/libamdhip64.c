/* A HIP runtime for machines without a GPU: it notes a launch down instead of performing it.

   It has what Triton asks of AMD's runtime between a compiled kernel and its launch.
   `pretend_to_be` names the GPU. */

#define __HIP_PLATFORM_AMD__
#include <hip/hip_runtime.h>
#include "recorder.h"

static char name[64];
static int warp_size;

void pretend_to_be(const char *arch, int threads) {
  strncpy(name, arch, sizeof name - 1);
  warp_size = threads;
}

static hipError_t properties(hipDeviceProp_t *answer, int device) {
  memset(answer, 0, sizeof *answer);
  strcpy(answer->gcnArchName, name);
  answer->warpSize = warp_size;
  answer->sharedMemPerBlock = 65536;
  return hipSuccess;
}

static hipError_t load(hipModule_t *module, const void *image, unsigned n, hipJitOption *options,
                       void **values) {
  *module = (hipModule_t)1;
  return hipSuccess;
}

static hipError_t find(hipFunction_t *function, hipModule_t module, const char *wanted) {
  if (++functions == MOST_FUNCTIONS)
    return hipErrorOutOfMemory;
  *function = (hipFunction_t)functions;
  return hipSuccess;
}

static hipError_t attribute(int *value, hipFunction_attribute which, hipFunction_t function) {
  *value = which == HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
  return hipSuccess;
}

/* every address is one on the device */
static hipError_t address(void *data, hipPointer_attribute which, hipDeviceptr_t pointer) {
  *(hipDeviceptr_t *)data = pointer;
  return hipSuccess;
}

static hipError_t launch(hipFunction_t f, unsigned x, unsigned y, unsigned z, unsigned threads_x,
                         unsigned threads_y, unsigned threads_z, unsigned shared,
                         hipStream_t stream, void **parameters, void **extra) {
  noted.launches++;
  noted.function = (unsigned long long)f;
  noted.programs = (unsigned long long)x * y * z;
  noted.threads = threads_x * threads_y * threads_z;
  noted.shared = shared;
  noted.stream = (unsigned long long)stream;
  note_parameters(parameters);
  return hipSuccess;
}

static hipError_t unexpected(void) { return hipErrorNotSupported; }

#undef hipGetDeviceProperties
static const struct {
  const char *name;
  void *function;
} known[] = {
    {"hipGetDeviceProperties", properties}, {"hipModuleLoadDataEx", load},
    {"hipModuleGetFunction", find},         {"hipFuncGetAttribute", attribute},
    {"hipPointerGetAttribute", address},    {"hipModuleLaunchKernel", launch},
};

hipError_t hipDriverGetVersion(int *version) {
  *version = 70000000;
  return hipSuccess;
}

hipError_t hipGetProcAddress(const char *symbol, void **function, int version, uint64_t flags,
                             hipDriverProcAddressQueryResult *status) {
  *function = unexpected;
  for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
    if (!strncmp(symbol, known[i].name, strlen(known[i].name)))
      *function = known[i].function;
  return hipSuccess;
}
