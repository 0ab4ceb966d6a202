// Ours, in place of TransformerEngine's header: the one constant that fused_rope.cu takes from it.
#pragma once

constexpr int THREADS_PER_WARP = 32;
