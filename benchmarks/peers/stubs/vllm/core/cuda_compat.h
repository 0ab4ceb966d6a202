// Ours, in place of vLLM's header: the one macro that its rotary kernel takes from it.
#pragma once

#define VLLM_LDG(address) __ldg(address)
