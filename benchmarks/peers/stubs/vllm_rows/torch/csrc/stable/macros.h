// Ours, in place of torch's header, which needs libtorch: the launcher asks after the call.
#pragma once

#define STD_CUDA_KERNEL_LAUNCH_CHECK()
