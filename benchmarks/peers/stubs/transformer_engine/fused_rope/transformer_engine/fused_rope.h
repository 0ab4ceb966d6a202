// Ours, in place of TransformerEngine's header: the two types that its fused_rope.cu names.
#pragma once

typedef void *NVTETensor;

enum NVTE_QKV_Format { NVTE_SBHD = 0, NVTE_BSHD = 1, NVTE_THD = 2 };
