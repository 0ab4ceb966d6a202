// Ours, in place of SGLang's header, which checks tensors of tvm-ffi: the norm takes none of it.
#pragma once

#include <sgl_kernel/utils.h>
